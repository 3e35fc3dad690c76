"""Finds the records of a Fetch that a client drops, as Kafka's consumer does (`CompletedFetch`)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

BELOW: Final = "below_fetch_offset"
ABORTED: Final = "aborted"
ABORT: Final = 0
"""Control record type of a marker that aborts a transaction."""


def mark(request: Any, response: Any) -> None:
    """Add "skipped" to the records of a Fetch that its client drops; changes the response's JSON in place.

    A response has records below the fetch offset if that offset lies within a batch. A request within a fetch session
    (KIP-227) may omit a partition; then its fetch offset is unknown, and its records below that offset stay unmarked.
    Responses list aborted transactions only for clients that read committed records.
    """
    if not isinstance(response, dict):
        return
    asked = fetch_offsets(request)
    for topic in response.get("responses", ()):
        name = topic_key(topic)
        for partition in topic["partitions"]:
            records = partition.get("records")
            if not records:
                continue
            offset = asked.get((name, partition["partitionIndex"]))
            transactions = partition.get("abortedTransactions")
            if transactions:
                batches = records["batches"]
                for index in aborted(batches, transactions, partial(_is_abort, batches)):
                    for record in batches[index]["records"] or ():
                        record["skipped"] = ABORTED
            if offset is not None:
                for record in _below(records["batches"], offset):
                    record["skipped"] = BELOW


def topic_key(topic: Mapping[str, Any]) -> Any:
    """The identity of a topic in a Fetch: its topic id if the version has ids, else its name."""
    return topic.get("topicId", topic.get("topic"))


def fetch_offsets(request: Any) -> dict[tuple[Any, int], int]:
    """Fetch offsets in a Fetch request by (topic id or name, partition); `request` is decoded values or JSON."""
    if not isinstance(request, dict):
        return {}
    return {
        (topic_key(topic), partition["partition"]): partition["fetchOffset"]
        for topic in request.get("topics") or ()
        for partition in topic["partitions"]
    }


def aborted(
    headers: Sequence[Mapping[str, Any]],
    transactions: Sequence[Mapping[str, Any]],
    is_abort: Callable[[int], bool],
) -> list[int]:
    """Indexes of a partition's batches that belong to aborted transactions.

    `transactions` are the aborted transactions that the response lists. `is_abort(index)` returns whether the control
    batch at `index` aborts its transaction.
    """
    waiting = [(one["firstOffset"], one["producerId"]) for one in transactions]
    heapq.heapify(waiting)
    running: set[int] = set()
    found = []
    for index, batch in enumerate(headers):
        if batch["magic"] != 2 or batch["producerId"] < 0:
            continue
        last = batch["baseOffset"] + batch["lastOffsetDelta"]
        while waiting and waiting[0][0] <= last:
            running.add(heapq.heappop(waiting)[1])
        producer = batch["producerId"]
        if batch["isControl"]:
            if is_abort(index):
                running.discard(producer)
        elif batch["isTransactional"] and producer in running:
            found.append(index)
    return found


def _below(batches: list[dict[str, Any]], offset: int) -> Iterator[dict[str, Any]]:
    for batch in batches:
        if "baseOffset" in batch and batch["baseOffset"] >= offset:
            return
        for record in batch["records"] or ():
            if record["offset"] < offset:
                yield record


def _is_abort(batches: Sequence[Mapping[str, Any]], index: int) -> bool:
    records = batches[index]["records"]
    key = records[0]["key"] if records else None
    return isinstance(key, dict) and key.get("decoded", {}).get("type") == ABORT
