"""The interface of capture formats: packet records as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kproxy.captures.tcp.packets import Ints


@dataclass(slots=True)
class Records:
    """Packet records of one file, in order; each column has an entry for each record.

    `data` is the file offset of the packet's first byte, `captured` the number of captured bytes, `wire` the length on
    the wire. `time` is in nanoseconds since the epoch. `link` is the link-layer type (LINKTYPE_ number): one number for
    all records, or a column. `comments` are packet comments by position in the columns.
    """

    data: Ints
    captured: Ints
    wire: Ints
    time: Ints
    link: Ints | int
    comments: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.data)


class Walker(Protocol):
    """Reads the records of one file; each call of `walk` continues after the previous one.

    `position` is the offset of the first unread byte. A file that ends there ends after a complete record.
    """

    position: int
    dropped: int
    """Number of packets that the capturing program reports as dropped."""
    untimed: int
    """Number of packets with a time out of range; each got the time of the packet before it."""
    nanoseconds: bool
    """Whether the file's times are more precise than microseconds."""
    binding: int
    """Number of records read so far on which later records depend, such as descriptions of interfaces."""

    def walk(self, view: memoryview, limit: int) -> Records | None:
        """Up to `limit` complete records; None if the next record is incomplete or missing.

        Raises FormatError if the bytes at `position` can never become a record; all records before were delivered.
        """
        ...
