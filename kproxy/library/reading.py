"""One pass over captures: a reader, and the objects that show what it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.captures.decrypted import open_capture
from kproxy.captures.definitions import definitions
from kproxy.captures.export.jsonl import JsonLines
from kproxy.captures.export.records import RecordLines
from kproxy.captures.ports import Ports
from kproxy.captures.reader import Reader
from kproxy.captures.segments import partition_files
from kproxy.decoders.batches.codecs import DEFAULT_LIMIT
from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Why
from kproxy.decoders.filters import Expression, Matcher, parse
from kproxy.decoders.view import View
from kproxy.library.errors import FilterError

if TYPE_CHECKING:
    from kproxy.captures.export.frame_fields import FrameFields
    from kproxy.captures.reader import Item
    from kproxy.captures.source import FileSource
    from kproxy.decoders.exchange import Exchange, Frame
    from kproxy.decoders.schema import Definitions

TREE_WIDTH = 100
"""Number of characters of a line in the text of a tree."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is read, and how: the arguments of `kproxy.open`."""

    paths: tuple[Path, ...]
    ports: Ports | None = None
    release: str | None = None
    definitions: tuple[str, ...] = ()
    keylog: Path | None = None
    show_secrets: bool = False
    batch_limit: int = DEFAULT_LIMIT
    strict: bool = True

    def view(self) -> View:
        return View(show_secrets=self.show_secrets, batch_limit=self.batch_limit)

    def known(self) -> Definitions:
        """Kafka's message definitions and the user's. Raises ValueError if the options name wrong ones."""
        return definitions(self.release, self.definitions)

    def source(self) -> FileSource:
        """Opens the captures. Raises CaptureError if one cannot be opened."""
        return open_capture(partition_files(self.paths), log=self.keylog)


def expression_of(text: str) -> Expression | None:
    """The filter in a text, None if the text is blank. Raises FilterError."""
    parsed = parse(text)
    if parsed.expression is None and text.strip():
        raise FilterError("\n".join([parsed.message, *parsed.pointer(text)]))
    if parsed.expression is not None and parsed.expression.relative:
        raise FilterError(f"{text}: the end of the capture is not known until all of it is read; give a time")
    return parsed.expression


class Reading:
    """Reads a source once; decodes the exchanges that it has found, also after the reading has ended.

    The view's knowledge grows as exchanges are read, so later exchanges are shown with topic names from earlier ones.
    """

    def __init__(self, reader: Reader, view: View, *, strict: bool = True) -> None:
        """With `strict` false, captures that cannot be read to their ends raise no error: see `Reader.errors`."""
        self.reader = reader
        self._strict = strict
        self.closed = False
        self._view = view
        self._learnt = Learnt(view.knowledge)
        self._lines = JsonLines(reader, view)
        self._records = RecordLines(reader, view)

    def exchanges(self, expression: Expression | None, unknown: Counter[Why]) -> Iterator[Exchange]:
        """The exchanges that match, in the order in which they become complete.

        `unknown` counts, by reason, the exchanges for which the filter had no result; these are left out. Raises
        CaptureError after the last exchange, as `check`.
        """
        from kproxy.decoders.exchange import Exchange

        for item in self.items(expression, unknown):
            if isinstance(item, Exchange):
                yield item

    def items(self, expression: Expression | None, unknown: Counter[Why]) -> Iterator[Item]:
        """As `exchanges`, with the problems of connections between them."""
        reader = self.reader
        select = self.selection(expression, unknown)
        for batch in reader.batches():
            yield from select(batch)
        self.check()

    def check(self) -> None:
        """Raises CaptureError if `strict` is true and the captures could not be read to their ends."""
        if self._strict and self.reader.error is not None:
            raise self.reader.error

    def selection(self, expression: Expression | None, unknown: Counter[Why]) -> Any:
        """A function that yields the items of a batch except exchanges that do not match, and learns facts from all."""
        from kproxy.decoders.exchange import Exchange

        reader, learnt = self.reader, self._learnt
        matcher = None if expression is None else Matcher(expression, reader.source, reader.definitions, learnt)
        if matcher is not None:
            matcher.unknown = unknown
        alone = matcher is None or not matcher.learns

        def select(items: Sequence[Item]) -> Iterator[Item]:
            for item in items:
                if isinstance(item, Exchange):
                    if alone:
                        learnt.learn(item, reader.source, reader.definitions)
                    if matcher is not None and not matcher.matches(item):
                        continue
                yield item

        return select

    def json(self, exchange: Exchange) -> dict[str, Any]:
        """The JSON object "kproxy.exchange/1"."""
        self.check_open()
        return self._lines.line(exchange)

    def row(self, exchange: Exchange) -> ExchangeRow:
        """The exchange with the attributes that filters use."""
        self.check_open()
        return ExchangeRow(exchange, self.reader.source, self.reader.definitions, self._learnt)

    def records(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        """The JSON objects "kproxy.record/1" of an exchange's records."""
        self.check_open()
        return self._records.records(exchange)

    def data(self, frame: Frame) -> bytes:
        """A frame's bytes, length field included."""
        self.check_open()
        return bytes(frame.data(self.reader.source))

    def fields(self, exchange: Exchange, frame: Frame) -> FrameFields:
        """A frame's fields as a tree."""
        from kproxy.captures.export.frame_fields import frame_fields

        self.check_open()
        reader = self.reader
        return frame_fields(exchange, frame, reader.source, reader.definitions, self._view, width=TREE_WIDTH)

    def check_open(self) -> None:
        """Raises ValueError if the capture is closed, so that nothing more of it can be decoded."""
        if self.closed:
            raise ValueError("the capture is closed: read what you need of an exchange before you close it")

    def close(self) -> None:
        self.closed = True
        self.reader.close()
