"""TCP packets of a capture as numpy columns: the form that link layers pass to reassembly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Where: TypeAlias = "Ints | slice"
"""Positions in a batch of packets: an array, or a slice, which selects without a copy."""

COLUMNS = ("time", "seq", "ack", "flags", "at", "length", "stored")
"""The columns of Packets except `direction`."""
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
CLOSED = 0x100
"""A flag of our own: the packet's receive window is 0, so its sender can take no more data."""


@dataclass(slots=True)
class Packets:
    """A batch of TCP segments in capture order; every column has one entry for each segment.

    `directions` are distinct keys: source address, destination address (4 or 16 bytes each), source port, destination
    port, as in the packet. `direction` is each segment's index into `directions`, some of which may have no segment.
    `at` is the payload's address in the source, `length` its bytes on the wire, `stored` its bytes in the capture.
    `time` is in nanoseconds since the epoch. `comments` are packet comments by position in the batch.
    """

    directions: list[bytes]
    direction: Ints
    time: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    at: Ints
    length: Ints
    stored: Ints
    comments: dict[int, str] = field(default_factory=dict)
    files: Ints | None = None
    """In a batch as read from a merged file: for each segment, the index in `Part.given` of the file from which it was
    merged, -1 if unknown. None in all other batches.
    """

    def __len__(self) -> int:
        return len(self.direction)

    @property
    def keys(self) -> list[bytes]:
        """For each segment, the key of its direction."""
        directions = self.directions
        return [directions[number] for number in self.direction.tolist()]

    @property
    def first(self) -> list[int]:
        """For each direction, the position of its first segment; the length of the batch for a direction without
        segments.
        """
        count = len(self)
        found = np.full(len(self.directions), count)
        found[self.direction[::-1]] = np.arange(count)[::-1]
        positions: list[int] = found.tolist()
        return positions

    def some(self, positions: Where) -> Packets:
        """A batch of the segments at `positions`, which are ascending."""
        return Packets(
            self.directions,
            self.direction[positions],
            self.time[positions],
            self.seq[positions],
            self.ack[positions],
            self.flags[positions],
            self.at[positions],
            self.length[positions],
            self.stored[positions],
            self._comments(positions) if self.comments else {},
        )

    def _comments(self, positions: Where) -> dict[int, str]:
        where = np.arange(len(self))[positions].tolist()
        return {new: self.comments[old] for new, old in enumerate(where) if old in self.comments}


def nothing() -> Packets:
    none = np.empty(0, np.int64)
    return Packets([], none, none, none, none, none, none, none, none)


def numbered(keys: Iterable[bytes]) -> tuple[list[bytes], Ints]:
    """The members `directions` and `direction` of a Packets whose segments have these keys."""
    numbers: dict[bytes, int] = {}
    direction = [numbers.setdefault(key, len(numbers)) for key in keys]
    return list(numbers), np.array(direction, np.int64)


def joined(batches: Sequence[Packets]) -> Packets:
    """One batch of the segments of all batches, in their order."""
    starts = [0, *accumulate(map(len, batches))]
    columns = {name: np.concatenate([getattr(one, name) for one in batches]) for name in COLUMNS}
    directions, numbers = numbered(key for one in batches for key in one.directions)
    before = [0, *accumulate(len(one.directions) for one in batches)]
    return Packets(
        directions,
        numbers[np.concatenate([one.direction + count for one, count in zip(batches, before, strict=False)])],
        comments={
            start + i: text for start, one in zip(starts, batches, strict=False) for i, text in one.comments.items()
        },
        **columns,
    )


def where(mask: Mask) -> Where:
    """The positions at which the mask is true; a slice if it is true everywhere."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def together(numbers: Ints, count: int) -> Ints:
    """The positions that sort `numbers` stably; all numbers are less than `count`."""
    return np.argsort(numbers.astype(np.uint16) if count <= 1 << 16 else numbers, kind="stable")  # 16 bits: radix sort


def turned(key: bytes) -> bytes:
    """The key of the opposite direction: source and destination exchanged."""
    n = (len(key) - 4) // 2
    return key[n : 2 * n] + key[:n] + key[-2:] + key[-4:-2]


def endpoints(key: bytes) -> tuple[str, str]:
    """(source, destination) of a direction, each as "10.0.0.1:51234" or "[::1]:9092".

    An IPv4 address mapped into IPv6 is shown as IPv4: our recorder writes such addresses if only the client uses IPv6.
    """
    n = (len(key) - 4) // 2
    source, destination = ports(key)
    return f"{_host(key[:n])}:{source}", f"{_host(key[n : 2 * n])}:{destination}"


def _host(address: bytes) -> str:
    if len(address) == 4:
        return ".".join(map(str, address))  # several times as fast as the module ipaddress
    long = IPv6Address(address)
    return f"[{long}]" if long.ipv4_mapped is None else str(long.ipv4_mapped)


def ports(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")
