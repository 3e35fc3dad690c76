"""The Records screen: the records of all exchanges in the list, each with a way to its exchange."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widget import Widget

from kproxy.captures.index.reader import IndexUnreadableError
from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.output.copying import Copy, record_copies
from kproxy.tui.screens.copying import CopyMenu
from kproxy.tui.screens.tabbed import TabbedScreen
from kproxy.tui.search.searching import in_lines
from kproxy.tui.terminal import look
from kproxy.tui.widgets.find_bar import FindBar
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.records import RecordTable
from kproxy.tui.widgets.records_tab import READ_AT_ONCE, RecordsTab

if TYPE_CHECKING:
    from kproxy.tui.captions import Captions
    from kproxy.tui.detail.many_records import ManyRecords
    from kproxy.tui.listing.matching import View
    from kproxy.tui.screens.exchanges import ExchangesScreen
    from kproxy.tui.search import patterns
    from kproxy.tui.terminal.cells import Cells
    from kproxy.tui.widgets.chrome import Part

EARLIER = 200
"""Exchanges by which the action "earlier" moves the beginning back."""


class RecordsScreen(CopyMenu, TabbedScreen):
    """Records from the exchange under the list's cursor on, read in a thread when the screen is shown."""

    CONTEXTS = ("app", "finding", "copying")
    BINDINGS: ClassVar = actions.bindings("finding")

    def __init__(self, view: str, cells: Cells, captions: Captions, main: ExchangesScreen) -> None:
        super().__init__(view, cells, captions)
        self._main = main
        self._begun: tuple[View | None, int | None] = (None, None)
        """The list's view, and the index row selected in it, when reading began."""
        self._many: ManyRecords | None = None
        self._sought: patterns.Sought | None = None
        self._searched: Lines | None = None
        """The pane that had the focus when the find bar was opened."""

    def content(self) -> Iterator[Widget]:
        yield RecordsTab(self._cells, self._main.detail.choices, id="records", classes="content")
        yield FindBar(id="find", classes="content")

    @property
    def tab(self) -> RecordsTab:
        return self.query_one(RecordsTab)

    @property
    def pane(self) -> RecordTable:
        return self.tab.table

    def _lay_out(self) -> None:
        super()._lay_out()
        self.tab.lay_out(self.app.size.width)

    def refreshed(self) -> bool:
        shown = self._main.pane.view
        if shown is None:
            self.pane.message = "waiting for the index"
            return False
        chosen = (shown, self._main.pane.selected)
        if self._many is None or chosen[0] is not self._begun[0]:
            self._begun = chosen
            self._begin(shown, self._start())
            return True
        if not self.tab.reading and self._many.complete and self._many.behind:
            self._many.go_on()
            self.tab.read_on()
            return True
        return False

    def on_screen_resume(self) -> None:
        pane = self._main.pane
        if self._many is not None and pane.view is not None and pane.selected != self._begun[1]:
            self._begun = (pane.view, pane.selected)
            self._begin(pane.view, self._start())
        super().on_screen_resume()

    def on_unmount(self) -> None:
        self._let_go()

    def status_parts(self) -> list[Part]:
        parts: list[Part] = []
        if self.tab.reading:
            parts.append(("  reading", look.DIM))
        view = self._main.pane.view
        if view is not None and view.filtered:
            parts.append((f"  [f: {view.text}]", look.PLAIN))
        if self._sought is not None:
            parts.append((f"  [find: {self._sought.words}]", look.PLAIN))
        return [*parts, *self._captions.progress()]

    # reading

    def _start(self) -> int:
        """The line of the list to begin with: the cursor's, or EARLIER lines before it while the list is in TAIL."""
        pane = self._main.pane
        return max(0, pane.cursor - EARLIER) if pane.tail else pane.cursor

    def _begin(self, shown: View, start: int) -> None:
        """Start reading at a line of the list."""
        self._let_go()

        try:
            self._many = many = self._main.records_from(shown, start)
        except IndexUnreadableError as error:
            self.pane.message = str(error)
            return
        self.tab.show(lambda: (many, "no records from here on"), READ_AT_ONCE + 1)

    def _let_go(self) -> None:
        if self._many is not None:
            self._many.stop()
            self._many = None

    # actions and messages

    @on(RecordTable.ExchangeWanted)
    def _exchange_wanted(self, event: RecordTable.ExchangeWanted) -> None:
        event.stop()
        if self.app.lead_to(event.number, self.view):
            # so that coming back shows the same records
            self._begun = (self._main.pane.view, event.number - 1)
        else:
            self.notify(f"exchange {event.number} is not in the list", timeout=3)

    def action_earlier(self) -> None:
        shown = self._main.pane.view
        if self._many is not None and shown is not None:
            self._begin(shown, max(0, self._many.start - EARLIER))

    def _copies(self) -> list[Copy]:
        line = self.pane.line
        if not isinstance(line, RecordLine) or self.tab.withholds(line):
            return []
        broker = "" if line.origin is None else self._main.broker_of(line.origin.number - 1)
        pane = self._focused_lines()
        text = pane.line_text(pane.cursor)
        return [*record_copies(line, broker), Copy("line", text, lambda: text)]

    def action_neighbour(self, by: int) -> None:
        """Go to the records of the next (1) or previous (-1) exchange."""
        self.pane.to_exchange(by)

    # finding

    def _focused_lines(self) -> Lines:
        """The focused pane, else the records."""
        return self.focused if isinstance(self.focused, Lines) else self.pane

    def action_ask_what(self) -> None:
        self._searched = self._focused_lines()
        self.query_one(FindBar).open()

    def action_found(self, by: int) -> None:
        """Go to the next (1) or previous (-1) line of the focused pane that matches."""
        pane, sought = self._focused_lines(), self._sought
        if sought is None or not pane.count:
            return
        place = in_lines(pane, sought, by)
        if place is None:
            self.notify(f"nothing here says {sought.words}", timeout=3)
        else:
            pane.move_to(place)

    @on(FindBar.Done)
    def _find(self, event: FindBar.Done) -> None:
        event.stop()
        bar = self.query_one(FindBar)
        if event.text:
            from kproxy.tui.search import patterns

            try:
                self._sought = patterns.read(event.text)
            except ValueError as error:
                bar.complain(str(error))
                return
        bar.close()
        pane = self._searched if self._searched is not None and self._searched.is_on_screen else self.pane
        self.set_focus(pane)
        if event.text:
            self.action_found(1)
        self._show_chrome()
