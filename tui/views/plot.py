"""Charts of block glyphs: a sparkline, bars from zero, and a band of percentiles on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from kproxy.captures.text import latency_text
from kproxy.tui.listing.times import NANOSECONDS, day_of, moment_text, of_day
from kproxy.tui.terminal.cells import Cells

LEVELS: Final = "▁▂▃▄▅▆▇█"
ASCII_LEVELS: Final = "._-=+*%#"
LOW, HIGH, BOTH, BETWEEN = "─", "▪", "▬", "░"
"""Glyphs of the lower and the upper percentile, of both in one cell, and of what lies between them."""
AXIS_CELLS: Final = 7
"""Room for the labels at the left of a chart."""
GAP: Final = 4
"""Fewest cells between the labels of times."""
DAY: Final = 86_400 * NANOSECONDS
TIMES: Final = tuple(
    number * unit
    for numbers, unit in (
        ((1, 2, 5, 10, 20, 50, 100, 200, 500), 1_000_000), ((1, 2, 5, 10, 15, 30), NANOSECONDS),
        ((1, 2, 5, 10, 15, 30), 60 * NANOSECONDS), ((1, 2, 3, 6, 12), 3_600 * NANOSECONDS),
        ((1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), DAY),
    )
    for number in numbers
)  # fmt: skip
"""Intervals between the times below a chart, in ns."""
LEAST: Final = 100_000
"""Lower end of the smallest scale of latencies, in ns: labels have one decimal of a millisecond."""
STEPS: Final = (1, 2, 5)
"""Labels are these numbers and their multiples by powers of ten."""


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


@dataclass(frozen=True, slots=True)
class Columns:
    """How the slices of a chart share its width: `count` slices in `room` cells, which begin at cell `left`."""

    count: int
    room: int
    left: int = AXIS_CELLS + 1

    def cells(self, number: int) -> range:
        """The cells of a slice, at least one."""
        start = number * self.room // self.count
        return range(self.left + start, self.left + max(start + 1, (number + 1) * self.room // self.count))

    def slice_at(self, cell: int) -> int | None:
        """The slice that a cell of the chart belongs to; None beside the chart."""
        if not self.left <= cell < self.left + self.room:
            return None
        return next((number for number in range(self.count) if cell in self.cells(number)), None)


def columns(count: int, width: int) -> Columns | None:
    """The columns of `count` slices in a chart of `width` cells; None if there is too little room."""
    room = width - AXIS_CELLS - 1
    return Columns(count, room) if count and room >= max(1, count // 2) else None


def bars(
    values: Sequence[float], shared: Columns, height: int, label: Callable[[float], str], cells: Cells
) -> list[str]:
    """`height` lines: a bar from zero for each slice, on a scale up to a round number; `label` writes values."""
    levels = (" ", *(ASCII_LEVELS if cells.ascii_only else LEVELS))
    top = _round_up(max(values, default=0) or 1)
    grid = [[" "] * shared.room for _ in range(height)]
    for number, value in enumerate(values):
        eighths = round(value / top * height * 8)
        eighths = max(eighths, 1) if value else 0
        for row in range(height):
            glyph = levels[max(0, min(8, eighths - 8 * (height - 1 - row)))]
            for at in shared.cells(number):
                grid[row][at - shared.left] = glyph
    parts = 4 if height % 4 == 0 else 2 if height % 2 == 0 else 1
    labels = {height * part // parts: label(top * (parts - part) / parts) for part in range(parts)}
    return _with_axis(grid, labels, cells)


def band(
    lows: Sequence[int | None], highs: Sequence[int | None], shared: Columns, height: int, cells: Cells
) -> list[str]:
    """`height` lines: a lower and an upper percentile (ns) of each slice, and what lies between.

    The scale is logarithmic. It begins and ends at round numbers, and has labels at these and at round numbers between.
    """
    found = [value for value in (*lows, *highs) if value is not None]
    if not found or height < 2:
        return []
    scale = _Scale(min(found), max(found), height)
    grid = [[" "] * shared.room for _ in range(height)]
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        glyphs = _column(scale, low, high)
        for at in shared.cells(number):
            for row, glyph in glyphs.items():
                grid[row][at - shared.left] = glyph if glyph == " " else cells.glyph(glyph)
    return _with_axis(grid, scale.labels(), cells)


def _column(scale: _Scale, low: int | None, high: int | None) -> dict[int, str]:
    """The glyphs of a slice by row."""
    rows = [None if value is None else scale.row(value) for value in (low, high)]
    bottom, top = rows
    glyphs = {} if bottom is None or top is None else dict.fromkeys(range(top + 1, bottom), BETWEEN)
    if bottom is not None:
        glyphs[bottom] = LOW
    if top is not None:
        glyphs[top] = BOTH if top == bottom else HIGH
    return glyphs


def _with_axis(grid: Sequence[Sequence[str]], labels: Mapping[int, str], cells: Cells) -> list[str]:
    bar = cells.glyph("│")
    return [
        cells.fit(labels.get(number, ""), AXIS_CELLS, right=True) + bar + "".join(row).rstrip()
        for number, row in enumerate(grid)
    ]


def _round_up(value: float) -> float:
    """The least number of STEPS, times a power of ten, that is not below a value above 0."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in STEPS if step * power >= value * (1 - 1e-9)), 10 * power)


def _round_numbers(least: float, most: float) -> list[float]:
    """The rising round numbers from one that is at most `least` to one that is at least `most`; at least two."""
    number = 10.0 ** math.floor(math.log10(least))
    found = [step * number for step in STEPS if step * number <= least * (1 + 1e-9)][-1:]
    while len(found) < 2 or found[-1] < most * (1 - 1e-9):
        found.append(_round_up(found[-1] * 1.01))
    return found


class _Scale:
    """A logarithmic scale of latencies (ns) on `height` rows, the greatest on row 0."""

    def __init__(self, least: int, most: int, height: int) -> None:
        self._marks = _round_numbers(max(least, LEAST), max(most, LEAST))
        self._low = math.log(self._marks[0])
        self._reach = math.log(self._marks[-1]) - self._low
        self._last = height - 1

    def row(self, value: float) -> int:
        return self._last - round((math.log(max(value, self._marks[0])) - self._low) / self._reach * self._last)

    def labels(self) -> dict[int, str]:
        """The labels by row: both ends of the scale, and the round numbers between with a free row above and below."""
        found = {self._last: self._marks[0], 0: self._marks[-1]}
        for mark in self._marks:
            row = self.row(mark)
            if not {row - 1, row, row + 1} & found.keys():
                found[row] = mark
        return {row: latency_text(round(mark)) for row, mark in found.items()}


def time_axis(start: int, end: int, shared: Columns, cells: Cells) -> str:
    """The line below a chart: round times from `start` to `end`, ns since the epoch, each at its cell.

    Has dates if the chart is longer than a day, and milliseconds if they are needed to tell times apart.
    """
    span = max(1, end - start)

    def text(moment: int, *, fine: bool) -> str:
        second = moment // NANOSECONDS
        day = f"{day_of(second)} " if span > DAY else ""
        return day + (moment_text(moment) if fine else of_day(second))

    def step_of(*, fine: bool) -> int:
        wanted = span * (len(text(start, fine=fine)) + GAP) // max(1, shared.room)
        return next((step for step in TIMES if step >= wanted and (fine or step >= NANOSECONDS)), TIMES[-1])

    mark = cells.glyph("│")
    fine = step_of(fine=False) > span // 2
    step = step_of(fine=fine)
    line = ""
    for moment in range(-(-start // step) * step, end, step):
        longer = line.ljust(shared.left + (moment - start) * shared.room // span) + mark + text(moment, fine=fine)
        line = longer if cell_len(longer) <= shared.left + shared.room else line
    return line
