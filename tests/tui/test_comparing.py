"""Two exchanges side by side: every field of both is there, and what differs is marked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from textual.pilot import Pilot

from kproxy.captures.index.indexer import run
from kproxy.tui.app import KproxyApp
from kproxy.tui.detail import comparing
from kproxy.tui.detail.comparing import Pair, compare
from kproxy.tui.screens.compare import CompareScreen
from kproxy.tui.widgets.find_bar import FindBar
from tests.tui.screen import assert_snapshot, grid
from tests.tui.test_views import CAPTURE, captured, until

__all__ = ["captured"]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "topic", "x", "y"]), inner),
    max_leaves=12,
)
FORMS = st.dictionaries(st.sampled_from(["api", "request", "response"]), VALUES)


@given(FORMS)
def test_an_exchange_does_not_differ_from_itself(form: dict[str, Any]) -> None:
    assert not any(pair.differs for pair in compare(form, form).pairs)


@given(FORMS, FORMS)
def test_the_other_way_round_is_the_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    there, back = compare(first, second).pairs, compare(second, first).pairs
    assert sorted(there, key=str) == sorted((Pair(path, two, one) for path, one, two in back), key=str)


@given(FORMS)
def test_every_plain_value_is_there(form: dict[str, Any]) -> None:
    def plain(value: Any) -> list[str]:
        if value and isinstance(value, dict | list):
            below = value.values() if isinstance(value, dict) else value
            return [text for one in below for text in plain(one)]
        return [value if isinstance(value, str) else json.dumps(value)]

    found = [pair.first for pair in compare(form, {}).pairs]
    assert sorted(map(str, found)) == sorted(plain(form))


def test_elements_are_compared_by_their_names() -> None:
    first = {"topics": [{"name": "a", "error": 0}, {"name": "b", "error": 3}], "ids": [1, 2]}
    second = {"topics": [{"name": "b", "error": 0}], "ids": [1, 3]}
    assert [pair for pair in compare(first, second).pairs if pair.differs] == [
        Pair("topics[a].name", "a", None),
        Pair("topics[a].error", "0", None),
        Pair("topics[b].error", "3", "0"),
        Pair("ids[1]", "2", "3"),
    ]


def test_null_is_no_word_and_nothing_is_not_absent() -> None:
    first: dict[str, Any] = {"a": None, "b": "", "c": [], "d": {"x": 1}}
    second: dict[str, Any] = {"a": "", "b": None, "d": None}
    assert list(compare(first, second).pairs) == [
        Pair("a", "null", ""), Pair("b", "", "null"), Pair("c", "[]", None), Pair("d", '{"x": 1}', "null"),
    ]  # fmt: skip


def test_no_more_fields_than_a_screen_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST", 5)
    found = compare({"ids": list(range(9))}, {})
    assert (len(found.pairs), found.cut) == (5, True)
    assert not compare({"ids": list(range(5))}, {}).cut


async def compared(app: KproxyApp, pilot: Pilot[bool]) -> CompareScreen:
    await until(lambda: isinstance(app.screen, CompareScreen) and app.screen._found is not None, pilot)
    await pilot.pause()
    assert isinstance(app.screen, CompareScreen)
    return app.screen


async def test_with_the_one_before_of_the_same_api(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+g", *"129", "enter", "D")
        await pilot.pause()
        assert app.main.query_one(FindBar).input.value == "127"
        await pilot.press("enter")
        screen = await compared(app, pilot)
        assert "#127" in grid(app)[0]
        assert screen.lines.count == 6
        assert all(pair.differs for pair in screen.lines._pairs)
        assert_snapshot(app, "compare-100x30")
        await pilot.press("j", "j", "a")
        await pilot.pause()
        assert screen.lines.count > 20
        assert screen.lines.pair is not None
        assert screen.lines.pair.path == "client_id"
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main
        assert app.main.pane.selected == 128


async def test_with_the_marked_one(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+g", *"30", "enter", "m", "ctrl+g", *"20", "enter", "D")
        await compared(app, pilot)
        assert " Compare #20 with #30" in grid(app)[0]
        assert "".join(grid(app)).isascii()
        await pilot.press("q", "ctrl+g", *"30", "enter", "m")
        await pilot.pause()


async def test_not_with_itself_and_not_with_what_is_not_there(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+g", *"12", "enter", "D")
        await pilot.pause()
        line = app.main.query_one(FindBar).input
        line.value = "12"
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is app.main
        assert app.main.pane.has_focus
        await pilot.press("D")
        await pilot.pause()
        line.value = "999"
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is app.main
        assert line.has_focus


async def test_a_capture_that_is_gone_is_told(tmp_path: Path) -> None:
    capture = Path(shutil.copy(CAPTURE, tmp_path / "a.pcap"))
    run([capture], tmp_path / "index")
    capture.unlink()  # noqa: ASYNC240 - nothing else runs
    app = KproxyApp(tmp_path / "index", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+g", *"12", "enter", "D", "enter")
        await until(lambda: any("not compared: " in line for line in grid(app)), pilot)
        await pilot.press("q")
        await pilot.pause()
        assert app.screen is app.main
