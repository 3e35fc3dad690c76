"""Cuts the bytes of one direction into frames held for actors and bytes that pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kproxy.core.protocols import no_frame
from kproxy.core.shared import Shared
from kproxy.core.verdict import Turn

SIZE = 4
"""Size in bytes of a frame's length field."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to send on. `at` is their offset in the data passed to `feed`, negative if they begin in earlier data.

    `turn` is set if the bytes are a whole frame that was held for the actors.
    """

    data: bytes
    at: int
    turn: Turn | None = None


class Cutter:
    """Splits the bytes of one direction into whole frames held for actors and bytes that pass unchanged.

    `wanted(start, size)` gets the first bytes of a frame of `size` bytes, the length field included. It returns the
    turn of a frame to hold, None for a frame that passes, or the number of bytes that it needs to decide.
    `passed(turn, reason)` is called for a frame that should have been held and could not be.

    With `split`, no piece holds bytes of two frames.
    """

    def __init__(
        self,
        head: int,
        wanted: Callable[[bytes, int], Turn | int | None],
        passed: Callable[[Turn, str], None],
        shared: Shared,
    ) -> None:
        """`head` is the number of bytes after the length field that `wanted` gets at least."""
        self.split = False
        self._head = SIZE + head
        self._wanted = wanted
        self._passed = passed
        self._hold_max = shared.hold_max
        self._budget = shared.budget
        self._waiting = bytearray()
        """The bytes of the current frame that have arrived and are held back."""
        self._needed = SIZE
        """Length of `_waiting` at which `_judge` can decide next."""
        self._turn: Turn | None = None
        """The turn of the frame that is being held; None if no frame is."""
        self._taken = 0
        """Bytes reserved from the budget."""
        self._passing = 0
        """Bytes of the current frame that are still to arrive and pass unchanged."""
        self._first = True
        self._opaque = False

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._passing

    @property
    def passes(self) -> bool:
        """Whether no bytes are held back, and the stream is known to consist of frames."""
        return not (self._waiting or self._first or self._opaque)

    def resume(self, rest: int) -> None:
        """Continue after bytes that this object has not seen; `rest` bytes of their last frame are still to arrive."""
        self._passing = rest

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Take the next bytes; yields the pieces to send on, made of these bytes and of bytes held earlier."""
        size = len(data)
        if self._opaque or self._passing >= size:
            self._passing = max(0, self._passing - size)
            yield Piece(data, 0)
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
                if self.split and not self._passing:
                    yield Piece(bytes(out), out_at)
                    out.clear()
                continue
            taken = min(size - position, self._needed - len(self._waiting))
            self._waiting += data[position : position + taken]
            position += taken
            whole = self._judge(taken)
            if whole is None:
                continue
            turn, at = self._turn, position - len(self._waiting)
            waiting = self.release()
            if whole:
                if out:
                    yield Piece(bytes(out), out_at)
                    out.clear()
                yield Piece(waiting, at, turn)
            else:
                out_at = out_at if out else at
                out += waiting
                if self.split and not self._passing:
                    yield Piece(bytes(out), out_at)
                    out.clear()
        if out:
            yield Piece(bytes(out), out_at)

    def _judge(self, taken: int) -> bool | None:
        """Decides what to do with the held bytes, after `taken` bytes were added to them.

        Returns True if they are a whole frame for the actors, None if more bytes are needed. Returns False if they pass
        unchanged, and so do the next `_passing` bytes.
        """
        waiting = self._waiting
        if self._turn is None:
            if len(waiting) < self._needed:
                return None
            length = int.from_bytes(waiting[:SIZE], "big", signed=True)
            if no_frame(bytes(waiting), length, first=self._first):
                self._opaque = True
                return False
            self._first = False
            size = SIZE + length
            if len(waiting) < self._head <= size:
                self._needed = self._head
                return None
            found = self._wanted(bytes(waiting), size) if size >= self._head else None
            if isinstance(found, int):
                self._needed = found
                return None
            if found is not None and size > self._hold_max:
                self._passed(found, "the frame is longer than --hold-max")
                found = None
            self._turn = found
            if found is None:
                self._passing = size - len(waiting)
                return False
            self._needed = size
            taken = len(waiting)
        if not self._budget.take(taken):
            self._passing = self._needed - len(waiting)
            assert self._turn is not None  # noqa: S101 (set above, or by an earlier call)
            self._passed(self._turn, "no memory is left to hold it (--memory)")
            return False
        self._taken += taken
        return True if len(waiting) == self._needed else None

    def release(self) -> bytes:
        """Empties the held bytes, returns them unchanged and gives their memory back to the budget."""
        waiting = bytes(self._waiting)
        self._waiting.clear()
        self._budget.give(self._taken)
        self._taken = 0
        self._turn = None
        self._needed = SIZE
        return waiting
