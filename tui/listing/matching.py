"""The rows of an index that are shown: all, or those that a display filter selects, found while the index grows."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from kproxy.captures.index.format import UNSETTLED
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders.schema import Definitions
from kproxy.tui.listing.numbers import Numbers

if TYPE_CHECKING:
    from kproxy.decoders.filters import Expression, Why

SLICE_SECONDS = 0.01
"""Approximate seconds for testing a slice of rows; key presses are handled between slices."""
FIRST_BODIES, MOST_BODIES = 16, 1024
"""How many exchanges have their bodies decoded in the first slice, and at most in any slice."""
ROWS_WITH_BODIES = 1024
"""Maximum number of rows of a slice if the filter decodes bodies.

If a slice stops early, the next one reads the columns of the remaining rows again. Small slices bound that cost.
"""


class View:
    """The index rows that are shown; a filter tests them slice by slice while the index grows.

    Rows before `scanned` have been tested. `unknown` counts those that the filter could not decide, by reason; they are
    not shown. Rows before `first` are deleted.
    """

    def __init__(
        self, index: IndexReader, definitions: Definitions, expression: Expression | None = None, text: str = ""
    ) -> None:
        self._index = index
        self.expression = expression
        self.text = text
        self.first = self.scanned = index.first
        self.unknown: Counter[Why] = Counter()
        self._growing = index.meta.get("state") == "indexing"
        self._bodies = FIRST_BODIES
        self._rows: Numbers | None = None
        self._unsettled: list[int] = []
        if expression is not None:
            self._rows = Numbers(index.directory)
            from kproxy.captures.index.filtering import IndexFilter
            from kproxy.decoders.fields import Cost

            self._asks_bodies = expression.cost is Cost.DECODE
            self._filter = IndexFilter(index, expression, definitions)

    @property
    def filtered(self) -> bool:
        return self._rows is not None

    @property
    def count(self) -> int:
        """Number of rows shown."""
        return self.scanned - self.first if self._rows is None else len(self._rows)

    def row_number(self, position: int) -> int:
        """The index row at a position of the view."""
        return position + self.first if self._rows is None else self._rows[position]

    def position(self, row: int) -> int:
        """The position in the view of index row `row`, or of the first row after it that is shown."""
        if self._rows is None:
            return max(0, row - self.first)
        return bisect_left(self._rows, row)

    @property
    def outdated(self) -> bool:
        """Whether rows were tested before the capture's end was known, from which the filter's relative times count."""
        if not self._growing or self._index.meta.get("state") == "indexing":
            return False
        return self.expression is not None and self.expression.relative

    def let_go(self) -> int:
        """Drop the rows that the index has dropped; returns the number of lines removed at the beginning."""
        first = self._index.first
        gone = min(self.count, self.position(first))
        if self._rows is not None:
            self._rows.drop(gone)
            self._unsettled = [number for number in self._unsettled if number >= first]
        self.first, self.scanned = first, max(self.scanned, first)
        return gone

    def scan(self, limit: int) -> bool:
        """Test one slice of rows, at most up to index row `limit`; True if rows are left to test."""
        if self._rows is None:
            self.scanned = limit
            return False
        stop = min(limit, self.scanned + ROWS_WITH_BODIES) if self._asks_bodies else limit
        began = time.perf_counter()
        found = self._filter.scan(self.scanned, stop, most_bodies=self._bodies)
        took = time.perf_counter() - began
        if took > SLICE_SECONDS:
            self._bodies = max(1, self._bodies // 2)
        elif took < SLICE_SECONDS / 2:
            self._bodies = min(MOST_BODIES, self._bodies * 2)
        self._rows.extend(found.matched)
        self._unsettled += found.unsettled
        self.unknown += found.unknown
        self.scanned = found.stop
        return self.scanned < limit

    def settle(self) -> bool:
        """Test those rows again whose response has come since they were tested; True if the view changed."""
        if self._rows is None or not self._unsettled:
            return False
        changed = False
        waiting = []
        for number in self._unsettled:
            row = self._index.row(number)
            if row.state in UNSETTLED:
                waiting.append(number)
                continue
            at = bisect_left(self._rows, number)
            shown = at < len(self._rows) and self._rows[at] == number
            answer = self._filter.test(number)
            if not isinstance(answer, bool):
                self.unknown[answer] += 1
            matches = answer is True
            if matches and not shown:
                self._rows.insert(at, number)
            elif shown and not matches:
                self._rows.remove(at)
            changed = changed or matches != shown
        self._unsettled = waiting
        return changed

    def close(self) -> None:
        """Close the captures that the filter has opened."""
        if self._rows is not None:
            self._filter.close()
