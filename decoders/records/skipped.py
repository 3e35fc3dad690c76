"""Records of a Fetch that a client drops, as Kafka's consumer does (`CompletedFetch`)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Final

FETCH: Final = 1
"""API key."""

BELOW: Final = "below_fetch_offset"
ABORTED: Final = "aborted"
_ABORT: Final = 0
"""Control record type."""


def mark(request: Any, response: Any) -> None:
    """Give "skipped" to the records of a Fetch that its client drops; takes and changes the JSON of both bodies.

    Records below the offset that was asked for come where it lies within a batch. A request within a fetch session may
    leave a partition out: what was asked for is then unknown, and nothing said of it. The response names the aborted
    transactions to those who read committed records only.
    """
    if not isinstance(response, dict):
        return
    asked = _offsets(request)
    for topic in response.get("responses", ()):
        name = _topic(topic)
        for partition in topic["partitions"]:
            records = partition.get("records")
            if not records:
                continue
            offset = asked.get((name, partition["partitionIndex"]))
            aborted = partition.get("abortedTransactions")
            if aborted:
                _aborted(records["batches"], aborted)
            if offset is not None:
                for record in _below(records["batches"], offset):
                    record["skipped"] = BELOW


def _topic(topic: dict[str, Any]) -> Any:
    return topic.get("topicId", topic.get("topic"))


def _offsets(request: Any) -> dict[tuple[Any, int], int]:
    if not isinstance(request, dict):
        return {}
    return {
        (_topic(topic), partition["partition"]): partition["fetchOffset"]
        for topic in request.get("topics", ())
        for partition in topic["partitions"]
    }


def _below(batches: list[dict[str, Any]], offset: int) -> Iterator[dict[str, Any]]:
    for batch in batches:
        if "baseOffset" in batch and batch["baseOffset"] >= offset:
            return
        for record in batch["records"] or ():
            if record["offset"] < offset:
                yield record


def _aborted(batches: list[dict[str, Any]], transactions: list[dict[str, Any]]) -> None:
    waiting = [(one["firstOffset"], one["producerId"]) for one in transactions]
    heapq.heapify(waiting)
    running: set[int] = set()
    for batch in batches:
        if batch["magic"] != 2 or batch["producerId"] < 0:
            continue
        last = batch["baseOffset"] + batch["lastOffsetDelta"]
        while waiting and waiting[0][0] <= last:
            running.add(heapq.heappop(waiting)[1])
        producer = batch["producerId"]
        if batch["isControl"]:
            if _is_abort(batch["records"]):
                running.discard(producer)
        elif batch["isTransactional"] and producer in running:
            for record in batch["records"] or ():
                record["skipped"] = ABORTED


def _is_abort(records: list[dict[str, Any]] | None) -> bool:
    key = records[0]["key"] if records else None
    return isinstance(key, dict) and key.get("decoded", {}).get("type") == _ABORT
