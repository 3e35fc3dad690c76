"""The columns of the list as the user has chosen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kproxy.tui.listing.columns import BY_NAME, COLUMNS, Column
from kproxy.tui.screens.shared import Shared
from kproxy.tui.settings.remembered import COLUMN_WIDTHS, Remembered

if TYPE_CHECKING:
    from kproxy.tui.screens.columns_menu import Choices


class Columns:
    """Shows the columns that are remembered, and lets the user choose others."""

    def __init__(self, shared: Shared, remembered: Remembered) -> None:
        self._shared = shared
        self._remembered = remembered

    @property
    def _names(self) -> list[str]:
        """The columns that the user has chosen; names that this version lacks are left out."""
        known = [name for name in self._remembered.columns or () if name in BY_NAME]
        return known or [column.name for column in COLUMNS]

    @property
    def chosen(self) -> Sequence[Column]:
        """The columns to show, with the widths that the user has chosen."""
        widths = self._remembered.widths
        columns = [BY_NAME[name] for name in self._names]
        return [
            replace(column, width=widths[column.name], most=widths[column.name]) if column.name in widths else column
            for column in columns
        ]

    def show(self) -> None:
        self._shared.pane.show_columns(self.chosen)

    def resize(self, name: str, width: int) -> None:
        """Give a column a width, in cells."""
        width, old = max(COLUMN_WIDTHS.start, min(width, COLUMN_WIDTHS.stop - 1)), self._remembered.widths
        if old.get(name) != width:
            self._remembered.choose_columns(self._remembered.columns, {**old, name: width})
            self.show()

    def action_columns(self) -> None:
        """Open the menu of columns."""
        from kproxy.tui.screens.columns_menu import ColumnsMenu

        menu = ColumnsMenu(self._shared.cells, self._names, self._remembered.widths)
        self._shared.screen.app.push_screen(menu, self._take)

    def _take(self, choices: Choices | None) -> None:
        if choices is not None:
            at_first = tuple(column.name for column in COLUMNS)
            self._remembered.choose_columns(None if choices.names == at_first else choices.names, choices.widths)
            self.show()
