"""The text of a reading made by several processes, byte for byte what one process writes.

One process reads. For each chunk of what it has read it forks another, which has the chunk and all that leads to it in
its memory, makes the text, and writes it to the output when its turn comes: each process gets the turn from the one
before and passes it on. So nothing is copied between them but facts (`Knowledge`) and counts.

The text of a chunk depends on what was learnt before it. The reading process learns what it can without making text,
and a process that it forks takes that for the truth. What is true comes with the turn; where it is something else, the
text is made again.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NoReturn, Protocol

from decoders.exchange import Exchange, StreamProblem
from decoders.knowledge import Knowledge

CHUNK_ITEMS: Final = 4096
CHUNK_BYTES: Final = 8 << 20
"""A chunk ends with the item that reaches either: items, or bytes of their frames."""
WAITING: Final = 2
"""Processes that there are for each one that may make text at a time: the text of the others waits for its turn."""
MOST_JOBS: Final = 8
"""Reading is one process's, so that more do not help."""

MADE: Final = b"\n"
"""What a process says when its text is made: a space of the JSON that follows, so that it may be said again."""

Item = Exchange | StreamProblem


class WorkerError(Exception):
    """A process that makes text failed or was killed; what comes before its chunk was written."""


class Work(Protocol):
    """What is made of the items of a reading."""

    @property
    def knowledge(self) -> Knowledge | None:
        """What the text of an item depends on beside the item; None where on nothing."""
        ...

    @property
    def counts(self) -> list[int]:
        """What is counted while text is made."""
        ...

    @counts.setter
    def counts(self, counts: list[int]) -> None: ...

    def texts(self, items: Sequence[Item]) -> Iterable[bytes]:
        """The text of the next items of the reading; it learns from them."""
        ...

    def learn(self, items: Sequence[Item]) -> None:
        """Learn from items without making text."""
        ...


def usable_cores() -> int:
    """Cores that this process may use, 1 where a process cannot be forked safely."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def write(work: Work, batches: Iterable[Sequence[Item]], out: BinaryIO, jobs: int) -> None:
    """Write the text of the batches of a reading, made by up to `jobs` processes at a time (at least 2).

    `out` has a file descriptor, and this process no other thread. What the processes count is in the work's counts
    afterwards. Raises what writing raises, and WorkerError.
    """
    relay = _Relay(work, out, jobs)
    began = False
    try:
        for batch in batches:
            for items in chunks(batch):
                if began:
                    relay.start(items)
                    work.learn(items)
                else:  # What is compiled for the first ones, all processes inherit.
                    out.writelines(work.texts(items))
                    began = True
        relay.finish()
    finally:
        relay.stop()


def chunks(batch: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The parts of a batch, each for one process."""
    start = size = 0
    for index, item in enumerate(batch):
        if isinstance(item, Exchange):
            size += sum(frame.size for frame in (item.request, item.response) if frame is not None)
        if size >= CHUNK_BYTES or index - start >= CHUNK_ITEMS - 1:
            yield batch[start : index + 1]
            start, size = index + 1, 0
    if start < len(batch):
        yield batch[start:]


@dataclass(slots=True)
class _Child:
    """A forked process; `report` is the pipe in which it says that its text is made, and then how it went."""

    pid: int
    report: int
    busy: bool = True
    """Its text is not made yet."""


class _Relay:
    """The forked processes, in the order of their chunks."""

    def __init__(self, work: Work, out: BinaryIO, jobs: int) -> None:
        self._work = work
        self._out = out
        self._jobs = jobs
        self._children: deque[_Child] = deque()
        self._turn: int | None = None
        """The pipe by which the next process gets its turn; None where it has it at once."""

    def start(self, items: Sequence[Item]) -> None:
        """Fork a process for the next items."""
        self._make_room()
        self._out.flush()  # else the text would be there twice
        turn, (next_turn, pass_on), (report, tell) = self._turn, os.pipe(), os.pipe()
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid = os.fork()
        if not pid:
            self._child(items, turn, pass_on, tell, parent)
        self._children.append(_Child(pid, report))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        # A pipe ends when the process that writes to it does, so no other one may hold it open.
        for used in (turn, pass_on, tell):
            if used is not None:
                os.close(used)
        self._turn = next_turn

    def _make_room(self) -> None:
        """Wait until fewer than `jobs` processes make text, and few hold text that waits for its turn."""
        while len(self._children) >= WAITING * self._jobs:
            self._end_first()
        while sum(child.busy for child in self._children) >= self._jobs:
            busy = {child.report: child for child in self._children if child.busy}
            for report in select.select(busy, [], [])[0]:
                _made(report)
                busy[report].busy = False

    def finish(self) -> None:
        """Wait for all of them. Raises what went wrong in the first that failed."""
        self._drop_turn()
        while self._children:
            self._end_first()

    def stop(self) -> None:
        """End those that are still there."""
        self._drop_turn()
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        while self._children:
            child = self._children.popleft()
            os.close(child.report)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, 0)

    def _drop_turn(self) -> None:
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    def _end_first(self) -> None:
        """Wait for the first of them, and take up what it learnt and counted."""
        child = self._children[0]
        if child.busy:
            _made(child.report)
        report = _receive(os.dup(child.report))
        _, status = os.waitpid(child.pid, 0)
        os.close(self._children.popleft().report)
        if report is None:
            code = os.waitstatus_to_exitcode(status)
            how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
            raise WorkerError(f"a process that makes the output {how}")
        if "os_error" in report:
            raise OSError(*report["os_error"])
        if "failure" in report:
            error = WorkerError(report["failure"])
            error.add_note(report["traceback"])
            raise error
        counted = report["counts"]
        self._work.counts = [count + more for count, more in zip(self._work.counts, counted, strict=True)]
        self._learn(report["facts"])

    def _learn(self, facts: dict[Any, dict[str, str]]) -> None:
        """Take up what text had to be made for to learn it; of what is known already this process knows more by now."""
        knowledge = self._work.knowledge
        if knowledge is not None and any(facts.values()):
            known = knowledge.facts
            for fact in known:
                for about in facts[fact].keys() - known[fact].keys():
                    knowledge.take(fact, about, facts[fact][about])

    # --- in the forked process ---

    def _child(self, items: Sequence[Item], turn: int | None, pass_on: int, tell: int, parent: int) -> NoReturn:
        report: Any = None
        try:
            gc.disable()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reading process gets it too, and ends this one
            report = self._run(items, turn, pass_on, tell, parent)
        except OSError as error:
            report = {"os_error": [error.errno, error.strerror, error.filename]}
        except BaseException as error:  # noqa: BLE001 (whatever it is, it ends here and is told)
            report = {"failure": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        finally:
            try:
                if report is not None:
                    os.write(tell, MADE)
                    _send(tell, report)
            finally:
                os._exit(report is None)

    def _run(self, items: Sequence[Item], turn: int | None, pass_on: int, tell: int, parent: int) -> Any:
        """Make the text, write it, pass the turn on; None where the turn does not come."""
        work = self._work
        counted, assumed = work.counts, self._facts()
        texts = list(work.texts(items))
        os.write(tell, MADE)
        if turn is not None:
            truth = _receive(turn)
            if truth is None:
                return None
            if truth != assumed and work.knowledge is not None:
                work.counts, work.knowledge.facts = counted, truth
                texts = list(work.texts(items))
        if os.getppid() != parent:
            return None
        self._out.writelines(texts)
        self._out.flush()
        facts = self._facts()
        with contextlib.suppress(BrokenPipeError):  # There is no next one.
            _send(pass_on, facts)
        os.close(pass_on)
        new = {fact: dict(known.items() - assumed[fact].items()) for fact, known in facts.items()}
        return {"counts": [after - before for before, after in zip(counted, work.counts, strict=True)], "facts": new}

    def _facts(self) -> dict[Any, dict[str, str]]:
        return {} if self._work.knowledge is None else dict(self._work.knowledge.facts)


def _made(report: int) -> None:
    """Wait until a process has made its text, or ended."""
    os.read(report, len(MADE))


def _send(pipe: int, what: Any) -> None:
    rest = memoryview(json.dumps(what).encode("ascii"))
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _receive(pipe: int) -> Any:
    """What was sent, to the end of the pipe, which is closed; None where nothing was."""
    with open(pipe, "rb") as file:
        data = file.read()
    return json.loads(data) if data else None
