"""Marks and comments on exchanges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kproxy.tui.listing.notes import Notes, beside
from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.jumping import Jumping
from kproxy.tui.screens.shared import Shared

COMMENT = "Comment"


class Marking:
    def __init__(
        self, shared: Shared, asking: Asking, jumping: Jumping, show_again: Callable[[], None], *, writes: bool
    ) -> None:
        """`show_again` shows the selected exchange again in the detail. Notes are stored if `writes`."""
        self._writes = writes
        self._shared = shared
        self._asking = asking
        self._jumping = jumping
        self._show_again = show_again

    def open_notes(self) -> None:
        """Read the notes on the captures of the index."""
        index, pane = self._shared.index, self._shared.pane
        if index is None or pane.text is None:
            return
        notes = Notes(beside(index.meta.get("sources", [])), writes=self._writes)
        pane.notes = pane.text.notes = notes
        if notes.trouble:
            self._shared.screen.notify(notes.trouble, timeout=4)

    def _noted(self, notes: Notes) -> None:
        """Show changed notes in list and detail, and notify the user if they could not be saved."""
        self._shared.pane.rearrange()
        self._show_again()
        if notes.trouble:
            self._shared.screen.notify(notes.trouble, timeout=4)
            notes.trouble = ""

    def action_mark(self) -> None:
        here, notes = self._shared.selected_row, self._shared.pane.notes
        if here is not None and notes is not None:
            note = notes.of(*here)
            notes.mark(*here, on=note is None or not note.marked)
            self._noted(notes)

    def action_unmark_all(self) -> None:
        notes = self._shared.pane.notes
        if notes is not None:
            notes.unmark_all()
            self._noted(notes)

    def action_next_mark(self) -> None:
        index, pane = self._shared.index, self._shared.pane
        here, notes = pane.selected, pane.notes
        if here is None or notes is None or index is None:
            return
        shown = [number for number in notes.numbers if number < index.count and pane.shows(number)]
        shown = [number for number in shown if notes.of(number, index.row(number)) is not None]
        after = [number for number in shown if number > here] or shown
        if after:
            self._jumping.jump(after[0])
        else:
            self._shared.screen.notify("no exchange in the list has a mark or a comment", timeout=3)

    def action_comment(self) -> None:
        here, notes = self._shared.selected_row, self._shared.pane.notes
        if here is not None and notes is not None:
            note = notes.of(*here)
            self._asking.ask(lambda text: partial(self._comment, text), COMMENT, "" if note is None else note.comment)

    def _comment(self, text: str) -> None:
        here, notes = self._shared.selected_row, self._shared.pane.notes
        if here is not None and notes is not None:
            notes.comment(*here, text)
            self._noted(notes)
