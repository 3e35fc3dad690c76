"""A connection whose frames are offered to actors.

Frames of the APIs that an actor names are held until they are whole and then passed to the actor; all other bytes pass
at once. Bytes go through the actors first and then through `Connection`, so that addresses are rewritten after the
actors' changes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from kproxy.core.connection import (
    Changed,
    Command,
    Connection,
    Shared,
    ToBroker,
    changed_comment,
    no_frame,
)
from kproxy.core.leaks import Address
from kproxy.core.passing import MAX_NOTED
from kproxy.core.rewrite import Change
from kproxy.decoders.stream import Side

_SIZE = 4
_REQUEST = struct.Struct(">hhi")
_RESPONSE = struct.Struct(">i")


class Actors(Protocol):
    """The interface to a relay's actors that `ActedConnection` needs."""

    def act_on(self, side: Side, api_key: int) -> bool:
        """Whether an actor wants frames of this API that `side` sends, so that they must be held."""

    def offer(
        self, side: Side, api_key: int, api_version: int, frame: bytes, client: str, broker: str
    ) -> tuple[bytes, tuple[Change, ...]]:
        """Passes a whole frame to the actors; returns (the frame to send instead, the changed fields). Never raises."""

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        """Called when a frame could not be held and was forwarded without passing the actors; `reason` says why."""


Api = tuple[int, int]
"""(API key, API version)"""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes to send on. `at` is their offset in the data passed to `feed`, negative if they begin in earlier data.

    `api` is set if the bytes are a whole frame that was held for the actors.
    """

    data: bytes
    at: int
    api: Api | None = None


class _Cutter:
    """Splits the bytes of one direction into whole frames held for actors and bytes that pass unchanged.

    `wanted(head)` returns the (API key, version) of a frame to hold, None for other frames. `passed(api, reason)` is
    called for a frame that should have been held and could not be.
    """

    def __init__(
        self, head: int, wanted: Callable[[bytes], Api | None], passed: Callable[[Api, str], None], shared: Shared
    ) -> None:
        """`head` is the number of bytes after the length field that `wanted` needs."""
        self._head = _SIZE + head
        self._wanted = wanted
        self._passed = passed
        self._hold_max = shared.hold_max
        self._budget = shared.budget
        self._waiting = bytearray()
        """The bytes of the current frame that have arrived and are held back."""
        self._needed = _SIZE
        """Length of `_waiting` at which `_judge` can decide next."""
        self._api: Api | None = None
        """(API key, version) of the frame that is being held; None if no frame is."""
        self._taken = 0
        """Bytes reserved from the budget."""
        self._passing = 0
        """Bytes of the current frame that are still to arrive and pass unchanged."""
        self._first = True
        self._opaque = False

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._passing

    def feed(self, data: bytes) -> Iterator[_Piece]:
        """Takes the next bytes; yields the pieces to send on, made of these bytes and of bytes held earlier."""
        size = len(data)
        if self._opaque or self._passing >= size:
            self._passing = max(0, self._passing - size)
            yield _Piece(data, 0)
            return
        position = out_at = 0
        out = bytearray()
        while position < size:
            if self._passing or self._opaque:
                taken = size - position if self._opaque else min(self._passing, size - position)
                self._passing = max(0, self._passing - taken)
                out_at = out_at if out else position
                out += data[position : position + taken]
                position += taken
                continue
            taken = min(size - position, self._needed - len(self._waiting))
            self._waiting += data[position : position + taken]
            position += taken
            whole = self._judge(taken)
            if whole is None:
                continue
            api, at = self._api, position - len(self._waiting)
            waiting = self.release()
            if whole:
                if out:
                    yield _Piece(bytes(out), out_at)
                    out.clear()
                yield _Piece(waiting, at, api)
            else:
                out_at = out_at if out else at
                out += waiting
        if out:
            yield _Piece(bytes(out), out_at)

    def _judge(self, taken: int) -> bool | None:
        """Decides what to do with the held bytes, after `taken` bytes were added to them.

        Returns True if they are a whole frame for the actors, None if more bytes are needed. Returns False if they pass
        unchanged, and so do the next `_passing` bytes.
        """
        waiting = self._waiting
        if self._api is None:
            if len(waiting) < self._needed:
                return None
            length = int.from_bytes(waiting[:_SIZE], "big", signed=True)
            if no_frame(bytes(waiting), length, first=self._first):
                self._opaque = True
                return False
            self._first = False
            size = _SIZE + length
            if len(waiting) < self._head <= size:
                self._needed = self._head
                return None
            self._api = self._held(bytes(waiting[_SIZE:]), size) if size >= self._head else None
            if self._api is None:
                self._passing = size - len(waiting)
                return False
            self._needed = size
            taken = len(waiting)
        if not self._budget.take(taken):
            self._passing = self._needed - len(waiting)
            self._passed(self._api, "no memory is left to hold it (--memory)")
            return False
        self._taken += taken
        return True if len(waiting) == self._needed else None

    def _held(self, head: bytes, size: int) -> Api | None:
        """(API key, version) of a frame of `size` bytes if it must be held; None if it passes."""
        api = self._wanted(head)
        if api is not None and size > self._hold_max:
            self._passed(api, "the frame is longer than --hold-max")
            return None
        return api

    def release(self) -> bytes:
        """Empties the held bytes, returns them unchanged and gives their memory back to the budget."""
        waiting = bytes(self._waiting)
        self._waiting.clear()
        self._budget.give(self._taken)
        self._taken = 0
        self._api = None
        self._needed = _SIZE
        return waiting


class ActedConnection(Connection):
    """A connection between `client` and `broker` ("host:port") whose frames are offered to actors."""

    as_it_comes = False

    def __init__(self, shared: Shared, own_host: str, actors: Actors, client: str, broker: str) -> None:
        super().__init__(shared, own_host)
        self._actors = actors
        self._parties = client, broker
        self._asked: dict[int, list[Api]] = {}
        """(API key, version) of the requests in flight whose responses may be held, by correlation id, oldest first."""
        self._up = _Cutter(_REQUEST.size, self._request_wanted, self._request_passed, shared)
        self._down = _Cutter(_RESPONSE.size, self._response_wanted, self._response_passed, shared)

    @property
    def idle(self) -> bool:
        return super().idle and self._up.idle and self._down.idle

    def from_client(self, data: bytes) -> list[Command]:
        commands: list[Command] = []
        for piece in self._up.feed(data):
            new, changes = self._offered(Side.CLIENT, piece)
            inner = super().from_client(new)
            if changes:
                inner[0] = ToBroker(new, changed_comment("broker", changes))
            commands += inner
        return commands

    def from_broker(self, data: bytes) -> list[Command]:
        commands: list[Command] = []
        for piece in self._down.feed(data):
            new, changes = self._offered(Side.BROKER, piece)
            end = piece.at + len(piece.data)
            rewritten: tuple[Change, ...] = ()
            leaked: Address | None = None
            withheld = ""
            for command in super().from_broker(new):
                if not isinstance(command, Changed):
                    commands.append(command)
                elif piece.api is None:
                    start = max(0, command.start + piece.at)
                    commands.append(replace(command, start=start, end=command.end + piece.at))
                else:
                    rewritten, leaked, withheld = command.changes, command.leaked, command.withheld
            if changes or rewritten or leaked is not None or withheld:
                commands.append(Changed(max(0, piece.at), end, (*changes, *rewritten), leaked, withheld))
        return commands

    def client_ended(self) -> list[Command]:
        waiting = self._up.release()
        return super().from_client(waiting) if waiting else []

    def broker_ended(self) -> list[Command]:
        waiting = self._down.release()
        return [*(super().from_broker(waiting) if waiting else ()), *super().broker_ended()]

    def dropped(self) -> None:
        self._up.release()
        self._down.release()
        super().dropped()

    def _offered(self, side: Side, piece: _Piece) -> tuple[bytes, tuple[Change, ...]]:
        if piece.api is None:
            return piece.data, ()
        return self._actors.offer(side, *piece.api, piece.data, *self._parties)

    def _request_wanted(self, head: bytes) -> Api | None:
        api_key, version, correlation_id = _REQUEST.unpack(head)
        api = api_key, version
        answered = self._actors.act_on(Side.BROKER, api_key)
        if answered or correlation_id in self._asked:
            self._asked.setdefault(correlation_id, []).append(api)
            if len(self._asked) > MAX_NOTED:
                del self._asked[next(iter(self._asked))]
        return api if self._actors.act_on(Side.CLIENT, api_key) else None

    def _response_wanted(self, head: bytes) -> Api | None:
        (correlation_id,) = _RESPONSE.unpack(head)
        waiting = self._asked.get(correlation_id)
        if waiting is None:
            return None
        api = waiting.pop(0)
        if not waiting:
            del self._asked[correlation_id]
        return api if self._actors.act_on(Side.BROKER, api[0]) else None

    def _request_passed(self, api: Api, reason: str) -> None:
        self._actors.passed(Side.CLIENT, *api, reason)

    def _response_passed(self, api: Api, reason: str) -> None:
        self._actors.passed(Side.BROKER, *api, reason)
