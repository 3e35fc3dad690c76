"""The text of a reading, made by several processes and byte for byte equal to that of one process.

One process reads, and deals chunks of items to worker processes in round-robin order. The workers make the text and
write it to the output in the order of the chunks: a token, the turn, goes round among them in the same order. So only
little passes between processes: addresses of frames, facts (`Knowledge`) and counts.

The text of a chunk depends on facts from earlier chunks. The reading process learns facts as far as it can without
making text, and sends them with a chunk as an assumption. The true facts come with the turn; if they differ, the worker
makes the text again. The turn also carries how far the output is complete (`Stage`), which is passed to the work at
intervals, so that another run can resume there.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from kproxy.captures.chunks import chunks
from kproxy.captures.pipes import Lost, enlarge, ready, receive, send
from kproxy.captures.processes import kill
from kproxy.decoders.exchange import Exchange, StreamProblem
from kproxy.decoders.knowledge import Knowledge

WAITING: Final = 2
"""Maximum number of chunks whose text a worker holds while it waits for its turn."""
STAGE: Final = 32
"""Number of chunks between reports of how far the output is complete."""
MOST_JOBS: Final = 4
"""Maximum number of workers; one process reads, so more would not help."""

Item: TypeAlias = Exchange | StreamProblem
Facts: TypeAlias = "dict[str, dict[str, str]]"
_END: Final = b""
"""The message after the last chunk."""


class WorkerError(Exception):
    """A worker failed or was killed; the output is complete up to some item."""


class Stage(NamedTuple):
    """Progress of the work: number of items with text, their counts, and the facts known after them."""

    items: int
    counts: list[int]
    facts: Facts

    def after(self, items: int, counts: Sequence[int], facts: Facts) -> Stage:
        """The stage after `items` more, with their `counts` and the `facts` after them."""
        return Stage(self.items + items, [a + b for a, b in zip(self.counts, counts, strict=True)], facts)


class Work(Protocol):
    """The work on the items of a reading."""

    @property
    def knowledge(self) -> Knowledge | None:
        """The knowledge on which the text of items depends; None if there is none."""
        ...

    @property
    def counts(self) -> list[int]:
        """The counts from making text."""
        ...

    @counts.setter
    def counts(self, counts: list[int]) -> None: ...

    def texts(self, items: Sequence[Item]) -> Iterable[bytes]:
        """The text of the next items, in small parts; also learns from them."""
        ...

    def learn(self, items: Sequence[Item]) -> None:
        """Learn from items without making text."""
        ...

    def pack(self, items: Sequence[Item]) -> bytes:
        """Items as bytes for another process, with everything else that their text needs."""
        ...

    def unpack(self, packed: bytes) -> Sequence[Item]: ...

    def reached(self, stage: Stage) -> None:
        """Record that the output is exactly the text of all items up to this stage, counted from this run's start."""
        ...


def write(work: Work, batches: Iterable[Sequence[Item]], out: BinaryIO, jobs: int) -> None:
    """Write the text of the batches of a reading, made by `jobs` processes (at least 2).

    `out` has a file descriptor, and this process must have no other thread. The workers' counts are added to those of
    the work. Raises the errors of writing, and WorkerError.
    """
    every = (items for batch in batches for items in chunks(batch))
    stage = Stage(0, work.counts, facts(work))
    for items in every:  # All workers inherit what is compiled for the first items.
        out.writelines(work.texts(items))
        stage = Stage(len(items), work.counts, facts(work))
        break
    out.flush()  # otherwise the workers would write the buffered text again
    crew = _Crew(work, out, jobs, stage)
    try:
        with contextlib.suppress(BrokenPipeError):  # `finish` raises the reason
            for items in every:
                crew.deal(items)
                work.learn(items)
        crew.finish()
    finally:
        crew.stop()


def facts(work: Work) -> Facts:
    """The facts on which the text of the next items depends."""
    return {} if work.knowledge is None else {str(fact): known for fact, known in work.knowledge.facts.items()}


@dataclass(slots=True)
class _Member:
    """A worker as the reading process sees it: the pipe for its chunks, and the pipe with its final report."""

    pid: int
    chunks: int
    report: int
    knowledge: Facts | None = None
    """The facts that were last sent to it."""


class _Crew:
    """The workers, as the reading process sees them."""

    def __init__(self, work: Work, out: BinaryIO, jobs: int, stage: Stage) -> None:
        self._work = work
        self._members: list[_Member] = []
        self._dealt = 0
        dealing, reporting, turning = ([os.pipe() for _ in range(jobs)] for _ in range(3))
        ends = {end for pipes in (dealing, reporting, turning) for pipe in pipes for end in pipe}
        parent = os.getpid()
        for number in range(jobs):
            turns, pass_on = turning[number][0], turning[(number + 1) % jobs][1]
            worker = _Worker(work, out, parent, dealing[number][0], reporting[number][1], turns, pass_on)
            if not number:
                worker.turn = _Turn(1, stage)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            pid = os.fork()
            if not pid:
                # A pipe must end with its writer, so no other process may keep it open.
                for end in ends - worker.ends:
                    os.close(end)
                worker.work()
            self._members.append(_Member(pid, dealing[number][1], reporting[number][0]))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for end in ends.difference(*((member.chunks, member.report) for member in self._members)):
            os.close(end)
        for member in self._members:
            enlarge(member.chunks)

    def deal(self, items: Sequence[Item]) -> None:
        """Send the next items to the next worker. Raises BrokenPipeError if that one has ended."""
        member = self._members[self._dealt % len(self._members)]
        self._dealt += 1
        known = facts(self._work)
        send(member.chunks, marshal.dumps((self._work.pack(items), None if known == member.knowledge else known)))
        member.knowledge = known

    def finish(self) -> None:
        """Wait for all workers, and add their counts. Raises their errors."""
        for member in self._members:
            with contextlib.suppress(BrokenPipeError):
                send(member.chunks, _END)
        results = [_result(member.report) for member in self._members]
        codes = [os.waitstatus_to_exitcode(os.waitpid(member.pid, 0)[1]) for member in self._members]
        self._close()
        for result in results:
            _raise(result or {})
        silent = [code for result, code in zip(results, codes, strict=True) if result is None]
        if silent:
            code = min(silent)  # first a killed worker, then those that waited for it in vain
            how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
            raise WorkerError(f"a process that makes the output {how}")
        counted = (result["counts"] for result in results if result is not None)
        self._work.counts = [sum(column) for column in zip(self._work.counts, *counted, strict=True)]

    def stop(self) -> None:
        """Kill the remaining workers."""
        for member in self._members:
            kill(member.pid)
        self._close()

    def _close(self) -> None:
        members, self._members = self._members, []
        for member in members:
            os.close(member.chunks)
            os.close(member.report)


@dataclass(slots=True)
class _Made:
    """The text of a chunk that waits for its turn, made from the `assumed` facts; `facts` are those after it."""

    packed: bytes
    assumed: Facts
    facts: Facts
    texts: list[bytes]
    counts: list[int]
    items: int = 0
    failure: Exception | None = None
    """The error that prevented it."""


class _Turn(NamedTuple):
    """The turn: number of written chunks, and the true facts after them."""

    written: int
    stage: Stage


@dataclass(slots=True)
class _Worker:
    """A worker process itself."""

    job: Work
    out: BinaryIO
    parent: int
    chunks: int
    report: int
    turns: int
    pass_on: int
    held: deque[_Made] = field(default_factory=deque)
    turn: _Turn | None = None
    """The true facts before the first held or next chunk, if it is this worker's turn."""
    alone: bool = False
    """No further turn will come."""
    knowledge: Facts = field(default_factory=dict)
    """The reading process's facts before the latest chunk."""
    learnt: Facts = field(default_factory=dict)
    """The facts after the chunk that this worker wrote last."""

    @property
    def ends(self) -> set[int]:
        return {self.chunks, self.report, self.turns, self.pass_on}

    def work(self) -> NoReturn:
        """Make text until the last chunk, then end this process."""
        result: dict[str, Any] | None = None
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reading process gets the signal too, and kills this one
            gc.freeze()  # garbage collection would copy inherited memory pages
            before = self.job.counts
            self._run()
            result = {"counts": [after - count for count, after in zip(before, self.job.counts, strict=True)]}
        except Lost:
            pass  # another process reports the error
        except OSError as error:
            result = {"os_error": [error.errno, error.strerror, error.filename]}
        except BaseException as error:  # noqa: BLE001 (whatever it is, it ends here and is told)
            result = {"failure": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        finally:
            with contextlib.suppress(OSError):
                if result is not None:
                    send(self.report, marshal.dumps(result))
            os._exit(0)

    def _run(self) -> None:
        more = True
        while more or self.held:
            if self.turn is not None and self.held:
                self._write(self.turn)
                continue
            if self.alone and self.held:
                raise Lost
            # Take the turn even without a held chunk, because the previous worker may be blocked on passing it.
            wanted = [self.turns] if self.turn is None and not self.alone else []
            if more and len(self.held) < WAITING:
                wanted.append(self.chunks)
            if self.turns in ready(wanted, wait=True):
                self._take_turn()
            elif chunk := receive(self.chunks):
                packed, known = marshal.loads(chunk)  # noqa: S302 (ours)
                self.knowledge = self.knowledge if known is None else known
                # The reading process has newer facts, but some facts are learnt only when text is made.
                assumed = {fact: {**self.learnt.get(fact, {}), **known} for fact, known in self.knowledge.items()}
                self.held.append(self._make(packed, assumed))
            else:
                more = False

    def _make(self, packed: bytes, assumed: Facts) -> _Made:
        """Make the text of a chunk; if the turn comes meanwhile, write the waiting chunk first."""
        work, before = self.job, self.job.counts
        made = _Made(packed, assumed, {}, [], [])
        if work.knowledge is not None:
            work.knowledge.facts = assumed  # type: ignore[assignment]  # the names of facts are text
        for text in self._texts(made):
            made.texts.append(text)
            if self.held:
                self._write_if_true()
        made.facts = facts(work)
        made.counts = [after - count for count, after in zip(before, work.counts, strict=True)]
        return made

    def _texts(self, made: _Made) -> Iterator[bytes]:
        """The text of a chunk, part by part; an error is kept until the chunk's turn."""
        try:
            items = self.job.unpack(made.packed)
            made.items = len(items)
            yield from self.job.texts(items)
        except Exception as error:  # noqa: BLE001 (raised when it is the chunk's turn)
            made.failure = error

    def _write_if_true(self) -> None:
        if self.turn is None and not self.alone and ready([self.turns], wait=False):
            self._take_turn()
        turn, made = self.turn, self.held[0]
        if turn is not None and turn.stage.facts == made.assumed and made.failure is None:
            self._write(turn)

    def _take_turn(self) -> None:
        try:
            written, *stage = marshal.loads(receive(self.turns))  # noqa: S302 (ours)
            self.turn = _Turn(written, Stage(*stage))
        except Lost:
            self.alone = True

    def _write(self, turn: _Turn) -> None:
        """Write the text of the first chunk, made again if needed, and pass the turn on."""
        made = self.held[0]
        if turn.stage.facts != made.assumed:
            self.job.counts = [count - less for count, less in zip(self.job.counts, made.counts, strict=True)]
            made = self._make(made.packed, turn.stage.facts)
        self.held.popleft()
        self.turn = None
        if made.failure is not None:
            raise made.failure
        if os.getppid() != self.parent:
            raise Lost
        self.out.writelines(made.texts)
        self.out.flush()
        written, stage = turn.written + 1, turn.stage.after(made.items, made.counts, made.facts)
        if written % STAGE == 0:
            self.job.reached(stage)
        with contextlib.suppress(BrokenPipeError):  # There is no next worker.
            send(self.pass_on, marshal.dumps((written, *stage)))
        self.learnt = made.facts


def _result(report: int) -> dict[str, Any] | None:
    """A worker's final report; None if it ended without one."""
    try:
        result: dict[str, Any] = marshal.loads(receive(report))  # noqa: S302 (ours)
    except Lost:
        return None
    return result


def _raise(result: dict[str, Any]) -> None:
    """Raise the error in a worker's report."""
    if "os_error" in result:
        raise OSError(*result["os_error"])
    if "failure" in result:
        error = WorkerError(result["failure"])
        error.add_note(result["traceback"])
        raise error
