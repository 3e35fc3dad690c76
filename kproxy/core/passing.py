"""The fast path for bytes that pass unchanged: from asyncio's `data_received` to a write to the other transport.

Nearly all reads of all connections take this path, and a peer waits for each of them. So as little code as possible
runs before and after the write; other bytes go to the slow path (`Side.unlike`). The recorder has a fast path here as
well (`Pair`). This file runs as plain Python; where there is a C compiler, setup.py also compiles it as the extension
`_passing`, with the C types of passing.pxd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

from kproxy.decoders.schema.api_keys import PRODUCE

MAX_NOTED = 4096
"""Maximum number of noted requests that wait for their responses on one connection."""
TO_ACKS = 1 << 10
"""Number of bytes of a Produce request that are enough to find its `acks`, in nearly all cases."""
SHORTEST_REQUEST = 8
"""Shortest length of a Kafka request in bytes, without the length field; a shorter frame is a bare SASL token."""
SOME_NOTES, MOST_NOTES = 8, 64
"""Number of queued notes at which all of them are recorded as one batch: SOME_NOTES if the newest note is about a
response, else MOST_NOTES.

Recording a batch delays the next message. After a response the next message is usually some time away, so smaller
batches are recorded there.
"""

UNACKNOWLEDGED = 1 << 28
"""Number of bytes from one side after which the recording gets an ACK of the other side, so that no TCP window looks
full.
"""


class Passing:
    """Decides which bytes of a connection may pass at once; tracks frame borders in both directions for that.

    `plans` maps API key << 16 | version to the treatment of its responses; None lets them pass unchanged.
    `unchanged(plan, frame)` returns whether a whole response may pass unchanged although it has a plan.

    With actors, `plans` has no entry for an API that an actor wants, so that its frames take the slow path.
    """

    def __init__(self, plans: Mapping[int, object], unchanged: Callable[[Any, bytes], bool]) -> None:
        self.plans = plans
        self.unchanged = unchanged
        self.noted: dict[int, list[Any]] = {}
        """Plans of the noted requests, whose responses need the slow path: by correlation id, oldest first."""
        self.waiting = 0
        """Number of plans in `noted`, in all lists together."""
        self.request_rest = 0
        """Number of bytes of the current request that are still to come."""
        self.response_rest = 0
        """Number of bytes of the current response that are still to come."""
        self.requests_known = False
        """Whether the next byte after the current request begins a frame; if False, only the slow path may decide."""
        self.responses_known = False
        """Whether the next byte after the current response begins a frame; if False, only the slow path may decide."""
        self.requests = 0
        self.responses = 0
        self.in_flight: dict[int, tuple[int, bytes]] | None = None
        """The requests without a response that passed by the fast path, by correlation id, oldest first.

        Each is (API key << 16 | version, the first TO_ACKS bytes if it is a Produce request). None: they are not noted.
        """
        self.stopped = False
        """Whether all bytes take the slow path."""

    def from_client_passes(self, data: bytes) -> bool:
        """Whether these bytes from the client may be forwarded at once.

        If not, the state of this object is unchanged.
        """
        size = len(data)
        if self.request_rest >= size:
            self.request_rest -= size
            return True
        if self.request_rest or not self.requests_known or size < 12:
            return False
        length = _number(data, 0)
        if length < SHORTEST_REQUEST or length + 4 < size:
            return False
        key = _number(data, 4)
        plan = self.plans.get(key, self)
        if plan is self:
            return False
        correlation_id = _number(data, 8)
        in_flight = self.in_flight
        if in_flight is not None and (
            correlation_id in in_flight
            or len(in_flight) >= MAX_NOTED
            or (key >> 16 == PRODUCE and size < TO_ACKS and size < length + 4)
        ):
            return False
        if plan is not None or (self.noted and correlation_id in self.noted):
            if self.waiting >= MAX_NOTED:
                return False
            self.note(correlation_id, plan)
        if in_flight is not None:
            in_flight[correlation_id] = (key, data[:TO_ACKS] if key >> 16 == PRODUCE else b"")
        self.requests += 1
        self.request_rest = length + 4 - size
        return True

    def from_broker_passes(self, data: bytes) -> bool:
        """Whether these bytes from the broker may be forwarded at once.

        If not, the state of this object is unchanged.
        """
        size = len(data)
        if self.response_rest >= size:
            self.response_rest -= size
            return True
        if self.response_rest or not self.responses_known or size < 8:
            return False
        length = _number(data, 0)
        if length < 4 or length + 4 < size:
            return False
        correlation_id = _number(data, 4)
        in_flight = self.in_flight
        if in_flight is not None and not self.is_next(correlation_id):
            return False
        if self.noted:
            waiting = self.noted.get(correlation_id)
            if waiting is not None:
                if length + 4 > size or len(waiting) > 1 or not self.unchanged(waiting[0], data):
                    return False
                del self.noted[correlation_id]
                self.waiting -= 1
        if in_flight is not None:
            del in_flight[correlation_id]
        self.responses += 1
        self.response_rest = length + 4 - size
        return True

    def is_next(self, correlation_id: int) -> bool:
        """Whether this is the oldest request in `in_flight`, and no actor has begun to want its API since it passed."""
        if self.in_flight is None:
            return False
        for oldest, (key, _) in self.in_flight.items():
            return oldest == correlation_id and key in self.plans
        return False

    def note(self, correlation_id: int, plan: object) -> None:
        """Notes a request: its response needs the slow path, or shares its correlation id with such a response."""
        self.noted.setdefault(correlation_id, []).append(plan)
        self.waiting += 1

    def take(self, correlation_id: int) -> object:
        """Removes the oldest noted request with this correlation id; returns its plan, or None if there is none."""
        waiting = self.noted.get(correlation_id)
        if waiting is None:
            return None
        plan = waiting.pop(0)
        self.waiting -= 1
        if not waiting:
            del self.noted[correlation_id]
        return plan


def _number(data: bytes, at: int) -> int:
    """The signed big-endian number in the four bytes at `at`."""
    first = data[at]
    return ((first ^ 0x80) - 0x80) * 0x1000000 + (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])


class Notes:
    """Queues function calls that record traffic; the owner takes them in batches and makes them in order.

    `begun` is called at the first queued call. `full` is called at MOST_NOTES queued calls, at `most_bytes` bytes, or
    at SOME_NOTES queued calls if the newest records a response.
    """

    def __init__(self, most_bytes: int, begun: Callable[[], None], full: Callable[[], None]) -> None:
        self.most_bytes = most_bytes
        self.begun = begun
        self.full = full
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.size = 0

    def add(self, size: int, call: Callable[..., None], arguments: tuple[Any, ...], answer: bool = False) -> None:
        """Queues `call(*arguments)`, which records about `size` bytes; `answer` says that it records a response."""
        self.calls.append((call, arguments))
        self.size += size
        count = len(self.calls)
        if count >= (SOME_NOTES if answer else MOST_NOTES) or self.size >= self.most_bytes:
            self.full()
        elif count == 1:
            self.begun()

    def take(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """Empties the queue; returns (function, arguments) of each call, in order."""
        calls, self.calls = self.calls, []
        self.size = 0
        return calls


class Packets:
    """Packets of a recording that wait to be written together; `full` is called once they have `most_bytes` bytes."""

    def __init__(self, most_bytes: int, full: Callable[[], None]) -> None:
        self.most_bytes = most_bytes
        self.full = full
        self.buffers: list[bytes | bytearray | memoryview] = []
        self.size = 0
        self.count = 0

    def add(self, buffers: list[bytes | bytearray | memoryview], size: int, count: int) -> None:
        """Adds `count` packets, whose blocks are in `buffers` and have `size` bytes in total."""
        self.buffers += buffers
        self.size += size
        self.count += count
        if self.size >= self.most_bytes:
            self.full()

    def take(self) -> tuple[list[bytes | bytearray | memoryview], int, int]:
        """Removes all packets; returns (buffers, size in bytes, number of packets)."""
        taken = self.buffers, self.size, self.count
        self.buffers, self.size, self.count = [], 0, 0
        return taken


class Pair:
    """Makes packets from the bytes that both ends of a connection send: side 0 is the client, side 1 the broker.

    `directions` has one object for each side, with `sequence` and `block` as in `captures.formats.block.Template`. This
    class itself makes only plain packets, of at most `longest` bytes and without a comment; `add_unlike` makes all
    others.
    """

    def __init__(self, packets: Packets, directions: tuple[Any, Any], longest: int) -> None:
        self.packets = packets
        self.directions = directions
        self.longest = longest
        self.ended = [False, False]
        self.speaking = 0
        """The side (0 or 1) that sent the most recent bytes."""
        self.unacknowledged = 0
        """Number of bytes that this side has sent since the other side last sent some."""

    def add_data(
        self, now: int, side: int, data: bytes | memoryview, comment: str | None = None, beyond: int = 0
    ) -> None:
        """Makes packets of `data`, which `side` sent at time `now` (ns).

        The last packet gets the comment. `beyond` further bytes were sent and are not recorded; packets count them in
        their original length.
        """
        size = len(data) + beyond
        if not size or self.ended[side]:
            return
        if side != self.speaking:
            self.speaking = side
            self.unacknowledged = 0
        self.unacknowledged += size
        if (
            size > self.longest
            or beyond
            or comment is not None
            or self.unacknowledged > UNACKNOWLEDGED
            or type(data) is not bytes
        ):
            self.add_unlike(now, side, data, comment, beyond)
            return
        block = self.directions[side].block(now, data, self.directions[1 - side].sequence)
        self.packets.add([block], len(block), 1)

    def add_unlike(self, now: int, side: int, data: bytes | memoryview, comment: str | None, beyond: int) -> None:
        """Makes packets of bytes that do not fit into one plain packet; the arguments are those of `add_data`."""
        raise NotImplementedError


class Side:
    """Receives the bytes of one end of a relayed connection: side 0 is the client, side 1 the broker.

    `other` is the other end; `transport` writes to this end. With `passing` set, bytes that may pass unchanged are
    written straight to the other end. With `notes` set as well, a call of `record(time in ns, side, bytes)` is queued
    there for each write. `passed` is the relay's list of [bytes from clients, bytes from brokers].
    """

    def __init__(self, side: int, passed: list[int]) -> None:
        self.side = side
        self.passed = passed
        self.other: Side | None = None
        self.transport: Any = None
        self.passing: Passing | None = None
        self.notes: Notes | None = None
        self.record: Callable[..., None] | None = None

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with bytes that this end has sent."""
        passing, other = self.passing, self.other
        if (
            passing is None
            or passing.stopped
            or other is None
            or other.transport is None
            or not (passing.from_broker_passes(data) if self.side else passing.from_client_passes(data))
        ):
            self.unlike(data)
            return
        other.transport.write(data)
        notes = self.notes
        if notes is not None and self.record is not None:
            notes.add(len(data), self.record, (time_ns(), self.side, data), self.side == 1)
        self.passed[self.side] += len(data)

    def unlike(self, data: bytes) -> None:
        """Handles bytes of this end that cannot take the fast path."""
        raise NotImplementedError
