"""Jumps from exchange to exchange, and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.shared import Shared
from kproxy.tui.search import jumps

GO = "Go to"
MOST_JUMPS = 100


class Jumping:
    def __init__(self, shared: Shared, asking: Asking) -> None:
        self._shared = shared
        self._asking = asking
        self._jumped_from: list[int] = []

    def jump(self, row: int) -> None:
        """Go to an index row and remember the present one for jumping back."""
        pane = self._shared.pane
        if pane.selected is not None:
            self._jumped_from = [*self._jumped_from[-MOST_JUMPS:], pane.selected]
        pane.set_tail(on=False)
        pane.go_to(row)
        if pane.selected != row:
            self._shared.screen.notify(
                f"exchange {row + 1} is not shown; the cursor is on the next one shown", timeout=3
            )

    def action_jump_back(self) -> None:
        if self._jumped_from:
            self._shared.pane.go_to(self._jumped_from.pop())

    def action_ask_where(self) -> None:
        self._asking.ask(self._read, GO, "")

    def _read(self, text: str) -> Callable[[], None] | None:
        index = self._shared.index
        if not text or index is None:
            return None
        return partial(self.jump, jumps.row_of(text, index, self._shared.pane.selected))

    def action_same_connection(self, by: int) -> None:
        pane = self._shared.pane
        here = pane.selected
        while here is not None and self._shared.index is not None:
            here = jumps.on_connection(self._shared.index, here, by)
            if here is not None and pane.shows(here):
                pane.set_tail(on=False)
                pane.go_to(here)
                return
        self._shared.screen.notify("no further exchange of this connection is shown in that direction", timeout=3)
