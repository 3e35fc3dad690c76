"""Numbers as block glyphs: a sparkline, and percentiles over time on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kproxy.captures.text import latency_text
from kproxy.tui.terminal.cells import Cells

LEVELS: Final = "▁▂▃▄▅▆▇█"
ASCII_LEVELS: Final = "._-=+*%#"
LOW, HIGH, BOTH = "─", "▪", "▬"
"""Glyphs of the lower and the upper percentile, and of both in one cell."""
AXIS_CELLS: Final = 7
"""Room for a latency at the left of a plot."""


def sparkline(counts: Sequence[int], width: int, cells: Cells) -> str:
    """The counts as bars from left to right, in at most `width` cells; a blank for zero, "" without counts."""
    joined = _joined(counts, width)
    most = max(joined, default=0)
    levels = ASCII_LEVELS if cells.ascii_only else LEVELS
    return "".join(" " if not one else levels[(one * len(levels) - 1) // most] for one in joined)


def _joined(counts: Sequence[int], width: int) -> list[int]:
    """At most `width` counts: if there are more, neighbours are added up."""
    if width <= 0 or not counts:
        return []
    by = -(-len(counts) // width)
    return [sum(counts[at : at + by]) for at in range(0, len(counts), by)]


def percentile_plot(
    lows: Sequence[int | None], highs: Sequence[int | None], width: int, height: int, cells: Cells
) -> list[str]:
    """`height` lines of at most `width` cells: a lower and an upper percentile (ns) of each slice of time.

    The slices share the width; the highest and the lowest latency stand at the left. [] if there is too little room.
    """
    found = [value for value in (*lows, *highs) if value is not None]
    room = width - AXIS_CELLS - 1
    if not found or room < max(1, len(lows) // 2) or height < 2:
        return []
    scale = _Scale(min(found), max(found), height)
    grid = [[" "] * room for _ in range(height)]
    for glyph, values in ((LOW, lows), (HIGH, highs)):
        for number, value in enumerate(values):
            if value is None:
                continue
            row = grid[scale.row(value)]
            start = number * room // len(values)
            for at in range(start, max(start + 1, (number + 1) * room // len(values))):
                row[at] = glyph if row[at] in {" ", glyph} else BOTH
    labels = {scale.row(value): value for value in (min(found), max(found))}
    bar = cells.glyph("│")
    return [
        cells.fit(latency_text(labels[number]) if number in labels else "", AXIS_CELLS, right=True)
        + bar
        + "".join(glyph if glyph == " " else cells.glyph(glyph) for glyph in row).rstrip()
        for number, row in enumerate(grid)
    ]


class _Scale:
    """A logarithmic scale of latencies on `height` rows, the greatest on row 0."""

    def __init__(self, least: int, most: int, height: int) -> None:
        self._low = math.log1p(least)
        self._reach = math.log1p(most) - self._low
        self._last = height - 1

    def row(self, value: int) -> int:
        if not self._reach:
            return self._last
        return self._last - round((math.log1p(value) - self._low) / self._reach * self._last)
