"""A pane of lines keeps the cursor on screen, also where it was moved before the pane was laid out."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from textual.app import App, ComposeResult

from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

ROWS = 10


class Numbered(Lines):
    CONTEXT = "overview"

    def __init__(self, count: int) -> None:
        super().__init__(Cells())
        self._count = count

    @property
    def count(self) -> int:
        return self._count

    def segments(self, index: int, width: int) -> list[Segment]:
        return [Segment(self.cells.fit(f"line {index}", width))]


class OnePane(App[None]):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.pane = Numbered(count)

    def compose(self) -> ComposeResult:
        yield self.pane


@pytest.mark.parametrize(("count", "cursor", "top"), [(5, 1, 0), (30, 1, 0), (30, 12, 3)])
async def test_a_pane_that_is_shown_after_a_move_is_scrolled_to_its_cursor(count: int, cursor: int, top: int) -> None:
    app = OnePane(count)
    async with app.run_test(size=(40, ROWS)) as pilot:
        pane = Numbered(count)
        pane.display = False
        await app.mount(pane)
        await app.pane.remove()
        await pilot.pause()
        pane.move_to(cursor)
        # a hidden pane that asks to be painted, and a look-up of its region before the next layout: with both of them,
        # Textual sends no Resize event
        app.screen._compositor.update_widgets({pane})
        pane.display = True
        assert pane.region.height == ROWS
        await pilot.pause()
        assert pane.rows == ROWS
        assert (pane.cursor, pane.top) == (cursor, top)
