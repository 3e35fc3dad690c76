"""Other captures opened over what is shown, by the command's own opener."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.captures.index.format import ROWS, STOP
from kproxy.cli.opening import opener
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.help import HelpScreen
from kproxy.tui.settings.live import RunInfo
from tests.support.indexes import IndexBuilder, heartbeat
from tests.tui.screen import grid
from tests.tui.test_views import CAPTURE, ended, until
from tests.tui.test_walking import told

WARNINGS: list[str] = []
LIVE = RunInfo("127.0.0.1:19092", "kafka:9092", ours=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a capture in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "night.pcap").symlink_to(CAPTURE)
    return tmp_path


def spooled(home: Path) -> list[Path]:
    """Indexes that somebody looks at."""
    return [*(home / "cache" / "kproxy" / "spool").glob(f"*/index/{ROWS}")]


def saying(app: KproxyApp, why: str) -> bool:
    """Whether it is told why: in passing, or in the status line where indexing took long to begin."""
    return why in told(app) or why in "".join(text for text, _ in app._showing.captions.progress())


def shown(app: KproxyApp) -> bool:
    """Whether the capture is on the screen; what is being mounted has no panes yet."""
    return app.screen is app.main and app.main.shared.index is not None and app.main.pane.count == 176


async def opened(app: KproxyApp, pilot: Pilot[bool]) -> None:
    await pilot.press("L", *"night.pcap", "enter")
    await until(partial(shown, app), pilot)


async def test_a_capture_is_opened_while_a_run_goes_on(home: Path) -> None:
    builder = IndexBuilder(home, state="following")
    heartbeat(builder)
    builder.flush()
    app = KproxyApp(builder.path, live=LIVE, opener=opener(warn=WARNINGS.append), ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.main.pane.count == 1, pilot)
        live = app.main
        await pilot.press("3")  # the live one's Topics, to which going back leads
        await opened(app, pilot)
        assert "kproxy night.pcap  176 ex" in grid(app)[0]
        assert "[q: back to LIVE 127.0.0.1:19092]" in grid(app)[-3]
        assert spooled(home)
        other = app.main
        await pilot.press("f", *"api == Produce", "enter", "6")
        await pilot.pause()
        adding = app.analysis.pid
        assert adding is not None
        for _ in range(3):
            heartbeat(builder)
        builder.flush()
        await until(lambda: live.pane.count == 4, pilot)
        assert app.main is other
        await pilot.press("q", "q")
        await until(lambda: not spooled(home) and ended(adding), pilot)
        assert app.main is live
        assert app.screen is app._showing.views["topics"]
        await pilot.press("1")
        await pilot.pause()
        assert "kproxy LIVE 127.0.0.1:19092 > kafka:9092" in grid(app)[0]
        assert "4/4  TAIL" in grid(app)[-3]
        assert not live.bar.applied
        await pilot.press("q")
        await pilot.pause()
        assert "Stop the proxy?" in "\n".join(grid(app))
    assert not WARNINGS


async def test_what_cannot_be_opened_is_told_and_nothing_changes(home: Path, index: Path) -> None:
    (home / "words.txt").write_text("words")
    app = KproxyApp(index, opener=opener(warn=WARNINGS.append), ascii_only=False)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        main = app.main
        for name, why in (("none.pcap", "No such file"), ("words.txt", "neither pcap nor pcapng")):
            await pilot.press("L", *name, "enter")
            await until(partial(saying, app, why), pilot)
            if app.main is not main:
                await pilot.press("q")
            await until(lambda: app.screen is main, pilot)
        await until(lambda: not spooled(home), pilot)


async def test_leaving_puts_away_all_that_was_opened(home: Path, index: Path) -> None:
    app = KproxyApp(index, opener=opener(warn=WARNINGS.append), ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        await pilot.press("Q")
        await pilot.pause()
        assert app._exit
    assert not spooled(home)


async def test_names_of_files_are_suggested(home: Path, index: Path) -> None:
    (home / "last night.pcap").symlink_to(CAPTURE)
    app = KproxyApp(index, opener=opener(warn=WARNINGS.append), ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("L", *"las", "tab")
        await pilot.pause()
        assert grid(app)[1] == ": open 'last night.pcap'"
        await pilot.press("enter")
        await until(partial(shown, app), pilot)


async def test_without_an_opener_there_is_no_such_command(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("L", "colon", *"open")
        await pilot.pause()
        assert "Open other captures" not in "\n".join(grid(app))


async def test_reading_is_stopped_and_what_was_read_stays(home: Path) -> None:
    builder = IndexBuilder(home)
    heartbeat(builder)
    builder.flush()
    os.truncate(builder.capture, 8_000_000)
    builder.writer.write_meta(bytes_read=3_000_000, bytes_total=8_000_000)
    app = KproxyApp(builder.path, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.main.pane.count == 1, pilot)
        assert "index 37 %  3.0MB/8.0MB" in grid(app)[-3]
        assert "(S stops)" in grid(app)[-3]
        await pilot.press("S")
        assert (builder.path / STOP).exists()
        builder.writer.write_meta(state="stopped")
        await until(lambda: "partial: stopped at 37 %  3.0MB/8.0MB" in grid(app)[-3], pilot)
        assert "Stop reading" not in grid(app)[-1]


async def test_what_is_asked_for_while_a_capture_is_left_stays(home: Path) -> None:
    app = KproxyApp(home / "none", live=LIVE, opener=opener(warn=WARNINGS.append), ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        live = app.main
        await opened(app, pilot)
        assert app.leave_captures()
        live.action_help()
        await until(lambda: not spooled(home), pilot)
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        await pilot.pause()
        assert app.main is live
        assert live.is_current
