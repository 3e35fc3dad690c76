"""Display filters on index rows: each attribute that a filter asks for is read from a row's columns."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from captures.index import format as layout
from captures.index.format import Flag, Row, State
from captures.index.reader import IndexReader
from decoders.filters import Expression, Unavailable
from decoders.filters.rows import KAFKA

CHUNK = 8192
"""Rows tested before the screen gets its turn."""


UNSETTLED = frozenset({State.EMPTY, State.WAITING})


def _or_none(absent: int, value: int) -> int | None:
    return None if value == absent else value


class RowValues:
    """The attributes of `decoders.filters.Row`, as functions of an index row.

    A row does not hold its own number: set `number` before a filter that asks for it runs.
    """

    def __init__(self, index: IndexReader) -> None:
        self._index = index
        self.number = 0

    def getter(self, name: str) -> Callable[[Row], Any]:
        """The function that reads attribute `name`."""
        index = self._index
        table: dict[str, Callable[[Row], Any]] = {
            "number": lambda _row: self.number,
            "connection": lambda row: row.connection,
            "client": lambda row: index.string(index.connection(row.connection).client),
            "broker": lambda row: index.string(index.connection(row.connection).broker),
            "api_key": lambda row: _or_none(layout.NO_NUMBER, row.api_key),
            "protocol": lambda row: index.protocol(row) or KAFKA,
            "api_version": lambda row: _or_none(layout.NO_NUMBER, row.api_version),
            "correlation_id": lambda row: None if row.flags & Flag.NO_CORRELATION else row.correlation,
            "client_id": lambda row: index.string(row.client) if row.client else None,
            "status": lambda row: layout.STATUS_OF[State(row.state)].value if row.state else "waiting",
            "error_codes": self._errors,
            "time": lambda row: row.time,
            "latency": lambda row: _or_none(layout.NO_LATENCY, row.latency),
            "request_size": lambda row: _or_none(layout.NO_SIZE, row.request_size),
            "response_size": lambda row: _or_none(layout.NO_SIZE, row.response_size),
        }
        return table[name]

    def _errors(self, row: Row) -> Sequence[int]:
        if row.state in (State.UNDECODABLE, State.ORPHAN_RESPONSE):
            raise Unavailable("the response cannot be decoded")
        if row.more_errors:
            return self._index.detail(row).errors
        return (row.error,) if row.error else ()


class View:
    """Which rows are shown: all, or those that a filter selects, found chunk by chunk while the index grows.

    `scanned` rows have been tested; of them `unknown` could not be told by the filter (they are not shown). The rows
    before `first` are gone.
    """

    def __init__(self, index: IndexReader, expression: Expression | None = None, text: str = "") -> None:
        self._index = index
        self.expression = expression
        self.text = text
        self.first = self.scanned = index.first
        self.unknown = 0
        self._rows: array[int] | None = None
        self._unsettled: list[int] = []
        if expression is not None:
            self._rows = array("I")
            self._values = RowValues(index)
            self._test = expression.compile(self._values.getter)

    @property
    def filtered(self) -> bool:
        return self._rows is not None

    @property
    def count(self) -> int:
        """Rows shown."""
        return self.scanned - self.first if self._rows is None else len(self._rows)

    def row_number(self, position: int) -> int:
        """The index row at a position of the view."""
        return position + self.first if self._rows is None else self._rows[position]

    def position(self, row: int) -> int:
        """Where index row `row` is shown, or the first shown after it."""
        if self._rows is None:
            return max(0, row - self.first)
        return bisect_left(self._rows, row)

    def let_go(self) -> int:
        """Leave out the rows that the index has let go; how many lines at the beginning those were."""
        first = self._index.first
        gone = min(self.count, self.position(first))
        if self._rows is not None:
            del self._rows[:gone]
            self._unsettled = [number for number in self._unsettled if number >= first]
        self.first, self.scanned = first, max(self.scanned, first)
        return gone

    def scan(self, limit: int) -> bool:
        """Test rows up to index row `limit`, a chunk at most; True where rows are left to test."""
        if self._rows is None:
            self.scanned = limit
            return False
        stop = min(limit, self.scanned + CHUNK)
        for number, row in enumerate(self._index.rows(self.scanned, stop), self.scanned):
            if row.state in UNSETTLED:
                self._unsettled.append(number)
            if self._matches(number, row):
                self._rows.append(number)
        self.scanned = stop
        return stop < limit

    def settle(self) -> bool:
        """Test again the rows that waited for their answer; True where the view changed."""
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
            matches = self._matches(number, row)
            if matches and not shown:
                self._rows.insert(at, number)
            elif shown and not matches:
                del self._rows[at]
            changed = changed or matches != shown
        self._unsettled = waiting
        return changed

    def _matches(self, number: int, row: Row) -> bool:
        self._values.number = number + 1
        try:
            return bool(self._test(row))
        except Unavailable:
            self.unknown += 1
            return False
