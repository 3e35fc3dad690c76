"""TCP reassembly: takes batches of packets and gives the runs, gaps and ends of each connection.

A connection begins with its SYN, or with the first captured packet between two hosts and ports. A SYN with another
initial sequence number on the same ports begins the next connection. Bytes that arrive after the end of their
connection, such as segments in flight when an RST was captured, are counted as stray.

Connections are divided into parts, so that several reassemblers can share a capture (captures/tcp/shares.py).

Memory is bounded. Of the ended connections of each part, the last MOST_OVER are remembered while their segments may
still arrive. At most MOST_OPEN connections of a part stay open; beyond that, the one that has been silent longest is
ended. A connection that stays silent for SILENCE after packets are missing from the capture (`missed`) is ended too,
because its end may be among these packets. `End.reason` says so in both cases. If such a connection has traffic again,
it begins anew, as a connection whose beginning was not captured.

Most traffic arrives in order. Packets of a batch whose data is contiguous in both directions become one Run for each
direction, without work for each packet (`_at_once`); all others are handled one by one (`_one_by_one`, direction.py).
Both ways give the same events. The events do not depend either on how packets are divided into batches, except for
where runs are cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import cast

import numpy as np

from kproxy.captures.tcp.connections import Ended, TcpConnection
from kproxy.captures.tcp.direction import HALF, UNRELATED, WHOLE, Direction, Piece, Same
from kproxy.captures.tcp.packets import (
    ACK,
    CLOSED,
    FIN,
    RST,
    SYN,
    Ints,
    Mask,
    Packets,
    Where,
    together,
    turned,
)
from kproxy.captures.tcp.shares import PARTS, Clock, Share, part_of
from kproxy.captures.tcp.waiting import LONGEST_TIME, NEAR, Arrival, Each, Waiting, distance, numbers, overdue
from kproxy.decoders.stream import END_OF_CAPTURE, End, Run, Side

FEW = 12
"""Up to this number of packets of a connection in a batch, handling them one by one is faster than as columns."""
MOST_AT_ONCE = 1 << 30
"""Maximum bytes of one direction that are handled together: the order of sequence numbers this close is unambiguous."""
AGAIN = 10_000_000
"""Nanoseconds after which a segment that fills a gap was sent again, rather than overtaken on its way."""
TIMEOUT = 150_000_000
"""If a connection was silent for longer than this (ns) before a segment without new bytes, the segment is a timeout
retransmission (TCP's timeout is at least 200 ms). Sooner it is a probe: the acknowledgement of the last segment was
delayed, and nothing was lost.
"""
QUIET = 120_000_000_000
"""Once this many nanoseconds have passed since a connection ended, any packet on its ports begins another connection.
"""
MOST_OVER = 1024
"""Maximum number of ended connections of a part that are remembered."""
MOST_OPEN = 8192
"""Maximum number of open connections of a part."""
SILENCE = 30_000_000_000
"""After packets are missing, a connection without packets for this long is ended; nanoseconds of capture time."""
MISSED = "no packet was seen after packets that the capture lacks"
CROWDED = f"it was silent while {MOST_OPEN} others were active"
MOST_WAITING = 2 << 20
"""Maximum memory, in bytes, of the waiting packets of a part: their captured bytes and OVERHEAD for each."""
ROOM = 48
"""Number of addresses after a packet's last byte that are given, in order, to the waiting packets that its arrival
releases.

The headers of the next packet take more addresses, so the order of items does not depend on batches and splits.
"""
SILENT = 1 << 62
"""The lowest rank of connections that end without a packet of their own; they sort behind all others."""


_NONE_WAIT = Waiting()
"""The waiting packets of all flows that have had none so far: one object, which stays empty."""


@dataclass(slots=True)
class Flow:
    """The state of one pair of hosts and ports; `key` is the key of the direction of its first packet, called direction
    0.
    """

    key: bytes
    connection: TcpConnection | Ended | None = None
    turned: bool = False
    """Whether side 0 of the connection sends in direction 1."""
    part: int = 0
    last: int = 0
    """Number, in the reading, of the flow's first packet in the last batch that had packets of the flow."""
    seen: int = 0
    """Bit mask of the directions that had packets: 1 for direction 0, 2 for direction 1."""
    disordered: bool = False
    """Whether packets of the flow were captured out of order, by their times or by their sequence numbers."""
    one_sided: bool = False
    """Whether packets waited in vain for the other direction because the capture holds none of its packets."""
    waiting: Waiting = field(default_factory=lambda: _NONE_WAIT)
    latest: int = 0
    """The highest address at which a packet of the flow was handled after waiting."""


@dataclass(slots=True)
class _Columns:
    """The columns of a batch, sorted by flow.

    `way` is 0 or 1, the packet's direction in its flow. `order` is the packet's position in the batch, `which` its
    number in the reading. `reached` and `clock` are the highest address and the latest time up to the packet. `ahead`
    is true if no earlier packet had a higher address.
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


_rank = attrgetter("rank")
_SPECIAL = SYN | RST
_BOTH = 0b11
"""Value of `Flow.seen` if both directions had packets."""


class Reassembler:
    """Reassembles the connections of a capture: `feed` it batches in capture order, then call `finish`.

    It holds addresses of bytes, never bytes; `same` compares the bytes at two addresses. `feed` takes whole batches. To
    reassemble only some connections, use a `Clock` of your own and pass shares to `take`.
    """

    def __init__(self, same: Same, *, patience: int = LONGEST_TIME) -> None:
        """An out-of-order packet waits at most `patience` nanoseconds of capture time for the packets before it."""
        self._same = same
        self._patience = patience
        self._waiting = [0] * PARTS
        """By part, the memory of its waiting packets in bytes, as MOST_WAITING counts it."""
        self._directions: dict[bytes, int] = {}
        self._flows: dict[int, Flow] = {}
        """Flows by their numbers; the flow that has been silent longest comes first."""
        self._next_flow = 0
        self._held = [0] * PARTS
        """By part, the number of its flows."""
        self.clock = Clock()
        self._now = 0
        self._time = 0
        self._rank = 0
        """The rank for connections that get events at present."""
        self._touched: list[TcpConnection] = []
        self._over: list[deque[Ended]] = [deque() for _ in range(PARTS)]
        """By part, the ended connections whose flows are still remembered."""
        self._ended: list[Ended] = []
        """The connections that ended since the caller got events."""
        self._missing: deque[tuple[int, int]] = deque()
        """For each place where packets are missing: (time of the packet before, time of the packet after)."""
        self.stray = 0
        """Number of bytes captured after the end of their connection."""
        self.repeated = 0
        """Number of segments whose bytes had all arrived before: retransmitted, or captured twice."""

    def feed(self, packets: Packets) -> list[TcpConnection]:
        """Reassemble a batch; returns the connections that got `events`, in the order of their first packets in the
        batch.

        The caller moves the events out of the connections.
        """
        return self.take(self.clock.whole(packets)) if len(packets) else []

    def take(self, share: Share) -> list[TcpConnection]:
        """Like `feed`, for a share of a batch. The share may be empty."""
        if share.missing is not None:
            self._missing.append(share.missing)
        if len(share.packets):
            self._take_packets(share)
        self._now, self._time = share.now, share.time
        self._end_silent()
        return self._touched_ones()

    @property
    def waits(self) -> bool:
        """Whether packets wait for the packets before them."""
        return any(self._waiting)

    def wait_no_longer(self, since: int | None = None) -> list[TcpConnection]:
        """Treat the packets that waiting packets wait for as lost, and handle the waiting ones; returns the connections
        that got events.

        With `since`, only on connections without a packet after this time (ns).
        """
        self._take_all_waiting(self._now, since)
        return self._touched_ones()

    def _take_all_waiting(self, at: int, since: int | None = None) -> None:
        """Handle all waiting packets as if they had arrived just after address `at`.

        With `since`, only those of connections without a packet after this time (ns).
        """
        waiting = [flow for flow in self._flows.values() if flow.waiting]
        if since is not None:
            waiting = [flow for flow in waiting if all(packet.clock <= since for packet in flow.waiting.packets)]
        for flow in sorted(waiting, key=_first_at):
            self._rank = _first_at(flow)
            self._wait_no_longer_for(flow, at)

    def _touched_ones(self) -> list[TcpConnection]:
        """The connections that got events; those that ended are forgotten after a while."""
        touched = self._take_touched()
        for ended in self._ended:
            ended.connection = None
            if ended.key in self._directions:
                self._over[part_of(ended.key)].append(ended)
        self._ended.clear()
        self._forget()
        return touched

    def keep(self, parts: Iterable[int]) -> None:
        """Forget all connections outside these parts: another reassembler gets their packets from now on."""
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
            _flags(packets)[order],
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
        """Note that packets are missing from the capture between the last batch and the next."""
        self.clock.missed()

    def forgets_all(self, clock: int) -> bool:
        """Whether no packet after capture time `clock` (ns) can belong to a known connection: all ended long before."""
        if self.waits:
            return False
        held = (flow.connection for flow in self._flows.values())
        return all(one is None or (isinstance(one, Ended) and clock - one.last_time > 2 * QUIET) for one in held)

    def finish(self, at: int) -> list[TcpConnection]:
        """End all connections, because the capture ends at address `at`; returns the connections that got events."""
        at = max(at, self._now) + ROOM
        self._take_all_waiting(at)
        # In the order of their first packets: the numbers of flows depend on how packets were divided into batches.
        for flow, connection in sorted(self._open_ones(), key=lambda one: one[1].first_at):
            self._rank = connection.first_at
            self._end(flow, connection, max(at, flow.latest + 1), self._time, END_OF_CAPTURE)
        self._flows.clear()
        self._directions.clear()
        for over in self._over:
            over.clear()
        self._ended.clear()
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
        """For each direction of the batch: twice its flow's number, plus 0 or 1; -1 for a direction without packets."""
        held = self._directions
        found = [held.get(key, -1) for key in packets.directions]
        if -1 in found:
            first = packets.first
            # A flow must know which of its two directions was seen first.
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
                    # If both ends have the same host and port, the two directions cannot be told apart.
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
        """Drop flows whose connection ended long ago; of each part, keep at most MOST_OVER ended connections."""
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
        """End silent connections whose end may be missing; if too many are open, end those silent for longest."""
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
                silent = [flow for flow in flows if flow.waiting or isinstance(flow.connection, TcpConnection)]
                self._lose(silent[:-MOST_OPEN], CROWDED)

    def _open_ones(self) -> Iterator[tuple[Flow, TcpConnection]]:
        for flow in self._flows.values():
            if isinstance(flow.connection, TcpConnection):
                yield flow, flow.connection

    def _lose(self, silent: list[Flow], reason: str) -> None:
        for flow in silent:
            self._rank = SILENT + flow.last
            self._take_all(flow, self._now)
            if isinstance(flow.connection, TcpConnection):
                self._end(flow, flow.connection, max(self._now, flow.latest + 1), self._time, reason)
            self._drop(flow)

    def _lapsed(self, connection: TcpConnection, clock: int) -> bool:
        """Whether a connection was silent for more than SILENCE after packets were missing, before its packet at time
        `clock`.
        """
        for before, after in self._missing:
            if clock - after <= SILENCE:
                break
            if connection.last_time <= before:
                return True
        return False

    def _flow(self, flow: Flow, columns: _Columns, a: int, b: int) -> None:
        """Handle the packets of one flow: the rows [a, b) of `columns`."""
        singly = FEW
        while b - a > FEW:
            taken = self._at_once(flow, columns, a, b)
            singly = FEW if taken - a > singly else 2 * singly
            a = min(taken + singly, b)
            self._one_by_one(flow, columns, taken, a)
        self._one_by_one(flow, columns, a, b)

    def _at_once(self, flow: Flow, columns: _Columns, a: int, b: int) -> int:
        """Handle the packets from row `a` on, as long as they are in order and without SYN, FIN or RST.

        Returns the first row that was not handled, at most `b`.
        """
        connection = flow.connection
        if not isinstance(connection, TcpConnection) or self._lapsed(connection, int(columns.clock[a])):
            return a
        if flow.waiting.heap:
            return a
        if connection.windows[0].since or connection.windows[1].since:
            return a
        special = columns.flags[a:b] & (SYN | FIN | RST | CLOSED)
        if special.any():
            b = a + int((special != 0).argmax())
        way = columns.way[a:b] ^ flow.turned
        plan: list[tuple[Direction, Ints, Ints]] = []
        acknowledging: list[tuple[Direction, Ints]] = []
        for side in connection.sides:
            which = np.flatnonzero(way == int(side.side)) + a  # int(), because comparing an enum is slow
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
        """Deliver contiguous packets, the rows `data`, as one run.

        `ends` are the offsets of the packets' ends, counted from the last byte delivered before.
        """
        if not len(data):
            return
        start, at = side.next, columns.at[data]
        length, stored = columns.length[data], columns.stored[data]
        until = ends + start
        offsets = until.tolist()
        run = Run(side.side, start, offsets, at.tolist(), columns.time[data].tolist())
        cut = bool((stored < length).any())
        if cut:
            run.stored = stored.tolist()
        if columns.comments:
            positions: list[int] = columns.order[data].tolist()
            for offset, position in zip([start, *offsets], positions, strict=False):
                if position in columns.comments:
                    run.comments[offset] = columns.comments[position]
        side.recent.extend(start, until, at, until - length + stored if cut else None)
        connection.disorder.segments += len(data)
        side.next = offsets[-1]
        side.run = None
        connection.events.append(run)
        self._touch(connection)

    def _one_by_one(self, flow: Flow, columns: _Columns, a: int, b: int) -> None:
        """Handle the rows [a, b), packets of a flow in any order and with any flags."""
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
        if isinstance(flow.connection, TcpConnection) and flow.connection.events:
            self._touch(flow.connection)

    def _wait(self, flow: Flow, packet: Arrival) -> None:
        """Let a packet wait, then handle the waiting packets that need not wait any longer."""
        connection = flow.connection
        if isinstance(connection, TcpConnection):
            if not self._lapsed(connection, packet.clock):
                connection.last_time = packet.clock
            else:
                self._take_all(flow, packet.now)
        flow.disordered = True
        if not flow.waiting.heap and not flow.waiting.looks:
            # It may be the one that flows share; in a state that was read, this is another object than _NONE_WAIT.
            flow.waiting = Waiting()
        later = _belongs_later(flow, packet)
        flow.waiting.push(packet, later=later)
        if later and packet.synchronises:
            flow.waiting.again(partial(_belongs_later, flow))
        self._waiting[flow.part] += packet.weight
        now = packet.end
        while flow.waiting:
            first = flow.waiting.first
            if not self._is_ready(flow, first):
                if self._waiting[flow.part] <= MOST_WAITING and not overdue(first, packet, self._patience):
                    return
                flow.one_sided |= flow.seen != _BOTH
            now = min(now + 1, packet.end + ROOM)
            self._take_waiting(flow, now)

    def _is_ready(self, flow: Flow, packet: Arrival) -> bool:
        return self._ready(flow, packet.way, packet.seq, packet.ack, packet.flags, packet.piece.end, packet.clock)

    def _take_waiting(self, flow: Flow, now: int) -> None:
        """Handle the first waiting packet of a flow, as if it had come at address `now`."""
        before = flow.connection
        packet = flow.waiting.pop()
        self._waiting[flow.part] -= packet.weight
        flow.latest = now = max(now, flow.latest + packet.resets)
        self._packet(flow, packet.way, packet.seq, packet.ack, packet.flags, packet.piece, now, packet.clock)
        if flow.connection is not before and flow.waiting:
            if isinstance(flow.connection, TcpConnection) and (before is not None or flow.connection.opened):
                flow.waiting.forget()
            flow.waiting.again(partial(_belongs_later, flow))

    def _wait_no_longer_for(self, flow: Flow, at: int) -> None:
        """Handle all waiting packets of a flow, as if their places in the capture were address `at` or behind it."""
        self._take_all(flow, at)
        if flow.connection is None:
            self._drop(flow)
        elif isinstance(flow.connection, TcpConnection) and flow.connection.events:
            self._touch(flow.connection)

    def _take_all(self, flow: Flow, at: int) -> None:
        now = at
        while flow.waiting:
            flow.one_sided |= flow.seen != _BOTH
            now = min(now + 1, at + ROOM)
            self._take_waiting(flow, now)

    def _ready(self, flow: Flow, way: int, seq: int, ack: int, flags: int, length: int, clock: int) -> bool:
        """Whether a packet can be handled at once: its sequence and acknowledgement numbers show that no earlier one is
        missing.
        """
        connection = flow.connection
        if isinstance(connection, TcpConnection) and not flags & _SPECIAL and not self._missing:
            mine = way ^ flow.turned
            side, other = connection.sides[mine], connection.sides[1 - mine]
            if other.base is not None and side.base is not None:
                # the code of `Direction.offset`, without a call: this runs for every packet
                ahead = (ack - other.base - other.next + HALF) % WHOLE - HALF
                if length and (seq - side.base - side.next) % WHOLE and self._strays(flow, connection, side, seq):
                    return False
                return -NEAR <= ahead <= 1 or not self._waits(flow, other, ahead, flags)
        return not self._patience or self._may_be_taken(flow, way, seq, ack, flags, length, clock)

    def _waits(self, flow: Flow, other: Direction, ahead: int, flags: int) -> bool:
        """Whether a packet must wait: it acknowledges `ahead` bytes of the other direction that have not arrived, or
        its acknowledgement is so far from that direction's numbers that it may belong to another connection.
        """
        if not self._patience or (flow.one_sided and flow.seen != _BOTH):
            return False
        return flags & ACK != 0 and not other.soft and not -NEAR <= ahead <= 1

    def _strays(self, flow: Flow, connection: TcpConnection, side: Direction, seq: int) -> bool:
        """Whether a segment with data must wait because of its number.

        Either it cannot be one of this connection, or the segment is the first of its direction that has data, and
        bytes before it are missing.
        """
        if not self._patience or (flow.one_sided and flow.seen != _BOTH):
            return False
        if side.base is None:
            return side.expected is not None and 1 < distance(side.expected, seq) <= UNRELATED
        ahead = side.offset(seq) - side.next
        if side.soft:
            return 1 < ahead <= UNRELATED
        # Before the first byte there may be a keep-alive.
        return not -NEAR <= ahead <= NEAR or (connection.opened and side.next + ahead < -1)

    def _may_be_taken(self, flow: Flow, way: int, seq: int, ack: int, flags: int, length: int, clock: int) -> bool:
        """Like `_ready`, for packets that may begin or end a connection, or may come before its beginning."""
        connection = flow.connection
        ended = isinstance(connection, Ended)
        if connection is None or (ended and clock - connection.last_time > QUIET):
            return flags & RST != 0 or flags & (SYN | ACK) == SYN
        if self._missing and isinstance(connection, TcpConnection) and self._lapsed(connection, clock):
            return True
        mine = way ^ flow.turned
        side, other = connection.sides[mine], connection.sides[1 - mine]
        if flags & (SYN | RST) == SYN:
            if side.base == (seq + 1) % WHOLE:
                return True
            if isinstance(connection, Ended):
                return not flags & ACK
            if side.base is not None or (flags & ACK and not _answers(other, ack)):
                return False
            return connection.opened or not (other.next or other.pending)
        if isinstance(connection, Ended):
            ends = flags & RST or not (length or flags & FIN)
            return bool(ends) or not _is_later(flow, numbers(way, seq, ack, flags))
        if flow.one_sided and flow.seen != _BOTH:
            return True
        if length and not flags & RST and self._strays(flow, connection, side, seq):
            return False
        if side.base is None:
            return not connection.opened
        if other.base is None:
            return not connection.opened or not flags & ACK
        if self._waits(flow, other, other.offset(ack) - other.next, flags):
            return False
        if not flags & RST or not flow.disordered:
            return True
        # An RST has no reliable sequence number. If packets of the flow were out of order before, it therefore waits,
        # at most until the capture ends. An RST that continues its direction does not wait if its acknowledgement shows
        # that nothing of the other direction is missing.
        return bool(flags & ACK) and not side.pending and not other.pending and 0 <= side.offset(seq) - side.next <= 1

    def _packet(self, flow: Flow, way: int, seq: int, ack: int, flags: int, piece: Piece, now: int, clock: int) -> None:
        time, length = piece.time, piece.end
        if flags & SYN and not flags & RST:
            self._syn(flow, way, seq, ack, flags, piece, now, clock)
            seq = (seq + 1) % WHOLE
        connection = flow.connection
        if isinstance(connection, TcpConnection) and self._lapsed(connection, clock):
            self._end(flow, connection, now, time, MISSED)
            connection = flow.connection = None
        if connection is None or (isinstance(connection, Ended) and clock - connection.last_time > QUIET):
            if flags & RST:
                return
            connection = self._open(flow, way, piece, clock, opened=False)
        if isinstance(connection, Ended):
            if not length or flags & RST or not _is_later(flow, numbers(way, seq, ack, flags)):
                self.stray += length
                return
            connection = self._open(flow, way, piece, clock, opened=False)
        side = connection.sides[way ^ flow.turned]
        if (
            length
            and side.base is not None
            and not side.soft
            and not -UNRELATED <= side.offset(seq) - side.next <= UNRELATED
        ):
            self._end(flow, connection, now, time, "sequence numbers of another connection")
            connection = self._open(flow, way, piece, clock, opened=False)
            side = connection.sides[0]
        other = connection.sides[1 - side.side]
        # The packet's own time: a displaced packet was sent before what was captured before it.
        paused = time - connection.last_time > TIMEOUT
        connection.last_time = clock
        if not flags & RST:
            window = connection.windows[side.side]
            if flags & CLOSED:
                window.close(time)
            elif window.since:
                window.open(time)
        if flags & ACK and ack:
            other.acknowledge(ack)
            if other.base is None and other.expected is None:
                other.expected = ack
        if connection.opened and side.base is None and not flags & _SPECIAL and _is_ahead(side.expected, seq):
            # The SYN-ACK was not captured, but an acknowledgement of it.
            side.begin(cast("int", side.expected))
        if length:
            start = side.settle(seq)
            if side.ended:
                self.stray += length
            else:
                piece.start, piece.end = start, start + length
                held, kept_alive = side.held, length == 1 and start == side.next - 1
                behind = bool(side.pending) and start < side.pending[-1].end
                late = time - side.hole_time > AGAIN
                side.take(piece, now, self._same, connection.events)
                disorder = connection.disorder
                disorder.segments += 1
                if side.held > held:
                    disorder.filled += behind
                    disorder.retransmitted += behind and late
                elif not kept_alive:
                    self.repeated += 1
                    disorder.repeated += 1
                    disorder.retransmitted += paused
        elif side.base is None and not flags & RST:
            side.begin(seq, soft=True)
        if flags & FIN and side.fin is None and side.base is not None:
            end = side.offset(seq) + length
            if side.next <= end <= side.next + UNRELATED:
                # A FIN that acknowledges one byte more than the other side sent answers that side's FIN.
                unseen = bool(flags & ACK) and other.fin is None and other.base is not None
                answers = unseen and other.offset(ack) == other.next + 1
                connection.closes(other.side if answers else side.side, time)
                side.fin = end
        for each in connection.sides:
            if each.pending:
                each.look_for_loss(now, time, connection.events)
            if each.fin is not None:
                each.finish(now, time, connection.last_time, connection.events)
        if flags & RST:
            connection.closes(side.side, time)
            self._end(flow, connection, now, time, "RST")
        elif side.ended and other.ended:
            self._end(flow, connection, now, time, "FIN")

    def _syn(self, flow: Flow, way: int, seq: int, ack: int, flags: int, piece: Piece, now: int, clock: int) -> None:
        """Handle a SYN: it opens a connection or belongs to the open one."""
        first, time = (seq + 1) % WHOLE, piece.time
        connection = flow.connection
        if connection is not None:
            side = connection.sides[way ^ flow.turned]
            other = connection.sides[1 - side.side]
            ended = isinstance(connection, Ended)
            if side.base == first and not (ended and clock - connection.last_time > QUIET):
                side.soft = False
                whole = connection.connection if isinstance(connection, Ended) else connection
                if whole is not None:
                    whole.syns += not flags & ACK
                return
            if isinstance(connection, TcpConnection):
                begins = connection.opened or not (other.next or other.pending)
                if side.base is None and begins and (not flags & ACK or _answers(other, ack)):
                    side.begin(first)
                    return
                self._end(flow, connection, now, time, "a new connection on the same ports")
        opener = way if not flags & ACK else 1 - way
        connection = self._open(flow, opener, piece, clock, opened=True)
        connection.syns = int(not flags & ACK)
        connection.sides[opener ^ way].begin(first)
        if flags & ACK and ack:
            connection.sides[0].begin(ack)

    def _open(self, flow: Flow, way: int, first: Piece, clock: int, *, opened: bool) -> TcpConnection:
        """Begin a connection; its side 0 sends in direction `way` of the flow, and `first` is its first packet."""
        key = turned(flow.key) if way else flow.key
        sides = (Direction(Side.CLIENT), Direction(Side.BROKER))
        flow.connection = TcpConnection(key, opened, first.time, first.at, sides, last_time=clock)
        flow.turned = bool(way)
        return flow.connection

    def _end(self, flow: Flow, connection: TcpConnection, now: int, time: int, reason: str) -> None:
        # Bytes that are missing at the end of the capture were found missing at the connection's last packet.
        known = connection.last_time if reason == END_OF_CAPTURE else time
        for side, window in zip(connection.sides, connection.windows, strict=True):
            side.flush(now, known, connection.events)
            window.open(time)
        unheard = next((side.side for side in connection.sides if side.base is None), None)
        connection.events.append(End(None, now, time, reason, unheard, connection.last_time))
        connection.over = True
        for side in connection.sides:
            side.recent.keep(0)
            side.run = None
        self._touch(connection)
        flow.connection = Ended.of(connection, flow.key)
        self._ended.append(flow.connection)


def _flags(packets: Packets) -> Ints:
    """The flags of packets. An acknowledgement of 0 says nothing (captures that programs make have it), except that a
    SYN with one is an answer.
    """
    says_nothing = (packets.ack == 0) & (packets.flags & (SYN | ACK) == ACK)
    return cast("Ints", packets.flags & ~(says_nothing * ACK))


def _first_at(flow: Flow) -> int:
    """Address of the first packet of the flow's open connection, or of its first waiting packet if none is open."""
    connection = flow.connection
    return connection.first_at if isinstance(connection, TcpConnection) else flow.waiting.first.piece.at


def _is_ahead(expected: int | None, seq: int) -> bool:
    """Whether a sequence number is at most NEAR ahead of `expected`, the next one that the receiver expects."""
    return expected is not None and 0 <= distance(expected, seq) <= NEAR


def _belongs_later(flow: Flow, packet: Arrival) -> bool:
    """Whether a packet belongs to a later connection between the same ports."""
    found = packet.numbers
    if packet.synchronises:
        return _opens_later(flow, packet.way, packet.first, found[1 - packet.way], packet.piece.time)
    return _is_later(flow, found)


def _is_later(flow: Flow, found: Each) -> bool:
    """Whether the numbers of a packet without SYN show that it belongs to a later connection between the same ports."""
    connection, waiting = flow.connection, flow.waiting
    if connection is None:
        return bool(waiting) and waiting.belongs_later(found, waiting.lowest, UNRELATED)
    expected: list[int | None] = [None, None]
    if isinstance(connection, Ended):
        opened, near = False, 1 if connection.closed else NEAR
    else:
        opened, near = connection.opened, NEAR
        if not opened:
            expected = [*waiting.lowest]
    for side in connection.sides:
        if side.base is not None:
            way = side.side ^ flow.turned
            number = found[way]
            if opened and number is not None and side.offset(number) < -1:
                return True
            expected[way] = (side.base + side.next) % WHOLE
    return waiting.belongs_later(found, expected, near)


def _opens_later(flow: Flow, way: int, first: int, ack: int | None, time: int) -> bool:
    """Whether a SYN or SYN-ACK belongs to a later connection between the same ports.

    `first` is the sequence number of the byte after it, `ack` what it acknowledges, `time` its capture time (ns).
    """
    connection, waiting = flow.connection, flow.waiting
    if connection is None:
        may = waiting.may_follow(way, first, time) and (ack is None or waiting.may_follow(1 - way, ack, time))
        return not may
    sides = connection.sides
    side, other = sides[way ^ flow.turned], sides[1 - way ^ flow.turned]
    if side.base is not None:
        return side.base != first
    if not (isinstance(connection, TcpConnection) and connection.opened):
        return not waiting.may_follow(way, first, time)
    return ack is not None and not (_answers(other, ack) and (1 - way, ack) not in waiting.openings)


def _answers(side: Direction, ack: int) -> bool:
    """Whether a SYN-ACK with the acknowledgement number `ack` may answer the SYN of a side.

    The SYN of TCP Fast Open carries data, all of which may be acknowledged. Captures that programs make may acknowledge
    the SYN's own number, or 0.
    """
    return side.base is None or not ack or -1 <= distance(side.base, ack) <= side.next


def _answering(which: Ints, beyond: Ints, sent: tuple[Ints, Ints] | None, end: int) -> int:
    """The first of the packets `which` that acknowledges bytes which have not arrived before it, or whose number is far
    from theirs (NEAR); `end` if there is none.

    `beyond` has, for each packet, the number of acknowledged bytes that had not arrived before the first packet. `sent`
    is (packets that carry the acknowledged direction's next bytes, number of bytes up to the end of each), counted from
    the same point; None if there are none.
    """
    # A FIN may account for one byte.
    odd = (beyond > 1) | (beyond < (0 if sent is None else int(sent[1][-1])) - NEAR)
    if sent is not None and odd.any():
        data, ends = sent
        beyond = beyond - np.append(0, ends)[np.searchsorted(data, which)]
        odd = (beyond > 1) | (beyond < -NEAR)
    return min(end, int(which[int(odd.argmax())])) if odd.any() else end


def _in_order(side: Direction, columns: _Columns, data: Ints, ends: Ints, end: int) -> int:
    """The first of the packets `data` that does not begin where the one before ends; `end` if there is none.

    `ends` has, for each packet, the number of bytes up to its end.
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
