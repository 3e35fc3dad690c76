"""The Timing tab: the times of an exchange as bars, and facts about it and its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment

from kproxy.tui.actions import registry as actions
from kproxy.tui.listing.times import of_day
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.overview import NAME_CELLS, Overview

if TYPE_CHECKING:
    from kproxy.tui.detail.timing import Bar, Timing

TEXT_CELLS: Final = 27
LASTED, BOUND = "█", "░"


class TimingPane(Overview, inherit_bindings=False):
    """Bars above lines of "name  value"."""

    CONTEXT = "timing"
    BINDINGS = actions.bindings("timing")

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self._timing: Timing | None = None

    @property
    def _bars(self) -> tuple[Bar, ...]:
        return () if self._timing is None else self._timing.bars

    @property
    def _above(self) -> int:
        """Number of lines above the facts: the bars and their scale."""
        return len(self._bars) + 1 if self._bars else 0

    @property
    def count(self) -> int:
        return self._above + super().count

    def draw(self, timing: Timing | None) -> None:
        self._timing = timing
        self.show([] if timing is None else list(timing.lines))

    def segments(self, index: int, width: int) -> list[Segment]:
        if index >= self._above:
            return super().segments(index - self._above, width)
        timing, room = self._timing, max(1, width - NAME_CELLS - TEXT_CELLS)
        if timing is None:
            return []
        if index == len(timing.bars):
            start = f"{of_day(timing.start // 1_000_000_000)}.{timing.start % 1_000_000_000:09d}"[:15]
            from kproxy.tui.detail.timing import duration_text

            far = f"+{duration_text(timing.end - timing.start)}"
            scale = " " * NAME_CELLS + start + far.rjust(max(len(far) + 1, room - len(start)))
            return [Segment(self.cells.fit(scale, width), look.DIM)]
        bar = timing.bars[index]
        before, length = place(bar.start, bar.end, timing.start, timing.end, room)
        glyph = self.cells.glyph(BOUND if bar.bound else LASTED)
        return [
            Segment(self.cells.fit(f" {bar.name}", NAME_CELLS), look.NAME),
            Segment(" " * before),
            Segment(glyph * length, look.DIM if bar.bound else look.OK),
            Segment(" " * (room - before - length)),
            Segment(self.cells.fit(f" {bar.text}", width - NAME_CELLS - room)),
        ]


def place(start: int, end: int, first: int, last: int, room: int) -> tuple[int, int]:
    """(cells before a bar, cells of the bar, at least 1); `room` cells stand for the time from `first` to `last`."""
    reach = max(1, last - first)
    before = min(room - 1, max(0, (start - first) * room // reach))
    until = min(room, max(before + 1, -((first - end) * room // reach)))
    return before, until - before
