"""Evidence of findings in the list: marks on its rows, and jumps from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kproxy.tui.screens.jumping import Jumping
from kproxy.tui.screens.shared import Shared
from kproxy.tui.views.findings import Found

EVERY_TICKS: Final = 5
"""Ticks of the screen between checks for a new snapshot of findings."""
AUTOMATIC_BYTES: Final = 256 << 20
"""Captures up to this size are searched for findings automatically; that takes about as long as indexing them."""


class Proving:
    def __init__(
        self, shared: Shared, jumping: Jumping, found: Found, show_again: Callable[[], None], *, automatic: bool
    ) -> None:
        """`show_again` shows the selected exchange again in the detail.

        With `automatic`, looks for findings as soon as the index of a capture that is not too large is complete.
        """
        self._shared = shared
        self._jumping = jumping
        self._found = found
        self._show_again = show_again
        self._automatic = automatic
        self._ticks = 0
        self._asked = False
        """Whether the user has asked for the next finding before any was known."""

    def open_findings(self) -> None:
        """Use the notes on the capture, and mark the rows of the list."""
        pane = self._shared.pane
        self._found.notes = pane.notes
        if pane.text is not None:
            pane.text.found = self._found

    def watch(self) -> None:
        """Show new findings; called at every tick."""
        self._ticks += 1
        if self._ticks % EVERY_TICKS:
            return
        index = self._shared.index
        if self._automatic and index is not None and index.meta.get("state") == "complete":
            self._automatic = False
            if (index.meta.get("bytes_total") or 0) <= AUTOMATIC_BYTES:
                self._found.look()
        if self._found.refresh():
            self._shared.pane.content_changed()
            if self._asked:
                self.action_next_finding()

    def show_field(self, row: int) -> None:
        """Show the field of an index row's exchange that proves a finding."""
        path = next((proof.path for proof in self._found.of(row) if proof.path), None)
        if path is not None:
            self._shared.detail.seek(path)
            self._show_again()

    def action_next_finding(self) -> None:
        shared, pane = self._shared, self._shared.pane
        if shared.index is None:
            return
        count = shared.index.count
        here = -1 if pane.selected is None else pane.selected
        row = next((row for row in self._found.after(here) if row < count and pane.shows(row)), None)
        if row is not None:
            self._asked = False
            self._jumping.jump(row)
            self.show_field(row)
            proof = self._found.of(row)[0]
            shared.screen.notify(f"{proof.rule}: {proof.note}", timeout=4, markup=False)
        elif not self._found.known:
            self._asked = True
            self._found.look()
            shared.screen.notify("looking for findings", timeout=3)
        else:
            shared.screen.notify(
                "no exchange in the list proves a warning or an error so far (7 shows all findings)", timeout=3
            )
