"""The menu in which the user chooses the list's columns and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from kproxy.tui.actions import registry as actions
from kproxy.tui.listing.columns import BY_NAME, COLUMNS, OFFERED
from kproxy.tui.screens.menu import Choice, MenuScreen
from kproxy.tui.settings.remembered import COLUMN_WIDTHS
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar


class Choices(NamedTuple):
    """The names of the columns to show, from left to right, at least one; and the widths of columns, in cells."""

    names: tuple[str, ...]
    widths: Mapping[str, int]


class ColumnsMenu(MenuScreen[Choices]):
    """The menu lists the shown columns first, then the others."""

    CONTEXT = "columns"
    BINDINGS: ClassVar = actions.bindings("columns")

    def __init__(self, cells: Cells, shown: Sequence[str], widths: Mapping[str, int]) -> None:
        self._shown = list(shown)
        self._widths = dict(widths)
        self._order = [*shown, *(column.name for column in OFFERED if column.name not in shown)]
        super().__init__(cells, "Columns of the list", self._lines())

    def _lines(self) -> list[Choice]:
        marks = {True: "[x]", False: "[ ]"}
        return [
            Choice(f"{marks[name in self._shown]} {BY_NAME[name].title}", self._width_text(name) + BY_NAME[name].doc)
            for name in self._order
        ]

    def _width_text(self, name: str) -> str:
        return f"[{self._widths[name]} wide]  " if name in self._widths else ""

    def show_chrome(self) -> None:
        super().show_chrome()
        said = f" {len(self._shown)} shown, from left to right; a narrow terminal leaves out some of them"
        self.query_one("#menu-said", Bar).show(([(said, look.PLAIN)], []))

    def _changed(self) -> None:
        self._shown = [name for name in self._order if name in self._shown]
        self.lines.replace(self._lines())
        self.show_chrome()

    def taken(self, index: int) -> None:
        name = self._order[index]
        if name not in self._shown:
            self._shown.append(name)
        elif len(self._shown) > 1:
            self._shown.remove(name)
        self._changed()

    def action_show_or_hide(self) -> None:
        self.taken(self.lines.cursor)

    def action_move(self, by: int) -> None:
        """Move the column under the cursor `by` places to the right."""
        here = self.lines.cursor
        there = max(0, min(here + by, len(self._order) - 1))
        self._order.insert(there, self._order.pop(here))
        self.lines.move_to(there)
        self._changed()

    def action_resize(self, by: int) -> None:
        """Make the column under the cursor `by` cells wider."""
        name = self._order[self.lines.cursor]
        width = self._widths.get(name, BY_NAME[name].width) + by
        self._widths[name] = max(COLUMN_WIDTHS.start, min(width, COLUMN_WIDTHS.stop - 1))
        self._changed()

    def action_reset(self) -> None:
        """Show the default columns in their default order and widths."""
        self._widths.clear()
        self._shown = [column.name for column in COLUMNS]
        self._order = [column.name for column in OFFERED]
        self._changed()

    def action_close(self) -> None:
        self.dismiss(Choices(tuple(self._shown), self._widths))
