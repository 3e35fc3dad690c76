"""The table of the Stats screen: names and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from kproxy.captures.text import latency_text, size_text
from kproxy.tui.actions import registry as actions
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.plot import sparkline
from kproxy.tui.views.stats import GROUPINGS, NOWHEN, ORDERS, WINDOWS, Line, Window
from kproxy.tui.widgets.lines import Lines

FIGURES: Final = (
    ("count", 8), ("req/s", 7), ("B/s", 8), ("rec/s", 7), ("err%", 6), ("p50", 7), ("p90", 7), ("p99", 7), ("max", 7),
    ("throttled", 11),
)  # fmt: skip
"""Titles and widths of the columns between a name and its sparkline."""
NAME_CELLS: Final = 20
MOST_NAME_CELLS: Final = 44
FEWEST_SPARKS: Final = 10
DROPPED_FIRST: Final = ("count", "throttled", "p90", "rec/s", "B/s", "req/s", "max", "p50", "err%")
"""The order in which figures are dropped if the table is too narrow; the figure that orders the lines stays.

Figures are not cut, because a cut number would look like another number.
"""
ORDERED_BY: Final = {"bytes": "B/s", "records": "rec/s", "failed": "err%"}
"""By order, the title of its column, if that is not the order's name."""


class StatsTable(Lines):
    """One line for each name; `line` is the one under the cursor, which stays on its name when figures change."""

    CONTEXT = "stats"
    BINDINGS = actions.bindings("stats")
    HEADING = 3

    class Moved(Message):
        """The cursor is on another line."""

    class FilterBy(Message):
        """Asks to show the exchanges of the line under the cursor."""

    class Changed(Message):
        """Another grouping, window or order was chosen."""

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self.by, self.window, self.order = GROUPINGS[0], "all", next(iter(ORDERS))
        self.empty = ""
        self._lines: Sequence[Line] = ()
        self._total: Line | None = None
        self._span = NOWHEN

    @property
    def count(self) -> int:
        return len(self._lines)

    @property
    def line(self) -> Line | None:
        return self._lines[self.cursor] if self.cursor < len(self._lines) else None

    @property
    def span(self) -> Window:
        return self._span

    def show(self, lines: Sequence[Line], total: Line | None, span: Window) -> None:
        """Show lines and, above them, the total of all exchanges."""
        old = self.line
        self._lines, self._total, self._span = lines, total, span
        if old is not None and self.cursor:
            keys = [line.key for line in lines]
            self.cursor = keys.index(old.key) if old.key in keys else self.cursor
        self.content_changed()
        self.moved()

    # painting

    def heading(self, line: int, width: int) -> list[Segment]:
        if line == 0:
            return self._choices(width)
        if line == 2:
            return [] if self._total is None else self._figures_of(self._total, width, look.BOLD, look.BOLD)
        name, sparks = self._room(width)
        titles = [self.cells.fit(f" {'API' if self.by == 'api' else self.by}", name)]
        titles += [self.cells.fit(title, size, right=True) for title, size in self._figures(width)]
        titles.append(self.cells.fit(f" {self._span.seconds:,.1f} s", sparks))
        return [Segment(self.cells.fit("".join(titles), width), look.HEADING)]

    def _choices(self, width: int) -> list[Segment]:
        """The heading with all groupings and windows, the chosen ones in brackets, and the order."""
        segments: list[Segment] = []
        for title, names, chosen in (
            (" by ", {by: by for by in GROUPINGS}, self.by),
            ("  last ", WINDOWS, self.window),
        ):
            segments.append(Segment(title, look.DIM))
            for name, text in names.items():
                # brackets, so that the choice does not show by style alone
                at = name == chosen
                segments.append(Segment(f"[{text}]" if at else f" {text} ", look.BOLD if at else look.PLAIN))
        segments.append(Segment(f"  order {ORDERS[self.order]}", look.DIM))
        return list(Strip(segments).adjust_cell_length(width))

    def _figures(self, width: int) -> Sequence[tuple[str, int]]:
        shown: Sequence[tuple[str, int]] = FIGURES
        ordering = ORDERED_BY.get(self.order, self.order)
        for name in (name for name in DROPPED_FIRST if name != ordering):
            if sum(size for _, size in shown) + NAME_CELLS + FEWEST_SPARKS + 1 <= width:
                break
            shown = tuple(one for one in shown if one[0] != name)
        return shown

    def _room(self, width: int) -> tuple[int, int]:
        """Cells for the name and for the sparkline."""
        left = width - sum(size for _, size in self._figures(width))
        name = max(NAME_CELLS, min(MOST_NAME_CELLS, left // 2, left - FEWEST_SPARKS - 1))
        return name, max(0, left - name)

    def segments(self, index: int, width: int) -> list[Segment]:
        line = self._lines[index]
        return self._figures_of(line, width, look.PLAIN, look.DIM if line.long_poll else look.PLAIN)

    def _figures_of(self, line: Line, width: int, plain: Style, titled: Style) -> list[Segment]:
        """A line's title and figures; without a failure figures have the style `plain`."""
        name, sparks = self._room(width)
        title = self.cells.fit_keeping_last_word(line.title, name - 1)
        segments = [Segment(f" {title}", titled)]
        for column, size in self._figures(width):
            text = figure(column, line.figures, self._span.seconds)
            failed = column == "err%" and line.figures["failed"]
            style = look.SEVERITY["W"] if failed else plain
            segments.append(Segment(self.cells.fit(text, size, right=True), style))
        spark = sparkline(line.over_time("count"), sparks - 1, self.cells)
        segments.append(Segment(f" {spark}", look.NAME))
        return segments

    def beyond(self, line: int, width: int) -> list[Segment]:
        if self.count or line != 1:
            return []
        return [Segment(self.cells.fit(f"  {self.empty}", width))]

    # actions

    def moved(self) -> None:
        self.post_message(self.Moved())

    def action_group(self) -> None:
        self.by = _next(GROUPINGS, self.by)
        self.cursor = self.top = 0
        self.post_message(self.Changed())

    def action_window(self, by: int) -> None:
        names = list(WINDOWS)
        self.window = names[max(0, min(names.index(self.window) + by, len(names) - 1))]
        self.post_message(self.Changed())

    def action_order(self) -> None:
        self.order = _next(list(ORDERS), self.order)
        self.post_message(self.Changed())

    def action_filter_by(self) -> None:
        self.post_message(self.FilterBy())

    def clicked(self, event: events.Click) -> None:
        if event.chain == 2:
            self.action_filter_by()


def figure(title: str, figures: dict[str, Any], seconds: float) -> str:
    """The text of one figure; `seconds` is the length of the window."""
    match title:
        case "count":
            return f"{figures['count']:,}"
        case "req/s":
            rate = figures["count"] / seconds if seconds else 0.0
            return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:.1f}"
        case "B/s":
            return f"{size_text(round(figures['bytes'] / seconds))}B" if seconds else "-"
        case "rec/s":
            return size_text(round(figures["records"] / seconds)) if figures["records"] and seconds else "-"
        case "err%":
            return f"{100 * figures['failed'] / figures['count']:.1f}" if figures["failed"] else "0"
        case "throttled":
            return latency_text(1_000_000 * figures["throttle_ms"]) if figures["throttle_ms"] else "-"
        case _:
            return latency_text(figures[title]) if title in figures else "-"


def _next(names: Sequence[str], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]
