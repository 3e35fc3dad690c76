"""The fast path for bytes that pass unchanged: from asyncio's `data_received` to a write to the other transport.

Nearly all reads of all connections take this path, and a peer waits for each of them. So little work is done before the
write and little after it; unusual bytes go to the slow path (`Side.unlike`). The recorder has a fast path here as well
(`Pair`). This file runs as plain Python; where there is a C compiler, setup.py also compiles it as the extension
`_passing`, with the C types of passing.pxd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

MAX_NOTED = 4096
"""Largest number of noted requests of one connection that wait for their responses."""
SHORTEST_REQUEST = 8
"""Bytes behind the length field; a shorter frame is a bare SASL token."""
SOME_NOTES, MOST_NOTES = 8, 64
"""Notes that are recorded in one batch: SOME_NOTES after a response, else MOST_NOTES.

Recording a batch delays the next message. After a response the next message is usually some time away, so smaller
batches are flushed there.
"""

UNACKNOWLEDGED = 1 << 28
"""Bytes in one direction after which the recording has an acknowledgement, so that no TCP window ever looks full."""


class Passing:
    """The frame positions of both directions of a connection, and the responses that need the slow path.

    `plans` maps API key << 16 | version to how its responses are treated; None lets them pass unchanged.
    `unchanged(plan, frame)` returns whether a whole response with a plan may still leave unchanged.
    """

    def __init__(self, plans: Mapping[int, object], unchanged: Callable[[Any, bytes], bool]) -> None:
        self.plans = plans
        self.unchanged = unchanged
        self.noted: dict[int, list[Any]] = {}
        """Plans by correlation id, of the requests whose responses need the slow path."""
        self.waiting = 0
        """Number of plans in `noted`."""
        self.request_rest = 0
        """Bytes of the current request that are still to come."""
        self.response_rest = 0
        """Bytes of the current response that are still to come."""
        self.requests_known = False
        """Whether the next byte after the current request begins a frame; if False, the slow path decides."""
        self.responses_known = False
        """As `requests_known`, for responses."""
        self.requests = 0
        self.responses = 0

    def from_client_passes(self, data: bytes) -> bool:
        """Whether these bytes of the client may leave at once. The state changes only where they may."""
        size = len(data)
        if self.request_rest >= size:
            self.request_rest -= size
            return True
        if self.request_rest or not self.requests_known or size < 12:
            return False
        length = _number(data, 0)
        if length < SHORTEST_REQUEST or length + 4 < size:
            return False
        plan = self.plans.get(_number(data, 4), self)
        if plan is self:
            return False
        correlation_id = _number(data, 8)
        if plan is not None or (self.noted and correlation_id in self.noted):
            if self.waiting >= MAX_NOTED:
                return False
            self.note(correlation_id, plan)
        self.requests += 1
        self.request_rest = length + 4 - size
        return True

    def from_broker_passes(self, data: bytes) -> bool:
        """Whether these bytes of the broker may leave at once. The state changes only where they may."""
        size = len(data)
        if self.response_rest >= size:
            self.response_rest -= size
            return True
        if self.response_rest or not self.responses_known or size < 8:
            return False
        length = _number(data, 0)
        if length < 4 or length + 4 < size:
            return False
        if self.noted:
            correlation_id = _number(data, 4)
            waiting = self.noted.get(correlation_id)
            if waiting is not None:
                if length + 4 > size or len(waiting) > 1 or not self.unchanged(waiting[0], data):
                    return False
                del self.noted[correlation_id]
                self.waiting -= 1
        self.responses += 1
        self.response_rest = length + 4 - size
        return True

    def note(self, correlation_id: int, plan: object) -> None:
        """Notes a request whose response needs the slow path, or that shares its correlation id with one."""
        self.noted.setdefault(correlation_id, []).append(plan)
        self.waiting += 1

    def take(self, correlation_id: int) -> object:
        """Removes the oldest noted request with this id and returns its plan; None if there is no such request."""
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
    """Queue of calls that record traffic, made later in batches and in order.

    `begun` is called when the first note arrives. `full` is called at MOST_NOTES notes, at SOME_NOTES notes if the last
    one is of a response, or at `most_bytes` bytes.
    """

    def __init__(self, most_bytes: int, begun: Callable[[], None], full: Callable[[], None]) -> None:
        self.most_bytes = most_bytes
        self.begun = begun
        self.full = full
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.size = 0

    def add(self, size: int, call: Callable[..., None], arguments: tuple[Any, ...], answer: bool = False) -> None:
        """Queues `call(*arguments)`, which records about `size` bytes; `answer` says that they are of a response."""
        self.calls.append((call, arguments))
        self.size += size
        count = len(self.calls)
        if count >= (SOME_NOTES if answer else MOST_NOTES) or self.size >= self.most_bytes:
            self.full()
        elif count == 1:
            self.begun()

    def take(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """Removes all queued calls and returns them."""
        calls, self.calls = self.calls, []
        self.size = 0
        return calls


class Packets:
    """Blocks of a recording that wait to be written together; `full` is called once they have `most_bytes` bytes."""

    def __init__(self, most_bytes: int, full: Callable[[], None]) -> None:
        self.most_bytes = most_bytes
        self.full = full
        self.buffers: list[bytes | bytearray | memoryview] = []
        self.size = 0
        self.count = 0

    def add(self, buffers: list[bytes | bytearray | memoryview], size: int, count: int) -> None:
        """Adds `count` packets, which have `size` bytes in total."""
        self.buffers += buffers
        self.size += size
        self.count += count
        if self.size >= self.most_bytes:
            self.full()

    def take(self) -> tuple[list[bytes | bytearray | memoryview], int, int]:
        """Removes all packets and returns (buffers, size in bytes, number of packets)."""
        taken = self.buffers, self.size, self.count
        self.buffers, self.size, self.count = [], 0, 0
        return taken


class Pair:
    """Makes packets of the bytes that both ends of a connection send: side 0 is the client, side 1 the broker.

    `directions` has one object for each side, with `sequence` and `block` as in `captures.formats.block.Template`. This
    class makes only plain packets, of at most `longest` bytes and without a comment; `add_unlike` makes all others.
    """

    def __init__(self, packets: Packets, directions: tuple[Any, Any], longest: int) -> None:
        self.packets = packets
        self.directions = directions
        self.longest = longest
        self.ended = [False, False]
        self.speaking = 0
        """The side that sent the last bytes."""
        self.unacknowledged = 0
        """Bytes that this side sent since the other side last sent some."""

    def add_data(
        self, now: int, side: int, data: bytes | memoryview, comment: str | None = None, beyond: int = 0
    ) -> None:
        """Records bytes that `side` sent. The last packet gets the comment; `beyond` further bytes are left out."""
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
        """Records bytes that do not fit into one plain packet; arguments as in `add_data`."""
        raise NotImplementedError


class Side:
    """Receives the bytes of one end of a relayed connection: side 0 is the client, side 1 the broker.

    `other` is the other end; `transport` writes to this one. With `passing` set, bytes that may pass unchanged are
    written straight to the other end; with `notes` set as well, a call of `record` with (time in ns, side, bytes) is
    queued for them. `passed` counts the bytes of each side over all connections.
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
        """Called by asyncio with bytes of this end."""
        passing, other = self.passing, self.other
        if (
            passing is None
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
        """Handles bytes that cannot take the fast path."""
        raise NotImplementedError
