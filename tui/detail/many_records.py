"""The records of the exchanges of a list, one exchange after the other, read only as far as they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from kproxy.captures.index.format import NO_RECORDS, UNSETTLED
from kproxy.captures.index.reader import IndexReader, IndexUnreadableError
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.view import View
from kproxy.tui.detail.opened import Opener
from kproxy.tui.detail.records import AT_ONCE, Line, LinesRead, Origin, RecordLine, TextLine, lines_of

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row
    from kproxy.decoders.schema import Definitions
    from kproxy.tui.listing.matching import View as Shown

MOST_BYTES: Final = 16_000_000
"""Maximum number of bytes of records in memory; to see later records, the user opens the view at a later exchange."""
AT_ONCE_BYTES: Final = 4_000_000
"""Maximum number of bytes of records that one `take` reads."""
LINE_BYTES: Final = 300
"""Bytes of memory that a line is estimated to take in addition to its record."""
RETRY: Final = 1_000
"""How many of the newest exchanges may wait for their response; older exchanges without a response are skipped."""


class ManyRecords(LinesRead):
    """Records of a list's exchanges, from line `start` of the list on; `next_row` is the next index row to read.

    It has its own reader of the index, so that a thread may read here while the screen's reader maps the index anew.
    """

    origins = True

    def __init__(
        self, directory: Path, definitions: Definitions, shown: Shown, start: int, *, show_secrets: bool = False
    ) -> None:
        """`shown` gives the list's rows, of which `start` is the first to read. Raises IndexUnreadableError."""
        super().__init__(self._records(), has_assigned=False)
        self.start = start
        self.next_row = shown.row_number(start) if start < shown.count else 0
        self.first: int | None = None
        """Number of the first exchange that was read."""
        self.full = False
        self._bytes = 0
        self._shown = shown
        self._stopping = False
        self._lock = Lock()
        self._index = IndexReader(directory)
        self._opener = Opener(self._index, definitions, show_secrets=show_secrets)
        self._view = View(show_secrets=show_secrets, knowledge=self._index.knowledge)

    @property
    def behind(self) -> bool:
        """Whether the list has exchanges that were not read yet, and there is room for more records."""
        return self._shown.position(self.next_row) < self._shown.count and not self.full

    def take(self, count: int = AT_ONCE) -> None:
        """Read up to `count` more lines; fewer if they are large."""
        with self._lock:
            if not self._stopping:
                self._index.refresh()
                self._take(count)
        if self._stopping:
            self.stop()

    def _take(self, count: int) -> None:
        found: list[Line] = []
        held = self._bytes
        for line in self._rest:
            found.append(line)
            if isinstance(line, RecordLine):
                self.records += 1
                self._bytes += line.size + LINE_BYTES
                self.counts.update([line.skipped] if line.skipped is not None else ())
            if len(found) == count or self._bytes - held > AT_ONCE_BYTES:
                break
        else:
            self.complete = True
        if self._bytes > MOST_BYTES and not self.complete:
            found.append(
                TextLine("no more records fit here: narrow the filter, or begin at another exchange of the list")
            )
            self.full = self.complete = True
        self.lines = self.lines + found

    def go_on(self) -> None:
        """Let the next `take` read exchanges that were added to the list since all of it was read."""
        if self.complete and self.behind:
            self.complete = False
            self._rest = self._records()

    def summary(self) -> str:
        where = "" if self.first is None else f" from exchange {self.first:,} on"
        return super().summary() + where

    def stop(self) -> None:
        """Stop reading and close the files. Any thread may call this."""
        self._stopping = True
        if self._lock.acquire(blocking=False):
            self._opener.close()
            self._index.close()
            self._lock.release()

    def _records(self) -> Iterator[Line]:
        shown = self._shown
        while not self._stopping and (position := shown.position(self.next_row)) < shown.count:
            number = shown.row_number(position)
            if number >= self._index.count:
                break
            row = self._index.row(number)
            if row.state in UNSETTLED and self._index.count - number <= RETRY:
                break
            self.next_row = number + 1
            if self.first is None:
                self.first = number + 1
            if row.records and row.records != NO_RECORDS:
                yield from self._of(number, row)

    def _of(self, number: int, row: Row) -> Iterator[Line]:
        try:
            detail = self._index.detail(row)
        except (IndexUnreadableError, ValueError):
            return
        lists = PLACES.get(row.api_key)
        sent = lists.in_request if lists is not None else True
        origin = Origin(number + 1, self._index.string(row.client), sent)
        for place in self._opener.places(row, detail):
            if self._stopping:
                return
            if len(place.records):
                yield from lines_of(place, self._view, origin)
