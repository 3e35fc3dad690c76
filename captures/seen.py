"""Describes a capture's content (TCP ports, time span), for the message which says that no exchange matched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kproxy.decoders.exchange_json import timestamp
from kproxy.decoders.plurals import counted

MOST_NAMED: Final = 10
"""Maximum number of ports that the message lists."""


@dataclass(slots=True)
class Seen:
    """The ports in a capture and the times (ns since the epoch) of its first and last packet.

    `ports` are the brokers' ports; for a connection that was not read, the lower of its two ports.
    """

    ports: set[int] = field(default_factory=set)
    first: int | None = None
    last: int = 0

    def times(self, first: int, last: int) -> None:
        """Extend the time span by a batch whose first and last packets have these times."""
        self.first = first if self.first is None else min(first, self.first)
        self.last = max(first, last, self.last)

    def words(self, exchanges: int) -> str:
        """The capture's content in words; `exchanges` is their number.

        For example "the capture has 618 exchanges on TCP ports 9092 and 19092, from 2026-11-21T05:48:00Z to …".
        """
        if self.first is None:
            return "the capture has no packet"
        found = [counted(exchanges, "exchange", ",")] if exchanges else []
        found += [f"TCP port{'' if len(self.ports) == 1 else 's'} {self._named()}"] if self.ports else ["no TCP"]
        begin, end = (f"{timestamp(time)[:19]}Z" for time in (self.first, self.last))
        return f"the capture has {' on '.join(found)}, from {begin} to {end}"

    def _named(self) -> str:
        named = ", ".join(map(str, sorted(self.ports)[:MOST_NAMED]))
        more = len(self.ports) - MOST_NAMED
        return f"{named} and {more:,} more" if more > 0 else named
