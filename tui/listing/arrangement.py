"""Arrangements of a view's rows in the list: some hidden, a fixed set such as the marked ones, or another order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kproxy.captures.index.format import NO_LATENCY, NO_RECORDS, NO_SIZE
from kproxy.tui.listing.numbers import Numbers

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.captures.index.format import Row
    from kproxy.captures.index.reader import IndexReader
    from kproxy.tui.listing.matching import View

MOST_ORDERED: Final = 500_000
"""Maximum number of rows that can be ordered; above that the user must filter first."""


class Rows(Protocol):
    """The lines of a list, each an index row."""

    @property
    def count(self) -> int: ...
    def row_number(self, position: int) -> int: ...
    def position(self, row: int) -> int: ...


class Without:
    """The rows of a view except the hidden ones; grows with the view."""

    def __init__(self, view: View, hidden: Iterable[int]) -> None:
        self._view = view
        self._hidden = sorted(hidden)
        self._gaps: list[int] = []
        self._counted = -1

    def _look(self) -> list[int]:
        """For each hidden row of the view, in order, the number of lines before it."""
        view = self._view
        if self._counted != view.count:
            self._counted = view.count
            at = [(view.position(row), row) for row in self._hidden]
            places = [place for place, row in at if place < view.count and view.row_number(place) == row]
            self._gaps = [place - number for number, place in enumerate(places)]
        return self._gaps

    @property
    def count(self) -> int:
        return self._view.count - len(self._look())

    def row_number(self, position: int) -> int:
        return self._view.row_number(position + bisect_right(self._look(), position))

    def position(self, row: int) -> int:
        place = self._view.position(row)
        gaps = self._look()
        before = bisect_left([gap + number for number, gap in enumerate(gaps)], place)
        return place - before


class Fixed:
    """A fixed set of rows in a fixed order; rows that are indexed later are not added."""

    def __init__(self, directory: Path, rows: Iterable[int]) -> None:
        self._rows = Numbers(directory, rows)

    @property
    def count(self) -> int:
        return len(self._rows)

    def row_number(self, position: int) -> int:
        return self._rows[position]

    def position(self, row: int) -> int:
        """The line of an index row; 0 if it has none."""
        try:
            return self._rows.index(row)
        except ValueError:
            return 0


def _size(size: int) -> int:
    return -1 if size == NO_SIZE else size


ORDERS: Final[dict[str, tuple[str, Callable[[Row], Any]]]] = {
    "latency": ("ms", lambda row: row.latency if row.latency != NO_LATENCY else -1),
    "request": ("req B", lambda row: _size(row.request_size)),
    "response": ("rsp B", lambda row: _size(row.response_size)),
    "records": ("Rec", lambda row: -1 if row.records == NO_RECORDS else row.records),
    "api": ("API", lambda row: (row.api_key, row.api_version)),
    "connection": ("Conn", lambda row: row.connection),
    "error": ("Result", lambda row: row.error),
}
"""Orders of rows other than by number: title of the column, and sort key (-1 for an absent value)."""
BY_TITLE: Final = {title: order for order, (title, _) in ORDERS.items()}
GREATEST_FIRST: Final = frozenset({"latency", "request", "response", "records", "error"})


def ordered(index: IndexReader, rows: Iterable[int], order: str, *, descending: bool) -> Fixed:
    """Rows sorted by a column of ORDERS; rows with equal values stay in the order of `rows`."""
    _, compared = ORDERS[order]
    return Fixed(index.directory, sorted(rows, key=lambda number: compared(index.row(number)), reverse=descending))
