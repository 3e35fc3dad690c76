"""Out-of-order packets of a flow: each waits a short while for the packets that precede it.

A packet acknowledges all bytes that its sender had received, and its sequence number says how many bytes that sender
had sent. The sum of the two never falls from a packet to one that follows from it. So it orders the packets of a
connection by cause and effect, whatever their times say. A capture of several queues or devices may hold packets in
another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import attrgetter

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
FEW_BYTES = 1 << 16
"""Maximum number of bytes of a direction that a short connection is taken to carry."""
MOST_OPENINGS = 8
"""Maximum number of later connections with whose beginnings a packet is compared; without this bound, a flood of SYNs
would take time that grows with its square.
"""
OVERHEAD = 640
"""Maximum memory of a waiting packet beside its captured bytes, in bytes."""
LOOKS = 16
"""Average number of times that each waiting packet may be classified again; without this bound, each SYN of a flood
would cause all waiting packets to be classified again.
"""
_FIRST, _LAST = -(1 << 40), 1 << 40
_which = attrgetter("which")

Each = tuple[int | None, int | None]
"""A number, or None, for each direction of a flow."""
NEITHER: Each = (None, None)


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
    def numbers(self) -> Each:
        """See `numbers`."""
        return numbers(self.way, self.seq, self.ack, self.flags)

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

    reference: Each = NEITHER
    """For each direction, the sequence number from which the order of waiting packets is counted."""
    reset: int | None = None
    """Capture time (ns) of the earliest waiting RST; packets captured later sort after it."""
    lowest: Each = NEITHER
    """For each direction, the lowest sequence or acknowledgement number of the packets that may begin the flow's next
    connection.
    """
    closed: int | None = None
    """The latest capture time (ns) of a FIN or RST among these packets; None if there is none."""
    openings: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """The beginnings of later connections whose SYN or SYN-ACK is among the waiting packets: by (direction of the SYN,
    sequence number of the byte after it), that of the other direction; None if there is no SYN-ACK.
    """
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
            self._clear()
            self.forget()
        self.looks += LOOKS
        if not later:
            self._note(packet)
        heappush(self.heap, self._entry(packet, later=later))

    def _clear(self) -> None:
        """Forget the numbers and times that determine the order of packets."""
        self.reference, self.reset = NEITHER, None
        self.openings.clear()

    def _entry(self, packet: Arrival, *, later: bool) -> _Entry:
        """The entry of a packet in the heap. Also notes its numbers, on which the order of later entries depends."""
        if later and packet.synchronises:
            self._opens(packet)
        return later, self._order(packet, later=later), packet.piece.time, packet.which, packet

    def _opens(self, packet: Arrival) -> None:
        """Note the SYN or SYN-ACK of a later connection, unless there are many (MOST_OPENINGS)."""
        if len(self.openings) >= MOST_OPENINGS:
            return
        answered = packet.numbers[1 - packet.way]
        if answered is not None:
            self.openings[1 - packet.way, answered] = packet.first
        else:
            self.openings.setdefault((packet.way, packet.first), None)

    def pop(self) -> Arrival:
        return heappop(self.heap)[-1]

    def again(self, is_later: Callable[[Arrival], bool]) -> None:
        """Ask `is_later` again which waiting packets belong to a later connection, unless the budget (LOOKS) is used
        up.
        """
        if self.looks < len(self.heap):
            return
        self.looks -= len(self.heap)
        packets = sorted(self.packets, key=_which)
        later = [is_later(packet) for packet in packets]
        self._clear()
        self.heap = [self._entry(packet, later=each) for packet, each in zip(packets, later, strict=True)]
        heapify(self.heap)

    @property
    def packets(self) -> list[Arrival]:
        """All waiting packets, in no order."""
        return [entry[-1] for entry in self.heap]

    def may_follow(self, way: int, first: int, time: int) -> bool:
        """Whether the waiting packets may belong to the connection of a SYN that came after them.

        `first` is the sequence number of the first byte of direction `way`, by a SYN captured at `time` (ns). The
        connection has no lower number. If the numbers between are not among the waiting packets, these packets are
        missing or displaced, or the SYN opens another connection. It does so if the waiting packets closed theirs
        before, unless the numbers between are so few that a short connection is out of order as a whole.
        """
        lowest = self.lowest[way]
        if not self.heap or lowest is None or first == lowest:
            return True
        before = distance(first, lowest)
        return 0 < before <= (FEW_BYTES if self.closed is not None and time >= self.closed else NEAR)

    def belongs_later(self, found: Each, expected: Sequence[int | None], near: int) -> bool:
        """Whether a packet belongs to a later connection, by its `numbers` (`found`).

        `expected` are the next numbers of the present connection, as far as they are known. Its packets are at most
        NEAR behind them, and `near` ahead. A number that begins a later connection explains those from it on; the
        connection whose numbers are closer is the packet's.
        """
        away: list[int | None] = [None, None]
        for way, here in enumerate(found):
            there = expected[way]
            if here is not None and there is not None:
                far = away[way] = distance(there, here)
                if not -NEAR <= far <= near:
                    return True
        return any(_closer(found, away, _both(*opening, other)) for opening, other in self.openings.items())

    def forget(self) -> None:
        """Forget the numbers of the packets that waited so far: their connection has begun."""
        self.lowest, self.closed = NEITHER, None

    def _note(self, packet: Arrival) -> None:
        """Note the numbers of a packet that may begin the flow's next connection."""
        if packet.flags & (FIN | RST):
            self.closed = max(self.closed or 0, packet.piece.time)
        if packet.resets:
            return  # The number of an RST may be 0.
        for way, number in enumerate(packet.numbers):
            lowest = self.lowest[way]
            if number is not None and (lowest is None or distance(lowest, number) < 0):
                self.lowest = _with(self.lowest, way, number)

    def _order(self, packet: Arrival, *, later: bool) -> int:
        if packet.asks_to_open:
            return _FIRST
        if not later and self.reset is not None and packet.piece.time > self.reset:
            return _LAST + 1
        if packet.resets:
            if not later:
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


def numbers(way: int, seq: int, ack: int, flags: int) -> Each:
    """By direction, the sequence number that a packet of direction `way` begins with, and the number that it
    acknowledges; None if it says nothing of a direction.

    A SYN's number is that of the byte after it. The number of an RST may be 0, which says nothing, as does an
    acknowledgement of 0.
    """
    mine = None if flags & RST and not seq else seq
    if flags & (SYN | RST) == SYN:
        mine = (seq + 1) % WHOLE
    return _both(way, mine, ack if flags & ACK and ack else None)


def _both(way: int, number: int | None, other: int | None) -> Each:
    """The numbers of direction `way` and of the other direction, by direction."""
    return (other, number) if way else (number, other)


def _closer(found: Each, away: Sequence[int | None], opening: Each) -> bool:
    """Whether an opening explains a packet's numbers better than those expected, which are `away` from them.

    Only the directions count of which all three are known.
    """
    ahead, others = [], []
    for number, far, begin in zip(found, away, opening, strict=True):
        if number is not None and far is not None and begin is not None:
            ahead.append(distance(begin, number))
            others.append(abs(far))
    return bool(ahead) and min(ahead) >= 0 and max(ahead) < max(others)


def _with(each: Each, way: int, number: int) -> Each:
    """`each` with another number for the direction `way`."""
    return (each[0], number) if way else (number, each[1])


def distance(start: int, end: int) -> int:
    """The signed distance from one sequence number to another, modulo 2^32: between -2^31 and 2^31."""
    return (end - start + HALF) % WHOLE - HALF


def overdue(packet: Arrival, now: Arrival, longest: int) -> bool:
    """Whether a packet has waited long enough when the packet `now` arrives; `longest` nanoseconds always suffice."""
    waited = now.clock - packet.clock
    return waited >= longest or (now.which - packet.which > PATIENCE and waited >= PATIENT_TIME)
