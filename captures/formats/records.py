"""What a file format yields: its packet records as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kproxy.captures.tcp.packets import Ints


@dataclass(slots=True)
class Records:
    """Packet records of one file, in order; one entry of each column a record.

    `data` is the offset of the record's first byte in the file, `captured` how many bytes of it are there, `wire` how
    many there were. `time` is nanoseconds since the epoch. `link` is the link-layer type (LINKTYPE_ number) of each, or
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
    """Walks the records of one file, from where it stopped last time.

    `position` is the offset of the first byte not yet taken; a file that ends there is complete.
    """

    position: int
    dropped: int
    """Packets that the capturing program says it lost."""
    untimed: int
    """Packets whose time does not fit nanoseconds since 1970 in 64 bits; they have that of the packet before."""
    nanoseconds: bool
    """The file's times are finer than microseconds."""
    binding: int
    """Number of records so far that later records need to be read."""

    def walk(self, view: memoryview, limit: int) -> Records | None:
        """Up to `limit` complete records; None if there is no further complete one (yet).

        Raises FormatError if the bytes at `position` can never become a record; all records before were delivered.
        """
        ...
