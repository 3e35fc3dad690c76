"""The filter of the exchanges screen: its bar, saved filters, and filters made of what is under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from kproxy.tui.detail.records import RecordLine
from kproxy.tui.listing.counting import SlicedCounts
from kproxy.tui.listing.matching import View
from kproxy.tui.screens.shared import Shared
from kproxy.tui.settings.keeping import SavedFilters
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.filter_line import FilterInput

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.tui.screens.menu import Asked
    from kproxy.tui.search.clauses import Clause


class Filtering:
    """Applies filters to the list."""

    def __init__(
        self,
        shared: Shared,
        saved: SavedFilters,
        filter_text: str,
        *,
        scan_on: Callable[[View], None],
        focus_panes: Callable[[], None],
    ) -> None:
        """`scan_on` tests the remaining rows of a view; `focus_panes` gives the focus back to list or detail."""
        self._shared = shared
        self._screen = shared.screen
        self._bar = shared.bar
        self._saved = saved
        self._first = filter_text
        """The filter to apply once the index can be read."""
        self._scan_on = scan_on
        self._focus_panes = focus_panes
        self._counts: SlicedCounts | None = None

    @property
    def filtered(self) -> bool:
        view = self._shared.pane.view
        return view is not None and view.filtered

    def begin(self) -> None:
        """Put the first filter into the bar."""
        if self._first:
            self._bar.set_text(self._first)

    def use(self, index: IndexReader) -> None:
        """Begin to show an index, with the filter that the user asked for before the index could be read."""
        self._counts = SlicedCounts(index, self._shared.definitions)
        self._bar.use(self._counts)
        self._shared.pane.view = self._first_view(index)

    def _first_view(self, index: IndexReader) -> View:
        from kproxy.decoders.filters import parse

        return self._view(index, self._first if self._first and parse(self._first, self._saved).expression else "")

    def _view(self, index: IndexReader, text: str) -> View:
        """The exchanges of the period that a valid filter selects."""
        period = self._shared.captions.period
        if period:
            text = " and ".join([*period.tests(), *([f"({text})"] if text else [])])
        if not text:
            return View(index, self._shared.definitions)
        from kproxy.decoders.filters import parse

        return View(index, self._shared.definitions, parse(text, self._saved).expression, text)

    def limit(self) -> None:
        """Show only exchanges of the present period; the bar's filter stays."""
        if self._shared.index is not None:
            self._show(self._shared.index, self._bar.applied)

    def apply(self, event: FilterBar.Applied) -> None:
        """Show the exchanges that the bar's filter selects."""
        index = self._shared.index
        if index is None:
            self._first = event.text
            return
        self._show(index, event.text)
        if isinstance(self._screen.focused, FilterInput):
            self._leave_filter()
        self._screen.show_chrome()

    def _show(self, index: IndexReader, text: str) -> None:
        shared, old = self._shared, self._shared.pane.view
        view = self._view(index, text)
        left = view.scan(old.scanned if shared.paused and old else index.count)
        shared.pane.show(view)
        if old is not None:
            old.close()
        if left:
            self._scan_on(view)

    def leave(self) -> None:
        """Leave the bar; the applied filter stays."""
        self._bar.restore()
        self._leave_filter()

    def _leave_filter(self) -> None:
        self._screen.set_focus(None)
        self._focus_panes()

    def action_edit_filter(self) -> None:
        self._bar.edit()

    def action_clear_filter(self) -> None:
        self._bar.set_text("")

    # filters by name

    def action_apply_filter(self, text: str) -> None:
        """Apply a filter; a broken one is only put into the bar to be edited."""
        self._bar.set_text(text)
        if self._bar.pending:
            self._bar.edit()

    def action_save_filter(self, name: str) -> None:
        from kproxy.decoders.filters import parse
        from kproxy.decoders.filters.language import SAVED

        text = self._bar.applied
        if not text:
            self._screen.notify("no filter is applied", timeout=3)
        elif parse(f"{SAVED}{name}", {name: "error"}).expression is None:
            self._screen.notify(
                f"{name!r} cannot be a name: it may have letters, digits, - and _", severity="warning", timeout=4
            )
        elif SAVED in text and parse(text).expression is None:
            self._screen.notify(f"a saved filter cannot refer to another: {text}", severity="warning", timeout=4)
        else:
            self._keep(lambda: self._saved.save(name, text), f"{SAVED}{name} is {text}")

    def action_delete_filter(self, name: str) -> None:
        from kproxy.decoders.filters.language import SAVED

        name = name.removeprefix(SAVED)
        if name not in self._saved:
            self._screen.notify(f"no saved filter {name}", timeout=3)
        elif not self._saved.owns(name):
            self._screen.notify(
                f"{SAVED}{name} is set in the configuration: remove it there", severity="warning", timeout=4
            )
        else:
            self._keep(lambda: self._saved.delete(name), f"{SAVED}{name} is deleted")

    def _keep(self, change: Callable[[], object], said: str) -> None:
        try:
            change()
        except OSError as error:
            said = f"{said} until you leave: {error.strerror or error}"
        self._screen.notify(said, timeout=3)

    def action_saved_filters(self) -> None:
        """Open a menu of saved and recent filters, to be joined to the applied one."""
        from kproxy.decoders.filters import parse
        from kproxy.decoders.filters.language import SAVED
        from kproxy.tui.screens.kept_filters import MOST_RECENT, KeptFilters
        from kproxy.tui.search.clauses import Clause

        index = self._shared.index
        clauses = [Clause(f"{SAVED}{name}", f"{SAVED}{name}") for name in self._saved]
        recent = [text for text in self._bar.recent if parse(text, self._saved).expression is not None]
        clauses += [Clause("recent", text) for text in recent[:MOST_RECENT]]
        if not clauses or index is None:
            self._screen.notify("no filter was applied or saved yet; :filter save NAME keeps one", timeout=4)
            return
        menu = KeptFilters(self._shared.cells, clauses, self._bar.applied, self._saved, index, self._shared.definitions)
        self._screen.app.push_screen(menu, self._filter_asked)

    def names(self, typed: str) -> Sequence[tuple[str, str]]:
        """Completions of the name of a saved filter."""
        return [(name, text) for name, text in self._saved.items() if name.startswith(typed)]

    def arguments(self, typed: str) -> Sequence[tuple[str, str]]:
        """Completions of a filter."""
        from kproxy.decoders.filters import complete

        found = complete(typed, seen=self._counts, saved=self._saved)
        return [
            (found.accept(typed, one)[0], f"{one.count:,}" if one.count is not None else one.doc)
            for one in found.candidates
            if one.kind != "example"
        ]

    # Filters made from the value under the cursor.

    def action_filter_menu(self) -> None:
        """Open a menu of filters that match what is under the cursor."""
        clauses = self.clauses()
        if clauses:
            self._offer("Filter by", clauses)
        else:
            self._screen.notify("nothing here to filter by", timeout=3)

    def _offer(self, title: str, clauses: Sequence[Clause]) -> None:
        from kproxy.tui.screens.menu import FilterMenu

        menu = FilterMenu(self._shared.cells, title, clauses, self._bar.applied, self._saved)
        self._screen.app.push_screen(menu, self._filter_asked)

    def _filter_asked(self, asked: Asked | None) -> None:
        if asked is None:
            return
        if asked.prepared:
            self._bar.prepare(asked.text)
        else:
            self._bar.set_text(asked.text)

    def clauses(self) -> list[Clause]:
        """Filters that the focused pane suggests, then those of the selected exchange; each once."""
        found = self._clauses_of(self._screen.focused)
        row = self._shared.pane.selected
        if self._shared.index is not None and row is not None:
            from kproxy.tui.search.clauses import RowClauses

            found += RowClauses(self._shared.index, self._shared.definitions).of(row)
        return list({clause.text: clause for clause in found}.values())

    def _clauses_of(self, pane: Widget | None) -> list[Clause]:
        from kproxy.tui.search.clauses import node_clauses, record_clauses

        detail = self._shared.detail
        if pane in {detail.fields, detail.hex} and detail.fields.node is not None and detail.side is not None:
            return node_clauses(detail.fields.node, detail.side_name)
        if pane in detail.records.panes and isinstance(line := detail.records.table.line, RecordLine):
            return record_clauses(line, withheld=detail.records.withholds(line))
        return []
