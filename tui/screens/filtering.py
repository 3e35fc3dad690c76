"""The filter of the exchanges screen: its bar, saved filters, and filters made of what is under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widget import Widget

from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action
from kproxy.tui.captions import Captions
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.listing.counting import SlicedCounts
from kproxy.tui.listing.matching import View
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.settings.keeping import History, SavedFilters
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.detail import Detail
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.filter_line import FilterInput

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.schema import Definitions
    from kproxy.tui.screens.menu import Asked
    from kproxy.tui.search.clauses import Clause


class FilteringScreen(KproxyScreen):
    """A screen with an exchange list, its filter bar and a detail; a subclass supplies the rows."""

    BINDINGS: ClassVar = actions.bindings("filtering")

    _definitions: Definitions

    def __init__(
        self,
        cells: Cells,
        captions: Captions,
        filter_text: str,
        saved: SavedFilters | None,
        history: History | None,
    ) -> None:
        super().__init__(cells, captions)
        self._first_filter = filter_text
        self._saved = SavedFilters() if saved is None else saved
        self._history = history
        self._index: IndexReader | None = None
        self._counts: SlicedCounts | None = None
        self._paused = False
        self._came_from: str | None = None
        """The screen that led here; going back returns to it."""

    @cached_property
    def pane(self) -> ExchangeList:
        """The list; cached, because screens over this one use it even after it is removed."""
        return self.query_one(ExchangeList)

    @property
    def detail(self) -> Detail:
        return self.query_one(Detail)

    @property
    def bar(self) -> FilterBar:
        return self.query_one(FilterBar)

    @property
    def filtered(self) -> bool:
        return self.pane.view is not None and self.pane.view.filtered

    # implemented by a subclass

    def _scan_on(self, view: View) -> None:
        """Test the next chunk of a view's rows."""
        raise NotImplementedError

    def _show_chrome(self) -> None:
        """Paint the lines around the panes."""
        raise NotImplementedError

    def _focus_panes(self) -> None:
        """Move the focus from the bar to the pane that is read."""
        raise NotImplementedError

    # the filter

    def filter_by(self, text: str, came_from: str, *, prepared: bool = False) -> None:
        """Apply a filter from screen `came_from`; with `prepared` only put it into the bar."""
        self._came_from = came_from
        if prepared:
            self.bar.prepare(text)
        else:
            self.bar.set_text(text)

    def _pending_view(self, index: IndexReader) -> View:
        """The first view of an index, with the filter that was asked for before the index could be read."""
        if not self._first_filter:
            return View(index, self._definitions)
        from kproxy.decoders.filters import parse

        expression = parse(self._first_filter, self._saved).expression
        return View(index, self._definitions, expression, self._first_filter if expression else "")

    @on(FilterBar.Applied)
    def _filter_applied(self, event: FilterBar.Applied) -> None:
        event.stop()
        if self._index is None:
            self._first_filter = event.text
            return
        old = self.pane.view
        view = View(self._index, self._definitions, event.result.expression, event.text)
        limit = self.pane.view.scanned if self._paused and self.pane.view else self._index.count
        left = view.scan(limit)
        self.pane.show(view)
        if old is not None:
            old.close()
        if left:
            self._scan_on(view)
        if isinstance(self.focused, FilterInput):
            self._leave_filter()
        self._show_chrome()

    @on(FilterBar.Left)
    def _filter_left(self, event: FilterBar.Left) -> None:
        event.stop()
        self.bar.restore()
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.set_focus(None)
        self._focus_panes()

    def action_edit_filter(self) -> None:
        self.bar.edit()

    def action_clear_filter(self) -> None:
        self.bar.set_text("")

    # filters by name

    def action_apply_filter(self, text: str) -> None:
        """Apply a filter; a broken one is only put into the bar to be edited."""
        self.bar.set_text(text)
        if self.bar.pending:
            self.bar.edit()

    def action_save_filter(self, name: str) -> None:
        from kproxy.decoders.filters import parse
        from kproxy.decoders.filters.fields import SAVED

        text = self.bar.applied
        if not text:
            self.notify("no filter is applied", timeout=3)
        elif parse(f"{SAVED}{name}", {name: "error"}).expression is None:
            self.notify(f"{name!r} cannot be a name: letters, digits, - and _", severity="warning", timeout=4)
        elif SAVED in text and parse(text).expression is None:
            self.notify(f"saved filters name no others: {text}", severity="warning", timeout=4)
        else:
            self._keep(lambda: self._saved.save(name, text), f"{SAVED}{name} is {text}")

    def action_delete_filter(self, name: str) -> None:
        from kproxy.decoders.filters.fields import SAVED

        name = name.removeprefix(SAVED)
        if name not in self._saved:
            self.notify(f"no saved filter {name}", timeout=3)
        elif not self._saved.owns(name):
            self.notify(f"{SAVED}{name} stands in the configuration", severity="warning", timeout=4)
        else:
            self._keep(lambda: self._saved.delete(name), f"{SAVED}{name} is forgotten")

    def _keep(self, change: Callable[[], object], said: str) -> None:
        try:
            change()
        except OSError as error:
            said = f"{said} until you leave: {error.strerror or error}"
        self.notify(said, timeout=3)

    def action_saved_filters(self) -> None:
        """Open a menu of saved filters, to be joined to the applied one."""
        from kproxy.decoders.filters.fields import SAVED
        from kproxy.tui.search.clauses import Clause

        clauses = [Clause(f"{SAVED}{name}", f"{SAVED}{name}") for name in self._saved]
        if clauses:
            self._offer("Saved filters", clauses)
        else:
            self.notify("no filter is saved; :filter save NAME keeps the one that is applied", timeout=4)

    def arguments(self, action: Action, typed: str) -> Sequence[tuple[str, str]]:
        if action.id == "filtering.delete":
            return [(name, text) for name, text in self._saved.items() if name.startswith(typed)]
        if action.id == "filtering.apply":
            from kproxy.decoders.filters import complete

            found = complete(typed, seen=self._counts, saved=self._saved)
            return [
                (found.accept(typed, one)[0], f"{one.count:,}" if one.count is not None else one.doc)
                for one in found.candidates
                if one.kind != "example"
            ]
        return super().arguments(action, typed)

    # filters made of what is under the cursor

    def action_filter_menu(self) -> None:
        """Open a menu of filters that match what is under the cursor."""
        clauses = self._clauses()
        if clauses:
            self._offer("Filter by", clauses)
        else:
            self.notify("nothing here to filter by", timeout=3)

    def _offer(self, title: str, clauses: Sequence[Clause]) -> None:
        from kproxy.tui.screens.menu import FilterMenu

        menu = FilterMenu(self._cells, title, clauses, self.bar.applied, self._saved)
        self.app.push_screen(menu, self._filter_asked)

    def _filter_asked(self, asked: Asked | None) -> None:
        if asked is None:
            return
        if asked.prepared:
            self.bar.prepare(asked.text)
        else:
            self.bar.set_text(asked.text)

    def _clauses(self) -> list[Clause]:
        """Filters that the focused pane suggests, then those of the selected exchange; each once."""
        found = self._clauses_of(self.focused)
        row = self.pane.selected
        if self._index is not None and row is not None:
            from kproxy.tui.search.clauses import RowClauses

            found += RowClauses(self._index, self._definitions).of(row)
        return list({clause.text: clause for clause in found}.values())

    def _clauses_of(self, pane: Widget | None) -> list[Clause]:
        from kproxy.tui.search.clauses import node_clauses, record_clauses

        detail = self.detail
        if pane in {detail.fields, detail.hex} and detail.fields.node is not None and detail.side is not None:
            return node_clauses(detail.fields.node, detail.side_name)
        if pane in detail.records.panes and isinstance(line := detail.records.table.line, RecordLine):
            return record_clauses(line, withheld=detail.records.withholds(line))
        return []
