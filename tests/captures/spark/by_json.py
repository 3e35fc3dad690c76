"""The expected results of analyses, computed from exchange JSON in plain Python instead of SQL."""

from __future__ import annotations

import base64
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

Line = Mapping[str, Any]
BROKERS = ("broker-1-", "broker-2-", "ReplicaFetcherThread-")


class Part(NamedTuple):
    """The records of one partition in an exchange; `answer` is the partition's part of a Produce response."""

    line: Line
    topic: str
    partition: int
    records: Mapping[str, Any]
    answer: Mapping[str, Any]


def client(line: Line) -> str:
    name: str = line["client_id"] or line["client"].rpartition(":")[0]
    return name


def by_broker(line: Line) -> bool:
    return (line["client_id"] or "").startswith(BROKERS)


def body(line: Line, side: str) -> Mapping[str, Any]:
    return (line[side] or {}).get("body") or {}


def topic(line: Line, told: Mapping[str, Any]) -> str:
    name = told.get("name") or told.get("topic") or line.get("topics", {}).get(told.get("topicId"))
    return name if isinstance(name, str) else told["topicId"]


def produced(lines: Sequence[Line]) -> Iterator[Part]:
    for line in lines:
        if line["api"] != "Produce":
            continue
        answers = {
            (topic(line, one), part["index"]): part
            for one in body(line, "response").get("responses", ())
            for part in one["partitionResponses"]
        }
        for one in body(line, "request").get("topicData", ()):
            for part in one["partitionData"]:
                place = (topic(line, one), part["index"])
                yield Part(line, *place, part["records"], answers.get(place, {}))


def fetched(lines: Sequence[Line]) -> Iterator[Part]:
    for line in lines:
        if line["api"] == "Fetch":
            for one in body(line, "response").get("responses", ()):
                for part in one["partitions"]:
                    yield Part(line, topic(line, one), part["partitionIndex"], part["records"], part)


def counted(records: Mapping[str, Any]) -> int:
    """Number of records by batch headers; compressed message sets count as none."""
    return sum(
        batch["recordCount"] for batch in records["batches"] if batch["magic"] == 2 or batch["compression"] == "none"
    )


def api(line: Line) -> str:
    """Name of the API; a Fetch without records has a different one."""
    name: str = line["api"]
    if name != "Fetch" or not body(line, "response") or line["error_codes"]:
        return name
    return name if any(part.records["sizeInBytes"] for part in fetched([line])) else f"{name} (no records)"


def micros(line: Line, side: str) -> int:
    """Time of the last byte of a side's frame, in microseconds since the epoch."""
    time = datetime.fromisoformat(line[side]["timestamp"])
    return round(time.timestamp() * 1_000_000)


def latencies(lines: Sequence[Line], name: Callable[[Line], Any]) -> dict[Any, list[int]]:
    """Sorted latencies in microseconds by `name(line)`."""
    found = defaultdict(list)
    for line in lines:
        if line["latency_ms"] is not None:
            found[name(line)].append(round(line["latency_ms"] * 1000))
    return {key: sorted(values) for key, values in found.items()}


def percentile(values: Sequence[float], rank: float) -> float:
    """The percentile at `rank` of sorted values, interpolated linearly."""
    place = (len(values) - 1) * rank
    below, above = math.floor(place), math.ceil(place)
    return values[below] + (values[above] - values[below]) * (place - below)


def payload(value: Any) -> int:
    """Size in bytes of a key, a value or a header's value."""
    if value is None:
        return 0
    return len(value.encode()) if isinstance(value, str) else len(base64.b64decode(value["base64"]))
