"""The screens Topics, Groups, Transactions, Connections, Clients and Cluster: tables, and the details of one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from textual import on
from textual.timer import Timer
from textual.widget import Widget

from kproxy.captures.analysis.columns.column import Table
from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.analysis.columns.tables import tables
from kproxy.captures.views import VIEWS
from kproxy.tui.captions import Captions
from kproxy.tui.output.copying import Copy
from kproxy.tui.output.tables import row_copies
from kproxy.tui.screens.exporting import Exporting
from kproxy.tui.screens.tabbed import known_tests, why_empty
from kproxy.tui.screens.views import AnalysisScreen
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.analysis import Analysis
from kproxy.tui.views.details import details
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.outline import Outline
from kproxy.tui.widgets.table import TableList

ROOMY_ROWS: Final = 36
"""Smallest height of the terminal, in rows, at which the details of the row under the cursor always show."""
AROUND: Final = 5
"""Lines of the screen above and below the table and its details."""
MIN_TABLE: Final = 4
"""Fewest lines of a table: its headings and two rows."""
SMALL: Final = 1 << 15
"""Size in bytes up to which details are painted together with a move of the cursor."""
SETTLE: Final = 0.05
"""Seconds after a move of the cursor before larger details are painted, so that a held key stays quick."""


class TablesScreen(AnalysisScreen):
    """Tables of a view; `enter` shows the details of a row below the table."""

    CSS = """
    TablesScreen #root.-alone #outline, TablesScreen #root.-alone #timeline { display: none; }
    """

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting, analysis: Analysis) -> None:
        super().__init__(view, cells, captions, exporting, analysis)
        self._tables = {name: tables()[name] for name in VIEWS[view].screen.tables}
        self._shown = next(iter(self._tables))
        self._painted: tuple[Stored | None, Table | None] = None, None
        """What the table shows: where its rows are stored, and which table it is."""
        self._opened = False
        """Whether details were asked for."""
        self._detailed: object = None
        """The rows and the row number that the details show; None without details."""
        self._waiting: Timer | None = None

    def content(self) -> Iterator[Widget]:
        yield TableList(
            self._cells, {table.name: table.title for table in self._tables.values()}, id="table", classes="content"
        )
        for widget in super().content():
            if isinstance(widget, Outline):
                widget.beside_table = True
            yield widget

    @property
    def pane(self) -> Lines:
        return self.table

    @property
    def table(self) -> TableList:
        return self.query_one(TableList)

    def refreshed(self) -> bool:
        self._analysis.start()
        table = self._tables[self._shown]
        stored = self._analysis.stored(table.view)
        if stored is None:
            self.table.empty = "Reading the capture"
        if (stored, table) == self._painted:
            return False
        self._painted = stored, table
        rows = None if stored is None else stored.rows(table)
        if rows is not None:
            self._facts: dict[str, Any] | None = {**rows.facts, "left_out": rows.left_out}
            self.table.empty = why_empty(self._facts)
            self.table.show(rows)
        return True

    # the details

    def _lay_out(self) -> None:
        super()._lay_out()
        self._root.set_class(not self.detailing, "-alone")
        self._share_room()

    def _share_room(self) -> None:
        """Give a table beside details no more lines than it has rows, and half of the screen at most."""
        if self.detailing:
            wanted = self.table.count + self.table.HEADING + 1
            self.table.styles.height = max(MIN_TABLE, min(wanted, (self.app.size.height - AROUND) // 2))
        else:
            self.table.styles.height = "1fr"

    @property
    def detailing(self) -> bool:
        """Whether the details of the row under the cursor show."""
        return self._opened or self.app.size.height >= ROOMY_ROWS

    def show_details(self) -> None:
        """Show the row under the cursor in the details, if these are on screen."""
        rows, selected = self.table.rows_shown, self.table.selected
        if not self.detailing:
            return
        if rows is None or selected is None:
            self._detailed = None
            self.outline.show(())
        elif self._detailed != (rows, selected):
            self._detailed = rows, selected
            self.outline.show([details(rows.table.view, rows.line(selected))])
        self._draw()

    @on(TableList.Moved)
    def _row_moved(self, event: TableList.Moved) -> None:
        event.stop()
        self._share_room()
        self.show_chrome()
        if self._waiting is not None:
            self._waiting.stop()
        rows, selected = self.table.rows_shown, self.table.selected
        if not self.detailing:
            return
        if rows is None or selected is None or rows.size(selected) <= SMALL:
            self.show_details()
        else:
            self._waiting = self.set_timer(SETTLE, self.show_details)

    @on(TableList.Opened)
    def _open_asked(self, event: TableList.Opened) -> None:
        event.stop()
        self._opened = True
        self._lay_out()
        self.show_details()
        self.outline.focus()

    def action_other_pane(self) -> None:
        """Move the focus between the table and the details."""
        if self.focused is self.outline:
            self.table.focus()
        elif self.detailing:
            self.outline.focus()

    def action_back(self) -> None:
        """Close the details, else show all rows again, else leave the screen."""
        if self._opened or self.focused is self.outline:
            self._opened = False
            self.table.focus()
            self._lay_out()
            self.show_chrome()
        elif self.table.text:
            self.table.narrow("")
        else:
            super().action_back()

    # copies

    def copies(self) -> list[Copy]:
        """Copies of the row under the cursor, then of the table."""
        rows, selected = self.table.rows_shown, self.table.selected
        if rows is None:
            return []
        found = []
        if self.outline.has_focus and self.outline.cursor < self.outline.count:
            text = self.outline.line_text(self.outline.cursor)
            found.append(Copy("line", text, lambda: text))
        if selected is not None:
            tests = " and ".join(known_tests(self.table.tests))
            found += list(row_copies(rows, selected))
            found += [Copy("filter", tests, lambda: tests)] if tests else []
        view = VIEWS[self.view]
        name = view.name if view.command is None else view.command.name
        arranged = self.table.arranged_by()
        return [*found, *self._exporting.commands(name, "--table", rows.table.name, *arranged)]

    # what else the table asks for

    @on(TableList.TableAsked)
    def _table_asked(self, event: TableList.TableAsked) -> None:
        event.stop()
        self._shown = self.table.name_shown = event.name
        self.table.text = ""
        self.refreshed()
        self.show_chrome()

    @on(TableList.FilterBy)
    def _row_filter_asked(self, event: TableList.FilterBy) -> None:
        event.stop()
        if self.table.selected is not None:
            self.filter_by(self.table.tests)

    @on(TableList.NarrowAsked)
    def _narrow_asked(self, event: TableList.NarrowAsked) -> None:
        event.stop()
        self._asking.ask(self._narrow, "Rows with", self.table.text)

    def _narrow(self, text: str) -> Callable[[], None]:
        return partial(self.table.narrow, text)
