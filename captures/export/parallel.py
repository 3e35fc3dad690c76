"""Makes the text of a reading in several processes, byte for byte equal to that of one process.

One process reads, deals chunks of items to workers (captures.crew), and writes the text that they make. A worker gets
the addresses of frames; it inherited the open files.

The text of a chunk depends on facts from earlier chunks (`Knowledge`). The reading process learns facts as far as it
can without making text, and sends them with a chunk as an assumption. The true facts are known when the text of the
chunk before is written. If they differ, the reading process makes the text of this chunk itself.
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
"""Number of chunks after which the progress is stored, so that a later run can continue there."""
MOST_JOBS: Final = 4
"""Maximum number of workers: more would not help, because one process reads."""
AHEAD: Final = 2
"""Maximum number of chunks of a worker that are not written yet."""
SHARED: Final = 14 << 20
"""Bytes of shared memory for texts, of all workers together; longer texts go through pipes, which is slower."""

Item: TypeAlias = Exchange | StreamProblem
Facts: TypeAlias = dict[str, dict[str, str]]
"""By kind of fact, the value for each subject."""


class WorkerError(Exception):
    """A worker failed or was killed; the output is complete up to the chunk before."""


class Stage(NamedTuple):
    """The progress of a run: number of items whose text is written, the counts of `Work`, and the facts known after
    them.
    """

    items: int
    counts: list[int]
    facts: Facts


class Work(Protocol):
    """The making of text from the items of a reading."""

    @property
    def facts(self) -> Facts:
        """The facts on which the text of the next items depends."""
        ...

    @facts.setter
    def facts(self, facts: Facts) -> None: ...

    @property
    def counts(self) -> list[int]:
        """Counts that grow while text is made, such as undecodable frames."""
        ...

    @counts.setter
    def counts(self, counts: list[int]) -> None: ...

    def texts(self, items: Sequence[Item]) -> Iterable[bytes]:
        """The text of the next items, in small parts; the facts in these items are learnt."""
        ...

    def learn(self, items: Sequence[Item]) -> None:
        """Learn the facts in items without making text."""
        ...

    def pack(self, items: Sequence[Item]) -> bytes:
        """Items as bytes for another process, with everything else that `texts` needs there."""
        ...

    def unpack(self, packed: bytes) -> Sequence[Item]: ...

    def reached(self, stage: Stage) -> None:
        """Store that the output is exactly the text of the items up to this stage, counted from this run's start."""
        ...


def write(work: Work, batches: Iterable[Sequence[Item]], out: BinaryIO, jobs: int) -> None:
    """Write the text of all batches of a reading to `out`; `jobs` processes make it.

    This process must have no other thread. Raises the errors of writing, and WorkerError.
    """
    every = (items for batch in batches for items in chunks(batch))
    output = _Output(work, out, jobs)
    for items in every:  # The first chunk is written here, so that all workers inherit the code compiled for it.
        output.write(items)
        break
    out.flush()  # otherwise the workers would inherit buffered text
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
    """Writes the texts of chunks in order; keeps the chunks whose text workers are making.

    Between calls, `work` knows the facts that the reading process has learnt from all chunks so far.
    """

    def __init__(self, work: Work, out: BinaryIO, jobs: int) -> None:
        self._work = work
        self._out = out
        self._facts = work.facts
        """The facts known after the last chunk that was written."""
        self._items = self._chunks = 0
        self._dealt: deque[tuple[bytes, Facts]] = deque()
        """(packed chunk, facts assumed for it) of each chunk whose text is being made."""
        self._sent: deque[Facts] = deque([{}] * jobs, jobs)
        """The facts last sent to each worker; the worker whose turn it is comes first."""

    def write(self, items: Sequence[Item]) -> None:
        """Make the text of the next chunk in this process, and write it."""
        self._out.writelines(self._work.texts(items))
        self._wrote(len(items), self._work.facts)

    def message(self, items: Sequence[Item]) -> bytes:
        """The message for the worker that makes the text of the next chunk."""
        facts = self._work.facts
        news = None if facts == self._sent[0] else facts
        self._sent.append(facts)
        packed = self._work.pack(items)
        self._dealt.append((packed, facts))
        self._work.learn(items)
        return marshal.dumps((packed, news))

    def join(self, reply: Reply) -> None:
        """Write the text of the oldest dealt chunk, from the worker's reply if the facts assumed for it are true."""
        packed, assumed = self._dealt.popleft()
        learnt = self._work.facts
        if assumed == self._facts:
            *texts, report = reply
            made = _checked(marshal.loads(report))  # noqa: S302 (ours)
            self._out.writelines(texts)
            self._work.counts = [sum(pair) for pair in zip(self._work.counts, made["counts"], strict=True)]
            self._wrote(made["items"], assumed if made["facts"] is None else made["facts"])
        else:
            now = self._work.pack([])  # the reader's state, which unpacking an older chunk sets back
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
    """Makes text in a forked process."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._facts: Facts = {}

    def answer(self, message: bytearray) -> Iterator[bytes]:
        """The texts of a chunk, and a report (packed by marshal) as the last part."""
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
    """The worker's report. If the worker failed, raises its OSError or a WorkerError."""
    if "os_error" in report:
        raise OSError(*report["os_error"])
    if "failure" in report:
        error = WorkerError(report["failure"])
        error.add_note(report["traceback"])
        raise error
    return report


def _merged(learnt: Facts, expected: Facts, true: Facts) -> Facts:
    """The facts `learnt`, with corrections for a wrong assumption.

    `learnt` were gathered on the assumption of the facts `expected`, where `true` would have been right. A value that
    equals the assumed one is replaced by the true one; any other value was learnt since then and is kept.
    """
    return {
        kind: {
            **known,
            **{about: one for about, one in true[kind].items() if known.get(about) == expected[kind].get(about)},
        }
        for kind, known in learnt.items()
    }
