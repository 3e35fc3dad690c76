"""Reassembly of TCP: batches of packets in, runs, gaps and ends of each connection out.

A connection is what lives between two hosts and ports from its SYN (or the first packet captured) to its end; a SYN
with another initial sequence number on the same ports starts the next one. What comes after a connection's end and
belongs to none (segments still in flight when RST was captured, say) is counted.

Connections are in PARTS, by a hash of their hosts and ports, and no part is touched by what happens in another: several
reassemblers that are given whole parts (`Share.of`) do what one does with all.

What is remembered is bounded. Of the connections of a part that ended the last MOST_OVER, for as long as their segments
may still come. Of those that have not, all, up to MOST_OPEN: beyond them the one that has been silent for longest is
taken for ended. So are those that say nothing for SILENCE after packets that are missing from the capture (`missed`),
as their end may have been among them. Both say so in their End; where such a connection speaks all the same, it begins
again as one whose beginning was not captured.

Most traffic arrives in order. A connection's packets of a batch whose data is exactly contiguous in both directions
become one Run a direction with no work a packet; everything else goes packet by packet through direction.py. Both give
the same events, and so does any division into batches (runs may be cut elsewhere).
"""

from __future__ import annotations

import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TypeAlias, cast

import numpy as np

from kproxy.captures.tcp.direction import HALF, UNRELATED, WHOLE, Direction, Piece, Same
from kproxy.captures.tcp.packets import ACK, FIN, RST, SYN, Ints, Mask, Packets, Where, endpoints, together, turned
from kproxy.captures.tcp.waiting import LONGEST_TIME, NEAR, Arrival, Waiting, distance, overdue
from kproxy.decoders.conversation.stream import End, Event, Run, Side

FEW = 12
"""Packets of a connection in a batch for which the columns do not pay."""
MOST_AT_ONCE = 1 << 30
"""Bytes of a direction up to which the order of its sequence numbers cannot be mistaken."""
QUIET = 120_000_000_000
"""Nanoseconds after its end when a connection's ports are forgotten."""
PARTS = 12
"""As many processes as divides it have as many parts each."""
MOST_OVER = 1024
MOST_OPEN = 8192
SILENCE = 30_000_000_000
"""Nanoseconds of the capture's time."""
MISSED = "nothing more was seen after packets that the capture lacks"
CROWDED = f"it was silent while {MOST_OPEN} others were not"
MOST_WAITING = 2 << 20
"""What may wait of a part for packets that it follows: captured bytes, and OVERHEAD more for each packet."""
SILENT = 1 << 62
"""Ranks of connections that ended without a packet of theirs come after all others."""


@dataclass(slots=True)
class Disorder:
    """Segments with data that did not follow: whose bytes were `repeated`, or `filled` a place that was passed over."""

    repeated: int = 0
    filled: int = 0


@dataclass(slots=True, eq=False)
class TcpConnection:
    """One connection; `key` is the direction of side 0, which sent the SYN where `opened` says it was seen.

    Where it was not, which side is the client's is for whoever reads the bytes to say.
    """

    key: bytes
    opened: bool
    first_time: int
    first_at: int
    """Address of its first packet."""
    sides: tuple[Direction, Direction]
    events: list[Event] = field(default_factory=list)
    over: bool = False
    last_time: int = 0
    """What the reassembler's clock said at its last packet."""
    touched: bool = False
    rank: int = 0
    """Where it stands among the connections that a batch touched: smaller comes first."""
    disorder: Disorder = field(default_factory=Disorder)

    @property
    def endpoints(self) -> tuple[str, str]:
        """Addresses ("host:port") of side 0 and of side 1."""
        return endpoints(self.key)


@dataclass(slots=True)
class Flow:
    """What is known of two hosts and ports; `key` is the direction that was seen first, the flow's direction 0."""

    key: bytes
    connection: TcpConnection | None = None
    turned: bool = False
    """The connection's side 0 is the flow's direction 1."""
    part: int = 0
    last: int = 0
    """Which packet of the reading was its first one in the last batch that had some."""
    seen: int = 0
    """Which directions had packets, as bits."""
    disordered: bool = False
    """The capture does not have its packets in the order of their times, or of cause and effect."""
    one_sided: bool = False
    """Packets waited in vain for those of a direction of which the capture holds nothing."""
    waiting: Waiting = field(default_factory=Waiting)
    latest: int = 0
    """The highest address at which packets that had waited were taken."""


@dataclass(slots=True)
class Share:
    """Packets of a batch, and what the whole batch says of each: which packet of the reading it is, the highest address
    and the latest time up to then. `now` and `time` are those at the batch's end.

    `missing` are the times of the last packet before and the first one after packets that are missing before the batch.
    """

    packets: Packets
    which: Ints
    reached: Ints
    clock: Ints
    now: int
    time: int
    missing: tuple[int, int] | None = None

    def of(self, some: Where) -> Share:
        """The same of the packets at these positions."""
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
    """What batches of packets, in capture order, say together: `now` is the address reached, `time` the latest time."""

    def __init__(self) -> None:
        self.now = 0
        self.time = 0
        """Silence is measured by it, because packets' times may go back."""
        self._taken = 0
        self._missed_from: int | None = None

    def whole(self, packets: Packets) -> Share:
        """A batch, of which there is some."""
        count = len(packets)
        reached = np.maximum.accumulate(np.maximum(packets.at, self.now))
        clock = np.maximum.accumulate(np.maximum(packets.time, self.time))
        which = np.arange(self._taken, self._taken + count)
        missing = None if self._missed_from is None else (self._missed_from, int(clock[0]))
        self._missed_from = None
        self.now, self.time, self._taken = int(reached[-1]), int(clock[-1]), self._taken + count
        return Share(packets, which, reached, clock, self.now, self.time, missing)

    def missed(self) -> None:
        """Packets are missing between those of the last batch and those of the next."""
        self._missed_from = self.time


def part_of(key: bytes) -> int:
    """The part of a direction's connections, which is that of the other direction."""
    return zlib.crc32(min(key, turned(key))) % PARTS


@dataclass(slots=True)
class _Columns:
    """A batch's columns, flow after flow.

    `order` is the position in the batch, `reached` the highest address and `clock` the latest time up to then; it is
    `ahead` where no address before it was higher.
    """

    order: Ints
    way: Ints
    time: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    at: Ints
    length: Ints
    stored: Ints
    reached: Ints
    clock: Ints
    ahead: Mask
    which: Ints
    comments: dict[int, str]


Numbers: TypeAlias = Callable[[Ints], Sequence[int]]


def as_list(numbers: Ints) -> list[int]:
    """For a run that is read."""
    found: list[int] = numbers.tolist()
    return found


def as_array(numbers: Ints) -> array[int]:
    """For a run that may not be read: it is made at once, whatever its length, and slower to read."""
    found = array("q")
    found.frombytes(numbers.tobytes())
    return found


_rank = attrgetter("rank")
_SPECIAL = SYN | RST
_BOTH = 0b11
"""`Flow.seen` where both directions had packets."""


class Reassembler:
    """Feed it batches in capture order, then `finish`. Holds spans, never bytes; `same` compares bytes at addresses.

    `clock` makes shares of batches; who gives it shares of parts (`take`) has another one make them.
    """

    def __init__(self, same: Same, *, patience: int = LONGEST_TIME) -> None:
        """A packet waits `patience` nanoseconds of the capture's time at most for those that it follows."""
        self._same = same
        self._patience = patience
        self._waiting = [0] * PARTS
        """How much of each part waits, as MOST_WAITING counts it."""
        self.numbers: Numbers = as_list
        """What makes the numbers of long runs."""
        self._directions: dict[bytes, int] = {}
        self._flows: dict[int, Flow] = {}
        """Those that were silent for longest come first."""
        self._next_flow = 0
        self._held = [0] * PARTS
        """Flows of each part."""
        self.clock = Clock()
        self._now = 0
        self._time = 0
        self._rank = 0
        """What is touched now gets it."""
        self._touched: list[TcpConnection] = []
        self._over: list[deque[TcpConnection]] = [deque() for _ in range(PARTS)]
        """Of each part, connections that have ended whose flows are still known."""
        self._missing: deque[tuple[int, int]] = deque()
        """Times of the last packet before and the first one after missing packets."""
        self.stray = 0
        """Bytes that belong to no connection: sent after its end."""
        self.repeated = 0
        """Segments whose bytes were all there already: sent again, or captured twice."""

    def feed(self, packets: Packets) -> list[TcpConnection]:
        """The connections that got something, by their ranks: in the order of their first packet; take their events."""
        return self.take(self.clock.whole(packets)) if len(packets) else []

    def take(self, share: Share) -> list[TcpConnection]:
        """The same of a share of a batch, of which there may be nothing."""
        if share.missing is not None:
            self._missing.append(share.missing)
        if len(share.packets):
            self._take_packets(share)
        self._now, self._time = share.now, share.time
        self._end_silent()
        touched = self._take_touched()
        for each in touched:
            if each.over and each.key in self._directions:
                self._over[part_of(each.key)].append(each)
        self._forget()
        return touched

    def keep(self, parts: Iterable[int]) -> None:
        """Forget all connections of other parts: another reassembler is given what comes of them."""
        kept = set(parts)
        for flow in [flow for flow in self._flows.values() if flow.part not in kept]:
            self._drop(flow)
        for part, over in enumerate(self._over):
            if part not in kept:
                over.clear()

    def _take_packets(self, share: Share) -> None:
        packets = share.packets
        numbers = self._lookup(packets)
        flows: dict[int, int] = {}
        which = [flows.setdefault(number >> 1, len(flows)) for number in numbers]
        order: Where = slice(None)
        borders = [0, len(packets)]
        if len(flows) > 1:
            each = np.array(which)[packets.direction]
            order = together(each, len(flows))
            each = each[order]
            borders[1:1] = (np.flatnonzero(each[1:] != each[:-1]) + 1).tolist()
        columns = _Columns(
            np.arange(len(packets))[order],
            (np.array(numbers, np.int64) & 1)[packets.direction[order]],
            packets.time[order],
            packets.seq[order],
            packets.ack[order],
            packets.flags[order],
            packets.at[order],
            packets.length[order],
            packets.stored[order],
            share.reached[order],
            share.clock[order],
            (packets.at >= share.reached)[order],
            share.which[order],
            packets.comments,
        )
        spans = sorted((int(columns.order[a]), a, b) for a, b in pairwise(borders))
        for first, a, b in spans:
            number = numbers[int(packets.direction[first])] >> 1
            flow = self._flows[number] = self._flows.pop(number)
            self._rank = flow.last = int(share.which[first])
            self._flow(flow, columns, a, b)
            if flow.connection is None and not flow.waiting:
                self._drop(flow)

    def missed(self) -> None:
        """Packets are missing from the capture between those of the last batch and those of the next."""
        self.clock.missed()

    def forgets_all(self, clock: int) -> bool:
        """Whether at a time nothing is left that what comes could belong to: all has ended, long ago."""
        if any(self._waiting):
            return False
        held = (flow.connection for flow in self._flows.values())
        return all(one is None or (one.over and clock - one.last_time > 2 * QUIET) for one in held)

    def finish(self, at: int) -> list[TcpConnection]:
        """The capture ends at address `at`, and with it every connection."""
        for flow in sorted((flow for flow in self._flows.values() if flow.waiting), key=_first_at):
            self._rank = _first_at(flow)
            self._wait_no_longer_for(flow, max(at, self._now))
        # The order of the flows' numbers would depend on how packets were divided into batches.
        for flow, connection in sorted(self._open_ones(), key=lambda one: one[1].first_at):
            self._rank = connection.first_at
            self._end(connection, max(at, self._now, flow.latest + 1), self._time, "end of capture")
        self._flows.clear()
        self._directions.clear()
        for over in self._over:
            over.clear()
        self._held = [0] * PARTS
        return self._take_touched()

    def _take_touched(self) -> list[TcpConnection]:
        touched, self._touched = sorted(self._touched, key=_rank), []
        for connection in touched:
            connection.touched = False
            for side in connection.sides:
                side.run = None
        return touched

    def _touch(self, connection: TcpConnection) -> None:
        if not connection.touched:
            connection.touched = True
            connection.rank = self._rank
            self._touched.append(connection)

    def _lookup(self, packets: Packets) -> list[int]:
        """Number of each direction that has packets: twice its flow's, plus which way; -1 of others."""
        held = self._directions
        found = [held.get(key, -1) for key in packets.directions]
        if -1 in found:
            first = packets.first
            # which of two directions was seen first is for their flow to know
            for i in sorted((i for i, number in enumerate(found) if number < 0), key=first.__getitem__):
                if first[i] == len(packets):
                    break
                key = packets.directions[i]
                if key not in held:
                    flow = self._next_flow
                    self._next_flow += 1
                    part = part_of(key)
                    self._flows[flow] = Flow(key, part=part)
                    self._held[part] += 1
                    # Both ends on one host and port: one direction is all that can be told.
                    held[turned(key)] = 2 * flow + 1
                    held[key] = 2 * flow
                found[i] = held[key]
        return found

    def _drop(self, flow: Flow) -> None:
        self._waiting[flow.part] -= sum(packet.weight for packet in flow.waiting.packets)
        del self._flows[self._directions[flow.key] >> 1]
        self._held[flow.part] -= 1
        del self._directions[flow.key]
        self._directions.pop(turned(flow.key), None)

    def _forget(self) -> None:
        """Drop flows whose connection has been over for long, or before many others."""
        for over in self._over:
            while over and (len(over) > MOST_OVER or self._time - over[0].last_time > 2 * QUIET):
                connection = over.popleft()
                number = self._directions.get(connection.key)
                flow = None if number is None else self._flows[number >> 1]
                if flow is not None and flow.connection is connection:
                    flow.connection = None
                    if not flow.waiting:
                        self._drop(flow)

    def _end_silent(self) -> None:
        """End what has been silent for so long that its end may have been missed."""
        before = None
        while self._missing and self._time - self._missing[0][1] > SILENCE:
            before, _ = self._missing.popleft()
        if before is not None:
            self._lose([flow for flow, each in self._open_ones() if each.last_time <= before], MISSED)
        if len(self._flows) <= MOST_OPEN:
            return
        for part, over in enumerate(self._over):
            if self._held[part] > MOST_OPEN + len(over):
                flows = [flow for flow in self._flows.values() if flow.part == part]
                silent = [flow for flow in flows if flow.waiting or (flow.connection and not flow.connection.over)]
                self._lose(silent[:-MOST_OPEN], CROWDED)

    def _open_ones(self) -> Iterator[tuple[Flow, TcpConnection]]:
        for flow in self._flows.values():
            if flow.connection is not None and not flow.connection.over:
                yield flow, flow.connection

    def _lose(self, silent: list[Flow], reason: str) -> None:
        for flow in silent:
            self._rank = SILENT + flow.last
            self._take_all(flow, self._now)
            if flow.connection is not None and not flow.connection.over:
                self._end(flow.connection, max(self._now, flow.latest + 1), self._time, reason)
            self._drop(flow)

    def _lapsed(self, connection: TcpConnection, clock: int) -> bool:
        """Whether a connection that speaks at `clock` had been silent for too long after packets were missed."""
        for before, after in self._missing:
            if clock - after <= SILENCE:
                break
            if connection.last_time <= before:
                return True
        return False

    def _flow(self, flow: Flow, columns: _Columns, a: int, b: int) -> None:
        """The packets [a, b) of one flow."""
        singly = FEW
        while b - a > FEW:
            taken = self._at_once(flow, columns, a, b)
            singly = FEW if taken - a > singly else 2 * singly
            a = min(taken + singly, b)
            self._one_by_one(flow, columns, taken, a)
        self._one_by_one(flow, columns, a, b)

    def _at_once(self, flow: Flow, columns: _Columns, a: int, b: int) -> int:
        """Take packets from `a` on as long as all are in order and without flags; where it stopped."""
        connection = flow.connection
        if connection is None or connection.over or self._lapsed(connection, int(columns.clock[a])):
            return a
        if flow.waiting.heap:
            return a
        special = columns.flags[a:b] & (SYN | FIN | RST)
        if special.any():
            b = a + int((special != 0).argmax())
        way = columns.way[a:b] ^ flow.turned
        plan: list[tuple[Direction, Ints, Ints]] = []
        acknowledging: list[tuple[Direction, Ints]] = []
        for side in connection.sides:
            which = np.flatnonzero(way == int(side.side)) + a  # an enum's comparison is slow
            if not len(which):
                continue
            if side.base is None or side.pending or side.fin is not None:
                return a
            other = connection.sides[1 - side.side]
            if other.base is not None:
                acknowledging.append((other, which))
            data = which[columns.length[which] > 0]
            if len(data) and side.soft:
                b = min(b, int(data[0]))
            elif len(data):
                ends = np.cumsum(columns.length[data])
                plan.append((side, data, ends))
                b = min(b, _in_order(side, columns, data, ends, b))
        if b - a < FEW:
            return a
        acknowledged: list[tuple[Direction, Ints, Ints]] = []
        for other, which in acknowledging:
            acking = which[(columns.flags[which] & ACK) != 0]
            if len(acking):
                expected = cast("int", other.base) + other.next
                beyond = ((columns.ack[acking] - expected + HALF) & (WHOLE - 1)) - HALF
                acknowledged.append((other, acking, beyond))
                if self._patience and not other.soft:
                    b = _answering(acking, beyond, next((one[1:] for one in plan if one[0] is other), None), b)
        if b - a < FEW:
            return a
        most = [
            (other, int(beyond[: np.searchsorted(acking, b)].max(initial=-HALF)))
            for other, acking, beyond in acknowledged
        ]
        if any(beyond > UNRELATED for _, beyond in most):
            return a
        for other, ahead in most:
            other.acked = max(other.acked, other.next + ahead)
        for side, data, ends in plan:
            count = int(np.searchsorted(data, b))
            self._run(connection, side, columns, data[:count], ends[:count])
        connection.last_time = int(columns.clock[b - 1])
        return b

    def _run(self, connection: TcpConnection, side: Direction, columns: _Columns, data: Ints, ends: Ints) -> None:
        """Deliver packets that adjoin what was delivered, as one run; `ends` are where each one ends from there on."""
        if not len(data):
            return
        start, at = side.next, columns.at[data]
        length, stored = columns.length[data], columns.stored[data]
        until = ends + start
        offsets = self.numbers(until)
        run = Run(side.side, start, offsets, self.numbers(at), self.numbers(columns.time[data]))
        if (stored < length).any():
            run.stored = self.numbers(stored)
        if columns.comments:
            positions: list[int] = columns.order[data].tolist()
            for offset, position in zip([start, *offsets], positions, strict=False):
                if position in columns.comments:
                    run.comments[offset] = columns.comments[position]
        side.remember(until - length, until, at, stored)
        side.next = offsets[-1]
        side.run = None
        connection.events.append(run)
        self._touch(connection)

    def _one_by_one(self, flow: Flow, columns: _Columns, a: int, b: int) -> None:
        """Take the packets [a, b) of a flow, whatever they are."""
        span = slice(a, b)
        rows = zip(
            columns.order[span].tolist(),
            columns.way[span].tolist(),
            columns.time[span].tolist(),
            columns.seq[span].tolist(),
            columns.ack[span].tolist(),
            columns.flags[span].tolist(),
            columns.at[span].tolist(),
            columns.length[span].tolist(),
            columns.stored[span].tolist(),
            columns.reached[span].tolist(),
            columns.clock[span].tolist(),
            strict=True,
        )
        for i, (order, way, time, seq, ack, flags, at, length, stored, reached, clock) in enumerate(rows, a):
            comment = columns.comments.get(order) if columns.comments else None
            piece = Piece(0, length, at, time, stored, comment)
            if flow.seen != _BOTH:
                flow.seen |= 1 << way
            if time < clock:
                flow.disordered = True
            if not flow.waiting.heap and self._ready(flow, way, seq, ack, flags, length, clock):
                self._packet(flow, way, seq, ack, flags, piece, reached, clock)
            else:
                self._wait(flow, Arrival(way, seq, ack, flags, piece, clock, int(columns.which[i]), reached))
        if flow.connection is not None and flow.connection.events:
            self._touch(flow.connection)

    def _wait(self, flow: Flow, packet: Arrival) -> None:
        """Have a packet wait, and take those that have waited long enough or whose predecessors are there."""
        connection = flow.connection
        if connection is not None and not connection.over:
            if not self._lapsed(connection, packet.clock):
                connection.last_time = packet.clock
            else:
                self._take_all(flow, packet.now)
        flow.disordered = True
        flow.waiting.push(packet, later=_is_later(flow, packet.way, packet.seq, packet.flags))
        self._waiting[flow.part] += packet.weight
        now = packet.end
        while flow.waiting:
            first = flow.waiting.first
            if not self._is_ready(flow, first):
                if self._waiting[flow.part] <= MOST_WAITING and not overdue(first, packet, self._patience):
                    return
                flow.one_sided |= flow.seen != _BOTH
            now += 1
            self._take_waiting(flow, now)

    def _is_ready(self, flow: Flow, packet: Arrival) -> bool:
        return self._ready(flow, packet.way, packet.seq, packet.ack, packet.flags, packet.piece.end, packet.clock)

    def _take_waiting(self, flow: Flow, now: int) -> None:
        """Take the first packet that waits."""
        before = flow.connection
        packet = flow.waiting.pop()
        self._waiting[flow.part] -= packet.weight
        flow.latest = now = max(now, flow.latest + packet.resets)
        self._packet(flow, packet.way, packet.seq, packet.ack, packet.flags, packet.piece, now, packet.clock)
        if flow.connection is not before and flow.waiting:
            flow.waiting.again(lambda one: _is_later(flow, one.way, one.seq, one.flags))

    def _wait_no_longer_for(self, flow: Flow, at: int) -> None:
        """Take all packets of a flow that wait, at address `at`."""
        self._take_all(flow, at)
        if flow.connection is None:
            self._drop(flow)
        elif flow.connection.events:
            self._touch(flow.connection)

    def _take_all(self, flow: Flow, at: int) -> None:
        while flow.waiting:
            flow.one_sided |= flow.seen != _BOTH
            at += 1
            self._take_waiting(flow, at)

    def _ready(self, flow: Flow, way: int, seq: int, ack: int, flags: int, length: int, clock: int) -> bool:
        """Whether what a packet follows is there, as far as its numbers tell."""
        connection = flow.connection
        if connection is not None and not connection.over and not flags & _SPECIAL and not self._missing:
            mine = way ^ flow.turned
            other = connection.sides[1 - mine]
            if other.base is not None and connection.sides[mine].base is not None:
                # As `offset` has it: every packet passes here.
                ahead = (ack - other.base - other.next + HALF) % WHOLE - HALF
                return ahead <= 1 or not self._waits(flow, other, ahead, flags)
        return not self._patience or self._may_be_taken(flow, way, seq, ack, flags, length, clock)

    def _waits(self, flow: Flow, other: Direction, ahead: int, flags: int) -> bool:
        """Whether a packet waits that acknowledges so many bytes more of the other direction than are there."""
        if flow.one_sided and flow.seen != _BOTH:
            return False
        return self._patience > 0 and flags & ACK != 0 and not other.soft and 1 < ahead <= UNRELATED

    def _may_be_taken(self, flow: Flow, way: int, seq: int, ack: int, flags: int, length: int, clock: int) -> bool:
        """As `_ready`, of a packet that may begin a connection or end it, or come before its beginning."""
        connection = flow.connection
        if connection is None or (connection.over and clock - connection.last_time > QUIET):
            return flags & RST != 0 or flags & (SYN | ACK) == SYN
        if self._missing and not connection.over and self._lapsed(connection, clock):
            return True
        mine = way ^ flow.turned
        side, other = connection.sides[mine], connection.sides[1 - mine]
        if flags & (SYN | RST) == SYN:
            if side.base == (seq + 1) % WHOLE:
                return True
            if connection.over:
                return not flags & ACK
            return side.base is None and (connection.opened or not (other.next or other.pending))
        if connection.over:
            return flags & RST != 0 or not length or not _is_later(flow, way, seq, flags)
        if flow.one_sided and flow.seen != _BOTH:
            return True
        if side.base is None:
            return not connection.opened
        if other.base is None:
            return not connection.opened or not flags & ACK
        if self._waits(flow, other, other.offset(ack) - other.next, flags):
            return False
        # Nothing tells what was sent before an RST, so it waits where packets have come late before.
        return not (flags & RST and flow.disordered)

    def _packet(self, flow: Flow, way: int, seq: int, ack: int, flags: int, piece: Piece, now: int, clock: int) -> None:
        time, length = piece.time, piece.end
        if flags & SYN and not flags & RST:
            self._syn(flow, way, seq, ack, flags, piece, now, clock)
            seq = (seq + 1) % WHOLE
        connection = flow.connection
        if connection is not None and not connection.over and self._lapsed(connection, clock):
            self._end(connection, now, time, MISSED)
            connection = flow.connection = None
        if connection is None or (connection.over and clock - connection.last_time > QUIET):
            if flags & RST:
                return
            connection = self._open(flow, way, piece, clock, opened=False)
        if connection.over:
            self.stray += length
            return
        side = connection.sides[way ^ flow.turned]
        if (
            length
            and side.base is not None
            and not side.soft
            and not -UNRELATED <= side.offset(seq) - side.next <= UNRELATED
        ):
            self._end(connection, now, time, "sequence numbers of another connection")
            connection = self._open(flow, way, piece, clock, opened=False)
            side = connection.sides[0]
        other = connection.sides[1 - side.side]
        connection.last_time = clock
        if flags & ACK:
            other.acknowledge(ack)
        if length:
            start = side.settle(seq)
            if side.ended:
                self.stray += length
            else:
                piece.start, piece.end = start, start + length
                held, kept_alive = side.held, length == 1 and start == side.next - 1
                behind = bool(side.pending) and start < side.pending[-1].end
                side.take(piece, now, self._same, connection.events)
                if side.held > held:
                    connection.disorder.filled += behind
                elif not kept_alive:
                    self.repeated += 1
                    connection.disorder.repeated += 1
        elif side.base is None and not flags & RST:
            side.begin(seq, soft=True)
        if flags & FIN and side.fin is None and side.base is not None:
            end = side.offset(seq) + length
            if side.next <= end <= side.next + UNRELATED:
                side.fin = end
        for each in connection.sides:
            if each.pending:
                each.look_for_loss(now, time, connection.events)
            if each.fin is not None:
                each.finish(now, time, connection.events)
        if flags & RST:
            self._end(connection, now, time, "RST")
        elif side.ended and other.ended:
            self._end(connection, now, time, "FIN")

    def _syn(self, flow: Flow, way: int, seq: int, ack: int, flags: int, piece: Piece, now: int, clock: int) -> None:
        """A SYN opens a connection, or belongs to the one that is there."""
        first, time = (seq + 1) % WHOLE, piece.time
        connection = flow.connection
        if connection is not None:
            side = connection.sides[way ^ flow.turned]
            other = connection.sides[1 - side.side]
            if side.base == first and not (connection.over and clock - connection.last_time > QUIET):
                side.soft = False
                return
            if not connection.over:
                if side.base is None and (connection.opened or not (other.next or other.pending)):
                    side.begin(first)
                    return
                self._end(connection, now, time, "a new connection on the same ports")
        opener = way if not flags & ACK else 1 - way
        connection = self._open(flow, opener, piece, clock, opened=True)
        connection.sides[opener ^ way].begin(first)
        if flags & ACK:
            connection.sides[0].begin(ack)

    def _open(self, flow: Flow, way: int, first: Piece, clock: int, *, opened: bool) -> TcpConnection:
        """A new connection whose side 0 sends in direction `way` of the flow."""
        key = turned(flow.key) if way else flow.key
        sides = (Direction(Side.CLIENT), Direction(Side.BROKER))
        flow.connection = TcpConnection(key, opened, first.time, first.at, sides, last_time=clock)
        flow.turned = bool(way)
        return flow.connection

    def _end(self, connection: TcpConnection, now: int, time: int, reason: str) -> None:
        for side in connection.sides:
            side.flush(now, time, connection.events)
        unheard = next((side.side for side in connection.sides if side.base is None), None)
        connection.events.append(End(None, now, time, reason, unheard))
        connection.over = True
        for side in connection.sides:
            side.forget()
            side.run = None
        self._touch(connection)


def _first_at(flow: Flow) -> int:
    """Address of the first packet of a flow's present or next connection, of a flow in which packets wait."""
    connection = flow.connection
    return flow.waiting.first.piece.at if connection is None or connection.over else connection.first_at


def _is_later(flow: Flow, way: int, seq: int, flags: int) -> bool:
    """Whether a packet's sequence number shows that it belongs to a later connection between the same ports."""
    connection, waiting = flow.connection, flow.waiting
    if connection is None:
        return bool(waiting) and waiting.reference[way] is not None and abs(waiting.place(way, seq)) > UNRELATED
    side = connection.sides[way ^ flow.turned]
    if side.base is None:
        return False
    if flags & (SYN | RST) == SYN:
        return side.base != (seq + 1) % WHOLE
    away = abs(side.offset(seq) - side.next)
    begins = waiting.begins[way] if waiting else None
    return away > NEAR or (begins is not None and 0 <= distance(begins, seq) < away)


def _answering(which: Ints, beyond: Ints, sent: tuple[Ints, Ints] | None, end: int) -> int:
    """The first of the packets `which` that acknowledges bytes which are not there by then; `end` where none does.

    They acknowledge so many bytes `beyond` those that were there before all. `sent` are the packets that hold the next
    bytes, and where each one's end from there on.
    """
    # A FIN counts as a byte.
    ahead = beyond > 1
    if sent is not None and ahead.any():
        data, ends = sent
        ahead = beyond > np.append(0, ends)[np.searchsorted(data, which)] + 1
    if ahead.any():
        ahead &= beyond <= UNRELATED
        if ahead.any():
            return min(end, int(which[int(ahead.argmax())]))
    return end


def _in_order(side: Direction, columns: _Columns, data: Ints, ends: Ints, end: int) -> int:
    """The first of the packets `data` that is not exactly the next one expected; `end` where all are.

    `ends` are how many bytes there are up to each one's end.
    """
    seq, length = columns.seq[data], columns.length[data]
    if int(seq[0]) != (cast("int", side.base) + side.next) % WHOLE:
        return int(data[0])
    right = ((seq[:-1] + length[:-1]) ^ seq[1:]) & 0xFFFF_FFFF == 0
    ahead = columns.ahead[data]
    right &= ahead[1:]
    right &= ends[1:] <= MOST_AT_ONCE
    if right.all():
        return end if ahead[0] else int(data[0])
    return int(data[int(right.argmin()) + 1])
