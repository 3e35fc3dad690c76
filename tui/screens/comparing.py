"""Comparing the selected exchange with another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kproxy.tui.output.copying import exchange_form
from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.shared import Shared
from kproxy.tui.search import jumps

if TYPE_CHECKING:
    from kproxy.tui.detail.comparing import Comparison

TITLE: Final = "Compare with"
LOOKED_BACK: Final = 10_000
"""Maximum number of exchanges that are searched for the previous one of the same API."""


class Comparing:
    def __init__(self, shared: Shared, asking: Asking) -> None:
        self._shared = shared
        self._asking = asking

    def action_compare(self, text: str = "") -> None:
        """Compare with the marked exchange, if one is marked, or ask with which."""
        selected, index = self._shared.selected_row, self._shared.index
        if selected is None or index is None:
            return
        here, row = selected
        if text:
            try:
                self._compare(jumps.row_of(text, index, here), here)
            except ValueError as error:
                self._shared.screen.notify(str(error), severity="warning", timeout=4)
            return
        notes = self._shared.pane.notes
        marked = [] if notes is None else [one for one in notes.numbers if index.first <= one < index.count]
        marked = [one for one in marked if one != here and notes is not None and notes.is_marked(one, index.row(one))]
        if len(marked) == 1:
            self._compare(marked[0], here)
            return
        earlier = range(here - 1, max(index.first, here - LOOKED_BACK) - 1, -1)
        before = next((one for one in earlier if index.row(one).api_key == row.api_key), None)
        self._asking.ask(self._read, TITLE, "" if before is None else str(before + 1))

    def _read(self, text: str) -> Callable[[], None] | None:
        index, here = self._shared.index, self._shared.pane.selected
        if not text or index is None or here is None:
            return None
        return partial(self._compare, jumps.row_of(text, index, here), here)

    def _compare(self, first: int, second: int) -> None:
        """Compare two index rows; the one that came first is shown first."""
        from kproxy.tui.screens.compare import CompareScreen

        shared, index = self._shared, self._shared.index
        if first == second:
            shared.screen.notify("this is the exchange itself: mark another one with m, or type its number", timeout=4)
        elif index is not None:
            rows = sorted((first, second))
            shared.screen.app.push_screen(
                CompareScreen(shared.cells, (f"#{rows[0] + 1}", f"#{rows[1] + 1}"), partial(self._forms, *rows))
            )

    def _forms(self, first: int, second: int) -> Comparison:
        from kproxy.tui.detail.comparing import compare

        index = self._shared.index
        assert index is not None  # noqa: S101 (asked by `_compare`)
        forms = [
            exchange_form(index, self._shared.definitions, row, show_secrets=self._shared.show_secrets)
            for row in (first, second)
        ]
        return compare(*forms)
