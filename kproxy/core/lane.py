"""Orders the frames of one direction: they are sent in order, some not before a given time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from kproxy.core.commands import Command, Cut, Notice, ToBroker, ToClient
from kproxy.core.shared import Budget
from kproxy.core.verdict import Asking, Pace, Wait


class Lane:
    """Queues commands behind those that wait; `clock` gives the time in seconds.

    The bytes that wait are bounded by `budget`: if it is used up, all waits end early and a notice names the rule.
    """

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._queue: deque[tuple[Sequence[Command], int, Wait | None]] = deque()

    @property
    def empty(self) -> bool:
        return not self._queue

    @property
    def next(self) -> float | None:
        """The time at which the next commands may be sent; None if nothing waits."""
        if not self._queue:
            return None
        wait = self._queue[0][2]
        return 0.0 if wait is None or wait.over else wait.until

    def put(self, commands: Sequence[Command], wait: Wait | None = None, pace: Pace | None = None) -> list[Command]:
        """Queue commands; returns those that may be sent now.

        With `pace`, each frame among them leaves in pieces, unless `wait` is for a decision: that frame leaves whole.
        """
        if pace is not None and commands and not isinstance(wait, Asking):
            return self._put([*([([], wait)] if wait is not None else ()), *_paced(commands, pace)])
        if pace is not None:
            pace.done()
        if not self._queue and wait is None:
            return list(commands)
        return self._put([(commands, wait)])

    def _put(self, entries: Sequence[tuple[Sequence[Command], Wait | None]]) -> list[Command]:
        sizes = [_size(commands) for commands, _ in entries]
        if not self._budget.take(sum(sizes)):
            waits = [wait for _, wait in entries if wait is not None]
            names = [one.by for _, _, one in self._queue if one is not None] + [wait.by for wait in waits]
            for wait in waits:
                wait.done()
            text = f"cannot hold more frames for {names[0]}: --memory is used up; all held frames are sent at once"
            commands = [one for some, _ in entries for one in some]
            return [*self.end(), *commands, Notice(f"lane-{names[0]}", text, once=True)]
        self._queue.extend((commands, size, wait) for (commands, wait), size in zip(entries, sizes, strict=True))
        return self.due()

    def due(self) -> list[Command]:
        """Remove and return the commands that may be sent now."""
        found: list[Command] = []
        while self._queue:
            commands, size, wait = self._queue[0]
            if wait is not None and not wait.over:
                if self._clock() < wait.until:
                    break
                if isinstance(wait, Pace) and len(self._queue) > 1 and self._queue[1][2] is wait:
                    wait.until = self._clock() + wait.gap
                else:
                    wait.over = True
                if wait.held:
                    text = f"had a frame that {wait.by} held until its deadline: nobody released it, so it was sent"
                    found.append(Notice(f"deadline-{wait.by}", text, once=True))
            self._queue.popleft()
            self._budget.give(size)
            found += _decided(commands, wait)
            if wait is not None and wait.over:
                wait.done()
            if any(isinstance(one, Cut) for one in found):
                self._drop()
        return found

    def _drop(self) -> None:
        """Forget everything that waits behind the end of the connection."""
        while self._queue:
            _, size, wait = self._queue.popleft()
            self._budget.give(size)
            if wait is not None:
                wait.done()

    def end(self) -> list[Command]:
        """End all waits; returns all commands."""
        found: list[Command] = []
        while self._queue:
            commands, size, wait = self._queue.popleft()
            self._budget.give(size)
            if wait is not None:
                wait.done()
            found += commands
        return found


def _decided(commands: Sequence[Command], wait: Wait | None) -> Sequence[Command]:
    """The queued commands, or after a decision about an intercepted frame, the commands of its verdict."""
    if isinstance(wait, Asking) and wait.decided is not None and wait.carry_out is not None:
        return wait.carry_out(wait.decided)
    return commands


def _paced(commands: Sequence[Command], pace: Pace) -> Iterator[tuple[Sequence[Command], Pace]]:
    """Yields each command alone, and each frame in pieces; all of them wait for `pace`."""
    for command in commands:
        if isinstance(command, ToBroker):
            first, *others = pace.pieces(command.data)
            yield [ToBroker(first, command.comment)], pace
            yield from (([ToBroker(piece)], pace) for piece in others)
        elif isinstance(command, ToClient):
            yield from (([ToClient(piece)], pace) for piece in pace.pieces(command.data))
        else:
            yield [command], pace


def _size(commands: Sequence[Command]) -> int:
    """The number of bytes in commands."""
    return sum(len(one.data) for one in commands if isinstance(one, ToBroker | ToClient))
