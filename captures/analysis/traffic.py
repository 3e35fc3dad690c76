"""Counts the records and bytes that clients produce to and fetch from each partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.decoders.exchange_json import timestamp

MOST: Final = 200_000
"""Maximum number of partitions, and of their users together; the traffic of further ones is not counted."""
PRODUCER: Final = "producer"


@dataclass(slots=True, eq=False)
class Use:
    """The traffic of one client with a partition, as captured: batches are counted compressed.

    `first` and `last` are the times of its first and last request that moved records, in ns since the epoch; `exchange`
    is the number of the first of them.
    """

    first: int
    exchange: int
    last: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Traffic:
    """The traffic of all partitions by topic, partition, and (role, client id, host)."""

    _uses: dict[tuple[str, int], dict[tuple[str, str, str], Use]] = field(default_factory=dict)
    _count: int = 0

    def add(
        self, topic: str, partition: int, user: tuple[str, str, str], moved: tuple[int, int], time: int, exchange: int
    ) -> None:
        """Count the traffic of a `user`, (role, client id, host), in an exchange: `moved`, (records, bytes)."""
        users = self._uses.get((topic, partition))
        if users is None:
            if len(self._uses) >= MOST:
                return
            users = self._uses[topic, partition] = {}
        use = users.get(user)
        if use is None:
            if self._count >= MOST:
                return
            self._count += 1
            use = users[user] = Use(time, exchange)
        use.last = max(use.last, time)
        use.records += moved[0]
        use.bytes += moved[1]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._uses)

    def line(self, topic: str, partition: int) -> dict[str, Any]:
        """The members of a partition's JSON object about its traffic."""
        users = self._uses.get((topic, partition), {})
        uses = [
            {
                "role": role,
                "client_id": client_id,
                "host": host,
                "records": use.records,
                "bytes": use.bytes,
                "first": timestamp(use.first, 9),
                "last": timestamp(use.last, 9),
                "seconds": round((use.last - use.first) / 1e9, 3),
                "first_exchange": use.exchange,
            }
            for (role, client_id, host), use in users.items()
        ]
        written = [use for (role, _, _), use in users.items() if role == PRODUCER]
        read = [use for (role, _, _), use in users.items() if role != PRODUCER]
        return {
            "records_in": sum(use.records for use in written),
            "bytes_in": sum(use.bytes for use in written),
            "records_in_per_second": _rate(written),
            "records_out": sum(use.records for use in read),
            "bytes_out": sum(use.bytes for use in read),
            "records_out_per_second": _rate(read),
            "users": uses,
        }


def _rate(uses: list[Use]) -> float | None:
    """Records per second from the first to the last request; None without requests, or if both are at the same time."""
    if not uses:
        return None
    nanoseconds = max(use.last for use in uses) - min(use.first for use in uses)
    return round(sum(use.records for use in uses) * 1e9 / nanoseconds, 1) if nanoseconds else None
