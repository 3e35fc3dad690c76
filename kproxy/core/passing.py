"""What passes as it comes, which nearly everything does: from the callback that brings bytes to the other transport.

Every read of every connection goes this way, and somebody waits for it: so little is done before bytes are sent, little
after it, and what is not like most is left to others (`Side.unlike`). So goes what is recorded of it (`Pair`). Plain
Python, and where there is a C compiler the source of the extension `_passing` as well: setup.py compiles it with the C
types of passing.pxd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

MAX_NOTED = 4096
"""Most noted requests of one connection that wait for their responses."""
SHORTEST_REQUEST = 8
"""Less is no request but a bare SASL token."""
SOME_NOTES, MOST_NOTES = 8, 64
"""What is recorded at once, after an answer and at most: so long the next message waits for it, which mostly is a while
away when the one before was an answer."""

UNACKNOWLEDGED = 1 << 28
"""Bytes in one direction after which the other side acknowledges, so that no window ever looks full."""


class Passing:
    """Where the two directions of a connection are, in frames, and which responses are not to pass as they come.

    `plans` say what becomes of responses, by API key << 16 | version: None is nothing. `unchanged(plan, frame)` tells
    of a whole response whether it leaves as it came all the same.
    """

    def __init__(self, plans: Mapping[int, object], unchanged: Callable[[Any, bytes], bool]) -> None:
        self.plans = plans
        self.unchanged = unchanged
        self.noted: dict[int, list[Any]] = {}
        """By correlation id the plans of requests whose responses do not pass as they come."""
        self.waiting = 0
        """How many plans `noted` has."""
        self.request_rest = 0
        """Bytes of the current frame that are still to come."""
        self.response_rest = 0
        self.requests_known = False
        """Whether a frame begins where none is left to come; without, it is left to others to find out."""
        self.responses_known = False
        self.requests = 0
        self.responses = 0

    def from_client_passes(self, data: bytes) -> bool:
        """Whether bytes of the client leave at once: then they have been seen, else nothing has."""
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
        """Whether bytes of the broker leave at once: then they have been seen, else nothing has."""
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
        """Notes a request whose response does not pass as it comes, or one with the id of such a request."""
        self.noted.setdefault(correlation_id, []).append(plan)
        self.waiting += 1

    def take(self, correlation_id: int) -> object:
        """The plan of the oldest noted request with this id, which is no longer noted; None where there is none."""
        waiting = self.noted.get(correlation_id)
        if waiting is None:
            return None
        plan = waiting.pop(0)
        self.waiting -= 1
        if not waiting:
            del self.noted[correlation_id]
        return plan


def _number(data: bytes, at: int) -> int:
    """A signed number of four bytes."""
    first = data[at]
    return ((first ^ 0x80) - 0x80) * 0x1000000 + (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])


class Notes:
    """What is to be recorded, in order: calls that are made later, many at once.

    `begun` is called with the first of them; `full` when there are MOST_NOTES, or SOME_NOTES and the last is of an
    answer, or they have `most_bytes` bytes.
    """

    def __init__(self, most_bytes: int, begun: Callable[[], None], full: Callable[[], None]) -> None:
        self.most_bytes = most_bytes
        self.begun = begun
        self.full = full
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.size = 0

    def add(self, size: int, call: Callable[..., None], arguments: tuple[Any, ...], answer: bool = False) -> None:
        """Has `call(*arguments)` record about `size` bytes."""
        self.calls.append((call, arguments))
        self.size += size
        count = len(self.calls)
        if count >= (SOME_NOTES if answer else MOST_NOTES) or self.size >= self.most_bytes:
            self.full()
        elif count == 1:
            self.begun()

    def take(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """All of them; they are no longer here."""
        calls, self.calls = self.calls, []
        self.size = 0
        return calls


class Packets:
    """Blocks of a recording that wait to be written together; `full` is called when they have `most_bytes` bytes."""

    def __init__(self, most_bytes: int, full: Callable[[], None]) -> None:
        self.most_bytes = most_bytes
        self.full = full
        self.buffers: list[bytes | bytearray | memoryview] = []
        self.size = 0
        self.count = 0

    def add(self, buffers: list[bytes | bytearray | memoryview], size: int, count: int) -> None:
        """`count` packets of `size` bytes together."""
        self.buffers += buffers
        self.size += size
        self.count += count
        if self.size >= self.most_bytes:
            self.full()

    def take(self) -> tuple[list[bytes | bytearray | memoryview], int, int]:
        """(buffers, size, count) of all of them; they are no longer here."""
        taken = self.buffers, self.size, self.count
        self.buffers, self.size, self.count = [], 0, 0
        return taken


class Pair:
    """Makes packets of what both ends of a connection send, 0 the client and 1 the broker, each by its direction.

    A `direction` has `sequence` and `block`, as `captures.formats.block.Template` has them. Only what is like most is
    made here: no more than `longest` bytes, and nothing to say of them.
    """

    def __init__(self, packets: Packets, directions: tuple[Any, Any], longest: int) -> None:
        self.packets = packets
        self.directions = directions
        self.longest = longest
        self.ended = [False, False]
        self.speaking = 0
        """Which side sent the last bytes."""
        self.unacknowledged = 0
        """How many it has sent since the other last sent some."""

    def add_data(
        self, now: int, side: int, data: bytes | memoryview, comment: str | None = None, beyond: int = 0
    ) -> None:
        """Bytes that `side` sent; the comment goes to the last packet of them, `beyond` more were there."""
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
        """As `add_data`, of what others are to make packets of."""
        raise NotImplementedError


class Side:
    """One of the two ends of a connection that is passed on, 0 the client's and 1 the broker's: their bytes come here.

    `other` is the other end, `transport` how this one is written to. With `passing` set, what passes goes straight to
    the other end, and with `notes` a call of `record` is noted for it: (time in ns, side, bytes). `passed` counts the
    bytes of both ends of all connections.
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
        """As asyncio's protocols have it."""
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
        """Bytes that others are to look at."""
        raise NotImplementedError
