"""All tables by their names, and their rows: as text, and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Final

from kproxy.captures.analysis.columns.column import Column, Table, Value
from kproxy.captures.analysis.columns.ordering import ordered
from kproxy.captures.text import utc
from kproxy.captures.views import VIEWS, Clock, Line
from kproxy.decoders.escaping import escape

GAP: Final = "  "


class UnknownColumnError(ValueError):
    """A name that is no column of the table."""


def of_view(view: str) -> tuple[Table, ...]:
    """The tables of a view, from the module of its name in captures.analysis.columns; () without a collector."""
    if not VIEWS[view].collector:
        return ()
    tables: tuple[Table, ...] = import_module(f"kproxy.captures.analysis.columns.{view}").TABLES
    return tables


@cache
def tables() -> dict[str, Table]:
    """All tables by name."""
    return {table.name: table for view in VIEWS for table in of_view(view)}


def rows(table: Table, lines: Iterable[Line]) -> Iterator[Line]:
    """The rows that a table makes of a view's JSON objects (`lines`); objects of other views are left out."""
    return (row for line in lines if line["schema"] == table.schema for row in table.rows(line))


def chosen(table: Table, names: Sequence[str]) -> list[Column]:
    """The columns with these names, all if none is given. Raises UnknownColumnError."""
    return [_column(table, name) for name in names] if names else list(table.columns)


def arranged(table: Table, found: Iterable[Line], order: Sequence[str]) -> list[Line]:
    """The rows ordered by the columns in `order`, the first one most significant; "-" before a name: descending order.

    Unknown values come last. Without `order` the table's own order applies. Raises UnknownColumnError.
    """
    arranged = list(found)
    for name in reversed(order or ([table.order] if table.order else [])):
        column = _column(table, name.removeprefix("-"))
        values = [column.value(row) for row in arranged]
        arranged = [arranged[index] for index in ordered(values, descending=name.startswith("-"))]
    return arranged


def table_json(columns: Sequence[Column], found: Iterable[Line]) -> Iterator[dict[str, Value]]:
    """A JSON object for each row, with a member for each column."""
    return ({column.name: column.value(row) for column in columns} for row in found)


def table_text(
    columns: Sequence[Column], values: Iterable[Mapping[str, Value]], clock: Clock = utc, *, given: bool = False
) -> Iterator[str]:
    """The heading and a line for each object of `table_json`, with control characters escaped; nothing is cut.

    Columns without any text are left out unless the columns were `given`.
    """
    texts = [[escape(column.text(row[column.name], clock)) for column in columns] for row in values]
    widths = [max(map(len, cells), default=0) for cells in zip(*texts, strict=True)] or [0] * len(columns)
    shown = [index for index, width in enumerate(widths) if width or given or not texts]

    def line(cells: Sequence[str]) -> str:
        return GAP.join(
            (cells[at].rjust if columns[at].form.right else cells[at].ljust)(max(widths[at], len(columns[at].title)))
            for at in shown
        ).rstrip()

    yield line([column.title for column in columns])
    yield from map(line, texts)


def _column(table: Table, name: str) -> Column:
    column = table.column(name)
    if column is None:
        known = ", ".join(one.name for one in table.columns)
        raise UnknownColumnError(f"{name!r} is not a column of {table.name}; there are {known}")
    return column
