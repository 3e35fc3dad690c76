"""The chart of the Stats screen: latencies or rates of one line over the window, and the time that is marked in it."""

from __future__ import annotations

from typing import Any, Final

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from kproxy.captures.text import latency_text, size_text
from kproxy.tui.listing.times import moment_text
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.plot import BETWEEN, BOTH, HIGH, LOW, Columns, band, bars, columns, time_axis
from kproxy.tui.views.stats import LATENCY, MEASURES, NOWHEN, PERCENTILES, Line, Window
from kproxy.tui.widgets.painted import Painted

AROUND: Final = 2
"""Lines of the title and of the times."""


class Chart(Painted):
    """A title, the chart, and the times below it; a slice of time can be marked by keys and mouse."""

    DEFAULT_CSS = """
    Chart { width: 1fr; height: 8; }
    """

    class Brushed(Message):
        """Slices were chosen with the mouse: from number `first` to number `last`."""

        def __init__(self, first: int, last: int) -> None:
            super().__init__()
            self.first, self.last = first, last

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._line: Line | None = None
        self._span = NOWHEN
        self.measure = LATENCY
        """A key of MEASURES."""
        self.mark: int | None = None
        """Number of the marked slice; None if none is."""
        self._dragged_from: int | None = None
        self._columns: Columns | None = None
        self._title, self._times = "", ""
        self._chart: list[str] = []

    def show(self, line: Line | None, span: Window) -> None:
        if (line, span) != (self._line, self._span):
            self.mark = None if self.mark is None else self._moved_to(span, self.mark)
            self._line, self._span = line, span
            self._lay_out()

    def _moved_to(self, span: Window, mark: int) -> int | None:
        """The slice of `span` that contains the middle of the present span's slice `mark`; None if none does."""
        middle = self._span.start + mark * self._span.slice + self._span.slice // 2
        number = (middle - span.start) // span.slice
        return number if number >= 0 and middle < span.start + span.seconds * 1e9 + span.slice else None

    def choose(self, measure: str) -> None:
        self.measure = measure
        self._lay_out()

    @property
    def span(self) -> Window:
        return self._span

    @property
    def _slices(self) -> int:
        """Number of slices in the chart."""
        return 0 if self._line is None else len(self._line.over_time("count"))

    def move_mark(self, by: int) -> None:
        """Mark the slice `by` slices later; without a mark, the first slice, or with a negative `by` the last one."""
        start = (-1 if by > 0 else self._slices) if self.mark is None else self.mark
        if self._slices:
            self.mark_slice(max(0, min(start, self._slices) + by))

    def mark_slice(self, number: int | None) -> None:
        self.mark = None if number is None or not self._slices else min(number, self._slices - 1)
        self._lay_out()

    # painting

    def watch_virtual_size(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        line, height = self._line, self.size.height - AROUND
        self._chart, self._times, self._columns = [], "", None
        if line is None:
            self._title = ""
        else:
            shared = columns(self._slices, self.size.width)
            self._chart = [] if shared is None else self._drawn(line, shared, height)
            self._title = f" {line.title}   {self._legend(line)}"
            if self._chart and shared is not None:
                self._columns = shared
                end = self._span.start + self._span.slice * shared.count
                self._times = time_axis(self._span.start, end, shared, self._cells)
        self.refresh()

    def _drawn(self, line: Line, shared: Columns, height: int) -> list[str]:
        if self.measure == LATENCY:
            lows, highs = map(line.over_time, PERCENTILES)
            return band(lows, highs, shared, height, self._cells)
        values = line.over_time(MEASURES[self.measure][0])
        if height < 1 or not any(values):
            return []
        return bars([self._rate(value) for value in values], shared, height, self._rate_text, self._cells)

    def _rate(self, value: int) -> float:
        return value * 1e9 / self._span.slice

    def _rate_text(self, rate: float) -> str:
        return f"{size_text(round(rate))}B" if self.measure == "bytes" else _short(rate)

    def _legend(self, line: Line) -> str:
        glyph = self._cells.glyph
        title = MEASURES[self.measure][1]
        if not self._chart:
            # no chart: the pane is too small, or there is nothing to draw
            small = self.size.height - AROUND < 2 or columns(1, self.size.width) is None
            missing = "nothing was answered" if self.measure == LATENCY else "none"
            return title if small else f"{title}   {missing}"
        if self.mark is not None and self.mark < self._slices:
            return f"{title}   {self._marked(line, self.mark)}"
        if self.measure == LATENCY:
            signs = {"p50": LOW, "p99": HIGH, "both": BOTH, "between": BETWEEN}
            return "   ".join([title, *(f"{name} {2 * glyph(sign)}" for name, sign in signs.items())])
        return title

    def _marked(self, line: Line, number: int) -> str:
        """The marked time, and the figures of it."""
        begins = self._span.start + number * self._span.slice
        if self.measure == LATENCY:
            found = [line.over_time(name)[number] for name in PERCENTILES]
            figures = "  ".join(
                f"{name} {latency_text(value)}"
                for name, value in zip(PERCENTILES, found, strict=True)
                if value is not None
            )
        else:
            figures = self._rate_text(self._rate(line.over_time(MEASURES[self.measure][0])[number]))
        return f"{moment_text(begins)} to {moment_text(begins + self._span.slice)}: {figures or 'nothing'}"

    def render_line(self, y: int) -> Strip:
        width, last = self.size.width, len(self._chart)
        if y == 0:
            segments = [Segment(self._cells.fit(self._title, width), look.DIM)]
        elif y <= last:
            segments = self._with_mark(self._cells.fit(self._chart[y - 1], width))
        elif y == last + 1:
            segments = [Segment(self._cells.fit(self._times, width), look.DIM)]
        else:
            segments = []
        return Strip(segments).adjust_cell_length(width)

    def _with_mark(self, text: str) -> list[Segment]:
        """A line of the chart in which the marked slice, or all that the mouse is dragged over, is reversed."""
        if self.mark is None or self._columns is None or self.mark >= self._columns.count:
            return [Segment(text, look.NAME)]
        first, last = sorted((self.mark, self.mark if self._dragged_from is None else self._dragged_from))
        start, stop = self._columns.cells(first).start, self._columns.cells(last).stop
        return [
            Segment(text[:start], look.NAME), Segment(text[start:stop], look.CURSOR), Segment(text[stop:], look.NAME)
        ]  # fmt: skip

    # the mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        found = None if self._columns is None else self._columns.slice_at(event.x)
        if event.button == 1 and found is not None:
            event.stop()
            self._dragged_from = found
            self.capture_mouse()
            self.mark_slice(found)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged_from is not None and self._columns is not None:
            event.stop()
            within = range(self._columns.left, self._columns.left + self._columns.room)
            self.mark_slice(self._columns.slice_at(max(within.start, min(event.x, within.stop - 1))))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        began, self._dragged_from = self._dragged_from, None
        if began is None:
            return
        event.stop()
        self.release_mouse()
        if self.mark is not None and self.mark != began:
            self.post_message(self.Brushed(*sorted((began, self.mark))))


def _short(value: float) -> str:
    """A number in at most six characters."""
    return size_text(round(value)) if value >= 1000 else f"{value:.3g}"
