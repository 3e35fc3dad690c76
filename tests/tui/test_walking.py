"""Marks, comments, jumps, what is followed and found, order, and the Time column."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from textual.pilot import Pilot

from kproxy.captures.index.format import NO_LATENCY, State
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders import schema
from kproxy.tui.app import KproxyApp
from kproxy.tui.listing.arrangement import Rows, Without
from kproxy.tui.listing.matching import View
from kproxy.tui.listing.notes import SUFFIX, Notes
from kproxy.tui.listing.rows import RowText
from kproxy.tui.listing.times import FORMATS, Times
from kproxy.tui.search import jumps, patterns
from kproxy.tui.widgets.find_bar import FindBar
from tests.tui.screen import grid, styled
from tests.tui.test_views import CAPTURE, captured, until

__all__ = ["captured"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An index of a copy of the capture, so that notes stand beside that."""
    copy = tmp_path / "copy.pcap"
    shutil.copy(CAPTURE, copy)
    run([copy], tmp_path / "index")
    return tmp_path / "index"


def kept(index: Path) -> dict[str, dict[str, object]]:
    """The notes in the file beside the capture."""
    path = index.parent / f"copy.pcap{SUFFIX}"
    exchanges: dict[str, dict[str, object]] = json.loads(path.read_text())["exchanges"] if path.exists() else {}
    return exchanges


async def opened(app: KproxyApp, pilot: Pilot[bool]) -> None:
    await until(lambda: app.main.pane.count > 0, pilot)


def said(app: KproxyApp) -> str:
    return "\n".join(grid(app))


def shown_rows(app: KproxyApp) -> Rows:
    rows = app.main.pane.rows_shown
    assert rows is not None
    return rows


def told(app: KproxyApp) -> str:
    """What passing messages say."""
    return "\n".join(one.message for one in app._notifications)


async def test_marks_and_comments_are_kept_beside_the_capture(own: Path) -> None:
    app = KproxyApp(own, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        await pilot.press("m", "j", "j", "m", "j", "semicolon", *"slow here", "enter")
        await pilot.pause()
        assert [line[:3] for line in grid(app)[3:7]] == ["  *", "N  ", "  *", "N ;"]
        assert kept(own)["4"]["comment"] == "slow here"
        await pilot.press("g", "apostrophe")
        assert app.main.pane.selected == 2
        await pilot.press("apostrophe")
        assert app.main.pane.selected == 3
        await pilot.press("apostrophe", "backspace")
        assert app.main.pane.selected == 3
        await pilot.press("M")
        await pilot.pause()
        assert app.main.pane.count == 2
        assert "marked only" in said(app)
        await pilot.press("m")
        await pilot.pause()
        assert app.main.pane.count == 1
        left = app.main.pane.selected
    assert set(kept(own)) == {"4", str((left or 0) + 1)}
    app = KproxyApp(own, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        assert "*" in "".join(line[:3] for line in grid(app)[3:7])
        await pilot.press("U", "j", "j", "j", "semicolon", *["backspace"] * 9, "enter")
        await pilot.pause()
    assert not (own.parent / f"copy.pcap{SUFFIX}").exists()


async def test_a_comment_is_in_the_overview_and_drives_nothing(own: Path) -> None:
    with IndexReader(own) as index:
        notes = Notes(own.parent / f"copy.pcap{SUFFIX}")
        notes.comment(0, index.row(0), "evil\x1b[31m\u202e")
    app = KproxyApp(own, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("enter", "left_curly_bracket", "left_curly_bracket")
        await pilot.pause()
        assert "evil\\x1b[31m\\u202e" in said(app)
        assert "\x1b" not in said(app)


async def test_notes_of_another_exchange_are_not_shown(own: Path) -> None:
    path = own.parent / f"copy.pcap{SUFFIX}"
    path.write_text(json.dumps({"schema": "kproxy.notes/1", "exchanges": {"1": {"time": 5, "marked": True}}}))
    app = KproxyApp(own, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        assert "*" not in grid(app)[3][:3]
        await pilot.press("M")
        await pilot.pause()
        assert "Nothing marked is shown" in said(app)


@pytest.mark.parametrize(
    "text", ["", "{", '{"schema": "other"}', '{"schema": "kproxy.notes/1", "exchanges": {"x": 1}}']
)
async def test_a_file_that_holds_no_notes_is_left_alone(own: Path, text: str) -> None:
    path = own.parent / f"copy.pcap{SUFFIX}"
    path.write_text(text)
    app = KproxyApp(own, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        await pilot.press("m")
        await pilot.pause()
        assert "*" in grid(app)[3][:3]
    assert path.read_text() == text


def test_notes_that_cannot_be_kept_say_so(own: Path) -> None:
    notes = Notes(own / "missing" / "notes.json")
    with IndexReader(own) as index:
        notes.mark(0, index.row(0), on=True)
        assert notes.letter(0, index.row(0)) == "*"
    assert "not kept" in notes.trouble


async def test_going_to_numbers_and_times(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        pane = app.main.pane
        for text, expected in (("100", 99), ("#1", 0), ("06:11:13", 101), ("+5s", 114), ("-1min", 0), ("23:59", 175)):
            await pilot.press("ctrl+g", *text, "enter")
            await pilot.pause()
            assert pane.selected == expected, text
        await pilot.press("backspace")
        assert pane.selected == 0
        await pilot.press("ctrl+g", *"nonsense", "enter")
        await pilot.pause()
        assert pane.selected == 0
        assert "no number" in told(app)
        assert app.main.query_one(FindBar).opened
        await pilot.press(*["backspace"] * 8, *"7", "enter")
        await pilot.pause()
        assert pane.selected == 6
        assert not app.main.query_one(FindBar).opened


@given(st.text(max_size=30))
def test_no_text_to_go_to_breaks_anything(captured: Path, text: str) -> None:
    with IndexReader(captured) as index, contextlib.suppress(ValueError):
        assert 0 <= jumps.row_of(text, index, 5) < index.count


async def test_neighbours_on_the_connection(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        pane = app.main.pane
        with IndexReader(captured) as index:
            same = [number for number in range(index.count) if index.row(number).connection == 2]
        await pilot.press("ctrl+g", *str(same[0] + 1), "enter")
        for expected in same[1:4]:
            await pilot.press("full_stop")
            assert pane.selected == expected
        await pilot.press("comma")
        assert pane.selected == same[2]
        await pilot.press(*["full_stop"] * (len(same) + 2))
        assert pane.selected == same[-1]


async def test_following_shows_what_belongs_and_goes_back(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        main = app.main
        await pilot.press("G")
        before, count = main.pane.selected, main.pane.count
        await pilot.press("t", "i")  # the list shows no producer id, but the Produce's batch has one
        await until(lambda: main.bar.applied.startswith("request.body.producerId == "), pilot)
        await pilot.press("q")
        await until(lambda: main.bar.applied == "api == Produce" and main.pane.count == count, pilot)
        await until(lambda: main.pane.selected == before, pilot)
        await pilot.press("t", "c")
        await until(lambda: main.bar.applied.startswith("connection =="), pilot)
        assert main.pane.selected == before
        await pilot.press("t", "l")
        await until(lambda: main.bar.applied.startswith("client.id =="), pilot)
        assert "followed" in said(app)
        await pilot.press("q")
        await until(lambda: main.bar.applied.startswith("connection =="), pilot)
        await pilot.press("q")
        await until(lambda: main.bar.applied == "api == Produce" and main.pane.count == count, pilot)
        await until(lambda: main.pane.selected == before, pilot)
        await pilot.press("t", "escape")
        assert main.bar.applied == "api == Produce"
        await pilot.press("t", "c")
        await until(lambda: "followed" in said(app), pilot)
        await pilot.press("ctrl+x")
        await until(lambda: main.bar.applied == "" and "followed" not in said(app), pilot)


async def test_what_an_exchange_does_not_name_cannot_be_followed(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Metadata", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        await pilot.press("t", "i")  # nothing happens
        await pilot.pause()
        await pilot.press("c")
        await until(lambda: app.main.bar.applied.startswith("connection =="), pilot)


async def test_following_a_producer(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == EndTxn", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("enter", "left_curly_bracket", "t", "i")
        await until(lambda: app.main.bar.applied.startswith("request.body.producerId == 0 or"), pilot)
        await until(lambda: app.main.pane.view is not None and app.main.pane.view.scanned == 176, pilot)
        with IndexReader(captured) as index:
            asked = {
                index.row(number).api_key for number in map(shown_rows(app).row_number, range(app.main.pane.count))
            }
        assert {0, 1, 22, 24, 26} <= asked  # Produce and Fetch name it in their batches alone


async def test_following_a_record(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        main = app.main
        await pilot.press("enter", "right_curly_bracket")
        await until(lambda: main.detail.records.table.count > 0, pilot)
        await pilot.press("t", "k")
        await until(lambda: main.bar.applied == "topic == shop-orders and record.key == k0", pilot)
        await until(lambda: main.pane.view is not None and main.pane.view.scanned == 176, pilot)
        assert 0 < main.pane.count < 60
        await pilot.press("t", "p")
        await until(lambda: "partitionData[].index == 0" in main.bar.applied, pilot)
        await until(lambda: main.pane.view is not None and main.pane.view.scanned == 176, pilot)
        assert main.pane.count > 20


async def test_finding_in_list_tree_and_bytes(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        pane, detail = app.main.pane, app.main.detail
        await pilot.press("ctrl+f", *"joingroup", "enter")
        await until(lambda: pane.selected == 86, pilot)
        await pilot.press("n")
        await until(lambda: pane.selected is not None and pane.selected > 86, pilot)
        await pilot.press("N")
        await until(lambda: pane.selected == 86, pilot)
        await pilot.press("ctrl+f", *["backspace"] * 9, *"/^(endtxn|initpro).*v[0-9]/", "enter")
        await until(
            lambda: pane.selected is not None and app.main.finder.search is not None and app.main.finder.search.over,
            pilot,
        )
        await pilot.press("g", "ctrl+f", *["backspace"] * 40, *"0x73686f702d7478", "enter")  # shop-tx
        with IndexReader(captured) as index:
            own = next(one for one in range(index.count) if index.string(index.row(one).client).startswith("shop-tx"))
        await until(lambda: pane.selected == own, pilot)
        await pilot.press("enter", "tab", "n")
        await pilot.pause()
        assert detail.hex.byte == 0 or detail.hex.readable()[detail.hex.byte :].startswith(b"shop-tx")
        await pilot.press("ctrl+f", *["backspace"] * 40, *"/bad(/", "enter")
        await pilot.pause()
        assert "invalid regular expression" in told(app)
        assert app.main.query_one(FindBar).opened
        assert "/bad(/" in " ".join(styled(app, "underline"))
        await pilot.press("backspace", "backspace", "slash")
        await pilot.pause()
        assert "/bad/" not in " ".join(styled(app, "underline"))
        await pilot.press("enter")
        await pilot.pause()
        assert not app.main.query_one(FindBar).opened


@given(st.text(max_size=20))
def test_no_text_to_find_breaks_anything(text: str) -> None:
    with contextlib.suppress(ValueError):
        sought = patterns.read(text)
        sought.in_text("some text")
        sought.places(b"some \xff\x00 bytes")


def test_what_is_found() -> None:
    assert patterns.read("a.c").in_text("xA.Cx")
    assert not patterns.read("a.c").in_text("abc")
    assert patterns.read("/a.c/").in_text("abc")
    assert patterns.read("0x00 FF").places(b"\x01\x00\xff") == [1]
    assert not patterns.read("0x00ff").in_text("0x00ff")


async def test_order_reverse_and_hiding(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        pane = app.main.pane
        with IndexReader(captured) as index:
            latencies = [index.row(number).latency for number in range(index.count)]

        def shown() -> list[int]:
            rows = pane.rows_shown
            return [] if rows is None else [rows.row_number(line) for line in range(rows.count)]

        await pilot.press("d", "d")
        assert shown() == list(range(2, 176))
        await pilot.press("o")
        assert [latencies[number] for number in shown()] == sorted(latencies[2:], reverse=True)
        assert "by ms, greatest first, 2 hidden" in said(app).replace("\n", " ") or pane.said()
        await pilot.press("v")
        assert [latencies[number] for number in shown()] == sorted(latencies[2:])
        await pilot.press("d", "u")
        assert len(shown()) == 176
        await pilot.press("f", *"api == Fetch", "enter")
        await until(lambda: pane.count == 36, pilot)
        assert [latencies[number] for number in shown()] == sorted(latencies[number] for number in shown())
        await pilot.press(*["o"] * 7)
        assert pane.order == ""
        assert shown() == sorted(shown())


@given(st.sets(st.integers(0, 175), max_size=40), st.integers(0, 175))
def test_lines_without_hidden_rows_are_the_others(captured: Path, hidden: set[int], row: int) -> None:
    with IndexReader(captured) as index:
        view = View(index, None)  # type: ignore[arg-type]  # definitions are for filters
        view.scan(index.count)
        rows = Without(view, hidden)
        assert [rows.row_number(line) for line in range(rows.count)] == [one for one in range(176) if one not in hidden]
        place = rows.position(row)
        assert place == sum(one < row and one not in hidden for one in range(176))


async def test_time_formats(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        seen = []
        for _ in range(5):
            seen.append((grid(app)[2][12:23].strip(), grid(app)[5][11:24].strip()))
            await pilot.press("T")
            await pilot.pause()
        assert seen == [
            ("Time UTC", "06:11:10.186"),
            ("since start", "0.070722"),
            ("since above", "0.066077"),
            ("on its conn", ""),
            ("epoch s", "1795241470.1"),
        ]
        await pilot.press("j", "R")
        await pilot.pause()
        assert grid(app)[4][11:24].strip() == "0.000000"
        assert grid(app)[3][11:24].strip().startswith("-0.004645")


async def test_the_column_says_whose_clock_it_is(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        assert grid(app)[2][11:24].strip() == "Time +05:30"
        assert grid(app)[3][11:24].strip() == "11:41:10.115"
        await pilot.press("0")
        await pilot.pause()
        assert grid(app)[-3].endswith("times +05:30")


def test_times_go_round() -> None:
    times = Times(str)
    names = []
    for _ in range(6):
        names.append(times.format)
        times.next()
    assert names[0] == names[5]
    assert len(set(names)) == 5


async def test_the_line_that_asks_is_no_command(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        await pilot.press("ctrl+g", "q", "Q", "d", "escape")
        await pilot.pause()
        assert app.main.pane.count == 176
        assert app.is_running
        assert app.focused is app.main.pane
        assert "Go to" not in " ".join(styled(app, "reverse"))


def test_a_request_that_is_not_whole_yet_has_no_time(captured: Path) -> None:
    with IndexReader(captured) as index:
        text = RowText(index, schema.definitions(), now=lambda: 10**18)
        row = index.row(3)._replace(time=0, latency=NO_LATENCY, state=State.WAITING)
        for _ in FORMATS:
            text.times.next()
            assert text.times.text(index, 3, row, index.row(2)) == ""
        assert text.cell("latency", 4, row) == "-"
