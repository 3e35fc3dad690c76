"""The text of a reading made by several processes, byte for byte what one process writes.

One process reads, and deals out what it has read in chunks to others, to each in turn. They make the text and write it
to the output in the order of the chunks: the turn to write goes round among them as the chunks did. So what goes from
one to another is little: where frames lie, facts (`Knowledge`) and counts.

The text of a chunk depends on what was learnt before it. The reading process learns what it can without making text,
and what it knows comes with a chunk and is taken for the truth. What is true comes with the turn; where it is something
else, the text is made again. With it comes how far the output is complete (`Stage`), which the work is told now and
then, so that another run may go on from there.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import signal
import struct
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from kproxy.captures.chunks import chunks
from kproxy.captures.pipes import ready
from kproxy.decoders.exchange import Exchange, StreamProblem
from kproxy.decoders.knowledge import Knowledge

WAITING: Final = 2
"""Chunks whose text a process holds while it waits for its turn."""
STAGE: Final = 32
"""Chunks after which the work is told how far the output is complete."""
MOST_JOBS: Final = 4
"""Reading is one process's, so that more do not help."""
PIPE: Final = 1 << 20
"""Bytes of chunks that a process may have before it, where the system allows: nobody then waits while one reads."""

Item: TypeAlias = Exchange | StreamProblem
Facts: TypeAlias = "dict[str, dict[str, str]]"
_LENGTH: Final = struct.Struct("=Q")
_END: Final = b""
"""What stands for a chunk when there is no further one."""


class WorkerError(Exception):
    """A process that makes text failed or was killed; what was written is a beginning of the whole."""


class Stage(NamedTuple):
    """How far a work has come: items whose text is made, what was counted meanwhile, and what is known after them."""

    items: int
    counts: list[int]
    facts: Facts

    def after(self, items: int, counts: Sequence[int], facts: Facts) -> Stage:
        """The stage when `items` more are done, which counted `counts` and left `facts`."""
        return Stage(self.items + items, [a + b for a, b in zip(self.counts, counts, strict=True)], facts)


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
        """The text of the next items of the reading, in small parts; it learns from them."""
        ...

    def learn(self, items: Sequence[Item]) -> None:
        """Learn from items without making text."""
        ...

    def pack(self, items: Sequence[Item]) -> bytes:
        """Items for another process, with what else their text depends on."""
        ...

    def unpack(self, packed: bytes) -> Sequence[Item]: ...

    def reached(self, stage: Stage) -> None:
        """The output holds the text of all items up to there, counted from where this run began, and nothing else."""
        ...


def write(work: Work, batches: Iterable[Sequence[Item]], out: BinaryIO, jobs: int) -> None:
    """Write the text of the batches of a reading, made by `jobs` processes (at least 2).

    `out` has a file descriptor, and this process no other thread. What the processes count is in the work's counts
    afterwards. Raises what writing raises, and WorkerError.
    """
    every = (items for batch in batches for items in chunks(batch))
    stage = Stage(0, work.counts, facts(work))
    for items in every:  # What is compiled for the first ones, all processes inherit.
        out.writelines(work.texts(items))
        stage = Stage(len(items), work.counts, facts(work))
        break
    out.flush()  # else the text would be there twice
    crew = _Crew(work, out, jobs, stage)
    try:
        with contextlib.suppress(BrokenPipeError):  # then `finish` says why
            for items in every:
                crew.deal(items)
                work.learn(items)
        crew.finish()
    finally:
        crew.stop()


class _Lost(Exception):  # noqa: N818
    """The process before, or the one that reads, is gone."""


def facts(work: Work) -> Facts:
    """What the text of the next items depends on."""
    return {} if work.knowledge is None else {str(fact): known for fact, known in work.knowledge.facts.items()}


@dataclass(slots=True)
class _Member:
    """A forked process: the pipe by which it gets chunks, and the one in which it says how it went."""

    pid: int
    chunks: int
    report: int
    knowledge: Facts | None = None
    """The facts that it was sent last."""


class _Crew:
    """The forked processes, as the process that reads sees them."""

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
                # A pipe ends when the process that writes to it does, so no other one may hold it open.
                for end in ends - worker.ends:
                    os.close(end)
                worker.work()
            self._members.append(_Member(pid, dealing[number][1], reporting[number][0]))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for end in ends.difference(*((member.chunks, member.report) for member in self._members)):
            os.close(end)
        for member in self._members:
            _enlarge(member.chunks)

    def deal(self, items: Sequence[Item]) -> None:
        """Give the next items to the process that is next. Raises BrokenPipeError where that one has ended."""
        member = self._members[self._dealt % len(self._members)]
        self._dealt += 1
        known = facts(self._work)
        _send(member.chunks, marshal.dumps((self._work.pack(items), None if known == member.knowledge else known)))
        member.knowledge = known

    def finish(self) -> None:
        """Wait for all of them, and take up what they counted. Raises what went wrong."""
        for member in self._members:
            with contextlib.suppress(BrokenPipeError):
                _send(member.chunks, _END)
        results = [_result(member.report) for member in self._members]
        codes = [os.waitstatus_to_exitcode(os.waitpid(member.pid, 0)[1]) for member in self._members]
        self._close()
        for result in results:
            _raise(result or {})
        silent = [code for result, code in zip(results, codes, strict=True) if result is None]
        if silent:
            code = min(silent)  # one that was killed, before those that then waited in vain
            how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
            raise WorkerError(f"a process that makes the output {how}")
        counted = (result["counts"] for result in results if result is not None)
        self._work.counts = [sum(column) for column in zip(self._work.counts, *counted, strict=True)]

    def stop(self) -> None:
        """End those that are still there."""
        for member in self._members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(member.pid, 0)
        self._close()

    def _close(self) -> None:
        members, self._members = self._members, []
        for member in members:
            os.close(member.chunks)
            os.close(member.report)


@dataclass(slots=True)
class _Made:
    """The text of a chunk that waits for its turn: made from what was `assumed`, it left `facts`."""

    packed: bytes
    assumed: Facts
    facts: Facts
    texts: list[bytes]
    counts: list[int]
    items: int = 0
    failure: Exception | None = None
    """Why there is none."""


class _Turn(NamedTuple):
    """The number of chunks that are written, and what is true after them."""

    written: int
    stage: Stage


@dataclass(slots=True)
class _Worker:
    """A forked process, as it sees itself."""

    job: Work
    out: BinaryIO
    parent: int
    chunks: int
    report: int
    turns: int
    pass_on: int
    held: deque[_Made] = field(default_factory=deque)
    turn: _Turn | None = None
    """What is so before the first chunk that is held, or that comes next, where it is this process's turn."""
    alone: bool = False
    """No further turn will come."""
    knowledge: Facts = field(default_factory=dict)
    """What the process that reads knew before the chunk that came last."""
    learnt: Facts = field(default_factory=dict)
    """What is known after the chunk that this process wrote last."""

    @property
    def ends(self) -> set[int]:
        return {self.chunks, self.report, self.turns, self.pass_on}

    def work(self) -> NoReturn:
        """Make text until there are no more chunks, then end this process."""
        result: dict[str, Any] | None = None
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reading process gets it too, and ends this one
            gc.freeze()  # who looks for garbage in what is inherited, copies it
            before = self.job.counts
            self._run()
            result = {"counts": [after - count for count, after in zip(before, self.job.counts, strict=True)]}
        except _Lost:
            pass  # what went wrong, another one tells
        except OSError as error:
            result = {"os_error": [error.errno, error.strerror, error.filename]}
        except BaseException as error:  # noqa: BLE001 (whatever it is, it ends here and is told)
            result = {"failure": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        finally:
            with contextlib.suppress(OSError):
                if result is not None:
                    _send(self.report, marshal.dumps(result))
            os._exit(0)

    def _run(self) -> None:
        more = True
        while more or self.held:
            if self.turn is not None and self.held:
                self._write(self.turn)
                continue
            if self.alone and self.held:
                raise _Lost
            # A turn is taken even where nothing is held, because who passes it on may wait for that.
            wanted = [self.turns] if self.turn is None and not self.alone else []
            if more and len(self.held) < WAITING:
                wanted.append(self.chunks)
            if self.turns in ready(wanted, wait=True):
                self._take_turn()
            elif chunk := _receive(self.chunks):
                packed, known = marshal.loads(chunk)  # noqa: S302 (ours)
                self.knowledge = self.knowledge if known is None else known
                # Of what both know, who reads knows the newer; some is learnt only where text is made.
                assumed = {fact: {**self.learnt.get(fact, {}), **known} for fact, known in self.knowledge.items()}
                self.held.append(self._make(packed, assumed))
            else:
                more = False

    def _make(self, packed: bytes, assumed: Facts) -> _Made:
        """Make the text of a chunk, and meanwhile write what waits when its turn comes."""
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
        """The text of a chunk, part by part; what goes wrong is kept until it is the chunk's turn."""
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
            written, *stage = marshal.loads(_receive(self.turns))  # noqa: S302 (ours)
            self.turn = _Turn(written, Stage(*stage))
        except _Lost:
            self.alone = True

    def _write(self, turn: _Turn) -> None:
        """It is the first chunk's turn: write its text, if need be made again, and pass the turn on."""
        made = self.held[0]
        if turn.stage.facts != made.assumed:
            self.job.counts = [count - less for count, less in zip(self.job.counts, made.counts, strict=True)]
            made = self._make(made.packed, turn.stage.facts)
        self.held.popleft()
        self.turn = None
        if made.failure is not None:
            raise made.failure
        if os.getppid() != self.parent:
            raise _Lost
        self.out.writelines(made.texts)
        self.out.flush()
        written, stage = turn.written + 1, turn.stage.after(made.items, made.counts, made.facts)
        if written % STAGE == 0:
            self.job.reached(stage)
        with contextlib.suppress(BrokenPipeError):  # There is no next one.
            _send(self.pass_on, marshal.dumps((written, *stage)))
        self.learnt = made.facts


def _result(report: int) -> dict[str, Any] | None:
    """What a process says at its end; None where that came before it said anything."""
    try:
        result: dict[str, Any] = marshal.loads(_receive(report))  # noqa: S302 (ours)
    except _Lost:
        return None
    return result


def _raise(result: dict[str, Any]) -> None:
    """Raise what a process says that went wrong."""
    if "os_error" in result:
        raise OSError(*result["os_error"])
    if "failure" in result:
        error = WorkerError(result["failure"])
        error.add_note(result["traceback"])
        raise error


def _enlarge(pipe: int) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)


def _send(pipe: int, message: bytes) -> None:
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _receive(pipe: int) -> bytes:
    """The next message. Raises _Lost where there is none, because who sends is gone."""
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(pipe, min(size - len(data), PIPE))
        if not piece:
            raise _Lost
        data += piece
    return bytes(data)
