"""The Records screen: records of the exchanges in the list, read as far as somebody looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.captures.index.reader import IndexReader
from kproxy.tui.app import KproxyApp
from kproxy.tui.detail import many_records
from kproxy.tui.detail.records import RecordLine
from kproxy.tui.screens.menu import ChoiceMenu
from kproxy.tui.screens.records import RecordsScreen
from kproxy.tui.widgets.record import RecordPane
from tests.decoders.batches.support import batch, record
from tests.support.indexes import IndexBuilder, heartbeat
from tests.tui.screen import grid, styled
from tests.tui.test_records import produce
from tests.tui.test_views import captured, until

__all__ = ["captured"]

PRODUCE = 0


def one(value: bytes) -> bytes:
    """A batch of one record."""
    return batch(record(0, b"k", value), 1)


async def go(app: KproxyApp, pilot: Pilot[bool]) -> RecordsScreen:
    await until(lambda: app.main.pane.view is not None, pilot)
    await pilot.press("9")
    screen = app.screen
    assert isinstance(screen, RecordsScreen)
    await read(screen, pilot)
    return screen


async def read(screen: RecordsScreen, pilot: Pilot[bool]) -> None:
    await until(lambda: not screen.tab.reading, pilot)
    screen._tick()
    await pilot.pause()


def numbers(screen: RecordsScreen) -> list[int]:
    """The exchanges of the records that are shown."""
    lines = screen.tab.lines.lines if screen.tab.lines is not None else []
    return [line.origin.number for line in lines if line.origin is not None]


def at(screen: RecordsScreen) -> int | None:
    """The exchange of the record under the cursor."""
    line = screen.pane.line
    return None if line is None or line.origin is None else line.origin.number


async def test_the_screen_is_named(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await go(app, pilot)
        assert "Records" in " ".join(styled(app, "reverse"))


async def test_all_records_are_there_as_the_reference_has_them(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot)
        while screen.tab.lines is not None and not screen.tab.lines.complete:
            await pilot.press("G", "enter")
            await read(screen, pilot)
        assert screen.tab.lines is not None
        lines = [line for line in screen.tab.lines.lines if isinstance(line, RecordLine)]
        with IndexReader(captured) as index:
            assert len(lines) == sum(row.records for row in index.rows(0, index.count) if row.api_key == PRODUCE)
        assert [line.origin.number for line in lines if line.origin] == sorted(numbers(screen))
        # transactions end with markers, at 5, 11 and 17
        assert {line.assigned for line in lines if line.place.topic == "shop-payments"} == set(range(17)) - {5, 11}


async def test_a_record_leads_to_its_exchange_and_back(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot)
        await pilot.press("space", "space")
        assert at(screen) == 8
        await pilot.press("p")
        assert at(screen) == 7
        await pilot.press("e")
        await until(lambda: app.screen is app.main and app.main.pane.selected == 6, pilot)
        lines = screen.tab.lines
        await pilot.press("q")
        await pilot.pause()
        assert at(screen) == 7
        assert screen.tab.lines is lines  # not read again


async def test_it_begins_where_the_list_is_and_goes_back(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["j"] * 10)
        screen = await go(app, pilot)
        assert numbers(screen)[0] == 11
        await pilot.press("b")
        await read(screen, pilot)
        assert numbers(screen)[0] == 6
        await pilot.press("1", "G", "9")
        await read(screen, pilot)
        assert numbers(screen) == []
        assert "no records from here on" in "\n".join(grid(app))


async def test_records_that_come_are_shown(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path, state="following")
    produce(builder, one(b"first"))
    builder.flush()
    app = KproxyApp(builder.path, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot)
        assert numbers(screen) == [1]
        heartbeat(builder)
        produce(builder, one(b"second"))
        builder.flush()
        await until(lambda: numbers(screen) == [1, 3], pilot)
        await pilot.pause()
        assert "second" in "\n".join(grid(app))
    builder.finish()


async def test_only_so_many_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_records, "MOST_BYTES", 10_000)
    monkeypatch.setattr(many_records, "AT_ONCE_BYTES", 6_000)
    builder = IndexBuilder(tmp_path)
    for _ in range(30):
        produce(builder, one(b"x" * 1000))
    app = KproxyApp(builder.finish(), ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await go(app, pilot)
        assert len(numbers(screen)) == 5
        await pilot.press("G", "enter")
        await read(screen, pilot)
        assert len(numbers(screen)) < 12
        await pilot.press("G")
        await pilot.pause()
        assert "no more records fit here" in "\n".join(grid(app))
        await pilot.press("1", *["j"] * 20)
        await pilot.press("9")
        await read(screen, pilot)
        assert numbers(screen)[0] == 21


async def test_nothing_in_a_record_drives_the_terminal(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    evil = b"\x1b[31m\x9b\x07\r\n\xe2\x80\xae"
    produce(builder, batch(record(0, evil, evil, [(evil, evil)]), 1))
    app = KproxyApp(builder.finish(), ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot)
        text = "\n".join(grid(app))
        assert not any(ord(character) < 0x20 and character != "\n" for character in text)
        assert "\u202e" not in text
        await pilot.press("v", "v", "enter", "v")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert not any(ord(character) < 0x20 and character != "\n" for character in text)
        assert screen.pane.count


async def test_records_are_copied_and_searched_in_both_panes(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setattr(KproxyApp, "copy_to_clipboard", lambda _app, text: texts.append(text))
    app = KproxyApp(captured, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot)
        await pilot.press("ctrl+f", *"tombstone", "enter")
        await pilot.pause()
        assert "tombstone" in screen.pane.line_text(screen.pane.cursor)
        assert app.focused is screen.pane
        await pilot.press("enter", "ctrl+f", *"crc", "enter")
        await pilot.pause()
        focused = app.screen.focused
        assert isinstance(focused, RecordPane)
        assert "crc" in focused.line_text(focused.cursor)
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(app.screen, ChoiceMenu)
        assert "kcat line" in "\n".join(grid(app))
        await pilot.press("escape", "y")
        await until(lambda: bool(texts), pilot)
        line = screen.pane.line
        assert isinstance(line, RecordLine)
        assert line.record[3] is None  # a tombstone: its key is the first that there is
        assert texts == [bytes(line.record[2] or b"").decode()]


async def test_what_is_withheld_cannot_be_copied(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = KproxyApp(captured, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await go(app, pilot)
        monkeypatch.setattr(type(screen.tab), "withholds", lambda _tab, _line: True)
        assert screen.copies() == []
