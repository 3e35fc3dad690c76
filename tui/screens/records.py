"""Records: those of all exchanges in the list, each leading to its exchange."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual import on
from textual.widget import Widget

from captures.index.reader import IndexUnreadableError
from tui import look
from tui.screens.tabbed import TabbedScreen
from tui.widgets.records import RecordTable
from tui.widgets.records_tab import READ_AT_ONCE, RecordsTab

if TYPE_CHECKING:
    from tui.captions import Captions
    from tui.cells import Cells
    from tui.many_records import ManyRecords
    from tui.matching import View
    from tui.screens.exchanges import ExchangesScreen
    from tui.widgets.chrome import Part

EARLIER = 200
"""Exchanges of the list by which the beginning goes back."""


class RecordsScreen(TabbedScreen):
    """Records from the exchange on that the list's cursor is on; read when it is shown, in a thread."""

    def __init__(self, view: str, cells: Cells, captions: Captions, main: ExchangesScreen) -> None:
        super().__init__(view, cells, captions)
        self._main = main
        self._begun: tuple[View | None, int | None] = (None, None)
        """The list's view, and its row, that reading began with."""
        self._many: ManyRecords | None = None

    def content(self) -> Iterator[Widget]:
        yield RecordsTab(self._cells, self._main.detail.choices, id="records", classes="content")

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

    def told(self) -> list[Part]:
        parts: list[Part] = []
        if self.tab.reading:
            parts.append(("  reading", look.DIM))
        view = self._main.pane.view
        if view is not None and view.filtered:
            parts.append((f"  [f: {view.text}]", look.PLAIN))
        return [*parts, *self._captions.progress()]

    # reading

    def _start(self) -> int:
        """The line of the list to begin with; where new ones are followed, somewhat before."""
        pane = self._main.pane
        return max(0, pane.cursor - EARLIER) if pane.tail else pane.cursor

    def _begin(self, shown: View, start: int) -> None:
        """Read from a line of the list on."""
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

    # what is asked

    @on(RecordTable.ExchangeWanted)
    def _exchange_wanted(self, event: RecordTable.ExchangeWanted) -> None:
        event.stop()
        if self.app.lead_to(event.number, self.view):
            # coming back shows the same records
            self._begun = (self._main.pane.view, event.number - 1)
        else:
            self.notify(f"exchange {event.number} is not in the list", timeout=3)

    def action_earlier(self) -> None:
        shown = self._main.pane.view
        if self._many is not None and shown is not None:
            self._begin(shown, max(0, self._many.start - EARLIER))

    def action_neighbour(self, by: int) -> None:
        """Go to the records of the next or previous exchange."""
        self.pane.to_exchange(by)
