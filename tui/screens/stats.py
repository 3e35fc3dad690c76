"""The Stats screen: counts, latencies and errors of exchanges by API, client, broker or topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from textual import on
from textual.widget import Widget

from kproxy.tui.screens.tabbed import TabbedScreen, read_so_far, why_empty
from kproxy.tui.views.stats import ALL, lines_of, window_of
from kproxy.tui.widgets.stats import StatsPlot, StatsTable

if TYPE_CHECKING:
    from kproxy.tui.captions import Captions
    from kproxy.tui.terminal.cells import Cells
    from kproxy.tui.views.analysis import Analysis
    from kproxy.tui.widgets.chrome import Part

TALL_ROWS = 36
"""Smallest height of the terminal, in rows, at which the plot is tall."""
LOW_ROWS = 20
"""Smallest height of the terminal, in rows, at which the plot is shown."""


class StatsScreen(TabbedScreen):
    """The Stats screen: a table of figures, and a plot of latency percentiles for the line under its cursor."""

    CSS = """
    StatsScreen #root.-tall StatsPlot { height: 14; }
    StatsScreen #root.-low StatsPlot { display: none; }
    """

    def __init__(self, view: str, cells: Cells, captions: Captions, analysis: Analysis) -> None:
        super().__init__(view, cells, captions)
        self._analysis = analysis
        self._facts: dict[str, dict[str, Any]] = {}
        """The last snapshot of each grouping."""

    def content(self) -> Iterator[Widget]:
        yield StatsTable(self._cells, id="table", classes="content")
        yield StatsPlot(self._cells, id="plot", classes="content")

    @property
    def pane(self) -> StatsTable:
        return self.query_one(StatsTable)

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
            pane.show(lines_of(facts, pane.window, pane.order), window_of(facts, pane.window))

    @on(StatsTable.Changed)
    def _changed(self, event: StatsTable.Changed) -> None:
        event.stop()
        self.refreshed()
        self._show()
        self.show_chrome()

    @on(StatsTable.Moved)
    def _moved(self, event: StatsTable.Moved) -> None:
        event.stop()
        self.query_one(StatsPlot).show(self.pane.line, self.pane.span)
        self.show_chrome()

    @on(StatsTable.FilterBy)
    def _filter_by(self, event: StatsTable.FilterBy) -> None:
        event.stop()
        pane, line = self.pane, self.pane.line
        if line is not None:
            # fixed times, so that the filter finds the same exchanges while the window moves on
            within = [] if pane.window == ALL else pane.span.tests(len(line.figures["counts"]))
            self.filter_by([*line.filters, *within] if line.filters else [])
