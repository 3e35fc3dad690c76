"""The Stats screen: counts, latencies and errors of exchanges by API, client, broker or topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from textual import on
from textual.widget import Widget

from kproxy.captures.period import Period
from kproxy.tui.output.copying import Copy
from kproxy.tui.screens.tabbed import TabbedScreen, read_so_far, why_empty
from kproxy.tui.views.stats import ALL, GROUPINGS, MEASURES, lines_of, total_of, window_of
from kproxy.tui.widgets.chart import Chart
from kproxy.tui.widgets.stats import StatsTable

if TYPE_CHECKING:
    from kproxy.tui.captions import Captions
    from kproxy.tui.screens.exporting import Exporting
    from kproxy.tui.terminal.cells import Cells
    from kproxy.tui.views.analysis import Analysis
    from kproxy.tui.widgets.chrome import Part

TALL_ROWS = 36
"""Smallest height of the terminal, in rows, at which the chart is tall."""
LOW_ROWS = 20
"""Smallest height of the terminal, in rows, at which the chart is shown."""


class StatsScreen(TabbedScreen):
    """The Stats screen: a table of figures, and a chart of the line under its cursor."""

    CSS = """
    StatsScreen #root.-tall Chart { height: 14; }
    StatsScreen #root.-low Chart { display: none; }
    """

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting, analysis: Analysis) -> None:
        super().__init__(view, cells, captions, exporting)
        self._analysis = analysis
        self._facts: dict[str, dict[str, Any]] = {}
        """The last snapshot of each grouping."""

    def content(self) -> Iterator[Widget]:
        yield StatsTable(self._cells, id="table", classes="content")
        yield Chart(self._cells, id="chart", classes="content")

    @property
    def pane(self) -> StatsTable:
        return self.query_one(StatsTable)

    @property
    def chart(self) -> Chart:
        return self.query_one(Chart)

    @property
    def charting(self) -> bool:
        """Whether the chart is shown."""
        return self.app.size.height >= LOW_ROWS

    def copies(self) -> list[Copy]:
        """Copies of the line under the cursor, then of the table."""
        pane = self.pane
        found = self._exporting.commands("stats", *(() if pane.by == GROUPINGS[0] else ("--by", pane.by)))
        if pane.cursor < pane.count:
            text = pane.line_text(pane.cursor)
            found.insert(0, Copy("line", text, lambda: text))
        return found

    def _lay_out(self) -> None:
        super()._lay_out()
        height = self.app.size.height
        self._root.update_classes({"-tall": height >= TALL_ROWS, "-low": height < LOW_ROWS})

    def refreshed(self) -> bool:
        self._analysis.start()
        by = self.pane.by
        facts = self._analysis.facts(f"stats-{by}")
        if facts is not None:
            self._facts[by] = facts
            self._show()
        elif by not in self._facts:
            self.pane.empty = "Reading the capture"
        return facts is not None

    def status_parts(self) -> list[Part]:
        return read_so_far(self._facts.get(self.pane.by), died=self._analysis.died)

    def _show(self) -> None:
        pane, facts = self.pane, self._facts.get(self.pane.by)
        if facts is not None:
            pane.empty = why_empty(facts)
            lines = lines_of(facts, pane.window, pane.order)
            pane.show(lines, total_of(facts, pane.window), window_of(facts, pane.window))

    def forget(self) -> None:
        self._facts.clear()

    # the chart

    def action_measure(self) -> None:
        names = list(MEASURES)
        self.chart.choose(names[(names.index(self.chart.measure) + 1) % len(names)])

    def action_mark(self, by: int) -> None:
        self.chart.move_mark(by)

    def action_limit_from(self) -> None:
        self._limit(self.chart.mark, None)

    def action_limit_to(self) -> None:
        self._limit(None, self.chart.mark)

    @on(Chart.Brushed)
    def _brushed(self, event: Chart.Brushed) -> None:
        event.stop()
        self._limit(event.first, event.last)

    def _limit(self, first: int | None, last: int | None) -> None:
        """Limit all screens to slices of the chart; an end that is None stays as it is."""
        if first is None and last is None:
            self.notify(", and . mark a time in the chart first", timeout=3)
            return
        old, span = self.app.period, self.chart.span
        since = old.since if first is None else span.period(first, first).since
        until = old.until if last is None else span.period(last, last + 1).until
        self.app.limit(Period(since, until))

    @on(StatsTable.Changed)
    def _changed(self, event: StatsTable.Changed) -> None:
        event.stop()
        self.refreshed()
        self._show()
        self.show_chrome()

    @on(StatsTable.Moved)
    def _moved(self, event: StatsTable.Moved) -> None:
        event.stop()
        self.chart.show(self.pane.line, self.pane.span)
        self.show_chrome()

    @on(StatsTable.FilterBy)
    def _filter_by(self, event: StatsTable.FilterBy) -> None:
        event.stop()
        pane, line = self.pane, self.pane.line
        if line is not None:
            # fixed times, so that the filter finds the same exchanges while the window moves on
            within = [] if pane.window == ALL else pane.span.period(0, len(line.over_time("count"))).tests()
            self.filter_by([*line.filters, *within] if line.filters else [])
