"""Writes the exchanges of a reading as text, in one process or several; can continue an interrupted run's output."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Final, Protocol, TypeVar

from kproxy.captures.chunks import chunks
from kproxy.captures.errors import CaptureError
from kproxy.captures.export import Lines, Pieces, parallel
from kproxy.captures.export.packing import pack, unpack
from kproxy.captures.export.parallel import Facts, Stage
from kproxy.captures.export.partial import Partial
from kproxy.captures.reader import Item, Reader
from kproxy.captures.redaction.exchanges import Redaction
from kproxy.captures.source import RELEASE_BYTES
from kproxy.decoders.exchange import Exchange, StreamProblem
from kproxy.decoders.filters import Why
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.learning import learn
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source

T = TypeVar("T")

AT_ONCE: Final = 32
"""Number of exchanges that are turned into text together, which bounds the length of a string."""
ALONE: Final = 256 << 10
"""Size in bytes from which an exchange is turned into text alone, because joining long texts copies them."""


class Selecting(Protocol):
    """Selects exchanges of one reading (kproxy.cli.options.selecting.Selection)."""

    unknown: Counter[Why]
    taken: int

    @property
    def everything(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    def of(
        self, items: Iterable[T], source: Source, definitions: Definitions, knowledge: Knowledge | None = None
    ) -> Iterator[T]: ...
    def pass_over(self, items: Iterable[object], source: Source, definitions: Definitions) -> None: ...


@dataclass(slots=True)
class TextExport:
    """The export of one reading as text (a captures.export.parallel.Work).

    `knowledge` holds the facts that the text depends on in addition to the items; None if the text depends on the items
    alone. `partial` is the file that a later run can continue.
    """

    reader: Reader
    lines: Lines
    selection: Selecting
    knowledge: Knowledge | None
    redaction: Redaction | None = None
    partial: Partial | None = None

    def write(self, batches: Iterable[Sequence[Item]], out: BinaryIO, jobs: int) -> None:
        """Write the text of the whole reading, given as `batches`; `jobs` processes make it."""
        stage = None if self.partial is None else self.partial.stage
        if stage is None:
            out.write(self.lines.begin())
        else:
            self._resume(stage)
            batches = self._after(stage.items, batches)
        if jobs > 1:
            parallel.write(self, batches, out, jobs)
        else:
            self._write(batches, out)
        out.write(self.lines.lines([self.reader.health]) + self.lines.end())
        out.flush()

    def _resume(self, stage: Stage) -> None:
        self.counts, self.facts = stage.counts, stage.facts

    def _after(self, done: int, batches: Iterable[Sequence[Item]]) -> Iterator[Sequence[Item]]:
        """The batches without the first `done` items, whose text an earlier run wrote.

        The selection still learns the facts in those `done` items, because whether it selects later items may depend on
        these facts.
        """
        for batch in batches:
            if done:
                self.selection.pass_over(batch[:done], self.reader.source, self.reader.definitions)
            yield batch[done:]
            done -= min(done, len(batch))

    def _write(self, batches: Iterable[Sequence[Item]], out: BinaryIO) -> None:
        """Write batch by batch in this process; each is flushed, so that the text of a live stream appears at once."""
        items = written = 0
        for batch in batches:
            for chunk in chunks(batch):
                out.writelines(self.texts(chunk))
                items += len(chunk)
                written += 1
                if self.partial is not None and written % parallel.STAGE == 0:
                    self.reached(Stage(items, self.counts, self.facts))
            if batch:
                out.flush()
            if self.selection.done:
                return

    def reached(self, stage: Stage) -> None:
        if self.partial is not None:
            self.partial.reached(stage)

    def texts(self, items: Sequence[Exchange | StreamProblem]) -> Iterator[bytes]:
        """The text of those items that the selection takes, redacted."""
        reader = self.reader
        if not self.selection.everything:
            items = list(self.selection.of(items, reader.source, reader.definitions, self.knowledge))
        if self.redaction is not None:
            items = list(self.redaction.items(items))
        parts = _together(items)
        if isinstance(self.lines, Pieces):
            return chain.from_iterable(map(self.lines.pieces, parts))
        return map(self.lines.lines, parts)

    def learn(self, items: Sequence[Exchange | StreamProblem]) -> None:
        if self.knowledge is None:
            return
        for item in items:
            if isinstance(item, Exchange):
                learn(item, self.reader.source, self.reader.definitions, self.knowledge)

    def pack(self, items: Sequence[Exchange | StreamProblem]) -> bytes:
        return pack(items, (self.reader.precision, self.reader.source.size, self.reader.position))

    def unpack(self, packed: bytes) -> list[Exchange | StreamProblem]:
        items, (self.reader.precision, size, position) = unpack(packed)
        self.reader.source.release(position - RELEASE_BYTES)
        if self.reader.source.size < size:
            with contextlib.suppress(CaptureError):  # the process that reads reports the error
                self.reader.source.catch_up()
        return items

    @property
    def facts(self) -> Facts:
        return {} if self.knowledge is None else {str(fact): known for fact, known in self.knowledge.facts.items()}

    @facts.setter
    def facts(self, facts: Facts) -> None:
        if self.knowledge is not None:
            self.knowledge.facts = facts  # type: ignore[assignment]  # the names of facts are text

    @property
    def counts(self) -> list[int]:
        unknown = [self.selection.unknown[why] for why in Why]
        return [self.reader.health.undecoded, self.selection.taken, self.lines.problems, *unknown]

    @counts.setter
    def counts(self, counts: list[int]) -> None:
        self.reader.health.undecoded, self.selection.taken, self.lines.problems, *unknown = counts
        for why, count in zip(Why, unknown, strict=True):
            self.selection.unknown[why] = count


def _together(items: Sequence[Exchange | StreamProblem]) -> Iterator[Sequence[Exchange | StreamProblem]]:
    """Divides items into groups that are turned into text together (AT_ONCE, ALONE)."""
    start = 0
    for index, item in enumerate(items):
        alone = isinstance(item, Exchange) and item.size >= ALONE
        if alone and index > start:
            yield items[start:index]
            start = index
        if alone or index - start == AT_ONCE - 1:
            yield items[start : index + 1]
            start = index + 1
    if start < len(items):
        yield items[start:]
