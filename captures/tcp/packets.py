"""TCP packets of a capture as columns, which is how they travel from the link layers to reassembly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

_COLUMNS = ("time", "seq", "ack", "flags", "at", "length", "stored")
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


@dataclass(slots=True)
class Packets:
    """A batch of TCP segments in capture order; every column has one entry a segment.

    `keys` names the direction: source address, destination address (4 or 16 bytes each), source port, destination port,
    as they stand in the packet. `at` is the payload's address in the source, `length` its length on the wire, `stored`
    how much of it the capture holds. `time` is nanoseconds since the epoch. `comments` are packet comments by position
    in the batch.
    """

    keys: list[bytes]
    time: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    at: Ints
    length: Ints
    stored: Ints
    comments: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, end: int) -> Packets:
        """The segments [start, end) as a batch of their own."""
        span = slice(start, end)
        return Packets(
            self.keys[span],
            self.time[span],
            self.seq[span],
            self.ack[span],
            self.flags[span],
            self.at[span],
            self.length[span],
            self.stored[span],
            {i - start: text for i, text in self.comments.items() if start <= i < end},
        )

    def some(self, positions: Ints) -> Packets:
        """The segments at these positions, which grow, as a batch of their own."""
        where: list[int] = positions.tolist()
        keys = self.keys
        return Packets(
            [keys[i] for i in where],
            self.time[positions],
            self.seq[positions],
            self.ack[positions],
            self.flags[positions],
            self.at[positions],
            self.length[positions],
            self.stored[positions],
            {new: self.comments[old] for new, old in enumerate(where) if old in self.comments} if self.comments else {},
        )


def joined(batches: Sequence[Packets]) -> Packets:
    """Batches as one."""
    starts = [0, *accumulate(map(len, batches))]
    columns = {name: np.concatenate([getattr(one, name) for one in batches]) for name in _COLUMNS}
    return Packets(
        keys=[key for one in batches for key in one.keys],
        comments={
            start + i: text for start, one in zip(starts, batches, strict=False) for i, text in one.comments.items()
        },
        **columns,
    )


def turned(key: bytes) -> bytes:
    """The key of the other direction."""
    n = (len(key) - 4) // 2
    return key[n : 2 * n] + key[:n] + key[-2:] + key[-4:-2]


def endpoints(key: bytes) -> tuple[str, str]:
    """Source and destination of a direction as "10.0.0.1:51234" or "[::1]:9092".

    An IPv4 address mapped into IPv6 is shown as such: our recorder writes it where only the client came by IPv6.
    """
    n = (len(key) - 4) // 2
    source, destination = ports(key)
    return f"{_host(key[:n])}:{source}", f"{_host(key[n : 2 * n])}:{destination}"


def _host(address: bytes) -> str:
    if len(address) == 4:
        return str(IPv4Address(address))
    long = IPv6Address(address)
    return f"[{long}]" if long.ipv4_mapped is None else str(long.ipv4_mapped)


def ports(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")
