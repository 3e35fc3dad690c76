"""The columns of the list: chosen in a menu, shown in that order, remembered; so is the place of the list."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders.schema import definitions
from kproxy.tui.app import KproxyApp
from kproxy.tui.listing.columns import COLUMNS, OFFERED
from kproxy.tui.listing.rows import RowText
from kproxy.tui.screens.columns_menu import ColumnsMenu
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.settings.remembered import Remembered
from kproxy.tui.widgets.exchange_list import ExchangeList
from tests.captures.traffic import LIBRDKAFKA
from tests.tui.screen import grid

SIZE = (120, 40)


def widths(app: KproxyApp) -> dict[str, int]:
    return {column.name: cells for column, cells in app.main.pane.columns(SIZE[0] - 1)}


def titles(app: KproxyApp) -> list[str]:
    return [column.name for column, _ in app.main.pane.columns(SIZE[0])]


async def menu(app: KproxyApp, pilot: Pilot[bool]) -> ColumnsMenu:
    await pilot.press("C")
    await pilot.pause()
    assert isinstance(app.screen, ColumnsMenu)
    return app.screen


async def go_to(app: KproxyApp, pilot: Pilot[bool], name: str) -> None:
    screen = app.screen
    assert isinstance(screen, ColumnsMenu)
    screen.lines.move_to(screen._order.index(name))
    await pilot.pause()


async def test_columns_are_chosen_and_remembered(index: Path, tmp_path: Path) -> None:
    preferences = Preferences(state=tmp_path / "state")
    app = KproxyApp(index, preferences=preferences)
    async with app.run_test(size=SIZE) as pilot:
        await menu(app, pilot)
        await go_to(app, pilot, "connection")
        await pilot.press("enter")
        await go_to(app, pilot, "correlation")
        await pilot.press("space", *"K" * 40)
        assert any("[x] correlation" in line for line in grid(app)[:3])
        await pilot.press("escape")
        await pilot.pause()
        shown = titles(app)
        assert shown[0] == "correlation"
        assert "connection" not in shown
        heading = next(line for line in grid(app) if "No." in line)
        assert heading.startswith("correlation S")
        assert [line.split()[0] for line in grid(app)[3:6]] == ["1", "2", "3"]
    kept = tmp_path / "state" / "layout.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    app = KproxyApp(index, preferences=preferences)
    async with app.run_test(size=SIZE) as pilot:
        assert titles(app) == shown
        await menu(app, pilot)
        await pilot.press("r", "escape")
        await pilot.pause()
        assert "connection" in titles(app)
        assert "correlation" not in titles(app)
    assert json.loads(kept.read_text()) == {}


async def test_a_column_gets_a_width_by_keys(index: Path, tmp_path: Path) -> None:
    preferences = Preferences(state=tmp_path)
    app = KproxyApp(index, preferences=preferences)
    async with app.run_test(size=SIZE) as pilot:
        before = widths(app)
        await menu(app, pilot)
        await go_to(app, pilot, "client.id")
        await pilot.press(*["greater_than_sign"] * 12, "less_than_sign")
        assert any("Client" in line and " wide]" in line for line in grid(app))
        await pilot.press("escape")
        await pilot.pause()
        after = widths(app)
        assert after["client.id"] > before["client.id"]
    app = KproxyApp(index, preferences=preferences)
    async with app.run_test(size=SIZE) as pilot:
        assert widths(app) == after
        await menu(app, pilot)
        await pilot.press("r", "escape")
        await pilot.pause()
        assert widths(app) == before


@pytest.mark.parametrize("by", [6, -3, -500])
async def test_a_column_gets_a_width_by_the_mouse(by: int, index: Path, tmp_path: Path) -> None:
    app = KproxyApp(index, preferences=Preferences(state=tmp_path))
    async with app.run_test(size=SIZE) as pilot:
        before, order = widths(app), app.main.pane.order
        names = list(before)
        end = sum(before[name] + 1 for name in names[: names.index("client.id") + 1]) - 1
        await pilot.mouse_down(ExchangeList, offset=(end, 0))
        await pilot.hover(ExchangeList, offset=(max(0, end + by), 0))
        await pilot.mouse_up(ExchangeList, offset=(max(0, end + by), 0))
        await pilot.pause()
        assert widths(app)["client.id"] == max(1, before["client.id"] + by)
        assert app.main.pane.order == order  # the title below the mouse sorts nothing
        await pilot.click(
            ExchangeList, offset=(sum(widths(app)[name] + 1 for name in names[: names.index("latency")]) + 1, 0)
        )
        await pilot.pause()
        assert app.main.pane.order == "latency"
    assert Remembered(tmp_path / "layout.json").widths["client.id"] == max(1, before["client.id"] + by)


async def test_one_column_remains(index: Path) -> None:
    app = KproxyApp(index)
    async with app.run_test(size=SIZE) as pilot:
        screen = await menu(app, pilot)
        for name in [column.name for column in COLUMNS]:
            await go_to(app, pilot, name)
            await pilot.press("enter")
        await pilot.press("escape")
        await pilot.pause()
        assert len(titles(app)) == len(screen._shown) == 1


async def test_the_place_of_the_list_is_remembered(index: Path, tmp_path: Path) -> None:
    preferences = Preferences(state=tmp_path)
    app = KproxyApp(index, preferences=preferences)
    async with app.run_test(size=(180, 50)) as pilot:
        await pilot.press("minus", "greater_than_sign", "greater_than_sign")
        await pilot.pause()
        height = app.main.pane.size.height
    app = KproxyApp(index, preferences=preferences)
    async with app.run_test(size=(180, 50)) as pilot:
        await pilot.pause()
        assert app.main.pane.size.height == height
        assert app.main.pane.size.width == 180


@pytest.mark.parametrize(
    "text",
    ["", "[", "[]", "null", '{"columns": 3, "layout": [], "share": true}', '{"columns": [1]}', "[" * 30_000,
     '{"widths": {"api": 0, "state": true, "time": 9000, "label": "x"}}', '{"widths": [1]}',
     '{"columns": ["nothing", "api"], "layout": "sideways", "share": -9000}', "\0", "x" * 100_000],
)  # fmt: skip
async def test_a_bad_file_changes_nothing_else(text: str, index: Path, tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text(text)
    app = KproxyApp(index, preferences=Preferences(state=tmp_path))
    async with app.run_test(size=SIZE):
        assert titles(app) == (["api"] if '"nothing", "api"' in text else titles(app))
        assert widths(app).keys() == set(titles(app))
        assert app.main.pane.count


def test_two_processes_keep_each_other_s_choices(tmp_path: Path) -> None:
    one, other = Remembered(tmp_path / "layout.json"), Remembered(tmp_path / "layout.json")
    one.choose_columns(["api"], {"api": 9})
    other.choose_layout("beside", 30)
    found = Remembered(tmp_path / "layout.json")
    assert (found.columns, found.widths, found.layout, found.share) == (("api",), {"api": 9}, "beside", 30)


def test_a_file_that_cannot_be_written_keeps_the_choice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remembered = Remembered(tmp_path / "file" / "layout.json")
    remembered.choose_columns(["api"], {"api": 9})
    assert remembered.columns == ("api",)


def test_every_offered_column_has_text_for_some_exchange(tmp_path: Path) -> None:
    run([LIBRDKAFKA], tmp_path / "index")
    with IndexReader(tmp_path / "index") as reader:
        text = RowText(reader, definitions())
        cells = {
            column.name: {text.cell(column.name, row + 1, reader.row(row)) for row in range(reader.count)} - {""}
            for column in OFFERED
        }
    assert {name for name, found in cells.items() if not found} <= {
        "modified", "commented", "problem", "partial", "throttle",
    }  # fmt: skip
    assert cells["class"] >= {"core", "group"}
    assert "-1" in cells["acks"]
    assert any("," not in one and one.startswith("shop") for one in cells["topic"])
