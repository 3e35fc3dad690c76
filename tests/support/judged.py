"""Facts for tests of the views, from the reading of tests/data by Kafka's own classes (.jsonl.gz beside captures)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
OLDEST, OLD, NEW = "kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"
FETCH, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, JOIN_GROUP, END_TXN = 1, 4, 5, 6, 11, 26


@lru_cache(maxsize=3)
def frames(name: str) -> tuple[dict[str, Any], ...]:
    """Every frame of a capture: client, broker, correlation_id, api_key, api_version, kind, name, body."""
    with gzip.open(CAPTURES / f"{name}.jsonl.gz", "rt") as lines:
        return tuple(map(json.loads, lines))


def judged(name: str, kind: str, *api_keys: int) -> Iterator[dict[str, Any]]:
    """Bodies of the requests or responses of some APIs."""
    return (one["body"] for one in frames(name) if one["kind"] == kind and one["api_key"] in api_keys)


def fetches(name: str) -> dict[str, int]:
    """Number of Fetch requests by role of the sender."""
    roles = Counter(body["replicaId"] for body in judged(name, "request", FETCH))
    counts = {"debugging": roles[-2], "follower": sum(count for replica, count in roles.items() if replica >= 0)}
    return {role: count for role, count in counts.items() if count}


def controllers(name: str) -> list[tuple[int, int]]:
    """(controller id, epoch) of all controllers, in the order of their requests."""
    told = judged(name, "request", LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
    return list(dict.fromkeys((body["controllerId"], body["controllerEpoch"]) for body in told))


def generations(name: str) -> dict[int, set[tuple[str, int]]]:
    """(leader, number of members in its response) by generation of the group."""
    found: dict[int, set[tuple[str, int]]] = {}
    for body in judged(name, "response", JOIN_GROUP):
        if not body["errorCode"] and body["memberId"] == body["leader"]:
            found.setdefault(body["generationId"], set()).add((body["leader"], len(body["members"])))
    return found


def ended(name: str) -> list[str]:
    """The outcome of each transaction: "committed" or "aborted"."""
    return ["committed" if body["committed"] else "aborted" for body in judged(name, "request", END_TXN)]


def aborted(name: str) -> list[tuple[int, int, int]]:
    """Aborted transactions in Fetch responses: partition, producer id, first offset."""
    return [
        (partition["partitionIndex"], one["producerId"], one["firstOffset"])
        for body in judged(name, "response", FETCH)
        for topic in body["responses"]
        for partition in topic["partitions"]
        for one in partition["abortedTransactions"] or ()
    ]


def connections(name: str) -> Counter[str]:
    """Number of requests by client address."""
    return Counter(one["client"] for one in frames(name) if one["kind"] == "request")
