"""Tables on screens: sorting, narrowing, choosing another table, and the details of a row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.analysis.columns.tables import tables
from kproxy.captures.index.indexer import run
from kproxy.tui.app import KproxyApp
from kproxy.tui.output.commands import Exporter
from kproxy.tui.screens.tables import TablesScreen
from kproxy.tui.views import analysis
from tests.tui.screen import grid, styled
from tests.tui.test_views import CAPTURE, changed, go, until

CAPTURES = CAPTURE.parent
LOW, TALL = (80, 24), (120, 40)
FIRST_ROW = 4
"""The line of the screen on which a table's first row is."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("captured") / "index"
    run([CAPTURE], directory)
    return directory


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Indexes of captures of older releases, by release."""
    found = {}
    for release in ("0.8.2.2", "1.1.1"):
        found[release] = tmp_path_factory.mktemp("older") / "index"
        run([CAPTURES / f"kafka-{release}.pcap"], found[release])
    return found


async def opened(app: KproxyApp, pilot: Pilot[bool], key: str) -> TablesScreen:
    screen = await go(app, pilot, key)
    assert isinstance(screen, TablesScreen)
    return screen


def column(screen: TablesScreen, name: str) -> list[str]:
    """The texts of a column, in the order of the lines."""
    table = screen.table
    rows = table.rows_shown
    assert rows is not None
    at = [one.name for one in rows.table.columns].index(name)
    return [rows.cells(row)[1][at] for row in table._arranged]


async def test_a_table_is_sorted_by_the_column_that_is_chosen(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "8")
        before = column(screen, "client_id")
        await pilot.press("j", "j", "o")  # by client id
        assert column(screen, "client_id") == sorted(before)
        assert screen.table.cursor == 0
        assert "by Client, least first" in grid(app)[2]
        assert "Client▲" in grid(app)[3]
        await pilot.press("v")
        assert column(screen, "client_id") == sorted(before, reverse=True)
        assert "Client▼" in grid(app)[3]
        await pilot.press("h")  # back to the table's own order
        assert column(screen, "client_id") == before
        assert "▲" not in grid(app)[3]


async def test_numbers_are_sorted_by_size_the_greatest_first(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "8")
        await pilot.click(offset=(grid(app)[3].index("Exchanges") + 2, 3))
        await pilot.pause()
        counts = [int(text) for text in column(screen, "exchanges")]
        assert counts == sorted(counts, reverse=True)
        await pilot.click(offset=(grid(app)[3].index("Exchanges") + 2, 3))
        await pilot.pause()
        assert [int(text) for text in column(screen, "exchanges")] == sorted(counts)


async def test_a_table_is_narrowed_to_the_rows_with_a_text(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "8")
        everything = screen.table.count
        await pilot.press("slash", *"CLASSIC", "enter")
        await pilot.pause()
        assert column(screen, "client_id") == ["shop-c-classic-0", "shop-c-classic-1"]
        assert "[with: CLASSIC]" in grid(app)[2]
        await pilot.press("slash", *"xyz", "enter")  # replaces what was typed
        await pilot.pause()
        assert "No row has the text “xyz”" in "\n".join(grid(app))
        await pilot.press("enter", "equals_sign")  # there is no row
        assert app.screen is screen
        await pilot.press("escape")
        assert screen.table.count == everything
        assert app.screen is screen
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)


async def test_a_screen_has_several_tables(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "4")
        assert "[Groups]" in grid(app)[2]
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        assert "[Members]" in grid(app)[2]
        assert screen.table.count == 4
        await pilot.click(offset=(grid(app)[2].index("Lag") + 1, 2))
        await pilot.pause()
        assert "[Lag]" in grid(app)[2]
        assert "Lag time" in grid(app)[3]
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        assert "[Groups]" in grid(app)[2]
        await pilot.press("left_curly_bracket", "equals_sign")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        assert app.main.bar.applied == 'group == "shop-consumer" and topic == "shop-orders"'


async def test_details_follow_the_cursor_where_there_is_room(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=TALL) as pilot:
        screen = await opened(app, pilot, "8")
        await until(lambda: "start-up of shop-none" in "\n".join(grid(app)), pilot)
        await pilot.press("j")
        await until(lambda: "start-up of shop-gzip" in "\n".join(grid(app)), pilot)
        assert app.focused is screen.table
        await pilot.press("tab")
        assert screen.outline.has_focus
        await pilot.press("tab")
        assert screen.table.has_focus
        await pilot.resize_terminal(*LOW)
        await until(lambda: "start-up of" not in "\n".join(grid(app)), pilot)
        await pilot.press("tab")
        assert screen.table.has_focus


async def test_order_and_cursor_stay_when_rows_change(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "8")
        await pilot.press("o", "j", "j", "j")
        name = styled(app, "reverse")[-1].split()[0]
        with changed(captured, "clients") as (_, lines):
            lines.reverse()
            lines.append({**lines[0], "client_id": "aaa"})
        screen._tick()
        await pilot.pause()
        assert column(screen, "client_id")[0] == "aaa"
        assert styled(app, "reverse")[-1].split()[0] == name
        assert screen.table.cursor == 4


async def test_a_long_name_keeps_both_ends(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "8")
        with changed(captured, "clients") as (_, lines):
            for number, line in enumerate(lines):
                line["client_id"] = f"a-common-beginning-{'x' * 200}-{number}"
        screen._tick()
        await pilot.pause()
        shown = [line.split()[0] for line in grid(app)[FIRST_ROW : FIRST_ROW + 5]]
        assert all(name.startswith("a-common") and "…" in name for name in shown)
        assert [name.rpartition("-")[2] for name in shown] == list("01234")


@pytest.mark.parametrize("size", [LOW, TALL])
@pytest.mark.parametrize(
    ("release", "keys", "answer"),
    [
        ("1.1.1", "B", "yes"),  # what is under-replicated now
        ("0.8.2.2", "8", "4.0.0"),  # whom Kafka 4 refuses
        ("1.1.1", "8 o o o o", "30kB"),  # bytes a second of a client, the greatest first
        ("1.1.1", "4 } }", "caught up"),  # the lag of each partition
        ("1.1.1", "6 h h", "Received"),  # who received most
        ("1.1.1", "3 }", "203.2"),  # how fast a partition is read
    ],
)
async def test_a_question_has_its_answer_within_eight_keys(
    older: dict[str, Path], release: str, keys: str, answer: str, size: tuple[int, int]
) -> None:
    app = KproxyApp(older[release], ascii_only=False)
    async with app.run_test(size=size) as pilot:
        first, *others = keys.split()
        assert len(others) < 8
        await opened(app, pilot, first)
        await pilot.press(*({"}": "right_curly_bracket"}.get(key, key) for key in others))
        await pilot.pause()
        assert answer in "\n".join(grid(app))


def test_what_a_row_shows_is_in_its_details(captured: Path) -> None:
    """The JSON object of a row is that from which the table was made."""
    subprocess.run([sys.executable, "-P", "-m", analysis.MODULE, str(captured)], check=True, timeout=120)
    for table in tables().values():
        rows = Stored(captured / "views" / f"{table.view}.table").rows(table)
        assert rows is not None
        for row in range(rows.count):
            values = rows.values(row)
            _, texts = rows.cells(row)
            assert json.dumps(values)
            told = [one.text(one.value(values), lambda time: (time or "")[11:23]) for one in table.columns]
            assert [text for text in told if ":" not in text] == [text for text in texts if ":" not in text]


async def test_a_row_and_the_command_that_prints_the_table_are_copied(captured: Path) -> None:
    exporter = Exporter(("kproxy", "export"), ("--port", "9092"), ("--schemas=s",), ("a b.pcap",))
    app = KproxyApp(captured, ascii_only=False, exporter=exporter)
    async with app.run_test(size=LOW) as pilot:
        screen = await opened(app, pilot, "8")
        await pilot.press("o", "v")
        copies = {copy.name: copy.make() for copy in screen.copies()}
        assert list(copies) == ["row", "row JSON", "details JSON", "filter", "command"]
        assert copies["command"] == "kproxy clients 'a b.pcap' --port 9092 --table clients --sort -client_id"
        assert copies["filter"] == 'client.id == "shop-zstd"'
        assert copies["row"].split("\t")[:2] == ["shop-zstd", "127.0.0.1"]
        assert json.loads(copies["row JSON"])["exchanges"] == 4
        assert json.loads(copies["details JSON"])["steps"]
        await pilot.press("c")
        await pilot.pause()
        assert "kproxy clients 'a b.pcap'" in "\n".join(grid(app))
        await pilot.press("escape", "enter")
        await pilot.pause()
        assert next(iter(screen.copies())).name == "line"


async def test_a_table_that_two_screens_show_is_there_on_both(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=LOW) as pilot:
        cluster = await opened(app, pilot, "B")
        partitions = column(cluster, "topic")
        assert partitions
        topics = await opened(app, pilot, "3")
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        assert column(topics, "topic") == partitions
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert column(topics, "topic") == ["shop-orders", "shop-payments"]


async def test_nothing_is_copied_of_details_that_are_not_there(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=TALL) as pilot:
        screen = await opened(app, pilot, "8")
        await pilot.press("slash", *"nobody", "enter", "tab")
        await pilot.pause()
        assert screen.outline.has_focus
        assert screen.copies() == []
