"""The timeline of the block under the cursor: rows of spans, marks and levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from kproxy.tui.listing.times import of_day
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.plot import sparkline
from kproxy.tui.widgets.painted import Painted

if TYPE_CHECKING:
    from kproxy.tui.views.analysis import Timeline

NAME_CELLS: Final = 22
SPAN: Final = "━"
TALL_ROWS: Final = 36
MOST_LOW, MOST_TALL = 7, 16
"""Maximum number of lines in a terminal with fewer rows than TALL_ROWS, and in one with at least as many."""
LETTERS: Final[dict[str, str]] = {
    "G": "generation", "J": "join", "S": "sync", "A": "assigned", "X": "left/abort", "+": "added", "P": "produce",
    "C": "commit", "L": "leader", "I": "in-sync replicas", "!": "error", "*": "other",
}  # fmt: skip
"""Meanings of the letters of captures.analysis.timelines."""


class TimelinePane(Painted):
    """A legend, the timeline's rows and a scale; hidden without a timeline."""

    DEFAULT_CSS = """
    TimelinePane { width: 1fr; height: auto; display: none; }
    TimelinePane.-drawn { display: block; }
    """

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._timeline: Timeline | None = None

    def show(self, timeline: Timeline | None) -> None:
        if timeline != self._timeline:
            self._timeline = timeline
            self.set_class(timeline is not None, "-drawn")
            if timeline is not None:
                most = MOST_TALL if self.app.size.height >= TALL_ROWS else MOST_LOW
                self.styles.height = min(most, len(timeline.rows) + 2)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.size.width, self.size.height
        one = self._timeline
        if one is None:
            return Strip.blank(width)
        rows = one.rows[: max(0, height - 2)]
        segments: list[Segment]
        if y == 0:
            segments = [Segment(self._cells.fit(self._legend(len(one.rows) - len(rows) + one.more), width), look.DIM)]
        elif y <= len(rows):
            segments = self._row(rows[y - 1], width)
        elif y == len(rows) + 1:
            last = max(one.end - one.start, 1)
            far = f"{last / 1e9:.3f} s  {_clock(one.end)}"
            near = " " * NAME_CELLS + _clock(one.start)
            segments = [Segment(self._cells.fit(near + far.rjust(max(0, width - len(near) - 1)), width), look.DIM)]
        else:
            segments = []
        return Strip(segments).adjust_cell_length(width)

    def _legend(self, more: int) -> str:
        used = {letter for row in self._timeline.rows for _, letter in row.marks} if self._timeline is not None else ()
        said = "  ".join(f"{letter} {words}" for letter, words in LETTERS.items() if letter in used)
        title = self._timeline.title if self._timeline is not None else ""
        return f" {title}   {said}" + (f"   {more:,} more rows" if more else "")

    def _row(self, row: Any, width: int) -> list[Segment]:
        room = width - NAME_CELLS - 1
        line: list[tuple[str, Style]] = [(" ", look.PLAIN)] * max(0, room)
        for start, end, how in row.spans:
            style = look.SEVERITY["W"] if how == "failed" else look.OK
            for at in range(self._column(start, room), self._column(end, room) + 1):
                if 0 <= at < len(line):
                    line[at] = (self._cells.glyph(SPAN), style)
        for at, bar in enumerate(sparkline(self._highest(row.levels, room), room, self._cells)):
            line[at] = (bar, look.PLAIN)
        for moment, letter in row.marks:
            at = self._column(moment, room)
            if 0 <= at < len(line):
                style = look.SEVERITY["E"] if letter in "!X" else look.BOLD
                line[at] = (letter, style)
        name = self._cells.fit(f" {row.name}", NAME_CELLS)
        return [Segment(name, look.NAME), *(Segment(glyph, style) for glyph, style in line)]

    def _highest(self, levels: tuple[tuple[int, int], ...], room: int) -> list[int]:
        """The highest level in each of `room` columns; a level holds until the next one, the last to the end."""
        if not levels or room < 1:
            return []
        found = [0] * room
        starts = [self._column(moment, room) for moment, _ in levels]
        for (_, value), first, after in zip(levels, starts, [*starts[1:], room], strict=True):
            for at in range(first, max(after, first + 1)):
                found[at] = max(found[at], value)
        return found

    def _column(self, moment: int, room: int) -> int:
        if self._timeline is None or room < 1:
            return -1
        reach = max(1, self._timeline.end - self._timeline.start)
        return (moment - self._timeline.start) * (room - 1) // reach


def _clock(nanoseconds: int) -> str:
    return of_day(nanoseconds // 1_000_000_000)
