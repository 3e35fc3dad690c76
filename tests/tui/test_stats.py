"""The Stats screen: figures as the command line has them, and what leads to their exchanges."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from rich.cells import cell_len
from textual.pilot import Pilot

from kproxy.captures.analysis import figures
from kproxy.captures.analysis.stats import BY
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.stats import StatsScreen
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views import stats
from kproxy.tui.views.plot import band, bars, columns, sparkline, time_axis
from tests.support.thinned import thinned
from tests.tui.screen import assert_snapshot, grid, styled
from tests.tui.test_views import captured, ended, until

__all__ = ["captured"]

CELLS = Cells()
START = 1_700_000_000 * 10**9
PLAIN = Cells(ascii_only=True)


def test_the_screen_has_the_groupings_and_windows_that_are_written() -> None:
    assert set(stats.GROUPINGS) == set(BY)
    assert tuple(stats.WINDOWS) == figures.NAMES


async def go(app: KproxyApp, pilot: Pilot[bool]) -> StatsScreen:
    await pilot.press("2")
    await until(lambda: ended(app.analysis.pid), pilot)
    screen = app.screen
    assert isinstance(screen, StatsScreen)
    screen._tick()
    await pilot.pause()
    return screen


async def test_the_screen_is_named(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot)
        assert "Stats" in " ".join(styled(app, "reverse"))


@pytest.mark.parametrize("columns", thinned([60, 72, 80, 100, 67, 79, 86, 88, 160], 4))
async def test_no_figure_is_cut_at_any_width(captured: Path, columns: int) -> None:
    """A figure whose last digits are painted over is another one: 36.2 as 36."""
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(columns, 24)) as pilot:
        pane = (await go(app, pilot)).pane
        width = columns - 1
        for index in range(pane.count):
            assert sum(segment.cell_length for segment in pane.segments(index, width)) <= width
        assert sum(size for _, size in pane._figures(width)) + sum(pane._room(width)) == width
        assert "p99" in grid(app)[pane.region.y + 1]


async def test_ascii(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot)
        assert "".join(grid(app)).isascii()
        assert_snapshot(app, "stats-ascii-80x24")


async def test_a_line_leads_to_its_exchanges_and_back(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot)
        line = screen.pane.line
        assert line is not None
        assert (line.name, line.long_poll) == ("Fetch", True)
        await pilot.press("enter")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        assert app.main.pane.count == 36  # long polls and others
        await pilot.press("q")
        await pilot.pause()
        assert app.screen is screen


async def test_versions_and_clients_of_a_line_s_exchanges_are_told_on_a_narrow_screen(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        assert "client " not in grid(app)[-3]
        await go(app, pilot)
        await pilot.press("enter")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        await pilot.press("g")
        await pilot.pause()
        assert "Fetch v" in grid(app)[3]
        first = grid(app)[-3]
        assert "client shop-" in first
        await pilot.press("G")
        await pilot.pause()
        assert grid(app)[-3].partition("client")[2] != first.partition("client")[2]
    app = KproxyApp(captured, filter_text="api == Fetch", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "client shop-" not in grid(app)[-3]  # a column has them


async def test_a_line_leads_to_its_exchanges_of_the_window(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        pane = (await go(app, pilot)).pane
        await pilot.press("left", "left", "left")
        await until(lambda: pane.window == "10", pilot)
        await pilot.pause()
        line, span = pane.line, pane.span
        assert line is not None
        assert line.name == "Fetch"
        # both lines of Fetch; each of these is asked for and answered within the window, or before it
        counted = sum(one.figures["count"] for one in pane._lines if one.name == "Fetch")
        await pilot.press("enter")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        assert "api == Fetch and time >= 20" in app.main.bar.applied
        index, view = app.main.shared.index, app.main.pane.view
        assert index is not None
        assert view is not None
        rows = [index.row(view.row_number(at)) for at in range(view.count)]
        assert 0 < len(rows) < 36
        assert abs(len(rows) - counted) <= 1  # one is asked for before the window and answered in it
        assert all(span.start <= row.time < span.start + 10 * span.slice for row in rows)
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, StatsScreen)
        assert app.screen.pane.window == "10"


async def test_grouping_window_and_order(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = (await go(app, pilot)).pane

        async def press(key: str, holds: Callable[[], bool]) -> None:
            await pilot.press(key)
            await until(holds, pilot)

        everything = sum(line.figures["count"] for line in pane._lines)
        assert everything == 176
        for by in ("client", "broker"):
            await press("b", lambda by=by: pane.by == by)  # type: ignore[misc]  # the default binds the name
            assert sum(line.figures["count"] for line in pane._lines) == everything
        await press("b", lambda: pane.by == "topic")
        await press("b", lambda: pane.by == "api")
        await press("left", lambda: pane.window == "600")
        assert sum(line.figures["count"] for line in pane._lines) == everything
        await press("left", lambda: pane.window == "60")
        await press("left", lambda: pane.window == "10")
        await press("left", lambda: pane.window == "10")
        assert 0 < sum(line.figures["count"] for line in pane._lines) < everything
        await press("o", lambda: pane.order == "bytes")
        moved = [line.figures["bytes"] for line in pane._lines]
        assert moved == sorted(moved, reverse=True)
        await press("o", lambda: pane.order == "records")
        moved = [line.figures["records"] for line in pane._lines]
        assert moved == sorted(moved, reverse=True)
        assert moved[0]
        await press("o", lambda: pane.order == "failed")
        failed = [line.figures["failed"] for line in pane._lines]
        assert failed == sorted(failed, reverse=True)


async def test_the_cursor_stays_on_its_name(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = (await go(app, pilot)).pane
        await pilot.press("j", "j")
        line = pane.line
        assert line is not None
        await pilot.press("o", "o")
        await pilot.pause()
        assert pane.line is not None
        assert pane.line.key == line.key
        assert pane.cursor != 2


@given(st.lists(st.integers(0, 10**9), max_size=100), st.integers(-1, 80))
def test_a_sparkline_fits(counts: list[int], width: int) -> None:
    for cells in (CELLS, PLAIN):
        line = sparkline(counts, width, cells)
        assert cell_len(line) <= max(0, width)
        assert not line.strip() or max(counts)
    assert sparkline(counts, width, PLAIN).isascii()


VALUES = st.lists(st.none() | st.integers(0, 2**60), max_size=60)


@given(VALUES, VALUES, st.integers(0, 200), st.integers(0, 20))
def test_a_chart_fits(lows: list[int | None], highs: list[int | None], width: int, height: int) -> None:
    lows, highs = lows[: len(highs)], highs[: len(lows)]
    shared = columns(len(lows), width)
    if shared is None:
        return
    for cells in (CELLS, PLAIN):
        charts = [
            band(lows, highs, shared, height, cells),
            bars([one or 0 for one in highs], shared, height, str, cells),
        ]
        for chart in charts:
            assert len(chart) in {0, height}
            assert all(cell_len(line) <= width for line in chart)
        times = time_axis(START, START + shared.count * 10**9, shared, cells)
        assert cell_len(times) <= width


@given(st.integers(1, 60), st.integers(0, 200))
def test_every_slice_has_cells_of_its_own_where_there_is_room(count: int, width: int) -> None:
    shared = columns(count, width)
    if shared is not None and shared.room >= count:
        cells = [cell for number in range(count) for cell in shared.cells(number)]
        assert cells == list(range(width - shared.room, width))
        assert all(shared.slice_at(cell) == number for number in range(count) for cell in shared.cells(number))


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(2, 20))
def test_the_scale_of_latencies_has_round_ends_around_all_values(one: int, other: int, height: int) -> None:
    shared = columns(1, 40)
    assert shared is not None
    lines = band([min(one, other)], [max(one, other)], shared, height, CELLS)
    labels = [line.partition("│")[0].strip() for line in lines]
    assert labels[0] != labels[-1]
    assert all(labels[0 :: height - 1])


def shown(lines: list[str]) -> tuple[list[str], list[str]]:
    """Labels and what is drawn, line by line."""
    return [line.partition("│")[0].strip() for line in lines], [line.partition("│")[2] for line in lines]


def test_equal_percentiles_lie_on_the_ground_of_a_round_scale() -> None:
    shared = columns(2, 30)
    assert shared is not None
    labels, drawn = shown(band([10**6, 10**6], [10**6, None], shared, 5, CELLS))
    assert labels == ["2.0", "", "", "", "1.0"]
    assert drawn == [""] * 4 + ["▬" * 11 + "─" * 11]


def test_what_lies_between_percentiles_is_shaded() -> None:
    shared = columns(3, 30)
    assert shared is not None
    labels, drawn = shown(band([10**6, None, 10**6], [10**8, None, 10**6], shared, 5, CELLS))
    assert labels == ["100.0", "", "10.0", "", "1.0"]
    assert drawn == ["▪▪▪▪▪▪▪", *["░░░░░░░"] * 3, "───────       ▬▬▬▬▬▬▬▬"]


def test_bars_begin_at_zero() -> None:
    shared = columns(4, 12)
    assert shared is not None
    labels, drawn = shown(bars([0, 10, 25, 50], shared, 4, lambda value: f"{value:g}", CELLS))
    assert labels == ["50", "37.5", "25", "12.5"]
    assert drawn == ["   █", "   █", "  ██", " ▆██"]
    assert shown(bars([0, 0.001, 0, 1], shared, 2, str, CELLS))[1] == ["   █", " ▁ █"]


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (0.3, ["22:13:20.000", "22:13:20.100", "22:13:20.200"]),
        (30, ["22:13:20", "22:13:25", "22:13:30", "22:13:35", "22:13:40", "22:13:45"]),
        (4000, ["22:20:00", "22:30:00", "22:40:00", "22:50:00", "23:00:00", "23:10:00"]),
        (3 * 86_400, ["11-15 00:00:00", "11-16 00:00:00", "11-17 00:00:00"]),
    ],
)
def test_times_below_a_chart_are_round_and_differ(
    seconds: float, labels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    shared = columns(30, 100)
    assert shared is not None
    line = time_axis(START, START + round(seconds * 10**9), shared, CELLS)
    assert re.findall(r"│([-0-9 :.]+[0-9])", line) == labels
