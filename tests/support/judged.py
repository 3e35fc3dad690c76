"""What Kafka's own classes read in the captures of tests/data (the .jsonl.gz beside each), as the views' facts."""

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
    """The bodies of requests or responses."""
    return (one["body"] for one in frames(name) if one["kind"] == kind and one["api_key"] in api_keys)


def fetches(name: str) -> dict[str, int]:
    """How many Fetch requests, by who asks."""
    roles = Counter(body["replicaId"] for body in judged(name, "request", FETCH))
    counts = {"debugging": roles[-2], "follower": sum(count for replica, count in roles.items() if replica >= 0)}
    return {role: count for role, count in counts.items() if count}


def controllers(name: str) -> list[tuple[int, int]]:
    """Who says to be the controller, in which epoch, in the order of saying so."""
    told = judged(name, "request", LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
    return list(dict.fromkeys((body["controllerId"], body["controllerEpoch"]) for body in told))


def generations(name: str) -> dict[int, set[tuple[str, int]]]:
    """By generation of the group its leader, and how many members that was told of."""
    found: dict[int, set[tuple[str, int]]] = {}
    for body in judged(name, "response", JOIN_GROUP):
        if not body["errorCode"] and body["memberId"] == body["leader"]:
            found.setdefault(body["generationId"], set()).add((body["leader"], len(body["members"])))
    return found


def ended(name: str) -> list[str]:
    """How each transaction ended."""
    return ["committed" if body["committed"] else "aborted" for body in judged(name, "request", END_TXN)]


def aborted(name: str) -> list[tuple[int, int, int]]:
    """What Fetches told of aborted transactions: partition, producer id, first offset."""
    return [
        (partition["partitionIndex"], one["producerId"], one["firstOffset"])
        for body in judged(name, "response", FETCH)
        for topic in body["responses"]
        for partition in topic["partitions"]
        for one in partition["abortedTransactions"] or ()
    ]


def connections(name: str) -> Counter[str]:
    """How many requests each client address sent."""
    return Counter(one["client"] for one in frames(name) if one["kind"] == "request")
