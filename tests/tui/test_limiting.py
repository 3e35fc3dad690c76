"""Times to which all screens are limited: the screens show what the commands with --since and --until print."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.captures.period import Period
from kproxy.tui.app import KproxyApp
from kproxy.tui.listing.times import moment_text
from kproxy.tui.output.commands import Exporter
from kproxy.tui.screens.tables import TablesScreen
from kproxy.tui.views.findings import Found
from kproxy.tui.widgets.chart import Chart
from tests.support.proxy import KPROXY
from tests.tui.screen import grid
from tests.tui.test_stats import go
from tests.tui.test_views import CAPTURE, captured, ended, until

__all__ = ["captured"]


def printed(command: str, period: Period, *more: str) -> list[dict[str, Any]]:
    """The JSON lines that a command prints of a period."""
    arguments = [KPROXY, command, *period.options(), *more, CAPTURE]
    output = subprocess.run(list(map(str, arguments)), check=True, capture_output=True, text=True, timeout=120).stdout
    return [json.loads(line) for line in output.splitlines()]


async def limited(app: KproxyApp, pilot: Pilot[bool]) -> Period:
    """Limit the screens to what came from exchange 101 up to exchange 120."""
    await pilot.press("ctrl+g", *"101", "enter", "left_square_bracket")
    await until(lambda: bool(app.period), pilot)
    await pilot.press("ctrl+g", *"120", "enter", "right_square_bracket")
    await until(lambda: app.period.until is not None, pilot)
    return app.period


async def test_the_list_shows_what_an_export_of_the_times_holds(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api in (Fetch, Heartbeat)", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+x")
        await pilot.pause()
        period = await limited(app, pilot)
        pane = app.main.pane
        assert pane.view is not None
        shown = [pane.view.row_number(at) + 1 for at in range(pane.view.count)]
        exported = [one["exchange"] for one in printed("export", period) if one["schema"] == "kproxy.exchange/1"]
        assert shown == sorted(exported)
        assert {101, 120} <= set(shown)
        assert len(shown) < 30
        # a filter beside it
        app.main.bar.set_text("api == Fetch")
        await until(lambda: app.main.pane.count < len(exported), pilot)
        fetches = printed("export", period, "-Y", "api == Fetch")
        assert app.main.pane.count == sum(one["schema"] == "kproxy.exchange/1" for one in fetches)
        (status,) = [line for line in grid(app) if "w shows all times" in line]
        assert "[f: api == Fetch]" in status
        assert " and ".join(app.main.exporting.shown()).count("time") == 2
        await pilot.press("w")
        await until(lambda: not app.period, pilot)
        assert app.main.pane.count == 36
        assert not any("w shows all times" in line for line in grid(app))


async def test_the_other_screens_count_what_their_commands_count(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False, exporter=Exporter(("kproxy", "export"), captures=(str(CAPTURE),)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await until(lambda: ended(app.analysis.pid), pilot)
        await pilot.press("1")
        await pilot.pause()
        period = await limited(app, pilot)
        screen = await go(app, pilot)
        lines = {(line.name, line.long_poll): line.figures["count"] for line in screen.pane._lines}
        expected = printed("stats", period, "--json")
        told = {(one["api"], one["long_poll"]): one["count"] for one in expected if "count" in one}
        assert lines == told
        assert any("w shows all times" in line for line in grid(app))
        command = next(one.make() for one in screen.copies() if one.name == "command")
        assert shlex.split(command)[3:] == period.options()
        await pilot.press("6")
        await pilot.pause()
        tables = app.screen
        assert isinstance(tables, TablesScreen)
        await until(lambda: tables.table.count > 0, pilot)
        connections = [one for one in printed("conns", period, "--json") if "client" in one]
        assert tables.table.count == len(connections)
        assert tables._facts is not None
        exchanges = Counter(one["schema"] for one in printed("export", period))["kproxy.exchange/1"]
        assert tables._facts["exchanges"] == exchanges


async def test_a_time_is_marked_in_the_chart_and_begins_what_is_shown(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot)
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert not app.period
        span = screen.chart.span
        await pilot.press("full_stop", "full_stop", "full_stop", "comma")
        await pilot.pause()
        assert screen.chart.mark == 1
        begins, ends = (moment_text(span.start + number * span.slice) for number in (1, 2))
        assert any(f"{begins} to {ends}: " in line for line in grid(app))
        await pilot.press("left_square_bracket")
        await until(lambda: bool(app.period), pilot)
        assert app.period == Period(span.start + span.slice, None)
        await until(lambda: ended(app.analysis.pid), pilot)
        screen._tick()
        await pilot.pause()
        marked = screen.chart.mark
        assert marked is not None  # the same time as before, in slices of another length
        now = screen.chart.span
        middle = span.start + span.slice * 3 // 2
        assert now.start + marked * now.slice <= middle < now.start + (marked + 1) * now.slice
        await pilot.press("full_stop", "right_square_bracket")
        await until(lambda: app.period.until is not None, pilot)
        assert app.period == Period(span.start + span.slice, now.start + (marked + 2) * now.slice)


async def test_times_are_chosen_with_the_mouse(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot)
        chart = screen.chart
        assert chart._columns is not None
        first, last = (chart._columns.cells(number).start for number in (4, 9))
        span = chart.span
        await pilot.mouse_down(Chart, offset=(last, 5))
        await pilot.hover(Chart, offset=(first, 5))
        await pilot.mouse_up(Chart, offset=(first, 5))
        await until(lambda: bool(app.period), pilot)
        assert app.period == span.period(4, 10)


async def test_a_click_in_the_chart_only_marks(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot)
        assert screen.chart._columns is not None
        await pilot.click(Chart, offset=(screen.chart._columns.cells(7).start, 3))
        await pilot.pause()
        assert screen.chart.mark == 7
        assert not app.period
        await pilot.click(Chart, offset=(2, 3))  # the labels
        await pilot.pause()
        assert screen.chart.mark == 7


async def test_what_leads_to_an_exchange_outside_shows_all_times(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await limited(app, pilot)
        await pilot.press("3")
        await pilot.pause()
        assert app.lead_to(5, "topics")
        await until(lambda: app.main.pane.selected == 4, pilot)
        assert not app.period


@pytest.mark.parametrize("key", ["left_square_bracket", "right_square_bracket"])
async def test_the_same_key_at_the_same_exchange_undoes_it(captured: Path, key: str) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+g", *"50", "enter", key)
        await until(lambda: bool(app.period), pilot)
        assert app.main.pane.selected == 49
        assert 0 < app.main.pane.count < 176
        await pilot.press(key)
        await until(lambda: not app.period, pilot)
        assert app.main.pane.count == 176


async def test_an_end_before_the_beginning_replaces_it(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+g", *"50", "enter", "left_square_bracket")
        await until(lambda: bool(app.period), pilot)
        time = app.period.since
        assert time is not None
        app.limit(Period(time + 10**9))
        app.main.pane.go_to(49)
        await pilot.press("right_square_bracket")
        await until(lambda: app.period.until is not None, pilot)
        assert app.period.since is None or app.period.since < (app.period.until or 0)


def test_marks_of_findings_are_read_anew(tmp_path: Path) -> None:
    """A process that begins again leaves no snapshot of the one before."""
    from kproxy.captures.index.format import VIEWS
    from kproxy.tui.views.analysis import Analysis

    analysis = Analysis(tmp_path)
    analysis.limit(Period(1, 2))
    assert not analysis.started
    (tmp_path / VIEWS).mkdir()
    (tmp_path / VIEWS / "evidence.json").write_text('{"findings": [], "renumbered": false}')
    analysis.start()
    try:
        assert Found(analysis).refresh()
        analysis.limit(Period())
        assert not (tmp_path / VIEWS).exists()
        assert analysis.started
    finally:
        analysis.stop()
