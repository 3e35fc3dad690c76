"""Navigation of the exchanges screen: marks, comments, jumps, following and finding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.widget import Widget

from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.listing.notes import Notes, beside
from kproxy.tui.screens.filtering import FilteringScreen
from kproxy.tui.search import jumps
from kproxy.tui.search.searching import ListSearch, in_bytes, in_lines
from kproxy.tui.terminal import look
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.filter_line import FilterInput
from kproxy.tui.widgets.find_bar import FindBar, FindInput
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row
    from kproxy.tui.detail.opened import Opener
    from kproxy.tui.search import patterns
    from kproxy.tui.widgets.chrome import Part

FIND, GO, COMMENT = "Find", "Go to", "Comment"
MOST_JUMPS = 100


class WalkingScreen(FilteringScreen):
    """A screen with an exchange list whose rows are marked, jumped to, followed and searched."""

    BINDINGS: ClassVar = [*actions.bindings("walking"), *actions.bindings("finding")]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._opener: Opener | None = None
        self._return_to: int | None = None
        """Index row that the cursor is put on once the view has it."""
        self._jumped_from: list[int] = []
        self._followed_from: list[tuple[str, int | None, str | None]] = []
        """Stack of what following replaced: filter, selected index row, screen that led here."""
        self._sought: patterns.Sought | None = None
        self._search: ListSearch | None = None

    def walking(self) -> list[Part]:
        """Parts of the status line about following, the list's arrangement and finding."""
        pane = self.pane
        parts: list[Part] = []
        if self._followed_from:
            parts.append(("  [followed: q goes back]", look.BOLD))
        if pane.said():
            parts.append((f"  [{pane.said()}]", look.BOLD))
        if self._search is not None and not self._search.over:
            parts.append((f"  finding {self._search.sought.words}: {self._search.looked_at:,} looked at", look.PLAIN))
        elif self._sought is not None:
            parts.append((f"  [find: {self._sought.words}]", look.PLAIN))
        return parts

    def _selected_row(self) -> tuple[int, Row] | None:
        number = self.pane.selected
        if number is None or self._index is None:
            return None
        return number, self._index.row(number)

    # marks and comments

    def _open_notes(self) -> None:
        """Read the notes on the capture; the index names it."""
        if self._index is not None and self.pane.text is not None:
            self._note(Notes(beside(self._index.meta.get("sources", []))))

    def _note(self, notes: Notes) -> None:
        self.pane.notes = notes
        if self.pane.text is not None:
            self.pane.text.notes = notes
        if notes.trouble:
            self.notify(notes.trouble, timeout=4)

    def _noted(self) -> None:
        """Show changed notes."""
        self.pane.rearrange()
        self._show_again()
        if self.pane.notes is not None and self.pane.notes.trouble:
            self.notify(self.pane.notes.trouble, timeout=4)
            self.pane.notes.trouble = ""

    def _show_again(self) -> None:
        """Show the selected exchange again in the detail."""
        raise NotImplementedError

    def action_mark(self) -> None:
        here, notes = self._selected_row(), self.pane.notes
        if here is not None and notes is not None:
            note = notes.of(*here)
            notes.mark(*here, on=note is None or not note.marked)
            self._noted()

    def action_unmark_all(self) -> None:
        if self.pane.notes is not None:
            self.pane.notes.unmark_all()
            self._noted()

    def action_next_mark(self) -> None:
        pane = self.pane
        here, notes = pane.selected, pane.notes
        if here is None or notes is None or self._index is None:
            return
        shown = [number for number in notes.numbers if number < self._index.count and pane.shows(number)]
        shown = [number for number in shown if notes.of(number, self._index.row(number)) is not None]
        after = [number for number in shown if number > here] or shown
        if after:
            self._jump(after[0])
        else:
            self.notify("nothing that is shown has a mark or a comment", timeout=3)

    def action_comment(self) -> None:
        here, notes = self._selected_row(), self.pane.notes
        if here is not None and notes is not None:
            note = notes.of(*here)
            self._ask(COMMENT, "" if note is None else note.comment)

    # jumps

    def _jump(self, row: int) -> None:
        """Go to an index row and remember the present one for jumping back."""
        pane = self.pane
        if pane.selected is not None:
            self._jumped_from = [*self._jumped_from[-MOST_JUMPS:], pane.selected]
        pane.set_tail(on=False)
        pane.go_to(row)
        if pane.selected != row:
            self.notify(f"exchange {row + 1} is not shown; this is the next that is", timeout=3)

    def action_jump_back(self) -> None:
        if self._jumped_from:
            self.pane.go_to(self._jumped_from.pop())

    def action_ask_where(self) -> None:
        self._ask(GO, "")

    def action_same_connection(self, by: int) -> None:
        here = self.pane.selected
        while here is not None and self._index is not None:
            here = jumps.on_connection(self._index, here, by)
            if here is not None and self.pane.shows(here):
                self.pane.set_tail(on=False)
                self.pane.go_to(here)
                return
        self.notify("none on this connection is shown any more", timeout=3)

    # following

    def action_follow(self) -> None:
        from kproxy.tui.screens.follow import FollowScreen

        detail = self.detail
        in_records = self.focused in detail.records.panes
        line = detail.records.table.line if in_records else None
        node = detail.fields.node if detail.side is not None else None
        from kproxy.tui.search.subjects import filters, producer_of

        def of_exchange() -> int | None:
            number = self.pane.selected
            if number is None or self._index is None:
                return None
            return producer_of(self._index, number, self._definitions)

        found = filters(self._clauses(), node, line if isinstance(line, RecordLine) else None, of_exchange)
        self.app.push_screen(FollowScreen(self._cells, found), self._follow)

    def _follow(self, text: str | None) -> None:
        if text:
            self._followed_from.append((self.bar.applied, self.pane.selected, self._came_from))
            self._came_from = None
            self.bar.set_text(text)

    @on(FilterBar.Applied)
    def _all_shown(self, event: FilterBar.Applied) -> None:
        """Stop following when the filter is cleared."""
        if not event.text:
            self._followed_from.clear()

    def _follow_back(self) -> bool:
        """Undo the last following; False if nothing is followed."""
        if not self._followed_from:
            return False
        text, row, self._came_from = self._followed_from.pop()
        self.bar.set_text(text)
        self._return_to = row
        return True

    # times

    def action_times(self) -> None:
        text = self.pane.text
        if text is not None:
            text.times.next()
            self.pane.content_changed()
            self.pane.refresh()

    def action_reference(self) -> None:
        here, text = self._selected_row(), self.pane.text
        if here is not None and text is not None:
            text.times.refer_to(here[1].time)
            self.pane.content_changed()

    # finding

    def action_ask_what(self) -> None:
        self._ask(FIND, None)

    def action_found(self, by: int) -> None:
        sought, pane = self._sought, self._searched()
        if sought is None or self._index is None:
            return
        detail = self.detail
        if isinstance(pane, ExchangeList):
            if pane.rows_shown is not None and pane.text is not None and self._opener is not None:
                bytes_of = self._opener.bytes_of
                self._search = ListSearch(pane.rows_shown, self._index, pane.text, bytes_of, sought, pane.cursor, by)
                self._find_on(self._search)
            return
        if pane is detail.hex or (sought.bytes_only and pane is detail.fields):
            place = in_bytes(detail.hex, sought, by)
            if place is not None:
                detail.hex.go_to(place)
        else:
            place = in_lines(pane, sought, by)
            if place is not None:
                pane.move_to(place)
        if place is None:
            self._nothing(sought)

    def _searched(self) -> Lines:
        """The pane to search: the focused one, else the list."""
        focused = self.focused
        return focused if isinstance(focused, Lines) else self.pane

    def _find_on(self, search: ListSearch) -> None:
        """Search a slice of the list, then yield to key presses."""
        if search is not self._search or not self.is_attached:
            return
        search.go_on()
        if not search.over:
            self.set_timer(0.002, lambda: self._find_on(search))
        elif search.found is None:
            self._nothing(search.sought)
        elif self.pane.rows_shown is not None and search.found < self.pane.count:
            self._jump(self.pane.rows_shown.row_number(search.found))
        self._show_chrome()

    def _nothing(self, sought: patterns.Sought) -> None:
        self.notify(f"nothing here says {sought.words}", timeout=3)

    # the input line for texts to find, places to go to and comments

    def _ask(self, title: str, text: str | None) -> None:
        self._asked_in = self._searched()
        self.query_one(FindBar).open(title, text)

    @on(FindBar.Done)
    def _answered_in_line(self, event: FindBar.Done) -> None:
        event.stop()
        bar = self.query_one(FindBar)
        take: Callable[[], None] | None = None
        if event.text is not None:
            try:
                take = self._meant(event.asked, event.text)
            except ValueError as error:
                bar.complain(str(error))
                return
        bar.close()
        self.set_focus(None)
        back: Widget = self._asked_in
        if back.is_on_screen:
            back.focus()
        else:
            self._focus_panes()
        if take is not None:
            take()
        self._show_chrome()

    def _meant(self, title: str, text: str) -> Callable[[], None] | None:
        """The call that carries out what was typed, None for nothing. Raises ValueError with the reason."""
        if title == COMMENT:
            return partial(self._comment, text)
        if not text:
            return None
        if title == FIND:
            from kproxy.tui.search import patterns

            return partial(self._find, patterns.read(text))
        return None if self._index is None else partial(self._jump, jumps.row_of(text, self._index, self.pane.selected))

    def _comment(self, text: str) -> None:
        here, notes = self._selected_row(), self.pane.notes
        if here is not None and notes is not None:
            notes.comment(*here, text)
            self._noted()

    def _find(self, sought: patterns.Sought) -> None:
        self._sought = sought
        self.action_found(1)

    def _typing(self) -> bool:
        """Whether an input line has the focus."""
        return isinstance(self.focused, FilterInput | FindInput)
