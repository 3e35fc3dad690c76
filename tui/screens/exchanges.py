"""The exchanges screen: connects list, filter bar and detail to the index."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.widget import Widget

from kproxy.captures.definitions import definitions
from kproxy.captures.index.reader import IndexReader, IndexUnreadableError
from kproxy.captures.period import Period
from kproxy.captures.views import FINDINGS
from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action
from kproxy.tui.captions import Captions
from kproxy.tui.detail.opened import Opener
from kproxy.tui.detail.presenter import Presenter
from kproxy.tui.listing.matching import View
from kproxy.tui.listing.rows import RowText
from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.screens.columns import Columns
from kproxy.tui.screens.comparing import Comparing
from kproxy.tui.screens.copying import Copying, copies_of
from kproxy.tui.screens.exporting import Exporting
from kproxy.tui.screens.filtering import Filtering
from kproxy.tui.screens.finding import ExchangeFinder, Finding
from kproxy.tui.screens.following import Following
from kproxy.tui.screens.jumping import Jumping
from kproxy.tui.screens.layout import Layout
from kproxy.tui.screens.marking import Marking
from kproxy.tui.screens.proving import Proving
from kproxy.tui.screens.shared import Shared
from kproxy.tui.settings.keeping import History, SavedFilters
from kproxy.tui.settings.live import RunInfo
from kproxy.tui.settings.remembered import Remembered
from kproxy.tui.terminal import look
from kproxy.tui.widgets.chrome import Bar, HelpBar, Part
from kproxy.tui.widgets.detail import OVERVIEW, RESPONSE, TABS, Detail
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.find_bar import FindBar
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.painted import Ground

if TYPE_CHECKING:
    from kproxy.tui.detail.viewing import Viewers
    from kproxy.tui.output.commands import Exporter
    from kproxy.tui.screens.leave import Leave
    from kproxy.tui.terminal.cells import Cells
    from kproxy.tui.views.findings import Found

TICK = 0.1
"""Seconds between checks for changes of the index."""
WAITING_TICKS = 5
"""Ticks between updates of the latency shown for requests in flight."""
WELCOME_SECONDS = 20.0


class ExchangesScreen(KproxyScreen):
    """The list, the filter bar and the detail; its parts hold most of its actions."""

    CONTEXTS = ("app", "filtering", "walking", "finding", "exchanges", "copying", "exporting")
    BINDINGS: ClassVar = [binding for context in CONTEXTS[1:] for binding in actions.bindings(context)]
    CSS = """
    #body { width: 1fr; height: 1fr; layout: vertical; }
    #list { height: 1fr; }
    #detail { display: none; }
    .-reading #list { display: none; }
    .-reading #detail { display: block; }
    .-split #about { display: none; }
    .-split #list { display: block; height: 2fr; }
    .-split #detail { display: block; height: 3fr; }
    .-side #body { layout: horizontal; }
    .-side #list { width: 3fr; height: 1fr; }
    .-side #detail { width: 2fr; min-width: 80; height: 1fr; }
    .-tiny #filter, .-tiny #find, .-tiny #body { display: none; }
    """

    def __init__(
        self,
        directory: Path,
        cells: Cells,
        captions: Captions,
        found: Found,
        *,
        live: RunInfo | None = None,
        looks_for_findings: bool = False,
        writes_notes: bool = True,
        filter_text: str = "",
        release: str | None = None,
        user_definitions: Sequence[str] = (),
        show_secrets: bool = False,
        viewers: Viewers | None = None,
        arrived: Event | None = None,
        saved: SavedFilters | None = None,
        history: History | None = None,
        remembered: Remembered | None = None,
        exporter: Exporter | None = None,
    ) -> None:
        super().__init__(cells, captions)
        saved = SavedFilters() if saved is None else saved
        remembered = remembered or Remembered()
        self.pane = ExchangeList(cells, id="list")
        self.detail = Detail(cells, show_secrets=show_secrets, viewers=viewers, id="detail")
        self.bar = FilterBar(cells, saved, history, id="filter")
        known = definitions(release, user_definitions)
        self.shared = shared = Shared(
            self, cells, captions, directory, known, show_secrets, self.pane, self.detail, self.bar
        )
        self.panes = Layout(shared, Ground(id="root"), self._show_selected, remembered)
        self._asking = asking = Asking(self, self._focus_again)
        jumping = Jumping(shared, asking)
        self.filtering = Filtering(
            shared, saved, filter_text, scan_on=self._scan_on, focus_panes=self.panes.focus_panes
        )
        self.exporting = Exporting(shared, exporter, live)
        self.finder = ExchangeFinder(shared, jumping)
        self._finding = Finding(self, asking, lambda: self.pane, self.finder.find)
        self._following = Following(shared, self.filtering)
        self._marking = Marking(shared, asking, jumping, self._show_again, writes=writes_notes)
        self._proving = Proving(shared, jumping, found, self._show_again, automatic=looks_for_findings and live is None)
        self._columns = Columns(shared, remembered)
        comparing = Comparing(shared, asking)
        copying = Copying(self, cells, partial(copies_of, shared, self.exporting))
        self.take_actions(
            self.panes,
            self.filtering,
            self.exporting,
            self._finding,
            self._following,
            self._marking,
            self._proving,
            jumping,
            comparing,
            copying,
            self._columns,
        )
        self._arrived = arrived or Event()
        self._live = live
        self._presenter: Presenter | None = None
        self._presented = False
        self._behind = False
        """Whether the detail still shows another exchange than the selected one; it is updated once no keys wait."""
        self._generation: str | None = None
        self._ticks = 0

    def compose(self) -> ComposeResult:
        self.panes.arrange()
        with self.panes.root:
            yield Bar(self._cells, fill=look.TITLE, id="title")
            yield self.bar
            with Ground(id="body"):
                yield self.pane
                yield self.detail
            yield FindBar(id="find")
            yield Bar(self._cells, id="status")
            yield HelpBar(self._cells, id="keys")
            yield Bar(self._cells, id="small")

    def on_mount(self) -> None:
        self.pane.empty = self._empty
        self.pane.chosen = self._show_chosen
        self.pane.tail = self._live is not None
        self._columns.show()
        self.pane.focus()
        self._mark_tiny()
        self.panes.apply()
        self.filtering.begin()
        if self._live is not None and self._live.welcome:
            self.notify(self._live.welcome, timeout=WELCOME_SECONDS, markup=False)
        self._tick()
        self.set_interval(TICK, self._tick)

    def on_unmount(self) -> None:
        self.exporting.end()
        if self.shared.index is not None:
            self.shared.index.close()
            self.shared.index = self._captions.index = None
        if self._presenter is not None:
            self._presenter.close()

    def _empty(self) -> list[str]:
        if self.pane.marked_only:
            return ["", "Nothing marked is shown here.   M shows the others again, m marks one."]
        return self._captions.empty(filtered=self.filtering.filtered)

    # the index

    def _tick(self) -> None:
        self.exporting.watch()
        if self._arrived.is_set():
            self._arrived.clear()
            self.app.viewers_changed()
        if self.shared.index is None and not self._open_index():
            self.show_chrome()
            return
        index, pane = self.shared.index, self.pane
        if index is None:
            return
        try:
            fresh = index.refresh()
        except IndexUnreadableError as error:
            self._captions.error = str(error)
            fresh = False
        outdated = pane.view is not None and pane.view.outdated and not self.shared.paused
        if index.generation != self._generation or outdated:
            self._begin_again(index)
        view = pane.view
        if view is not None and view.first != index.first and (gone := view.let_go()):
            pane.let_go(gone)
        if view is not None and not self.shared.paused:
            old = view.count
            left = view.scan(index.count)
            if view.count != old:
                pane.more(old)
            if self.shared.return_to is not None and view.scanned > self.shared.return_to:
                pane.go_to(self.shared.return_to)
                self.shared.return_to = None
            if fresh:
                if view.settle():
                    pane.reordered()
                else:
                    pane.changed()
                waiting = None if self._presenter is None else self._presenter.waiting
                if waiting is not None and waiting == pane.selected:
                    self._show_selected()
            if left:
                self.call_later(self._scan_on, view)
        self._ticks += 1
        self._proving.watch()
        if self._live is not None and self._ticks % WAITING_TICKS == 0:
            pane.time_passed()
        self.show_chrome()

    def _begin_again(self, index: IndexReader) -> None:
        """Test and show all rows again, after the indexer was restarted or the capture's end has become known.

        A restarted indexer writes the same exchanges into new rows. Relative times of a filter count from the end.
        """
        self._generation = index.generation
        self.shared.paused = False
        self.shared.return_to = self.pane.selected
        old = self.pane.view
        self.pane.show(View(index, self.shared.definitions, old.expression if old else None, old.text if old else ""))
        if old is not None:
            old.close()

    def _open_index(self) -> bool:
        try:
            index = IndexReader(self.shared.directory)
        except IndexUnreadableError as error:
            # without meta.json its writer has not begun
            self._captions.error = str(error) if (self.shared.directory / "meta.json").exists() else ""
            return False
        self.shared.index = self._captions.index = index
        self._generation = index.generation
        now = time.time_ns if self._live is not None else None
        text = RowText(index, self.shared.definitions, now=now)
        self.shared.opener = opener = Opener(index, self.shared.definitions, show_secrets=self.shared.show_secrets)
        self._presenter = Presenter(self.detail, index, text, opener, self.shared.definitions, self._cells)
        self.pane.use(index, text)
        self._marking.open_notes()
        self._proving.open_findings()
        self.filtering.use(index)
        return True

    def _scan_on(self, view: View) -> None:
        """Test the next chunk of rows, then yield to key presses."""
        if self.shared.index is None or view is not self.pane.view or self.shared.paused:
            return
        old = view.count
        left = view.scan(self.shared.index.count)
        if view.count != old:
            self.pane.more(old)
        if left:
            self.set_timer(0.002, lambda: self._scan_on(view))
        else:
            self.show_chrome()

    def _show_selected(self) -> None:
        """Show the exchange under the cursor in the detail."""
        self._behind = False
        self._choose_tab()
        if self._presenter is not None:
            self._presenter.show(self.pane.selected, f"{self.pane.cursor + 1:,}/{self.pane.count:,}")

    def _choose_tab(self) -> None:
        """Choose the tab for the selected exchange: Overview if it has an error, else Response.

        Called before the exchange is shown, so that keys that wait act on this tab.
        """
        selected = self.shared.selected_row
        if selected is not None:
            self.detail.begin_at(OVERVIEW if selected[1].error else RESPONSE)

    def _catch_up(self) -> None:
        # panes are removed before their screen is
        if self._behind and self.children:
            self._show_selected()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._mark_tiny()
        self.panes.apply()
        self.show_chrome()

    # the lines around

    def show_chrome(self) -> None:
        if not self.stands:
            return
        self.query_one("#title", Bar).show(self._captions.title(self.app.size.width))
        self.query_one("#status", Bar).show(self._status())
        self.bar.set_counts(self._shown_of())
        focused: Widget | None = self.focused
        context = self.context
        self.query_one(HelpBar).show_for(context, focused if isinstance(focused, Lines) else None, self)

    def _status(self) -> tuple[list[Part], list[Part]]:
        pane, index = self.pane, self.shared.index
        parts: list[Part] = []
        count = pane.count
        parts.append((f" {pane.cursor + 1 if count else 0:,}/{count:,}", look.BOLD))
        parts += self.exporting.parts()
        if index is not None and index.first:
            parts.append((f"  {index.first:,} older overwritten", look.DIM))
        if self.shared.paused and index is not None and pane.view is not None:
            behind = index.count - pane.view.scanned
            parts.append((f"  PAUSED, {behind:,} not shown (ctrl+e)", look.SEVERITY["W"]))
        elif pane.tail:
            parts.append(("  TAIL", look.BOLD))
        elif self._live is not None and pane.unseen:
            parts.append((f"  TAIL off (G resumes, {pane.unseen:,} new)", look.PLAIN))
        if self._following.follows:
            parts.append(("  [followed: q goes back]", look.BOLD))
        if pane.said():
            parts.append((f"  [{pane.said()}]", look.BOLD))
        parts += self.finder.parts() or self._finding.parts()
        if self._captions.back_to:
            parts.append((f"  [q: back to {self._captions.back_to}]", look.BOLD))
        parts += self._captions.limits()
        parts += self._captions.progress()
        if self._live is not None and (why := self._live.stopped()):
            parts.append((f"  [recording stopped: {why}]", look.SEVERITY["E"]))
        elif self._live is not None and self._live.recording is not None:
            parts.append((f"  [W: {self._live.recording}]", look.PLAIN))
        if pane.view is not None and pane.view.filtered:
            if index is not None and not self.shared.paused and (left := index.count - pane.view.scanned):
                percent = 100 * pane.view.scanned // index.count
                parts.append((f"  filtering {percent} %, {left:,} left (ctrl+e stops)", look.BOLD))
            if pane.view.unknown:
                from kproxy.decoders.filters import reasons

                parts.append((f"  undecided: {reasons(pane.view.unknown)}", look.SEVERITY["W"]))
            # last, so that it is cut where the line is too short: the filter bar shows the filter too
            if self.bar.applied:
                parts.append((f"  [f: {self.bar.applied}]", look.PLAIN))
        right: list[Part] = []
        if client := self._client_without_column():
            right.append((f"client {client} ", look.PLAIN))
        if self.shared.show_secrets:
            right.append(("secrets shown ", look.SEVERITY["W"]))
        return parts, right

    def _client_without_column(self) -> str:
        """The client of the selected row while a filter is applied and there is no room for the column of clients."""
        pane, here = self.pane, self.shared.selected_row
        if here is None or pane.text is None or self.panes.reading or not self.filtering.filtered:
            return ""
        if any(column.name == "client.id" for column, _ in pane.columns(pane.size.width - 1)):
            return ""
        return pane.text.cell("client.id", here[0] + 1, here[1])

    def _shown_of(self) -> str:
        view = self.pane.view
        if view is None:
            return ""
        total = self.shared.index.count - self.shared.index.first if self.shared.index else 0
        if not view.filtered:
            return f"{total:,}"
        untold = sum(view.unknown.values())
        unknown = f" (+{untold:,} undecided)" if untold else ""
        more = self._cells.glyph("…") if view.scanned < total + view.first and not self.shared.paused else ""
        return f"{view.count:,} of {total:,}{unknown}{more}"

    # called by other screens

    def lead_to(self, number: int, came_from: str) -> bool:
        """Put the cursor on exchange `number`; clears a filter that hides it. False if the index does not hold it."""
        index, view, row = self.shared.index, self.pane.view, number - 1
        if index is None or view is None or not index.first <= row < index.count:
            return False
        self.shared.came_from = came_from
        self.pane.set_tail(on=False)
        position = view.position(row)
        if position < view.count and view.row_number(position) == row:
            self.pane.go_to(row)
            if came_from == FINDINGS:
                self._proving.show_field(row)
        else:
            self.shared.return_to = row
            if self._captions.period:
                self.app.limit(Period())
            self.bar.set_text("")
            self.notify("the filter hid the exchange: cleared", timeout=3)
        return True

    def action_limit(self, end: str) -> None:
        """Begin ("since") or end ("until") the shown period at the selected exchange; a second call undoes that."""
        if self.shared.selected_row is None:
            return
        time, old = self.shared.selected_row[1].time, self._captions.period
        at = time if end == "since" else time + 1
        period = replace(old, **{end: None if getattr(old, end) == at else at})
        if period.since is not None and period.until is not None and period.since >= period.until:
            period = Period(**{end: at})
        self.app.limit(period)

    def filter_by(self, text: str, came_from: str, *, prepared: bool = False) -> None:
        """Apply a filter from screen `came_from`; with `prepared` only put it into the bar."""
        self.shared.came_from = came_from
        if prepared:
            self.bar.prepare(text)
        else:
            self.bar.set_text(text)

    def chosen(self) -> None:
        """Forget `came_from`, as the user has chosen this screen by its key."""
        self.shared.came_from = None

    # messages

    def _show_chosen(self) -> None:
        """Show the exchange under the cursor in the detail, at once or when no more keys wait."""
        if self.panes.detail_shown:
            self._choose_tab()
            if not self._presented:
                # after the first rows are painted, which the application does once it is mounted
                self._presented = True
                self.app.call_later(self.call_after_refresh, self._show_selected)
            elif self.app.keys_wait:
                # of a burst of keys only the last exchange is decoded
                self._behind = True
                self.app.after_keys(self._catch_up)
            else:
                self._show_selected()
        self.show_chrome()

    @on(FilterBar.Applied)
    def _filter_applied(self, event: FilterBar.Applied) -> None:
        event.stop()
        if not event.text:
            self._following.end()
        self.filtering.apply(event)

    @on(FilterBar.Left)
    def _filter_left(self, event: FilterBar.Left) -> None:
        event.stop()
        self.filtering.leave()

    @on(FindBar.Done)
    def _asked(self, event: FindBar.Done) -> None:
        self._asking.answer(event)

    @on(ExchangeList.Opened)
    def _opened(self, event: ExchangeList.Opened) -> None:
        event.stop()
        self.panes.open()
        self.show_chrome()

    @on(ExchangeList.Resized)
    def _column_resized(self, event: ExchangeList.Resized) -> None:
        event.stop()
        self._columns.resize(event.name, event.width)

    @on(ExchangeList.TailChanged)
    def _tail_changed(self, event: ExchangeList.TailChanged) -> None:
        event.stop()
        self.show_chrome()

    def _focus_again(self, pane: Lines | None) -> None:
        self.set_focus(None)
        if pane is None:
            self.panes.focus_panes()
        else:
            pane.focus()

    def on_descendant_focus(self) -> None:
        # keys in the detail must act on the selected exchange
        self._catch_up()
        self.show_chrome()

    # actions

    def _show_again(self) -> None:
        if self.panes.detail_shown:
            self._show_selected()
        self.show_chrome()

    def arguments(self, action: Action, typed: str) -> Sequence[tuple[str, str]]:
        completions = {
            "exporting.export": self.exporting.arguments,
            "filtering.apply": self.filtering.arguments,
            "filtering.delete": self.filtering.names,
        }
        return completions.get(action.id, partial(super().arguments, action))(typed)

    def action_times(self) -> None:
        text = self.pane.text
        if text is not None:
            text.times.next()
            self.pane.content_changed()
            self.pane.refresh()

    def action_reference(self) -> None:
        here, text = self.shared.selected_row, self.pane.text
        if here is not None and text is not None:
            text.times.refer_to(here[1].time)
            self.pane.content_changed()

    def action_neighbour(self, by: int) -> None:
        self.pane.action_move(by)

    def action_tab(self, by: int) -> None:
        self.detail.choose(by)
        self._show_selected()

    def action_show_tab(self, name: str) -> None:
        """Show a tab of the detail by its name."""
        self.detail.choose(TABS.index(name) - TABS.index(self.detail.tab))
        self._show_selected()

    def action_pause(self) -> None:
        self.shared.paused = not self.shared.paused
        self._tick()

    @property
    def is_indexing(self) -> bool:
        """Whether a capture with a known end is still being indexed."""
        return self.shared.index is not None and self.shared.index.meta.get("state") == "indexing"

    def action_stop_reading(self) -> None:
        if self.shared.index is not None:
            try:
                self.shared.index.stop_writer()
            except OSError as error:
                self.notify(f"not stopped: {error.strerror}", severity="error", timeout=4)

    # dragging the border between list and detail

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.panes.press(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.panes.drag(event)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def on_mouse_release(self) -> None:
        # Textual also calls this if another screen opens meanwhile and gets the mouse events
        self.panes.release()

    def _step_back(self) -> bool:
        """Go back to where the user came from; False if that would leave these captures."""
        if self.shared.came_from is not None and not self.panes.reading:
            came_from, self.shared.came_from = self.shared.came_from, None
            self.app.go(came_from)
            return True
        if self.panes.reading or (self.focused is not self.pane and self.panes.detail_shown):
            self.panes.close()
            return True
        return self._following.back()

    def action_step_back(self) -> None:
        if not self._step_back():
            self.notify("q leaves", timeout=2)

    def action_back(self) -> None:
        if self._step_back() or self.app.leave_captures():
            return
        if self._live is None or not self._live.ours or not self._live.alive():
            self.app.exit()
            return
        from kproxy.tui.screens.leave import LeaveScreen

        self.app.push_screen(LeaveScreen(self._cells, self._live.bootstrap), self._answered)

    def _answered(self, answer: Leave | None) -> None:
        if answer in {"stop", "keep"}:
            self.app.exit(answer == "keep")
