"""The text of a reading, made by several processes and byte for byte equal to that of one process.

One process reads, deals chunks of items to workers (captures.crew), and writes the text that they make. A worker gets
the addresses of frames; it inherited the files.

The text of a chunk depends on facts from earlier chunks (`Knowledge`). The reading process learns facts as far as it
can without making text, and sends them with a chunk as an assumption. The true facts are known when the text of the
chunk before is written. If they differ, the reading process makes the text itself.
"""

from __future__ import annotations

import marshal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, TypeAlias

from kproxy.captures.chunks import chunks
from kproxy.captures.crew import Crew, Reply
from kproxy.captures.pipes import Lost
from kproxy.decoders.exchange import Exchange, StreamProblem

STAGE: Final = 32
"""Number of chunks between reports of how far the output is complete."""
MOST_JOBS: Final = 4
"""Maximum number of workers; one process reads, so more would not help."""
AHEAD: Final = 2
"""Maximum number of a worker's chunks that are not written yet."""
SHARED: Final = 20 << 20
"""Bytes of shared memory for the text of chunks, of all workers together; longer texts take longer, through pipes."""

Item: TypeAlias = Exchange | StreamProblem
Facts: TypeAlias = dict[str, dict[str, str]]
"""For each kind of fact, the values by what they are about."""


class WorkerError(Exception):
    """A worker failed or was killed; the output is complete up to some item."""


class Stage(NamedTuple):
    """Progress of the work: number of items with text, their counts, and the facts known after them."""

    items: int
    counts: list[int]
    facts: Facts


class Work(Protocol):
    """The work on the items of a reading."""

    @property
    def facts(self) -> Facts:
        """The facts on which the text of the next items depends."""
        ...

    @facts.setter
    def facts(self, facts: Facts) -> None: ...

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
    """Write the text of the batches of a reading, made by `jobs` processes.

    This process must have no other thread. Raises the errors of writing, and WorkerError.
    """
    every = (items for batch in batches for items in chunks(batch))
    output = _Output(work, out, jobs)
    for items in every:  # All workers inherit what is compiled for the first items.
        output.write(items)
        break
    out.flush()  # otherwise the workers would inherit what is buffered
    crew = Crew(_Worker(work).answer, jobs, ahead=AHEAD, shared=SHARED // (jobs * AHEAD))
    try:
        for items in every:
            for reply in crew.deal(output.message(items)):
                output.join(reply)
        for reply in crew.rest():
            output.join(reply)
    except Lost as lost:
        raise WorkerError(f"a process that makes the output {lost}") from None
    finally:
        crew.close()


class _Output:
    """The output as far as it is written, and the chunks after it, whose text is being made.

    Between calls, the work knows the facts that the reading process has learnt from all chunks so far.
    """

    def __init__(self, work: Work, out: BinaryIO, jobs: int) -> None:
        self._work = work
        self._out = out
        self._facts = work.facts
        """The facts after the written chunks."""
        self._items = self._chunks = 0
        self._dealt: deque[tuple[bytes, Facts]] = deque()
        """The chunks whose text is being made, with the facts that it assumes."""
        self._sent: deque[Facts] = deque([{}] * jobs, jobs)
        """The facts that were last sent to each worker, beginning with the one whose turn it is."""

    def write(self, items: Sequence[Item]) -> None:
        """Make and write the text of the next chunk."""
        self._out.writelines(self._work.texts(items))
        self._wrote(len(items), self._work.facts)

    def message(self, items: Sequence[Item]) -> bytes:
        """The message that deals the next chunk to a worker."""
        facts = self._work.facts
        news = None if facts == self._sent[0] else facts
        self._sent.append(facts)
        packed = self._work.pack(items)
        self._dealt.append((packed, facts))
        self._work.learn(items)
        return marshal.dumps((packed, news))

    def join(self, reply: Reply) -> None:
        """Write the text of the first chunk that was dealt: the worker's, if the facts that it assumes are true."""
        packed, assumed = self._dealt.popleft()
        learnt = self._work.facts
        if assumed == self._facts:
            *texts, report = reply
            made = _checked(marshal.loads(report))  # noqa: S302 (ours)
            self._out.writelines(texts)
            self._work.counts = [sum(pair) for pair in zip(self._work.counts, made["counts"], strict=True)]
            self._wrote(made["items"], assumed if made["facts"] is None else made["facts"])
        else:
            now = self._work.pack([])  # the state of the reading, which unpacking sets back
            self._work.facts = self._facts
            self.write(self._work.unpack(packed))
            self._work.unpack(now)
        expected = self._dealt[0][1] if self._dealt else learnt
        self._work.facts = learnt if expected == self._facts else _merged(learnt, expected, self._facts)

    def _wrote(self, items: int, facts: Facts) -> None:
        self._facts = facts
        self._items += items
        self._chunks += 1
        if self._chunks % STAGE == 0:
            self._work.reached(Stage(self._items, self._work.counts, facts))


class _Worker:
    """Makes text in a process of its own."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._facts: Facts = {}

    def answer(self, message: bytearray) -> Iterator[bytes]:
        """The text of a chunk, and a report at the end."""
        work, before = self._work, self._work.counts
        packed, news = marshal.loads(message)  # noqa: S302 (ours)
        self._facts = self._facts if news is None else news
        work.facts = self._facts
        try:
            items = work.unpack(packed)
            yield from work.texts(items)
        except OSError as error:
            report: dict[str, Any] = {"os_error": [error.errno, error.strerror, error.filename]}
        except Exception as error:  # noqa: BLE001 (raised in the process that reads)
            report = {"failure": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        else:
            facts = work.facts
            counts = [after - count for count, after in zip(before, work.counts, strict=True)]
            report = {"items": len(items), "counts": counts, "facts": None if facts == self._facts else facts}
        yield marshal.dumps(report)


def _checked(report: dict[str, Any]) -> dict[str, Any]:
    """A worker's report. Raises the error that it tells."""
    if "os_error" in report:
        raise OSError(*report["os_error"])
    if "failure" in report:
        error = WorkerError(report["failure"])
        error.add_note(report["traceback"])
        raise error
    return report


def _merged(learnt: Facts, expected: Facts, true: Facts) -> Facts:
    """The facts `learnt` after some chunk, of which `expected` were learnt before, where `true` was right instead."""
    return {
        kind: {
            **known,
            **{about: one for about, one in true[kind].items() if known.get(about) == expected[kind].get(about)},
        }
        for kind, known in learnt.items()
    }
