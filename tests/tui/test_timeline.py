"""The levels of a timeline as bars: the highest level of each column."""

from __future__ import annotations

import pytest

from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.analysis import Timeline, TimeRow
from kproxy.tui.widgets.timeline import NAME_CELLS, TimelinePane

SECOND = 1_000_000_000


def bars(levels: list[tuple[int, int]], *, cells: int, seconds: int, ascii_only: bool = False) -> str:
    """The bars of levels at these seconds on a timeline of so many cells."""
    row = TimeRow("lag", (), (), tuple((at * SECOND, value) for at, value in levels))
    pane = TimelinePane(Cells(ascii_only=ascii_only))
    pane._timeline = Timeline("", 0, seconds * SECOND, (row,))
    return "".join(segment.text for segment in pane._row(row, NAME_CELLS + 1 + cells))[NAME_CELLS:]


@pytest.mark.parametrize(
    ("levels", "drawn"),
    [
        # a level holds until the next one, and the last to the end; zero is blank
        ([(0, 8), (4, 0), (6, 1)], "████  ▁▁▁▁▁"),
        ([(2, 0), (5, 4)], "     ██████"),
        # of several in a column the highest counts
        ([(3, 1), (3, 8), (3, 2), (4, 1)], "   █▁▁▁▁▁▁▁"),
        ([(10, 3)], "          █"),
        ([], "           "),
    ],
)
def test_bars(levels: list[tuple[int, int]], drawn: str) -> None:
    assert bars(levels, cells=11, seconds=10) == drawn


def test_bars_in_ascii() -> None:
    assert bars([(0, 8), (4, 0), (6, 1)], cells=11, seconds=10, ascii_only=True) == "####  ....."


def test_no_room() -> None:
    assert bars([(0, 8)], cells=0, seconds=10) == ""
