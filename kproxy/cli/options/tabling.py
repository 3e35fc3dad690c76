"""Options that show a view as a table: which one, its columns, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.captures.analysis.columns.column import Table
    from kproxy.captures.views import Line

Command = TypeVar("Command", bound=Callable[..., Any])
ROW = "kproxy.row/1"


@dataclass(frozen=True, slots=True)
class Tabled:
    """The table to print, the names of its columns (empty: all), and those to sort by ("-NAME" for descending)."""

    table: Table
    columns: Sequence[str] = ()
    order: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises Failure (exit 2) for a column that the table does not have."""
        from kproxy.captures.analysis.columns.tables import UnknownColumnError, chosen

        try:
            chosen(self.table, [*self.columns, *(name.removeprefix("-") for name in self.order)])
        except UnknownColumnError as error:
            raise Failure(str(error), Exit.USAGE) from None

    def shows(self, name: str) -> bool:
        """Whether a column is among those that are shown or sorted by."""
        known = self.table.column(name) is not None
        return known and (not self.columns or name in {*self.columns, *(one.removeprefix("-") for one in self.order)})

    def objects(self, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
        """The rows of a view's JSON objects, as JSON objects of the chosen columns."""
        from kproxy.captures.analysis.columns.tables import arranged, chosen, rows, table_json

        found = arranged(self.table, rows(self.table, lines), self.order)
        for row in table_json(chosen(self.table, self.columns), found):
            yield {"schema": ROW, "table": self.table.name, **row}

    def text(self, objects: Iterable[Line]) -> Iterator[str]:
        """The rows that `objects` returned, as a heading and lines of text."""
        from kproxy.captures.analysis.columns.tables import chosen, table_text

        return table_text(chosen(self.table, self.columns), objects, given=bool(self.columns))


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str]:
    return [name for part in (value or "").split(",") if (name := part.strip())]


def tabling(names: Sequence[str]) -> Callable[[Command], Command]:
    """Adds --table, --columns and --sort; the command gets `table`, `columns` and `order` for `tabled`."""

    def add(command: Command) -> Command:
        options = [
            click.option(
                "--table", "table", type=click.Choice(names),
                help="Print this table of the terminal UI: a row for each topic, client, group and so on.",
            ),
            click.option(
                "--columns", "columns", metavar="NAME,…", callback=_names,
                help="These columns of the table; a wrong name lists all.",
            ),
            click.option(
                "--sort", "order", metavar="[-]NAME,…", callback=_names,
                help="Sort the table by these columns; “-” puts the greatest value first.",
            ),
        ]  # fmt: skip
        for option in reversed(options if names else []):
            command = option(command)
        return command

    return add


def tabled(
    names: Sequence[str], table: str | None = None, columns: Sequence[str] = (), order: Sequence[str] = ()
) -> Tabled | None:
    """The table that the options ask for; None without options.

    With --columns or --sort but no --table, it is the first of `names`. Raises Failure (exit 2) for a column that the
    table does not have.
    """
    if table is None and not columns and not order:
        return None
    from kproxy.captures.analysis.columns.tables import tables

    return Tabled(tables()[table or names[0]], columns, order)
