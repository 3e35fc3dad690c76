"""Division of a capture's connections among reassemblers: parts of connections, and shares of batches.

Connections are divided into PARTS by a hash of their hosts and ports. Parts do not affect each other, so several
reassemblers that each get whole parts (`Share.of`) together give the same as one reassembler.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from kproxy.captures.tcp.packets import Ints, Packets, Where, turned

PARTS = 12
"""Number of parts into which connections are divided; the number of processes of a reading should divide it."""


@dataclass(slots=True)
class Share:
    """Some packets of a batch, and values that depend on all its packets.

    For each packet: its number in the reading (`which`), and the highest address (`reached`) and the latest time
    (`clock`) up to it. `now` and `time` are the highest address and the latest time at the batch's end. If packets are
    missing before the batch, `missing` holds the times of the last packet before them and of the first one after them.
    """

    packets: Packets
    which: Ints
    reached: Ints
    clock: Ints
    now: int
    time: int
    missing: tuple[int, int] | None = None

    def of(self, some: Where) -> Share:
        """A share with the packets at these positions."""
        return Share(
            self.packets.some(some),
            self.which[some],
            self.reached[some],
            self.clock[some],
            self.now,
            self.time,
            self.missing,
        )


class Clock:
    """The highest address (`now`) and the latest time (`time`, ns) of all batches so far, which are added in capture
    order.
    """

    def __init__(self) -> None:
        self.now = 0
        self.time = 0
        """Latest capture time (ns) so far: it never decreases, unlike packets' times, so it can measure silence."""
        self._taken = 0
        self._missed_from: int | None = None

    def whole(self, packets: Packets) -> Share:
        """The share with all packets of a batch, which has at least one; advances the clock."""
        count = len(packets)
        reached = np.maximum.accumulate(np.maximum(packets.at, self.now))
        clock = np.maximum.accumulate(np.maximum(packets.time, self.time))
        which = np.arange(self._taken, self._taken + count)
        missing = None if self._missed_from is None else (self._missed_from, int(clock[0]))
        self._missed_from = None
        self.now, self.time, self._taken = int(reached[-1]), int(clock[-1]), self._taken + count
        return Share(packets, which, reached, clock, self.now, self.time, missing)

    def missed(self) -> None:
        """Note that packets are missing between the last batch and the next."""
        self._missed_from = self.time


def part_of(key: bytes) -> int:
    """The number of the part that a connection belongs to; the keys of both its directions give the same."""
    return zlib.crc32(min(key, turned(key))) % PARTS
