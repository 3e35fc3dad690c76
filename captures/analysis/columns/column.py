"""A table's columns: how a value is shown, sorted, and cut where there is too little room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from kproxy.captures.text import size_text
from kproxy.captures.views import VIEWS, Clock, Line

Value: TypeAlias = str | int | float | bool | None
SEPARATOR: Final = ", "


class Cut(Enum):
    """Which part of a text is left out where there is too little room."""

    END = "end"
    MIDDLE = "middle"
    BEGINNING = "beginning"


@dataclass(frozen=True, slots=True)
class Form:
    """How a column's values are shown: at the right or left, as which text, cut where."""

    text: Callable[[Any, Clock], str]
    right: bool = False
    cut: Cut = Cut.END
    greatest_first: bool = False
    """Whether the first press on the column puts the greatest value on top."""


def _number(value: float, _clock: Clock) -> str:
    return str(value)


def _count(value: float, _clock: Clock) -> str:
    return f"{value:.1f}" if isinstance(value, float) and value < 1000 else size_text(round(value))


def _bytes(value: float, _clock: Clock) -> str:
    return f"{size_text(round(value))}B"


def _milliseconds(value: float, _clock: Clock) -> str:
    if not value:
        return "0"
    return f"{value:.1f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def _seconds(value: float, _clock: Clock) -> str:
    return f"{value:,.1f} s"


def _yes(value: bool, _clock: Clock) -> str:
    return "yes" if value else ""


TEXT: Final = Form(lambda value, _clock: str(value))
NAME: Final = Form(lambda value, _clock: str(value), cut=Cut.MIDDLE)
TAIL: Final = Form(lambda value, _clock: str(value), cut=Cut.BEGINNING)
ID: Final = Form(_number, right=True)
OFFSET: Final = Form(_number, right=True, greatest_first=True)
COUNT: Final = Form(_count, right=True, greatest_first=True)
BYTES: Final = Form(_bytes, right=True, greatest_first=True)
MILLISECONDS: Final = Form(_milliseconds, right=True, greatest_first=True)
SECONDS: Final = Form(_seconds, right=True, greatest_first=True)
TIME: Final = Form(lambda value, clock: clock(value))
YES: Final = Form(_yes, greatest_first=True)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name on the command line and in JSON, its title, and the value of a row (None: unknown).

    If the table is too narrow, the column with the greatest `drop` is left out first; a column with 0 always stays.
    `severity` returns the mark of a value: "E" (error), "W" (warning), or "" if the value is as it should be.
    """

    name: str
    title: str
    form: Form
    value: Callable[[Line], Value]
    drop: int = 0
    severity: Callable[[Value], str] = lambda _value: ""

    def text(self, value: Value, clock: Clock) -> str:
        """The text of a value; "" if it is None."""
        return "" if value is None else self.form.text(value, clock)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, and the rows that it makes of a view's JSON objects (lines).

    `rows` makes the rows of a line whose "schema" is `schema`; a row is a mapping from which the columns take their
    values. `key` names the members that identify a row across snapshots, and `filters` returns the display filters that
    select its exchanges. Tables without them use those of the line (captures.views.Kind).
    """

    name: str
    title: str
    view: str
    schema: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    filters: Callable[[Line], Sequence[str]] | None = None
    rows: Callable[[Line], Iterable[Line]] = lambda line: (line,)
    order: str = ""
    """The initial order of the rows: a column's name, with "-" before it to put the greatest value first."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The members that identify a row across snapshots."""
        return self.key or VIEWS[self.view].kinds[self.schema].members

    def tests(self, row: Line) -> Sequence[str]:
        """The display filters that select a row's exchanges."""
        if self.filters is not None:
            return self.filters(row)
        return next(VIEWS[self.view].kinds[self.schema].filters(row), [])

    def column(self, name: str) -> Column | None:
        return next((one for one in self.columns if one.name == name), None)


def warn(value: Value) -> str:
    """The mark of a value that should be 0 or empty: "W" (warning) if it is not; "" if it is, or is unknown."""
    return "W" if value else ""


def alarm(value: Value) -> str:
    """The mark of a value that should be 0 or empty: "E" (error) if it is not; "" if it is, or is unknown."""
    return "E" if value else ""


def member(name: str) -> Callable[[Line], Any]:
    """A function that returns the member `name` of a row."""
    return lambda line: line[name]


def listed(name: str) -> Callable[[Line], str | None]:
    """A function that returns the list `name` of a row as text, or None if the row has None in its place."""
    return lambda line: None if line[name] is None else SEPARATOR.join(map(str, line[name]))


def length(name: str) -> Callable[[Line], int]:
    """A function that returns the length of a row's list `name`."""
    return lambda line: len(line[name])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column as it is shown, `width` cells wide; its title always fits."""

    index: int
    column: Column
    width: int


LEAST_TEXT: Final = 12
"""Minimum width in cells of a column of text that is cut."""
LEAST_FIRST: Final = 26
"""Minimum width in cells of the first column of text, which names the thing."""


def fit(columns: Sequence[Column], widest: Sequence[int], width: int) -> list[Fitted]:
    """The columns that fit into `width` cells, two cells apart; `widest` are the cells of each column's widest text.

    Columns without any text are left out. Numbers are never cut. While the columns do not fit, even with texts cut to
    their minimum width (LEAST_TEXT, LEAST_FIRST), the one with the greatest `drop` is left out. Then those of the
    columns left out for which there is room come back, and texts grow as far as there is room, the first one first.
    """
    shown = [index for index, size in enumerate(widest) if size] or list(range(len(columns)))
    full = {index: max(len(columns[index].title) + 1, widest[index]) for index in shown}
    texts = [index for index in shown if not columns[index].form.right]
    least = full | {
        index: min(full[index], max(LEAST_FIRST if index == texts[0] else LEAST_TEXT, len(columns[index].title) + 1))
        for index in texts
    }

    def room() -> int:
        return width - sum(least[index] + 2 for index in shown) + 2

    while room() < 0:
        at = max(shown, key=lambda index: columns[index].drop)
        if not columns[at].drop:
            break
        shown.remove(at)
    for index in sorted(least.keys() - set(shown), key=lambda index: columns[index].drop):
        if least[index] + 2 <= room():
            shown.append(index)
    shown.sort()
    spare = room()
    sizes = {index: least[index] for index in shown}
    for index in texts:
        if index in sizes and spare > 0:
            more = min(spare, full[index] - sizes[index])
            sizes[index] += more
            spare -= more
    return [Fitted(index, columns[index], sizes[index]) for index in shown]
