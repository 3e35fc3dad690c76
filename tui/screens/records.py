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
from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.finding import Finding, not_found
from kproxy.tui.screens.shared import Shared
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
    from kproxy.tui.screens.exporting import Exporting
    from kproxy.tui.search import patterns
    from kproxy.tui.terminal.cells import Cells
    from kproxy.tui.widgets.chrome import Part

EARLIER = 200
"""How many exchanges the action "earlier" moves the beginning back."""


class RecordsScreen(TabbedScreen):
    """Records, beginning with the exchange under the list's cursor; a thread reads them when the screen is shown."""

    CONTEXTS = ("app", "finding", "copying")
    BINDINGS: ClassVar = [binding for context in CONTEXTS[1:] for binding in actions.bindings(context)]

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting, shared: Shared) -> None:
        super().__init__(view, cells, captions, exporting)
        self._shared = shared
        self._asking = Asking(self, lambda pane: self.set_focus(pane or self.pane))
        self._finding = Finding(self, self._asking, lambda: self.pane, self._find)
        self.take_actions(self._finding)
        self._begun: tuple[View | None, int | None] = (None, None)
        """The list's view, and the index row selected in it, when reading began."""
        self._many: ManyRecords | None = None

    def content(self) -> Iterator[Widget]:
        yield RecordsTab(self._cells, self._shared.detail.choices, id="records", classes="content")
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
        shown = self._shared.pane.view
        if shown is None:
            self.pane.message = "waiting for the index"
            return False
        chosen = (shown, self._shared.pane.selected)
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
        pane = self._shared.pane
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
        if self._shared.bar.applied:
            parts.append((f"  [f: {self._shared.bar.applied}]", look.PLAIN))
        return [*parts, *self._finding.parts(), *self._captions.progress()]

    # reading

    def _start(self) -> int:
        """The line of the list at which to begin: the cursor's, or EARLIER lines before it if tail is on."""
        pane = self._shared.pane
        return max(0, pane.cursor - EARLIER) if pane.tail else pane.cursor

    def _begin(self, shown: View, start: int) -> None:
        """Start reading at a line of the list."""
        self._let_go()

        try:
            self._many = many = self._shared.records_from(shown, start)
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
            self._begun = (self._shared.pane.view, event.number - 1)
        else:
            self.notify(f"exchange {event.number} is not in the list", timeout=3)

    def action_earlier(self) -> None:
        shown = self._shared.pane.view
        if self._many is not None and shown is not None:
            self._begin(shown, max(0, self._many.start - EARLIER))

    def copies(self) -> list[Copy]:
        return [*self._copies_of_line(), *self._command()]

    def _command(self) -> list[Copy]:
        """A copy of the command that prints these records; none if that command would number exchanges differently."""
        index, many = self._shared.index, self._many
        if index is None or index.first or many is None or many.first is None:
            return []
        filters = [*self._exporting.shown(), *([f"exchange >= {many.first}"] if many.first > 1 else [])]
        return self._exporting.commands("export", "--format", "records", filters=filters)

    def _copies_of_line(self) -> list[Copy]:
        line = self.pane.line
        if not isinstance(line, RecordLine) or self.tab.withholds(line):
            return []
        broker = "" if line.origin is None else self._shared.broker_of(line.origin.number - 1)
        pane = self._finding.pane
        text = pane.line_text(pane.cursor)
        return [*record_copies(line, broker), Copy("line", text, lambda: text)]

    def action_neighbour(self, by: int) -> None:
        """Go to the records of the next (1) or previous (-1) exchange."""
        self.pane.to_exchange(by)

    # finding

    def _find(self, pane: Lines, sought: patterns.Sought, by: int) -> None:
        if not pane.count:
            return
        place = in_lines(pane, sought, by)
        if place is None:
            not_found(self, sought)
        else:
            pane.move_to(place)

    @on(FindBar.Done)
    def _answered(self, event: FindBar.Done) -> None:
        self._asking.answer(event)
