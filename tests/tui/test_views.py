"""The screens over the analysis: topics, groups, transactions, connections, cluster, health."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.analysis.columns.storing import store
from kproxy.captures.analysis.columns.tables import of_view
from kproxy.captures.index.indexer import run
from kproxy.captures.text import local
from kproxy.tui.actions import registry as actions
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.tabbed import known_tests
from kproxy.tui.screens.views import ViewScreen
from kproxy.tui.search import patterns
from kproxy.tui.settings.live import RunInfo
from tests.tui.screen import grid, styled

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
ANALYSED = {
    name: key
    for name, (key, _, _) in actions.SCREENS.items()
    if name not in {"exchanges", "health", "stats", "records"}
}
BOUND = 60.0


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("captured") / "index"
    run([CAPTURE], directory)
    return directory


async def until(condition: Callable[[], bool], pilot: Pilot[bool]) -> None:
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline
        await pilot.pause(0.02)


def ended(pid: int | None) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@contextmanager
def changed(index: Path, view: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """(facts, lines) of a view to be changed and written again; the next process that adds up writes it as it was."""
    path = index / "views" / f"{view}.table"
    found = Stored(path)
    facts, lines = found.facts, [dict(line) for line in found.lines()]
    yield facts, lines
    replacement = path.with_suffix(".new")
    replacement.write_bytes(store(facts, lines, of_view(view), local))
    replacement.replace(path)


def shown(app: KproxyApp) -> object:
    return app.screen


async def go(app: KproxyApp, pilot: Pilot[bool], key: str) -> ViewScreen:
    """Go to a screen and wait until everything is added up."""
    await pilot.press(key)
    await until(lambda: ended(app.analysis.pid), pilot)
    screen = app.screen
    assert isinstance(screen, ViewScreen)
    screen._tick()
    await pilot.pause()
    return screen


@pytest.mark.parametrize("view", ANALYSED)
async def test_the_screen_is_named(captured: Path, view: str) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await go(app, pilot, ANALYSED[view])
        assert actions.SCREENS[view][1] in " ".join(styled(app, "reverse"))


async def test_health_counts_and_names_what_is_wrong(index: Path) -> None:
    live = RunInfo("127.0.0.1:19092", "kafka:9092", notes=("kafka:9092 refuses connections",), stopped=lambda: "full")
    app = KproxyApp(index, live=live, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("0")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "60 exchanges on" in text
        assert "kafka:9092 refuses connections" in text
        assert "recording stopped: full" in text
        assert "frames whose body could not be decoded" in text
        assert not app.analysis.started  # nothing is read for it
        assert app.screen.focused is not None


async def test_enter_leads_to_the_exchange_and_back(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Metadata", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot, "5")
        assert not screen.outline.is_on_screen
        await pilot.press("enter")
        await until(lambda: screen.outline.has_focus and screen.outline.count > 2, pilot)
        await pilot.press("j", "j", "enter")
        await until(lambda: app.screen is app.main and app.main.pane.selected == 48, pilot)
        assert not app.main.filtering.filtered
        await pilot.press("escape")
        await pilot.pause()
        assert shown(app) is screen
        assert screen.outline.cursor > 1
        await pilot.press("q")  # closes the details
        await pilot.pause()
        assert shown(app) is screen
        assert app.focused is screen.pane
        assert not screen.outline.is_on_screen
        await pilot.press("1")
        await pilot.pause()
        assert shown(app) is app.main
        await pilot.press("q")  # nothing to go back to: it leaves
        await until(lambda: app._exit, pilot)


async def test_going_back_ends_somewhere(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot, "5")
        await pilot.press("enter", "j", "j", "enter")
        await until(lambda: app.screen is app.main, pilot)
        await pilot.press("q", "q", "q", "q")
        await until(lambda: app._exit, pilot)


async def test_exchanges_with_other_numbers_are_not_led_to(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot, "6")
        with changed(captured, "connections") as (facts, _):
            facts["renumbered"] = True
        screen._tick()
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert shown(app) is screen
        assert "counted again" in "\n".join(grid(app))


async def test_a_reason_leads_where_its_rebalance_does(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot, "4")
        await pilot.press("enter", "slash", *"because", "enter", "enter")
        await until(lambda: app.screen is app.main and app.main.pane.selected == 140, pilot)


async def test_a_line_filters_its_exchanges(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await go(app, pilot, "6")
        await pilot.press("j", "equals_sign")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        assert app.main.pane.view is not None
        assert app.main.pane.view.text == "connection == 2"
        assert app.main.pane.count == 10


async def test_a_transaction_is_not_all_of_its_id(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot, "5")
        await pilot.press("slash", *"aborted", "enter", "equals_sign")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        assert app.main.bar.applied == 'txn == "shop-tx" and exchange >= 53 and exchange <= 59'
        await pilot.press("5")
        with changed(captured, "transactions") as (facts, _):
            facts["renumbered"] = True
        screen._tick()
        await pilot.press("equals_sign", "equals_sign")
        await until(lambda: app.main.bar.applied == 'txn == "shop-tx"', pilot)


async def test_a_line_is_joined_to_the_filter_that_is_applied(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Fetch", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot, "3")
        await pilot.press("enter", "slash", *"consumer", "enter", "equals_sign")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert 'topic == "shop-orders" and client.id == ' in text
        assert "now: api == Fetch" in text
        await pilot.press("j", "tilde")  # the topic alone, taken out
        await until(lambda: app.screen is app.main, pilot)
        assert app.main.bar.applied == 'api == Fetch and not topic == "shop-orders"'
        await pilot.press("q")
        await until(lambda: app.screen is screen, pilot)
        await pilot.press("equals_sign", "tab", "exclamation_mark")
        await until(lambda: app.screen is app.main, pilot)
        assert app.main.bar.input.has_focus
        assert app.main.bar.input.value.startswith('not (topic == "shop-orders" and ')
        assert app.main.bar.applied == 'api == Fetch and not topic == "shop-orders"'


@pytest.mark.parametrize("view", [name for name in actions.SCREENS if name != "exchanges"])
async def test_all_screens_are_named_at_any_width(captured: Path, view: str) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(60, 15)) as pilot:
        await pilot.press(actions.SCREENS[view][0])
        await pilot.pause()
        names = grid(app)[1]
        assert all(f"{key}{title[:3]}" in names for key, title, _ in actions.SCREENS.values())
        assert actions.SCREENS[view][1] in names


def test_only_what_the_language_knows_is_filtered_by() -> None:
    assert known_tests(['nonsense == "x"', 'client.id == "a\\"b"']) == ['client.id == "a\\"b"']
    assert known_tests(['nonsense == "x"']) == []


async def test_fold_find_and_cursor_are_kept(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot, "4")
        pane = screen.outline
        await pilot.press("slash", *"classic", "enter", "enter", "underscore")
        assert pane.count < 6
        await pilot.press("slash", *"refused", "enter")
        await pilot.pause()
        assert "refused" in " ".join(styled(app, "reverse"))
        found = pane.cursor
        await pilot.press("n")
        assert pane.cursor != found
        await pilot.press("N")
        assert pane.cursor == found
        await pilot.press("3", "4")
        await pilot.pause()
        assert shown(app) is screen
        assert pane.cursor == found
        await pilot.press("left")
        assert pane.count < 6


async def test_what_is_found_may_be_an_expression_and_a_wrong_one_stays_to_be_mended(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await go(app, pilot, "4")
        await pilot.press("slash", *"classic", "enter", "tab", "slash", *"/ref(/", "enter")
        await pilot.pause()
        assert "invalid regular expression" in "\n".join(grid(app))
        assert "Find /ref(/" in "\n".join(grid(app))
        await pilot.press("backspace", "backspace", *"used|x{9}/", "enter")
        await pilot.pause()
        assert "refused" in " ".join(styled(app, "reverse"))
        assert app.focused is screen.outline
        assert "[find: /refused|x{9}/]" in "\n".join(grid(app))


async def test_the_cursor_stays_on_its_thing_while_others_come(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot, "6")
        await pilot.press("j", "j", "j")
        with changed(captured, "connections") as (_, lines):
            del lines[0]
        screen._tick()
        await pilot.pause()
        assert styled(app, "reverse")[-1].startswith("4  shop-gzip")
        # it is replaced whole, but whoever writes there, it is no reason to fall over
        damaged = captured / "views" / "damaged"
        damaged.write_bytes(b"{")
        damaged.replace(captured / "views" / "connections.table")
        screen._tick()
        await pilot.pause()
        assert styled(app, "reverse")[-1].startswith("4  shop-gzip")


async def test_text_cannot_drive_the_terminal(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot, "3")
        with changed(captured, "topics") as (_, lines):
            lines[0]["topic"] = "evil\x1b[31m\u202e"
        screen._tick()
        await pilot.press("enter")
        await pilot.pause()
        assert "\n".join(grid(app)).count("evil\\x1b[31m\\u202e") == 2
        assert "".join(grid(app)).isascii()


async def test_a_process_that_fails_is_told(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.tui.views.analysis.MODULE", "kproxy.captures.nothing")
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot, "3")
        assert "has failed" in "\n".join(grid(app))


async def test_nothing_is_started_before_a_view_is_opened_and_nothing_is_left(tmp_path: Path) -> None:
    app = KproxyApp(tmp_path / "none", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert not app.analysis.started
        await pilot.press("3")
        await pilot.pause()
        pid = app.analysis.pid
        assert pid is not None
        assert not ended(pid)
        await pilot.press("4", "q")
        await pilot.pause()
        assert shown(app) is app.main
        assert app.analysis.pid == pid
    assert ended(pid)


SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from kproxy.tui.app import KproxyApp

async def main():
    app = KproxyApp(Path(sys.argv[1]), ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3", "4", "0")
        heavy = ("numpy", "kproxy.captures.reader", "kproxy.captures.analysis.views")
        names = [name for name in heavy if name in sys.modules]
        # Not by print: Textual has taken standard output, and flushes nothing.
        os.write(1, " ".join([str(app.analysis.pid), *names]).encode() + b"\\n")
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_the_ui_stays_small_and_its_process_ends_with_it(tmp_path: Path) -> None:
    index = tmp_path / "index"
    run([CAPTURE], index)
    meta = json.loads((index / "meta.json").read_text())
    (index / "meta.json").write_text(json.dumps({**meta, "state": "following"}))
    deadline = time.monotonic() + BOUND
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(index)], stdout=subprocess.PIPE, text=True) as ui:
        assert ui.stdout is not None
        pid, *loaded = ui.stdout.readline().split()
        while not (index / "views" / "cluster.table").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        alive = not ended(int(pid))
        ui.kill()
    assert (loaded, alive) == ([], True)
    assert (index / "views" / "cluster.table").exists()
    while not ended(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_a_text_is_found_in_lines_that_have_no_room(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("0")
        screen = app.screen
        assert isinstance(screen, ViewScreen)
        screen.outline.sought = patterns.read("packets read")
        screen.outline.action_found(1)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "packets read" in " ".join(styled(app, "reverse"))


async def test_the_cursor_stays_on_its_line_in_another_width(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot, "3")
        await pilot.press("enter", *["j"] * 7)
        await pilot.pause()
        line = styled(app, "reverse")[-1]
        assert line.startswith("consumer  shop-c-consumer-0")
        for size in ((200, 60), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert line[:40] in " ".join(styled(app, "reverse"))
