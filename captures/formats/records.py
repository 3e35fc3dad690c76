"""The interface of file formats: packet records as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kproxy.captures.tcp.packets import Ints


@dataclass(slots=True)
class Records:
    """Packet records of one file, in order; each column has an entry for each record.

    `data` is the file offset of the packet's first byte, `captured` the number of captured bytes, `wire` the length on
    the wire. `time` is nanoseconds since the epoch. `link` is the link-layer type (LINKTYPE_ number) of each record, or
    of all. `comments` are by position.
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
    """Walks the records of one file; each call continues after the previous one.

    `position` is the offset of the first unread byte; a file that ends there is complete.
    """

    position: int
    dropped: int
    """Number of packets that the capturing program reports as lost."""
    untimed: int
    """Number of packets with a time out of range, which got the previous packet's time."""
    nanoseconds: bool
    """Whether the file's times are finer than microseconds."""
    binding: int
    """Number of records so far that reading of later ones depends on."""

    def walk(self, view: memoryview, limit: int) -> Records | None:
        """Up to `limit` complete records; None if there is no further complete one (yet).

        Raises FormatError if the bytes at `position` can never become a record; all records before were delivered.
        """
        ...
