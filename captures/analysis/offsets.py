"""Follows committed offsets and the ends of partitions, from which views of groups and topics compute consumer lag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kproxy.captures.analysis.seen import Seen
from kproxy.captures.lag import LATEST, Lag, PartitionLag
from kproxy.decoders.exchange_json import timestamp
from kproxy.decoders.schema import api_keys


def follow_offsets(seen: Seen) -> None:
    """Add the commits and the ends of partitions in an exchange to `seen.lag`."""
    match seen.key:
        case api_keys.FETCH:
            for element in seen.response.get("responses") or ():
                for one in element.get("partitions") or ():
                    _end(seen, element, one.get("partitionIndex"), one.get("highWatermark"))
        case api_keys.LIST_OFFSETS:
            _listed(seen)
        case api_keys.OFFSET_COMMIT | api_keys.TXN_OFFSET_COMMIT:
            _committed(seen)


def lag_json(lags: Iterable[PartitionLag], group: str, lag: Lag) -> list[dict[str, Any]]:
    """The JSON member "lag" of a group, or of a group of a topic; the partitions with the most lag come first."""
    found = sorted(lags, key=lambda one: (-(one.records or 0), one.topic, one.partition))
    return [
        {
            **one._asdict(),
            "seconds": None if one.seconds is None else round(one.seconds, 3),
            "state": one.state,
            "rate": None if one.rate is None else round(one.rate, 3),
            "over_time": over_time(lag.over_time(group, one.topic, one.partition), "records"),
        }
        for one in found
    ]


def over_time(points: Sequence[tuple[int, int]], name: str) -> dict[str, Any] | None:
    """{"from": time of the first value, "ms": milliseconds from then to each value, `name`: the values}.

    `points` are (time in ns, value); None if there are fewer than two.
    """
    if len(points) < 2:
        return None
    first = points[0][0]
    return {
        "from": timestamp(first, 9),
        "ms": [(time - first) // 1_000_000 for time, _ in points],
        name: [value for _, value in points],
    }


def _end(seen: Seen, element: Any, partition: object, offset: object) -> None:
    if isinstance(partition, int) and isinstance(offset, int) and offset >= 0:
        seen.lag.end(seen.topic(element), partition, offset, seen.answered_at)


def _listed(seen: Seen) -> None:
    latest = {
        (seen.topic(element), one.get("partitionIndex"))
        for element in seen.request.get("topics") or ()
        for one in element.get("partitions") or ()
        if one.get("timestamp") == LATEST
    }
    for element in seen.response.get("topics") or ():
        for one in element.get("partitions") or ():
            if not one.get("errorCode") and (seen.topic(element), one.get("partitionIndex")) in latest:
                _end(seen, element, one.get("partitionIndex"), one.get("offset"))


def _committed(seen: Seen) -> None:
    group = seen.request.get("groupId")
    accepted = {
        (seen.topic(element), one.get("partitionIndex"))
        for element in seen.response.get("topics") or ()
        for one in element.get("partitions") or ()
        if not one.get("errorCode")
    }
    for element in seen.request.get("topics") or ():
        name = seen.topic(element)
        for one in element.get("partitions") or ():
            partition, offset = one.get("partitionIndex"), one.get("committedOffset")
            if isinstance(group, str) and isinstance(offset, int) and offset >= 0 and (name, partition) in accepted:
                seen.lag.commit(group, name, partition, offset, seen.answered_at)
