"""Out-of-order packets of a flow: each waits a short while for the packets that precede it.

A packet acknowledges all bytes that its sender had received, and its sequence number says how many bytes that sender
had sent. The sum of the two never falls from a packet to one that follows from it. So it orders the packets of a
connection by cause and effect, whatever their times say. A capture of several queues or devices may hold packets in
another order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from kproxy.captures.tcp.direction import HALF, WHOLE, Piece
from kproxy.captures.tcp.packets import ACK, FIN, RST, SYN

PATIENCE = 128
"""Minimum wait of a packet, as a number of packets in the capture: two packets, each displaced by 64, are this far
apart.
"""
PATIENT_TIME = 50_000_000
"""Minimum wait of a packet, in nanoseconds of capture time."""
LONGEST_TIME = 60_000_000_000
"""Maximum wait of a packet, in nanoseconds of capture time, even if few packets came meanwhile."""
LIVE_TIME = 1_000_000_000
"""Maximum wait while a capture is followed, in nanoseconds: of capture time, or of real time without packets. It is
short because a user is watching.
"""
NEAR = 1 << 24
"""Maximum distance of a sequence number from the expected one; beyond it, the packet belongs to another connection."""
OVERHEAD = 640
"""Maximum memory of a waiting packet beside its captured bytes, in bytes."""
LOOKS = 16
"""Average number of times that each waiting packet may be classified again; without this bound, each SYN of a flood
would cause all waiting packets to be classified again.
"""
_FIRST, _LAST = -(1 << 40), 1 << 40

_Each = tuple[int | None, int | None]
"""A number, or None, for each direction of a flow."""
_NEITHER: _Each = (None, None)


@dataclass(slots=True)
class Arrival:
    """A packet of a flow: `way` is its direction (0 or 1), `which` its number in the reading, `clock` the latest time
    up to it.
    """

    way: int
    seq: int
    ack: int
    flags: int
    piece: Piece
    clock: int
    which: int
    now: int
    """Highest address of the capture up to this packet."""

    @property
    def first(self) -> int:
        """Sequence number of the first byte after a SYN."""
        return (self.seq + 1) % WHOLE

    @property
    def end(self) -> int:
        """Address of the packet's last byte, or `now` if that is higher."""
        return max(self.now, self.piece.at + self.piece.stored - 1)

    @property
    def weight(self) -> int:
        """Memory in bytes that the packet takes while it waits."""
        return self.piece.stored + OVERHEAD

    @property
    def resets(self) -> bool:
        return self.flags & RST != 0

    @property
    def asks_to_open(self) -> bool:
        """Whether the packet is a SYN without ACK, by which a client asks for a connection."""
        return self.flags & (SYN | ACK | RST) == SYN

    @property
    def synchronises(self) -> bool:
        """Whether the packet is a SYN of either side."""
        return self.flags & (SYN | RST) == SYN


_Entry = tuple[bool, int, int, int, Arrival]


@dataclass(slots=True)
class Waiting:
    """The waiting packets of a flow, ordered by cause and effect."""

    reference: _Each = _NEITHER
    """For each direction, the sequence number from which the order of waiting packets is counted."""
    reset: int | None = None
    """Capture time (ns) of the earliest waiting RST; packets captured later sort after it."""
    lowest: _Each = _NEITHER
    """For each direction, the lowest sequence or acknowledgement number of the packets that may begin the flow's next
    connection.
    """
    closes: bool = False
    """Whether a FIN or RST is among these packets."""
    begins: _Each = _NEITHER
    """For each direction, the first sequence number of a later connection whose SYN is among the waiting packets."""
    heap: list[_Entry] = field(default_factory=list)
    looks: int = 0
    """Number of packets that may still be classified again (see LOOKS)."""

    def __len__(self) -> int:
        return len(self.heap)

    @property
    def first(self) -> Arrival:
        return self.heap[0][-1]

    def push(self, packet: Arrival, *, later: bool) -> None:
        """Add a packet; `later`: whether it belongs to a later connection on the same ports."""
        if not self.heap:
            self.reference, self.reset, self.begins = _NEITHER, None, _NEITHER
            self.forget()
        self.looks += LOOKS
        if not later:
            self._note(packet)
        elif packet.synchronises:
            self.begins = _with(self.begins, packet.way, packet.first)
        heappush(self.heap, (later, self._order(packet), packet.piece.time, packet.which, packet))

    def pop(self) -> Arrival:
        return heappop(self.heap)[-1]

    def again(self, is_later: Callable[[Arrival], bool]) -> None:
        """Ask `is_later` again which waiting packets belong to a later connection, unless the budget (LOOKS) is used
        up.
        """
        if self.looks < len(self.heap):
            return
        self.looks -= len(self.heap)
        later = [is_later(packet) for packet in self.packets]
        self.begins = _NEITHER
        for which, packet in zip(later, self.packets, strict=True):
            if which and packet.synchronises:
                self.begins = _with(self.begins, packet.way, packet.first)
        self.heap = [(which, *entry[1:]) for which, entry in zip(later, self.heap, strict=True)]
        heapify(self.heap)

    @property
    def packets(self) -> list[Arrival]:
        """All waiting packets, in no order."""
        return [entry[-1] for entry in self.heap]

    def may_follow(self, way: int, first: int) -> bool:
        """Whether the waiting packets may belong to the connection of a SYN that came after them.

        `way` is the SYN's direction, `first` the sequence number of the byte after it. A connection has no lower number
        than that of its SYN. If the numbers between are not among the waiting packets, these packets are missing or
        displaced, or the SYN opens another connection; it does so if the waiting packets close theirs.
        """
        lowest = self.lowest[way]
        return lowest is None or first == lowest or (not self.closes and 0 < distance(first, lowest) <= NEAR)

    def forget(self) -> None:
        """Forget the numbers of the packets that waited so far: their connection has begun."""
        self.lowest, self.closes = _NEITHER, False

    def _note(self, packet: Arrival) -> None:
        """Note the numbers of a packet that may begin the flow's next connection."""
        self.closes |= packet.flags & (FIN | RST) != 0
        if packet.resets:
            return  # The number of an RST may be 0.
        numbers = [(packet.way, packet.first if packet.synchronises else packet.seq)]
        if packet.flags & ACK:
            numbers.append((1 - packet.way, packet.ack))
        for way, number in numbers:
            lowest = self.lowest[way]
            if lowest is None or distance(lowest, number) < 0:
                self.lowest = _with(self.lowest, way, number)

    def _order(self, packet: Arrival) -> int:
        if packet.asks_to_open:
            return _FIRST
        if self.reset is not None and packet.piece.time > self.reset:
            return _LAST + 1
        if packet.resets:
            self.reset = packet.piece.time
            return _LAST
        order = self.place(packet.way, packet.seq)
        if packet.flags & ACK:
            order += self.place(1 - packet.way, packet.ack)
        return order

    def place(self, way: int, number: int) -> int:
        """The signed distance of a sequence number from its direction's `reference`; the first number becomes the
        reference.
        """
        reference = self.reference[way]
        if reference is None:
            self.reference = _with(self.reference, way, number)
            return 0
        return distance(reference, number)


def _with(each: _Each, way: int, number: int) -> _Each:
    """`each` with another number for the direction `way`."""
    return (each[0], number) if way else (number, each[1])


def distance(start: int, end: int) -> int:
    """The signed distance from one sequence number to another, modulo 2^32: between -2^31 and 2^31."""
    return (end - start + HALF) % WHOLE - HALF


def overdue(packet: Arrival, now: Arrival, longest: int) -> bool:
    """Whether a packet has waited long enough when the packet `now` arrives; `longest` nanoseconds always suffice."""
    waited = now.clock - packet.clock
    return waited >= longest or (now.which - packet.which > PATIENCE and waited >= PATIENT_TIME)
