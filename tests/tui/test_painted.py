"""What is sent to the terminal adds up to what is to be seen, though lines that look as before are not sent."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.control import Control
from textual._compositor import CompositorUpdate

from kproxy.captures.index.indexer import run
from kproxy.tui.app import KproxyApp
from kproxy.tui.widgets.painted import Painted
from tests.tui.test_views import CAPTURE, until

SEQUENCES = re.compile(r"\x1b\[([0-9;]*)([Hm])|(\n)|([^\x1b\n]+)")
WAYS = {
    "moving": ["j", "j", "j", "space", "space", "ctrl+b", "k", "G", "g", "j", "space", "g"],
    "fields and bytes": ["tab", "j", "j", "right", "left", "tab", "l", "l", "j", "space", "tab", "j"],
    "tabs": ["right_curly_bracket"] * 5 + ["j", "left_curly_bracket", "j", "j", "left_curly_bracket", "k"],
    "over the list": ["t", "escape", "j", "equals_sign", "escape", "question_mark", "j", "escape", "colon", "escape"],
    "filter": ["f", *"api == Fetch", "enter", "j", "f", "ctrl+u", *"ap", "escape", "j", "space"],
    "layout": ["H", "j", "backslash", "j", "backslash", "H", "enter", "j", "escape", "m", "j", "M", "M"],
    "screens": ["3", "j", "1", "j", "7", "1", "j", "0", "j", "1", "k"],
    "theme": [*":theme dark", "enter", "j", *":theme light", "enter", "j", "j"],
}


class Terminal:
    """Cells with their styles, as what is sent makes them."""

    def __init__(self, width: int, height: int) -> None:
        self.cells = [[("", "")] * width for _ in range(height)]
        self._x = self._y = 0
        self._style = ""

    def take(self, text: str) -> None:
        for numbers, what, line, plain in SEQUENCES.findall(text):
            if what == "H":
                self._y, self._x = (int(number) - 1 for number in numbers.split(";"))
            elif what == "m":
                self._style = "" if numbers in {"", "0"} else numbers
            elif line:
                self._x, self._y = 0, self._y + 1
            for character in plain:
                self.cells[self._y][self._x] = (character, self._style)
                self._x += cell_len(character)


def to_be_seen(app: KproxyApp) -> list[list[tuple[str, str]]]:
    terminal = Terminal(*app.size)
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        terminal.take(Control.move_to(0, y).segment.text + strip.render(app.console))
    return terminal.cells


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    terminal = Terminal(120, 40)
    display = KproxyApp._display

    def seen(app: KproxyApp, screen: Any, update: Any) -> None:
        if isinstance(update, CompositorUpdate) and not app._batch_count:
            terminal.take(update.render_segments(app.console))
        display(app, screen, update)

    monkeypatch.setattr(KproxyApp, "_display", seen)
    yield terminal


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of a copy, beside which marks are written."""
    folder = tmp_path_factory.mktemp("painted")
    run([shutil.copy(CAPTURE, folder)], folder / "index")
    return folder / "index"


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_sent_is_what_is_to_be_seen(capture: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    app = KproxyApp(capture, ascii_only=False)
    with watched(monkeypatch) as terminal:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(lambda: app.main.pane.count > 0, pilot)
            for key in WAYS[way]:
                await pilot.press(key)
                await until(lambda: terminal.cells == to_be_seen(app), pilot)


async def test_lines_that_look_as_before_are_not_sent(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = KproxyApp(capture, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.main.detail.fields.count > 0, pilot)
        sent: list[int] = []
        exchange = Painted._exchange_repaint_regions

        def counted(pane: Painted) -> Any:
            regions = exchange(pane)
            if pane is app.main.detail.fields:
                sent.append(len(regions))
            return regions

        monkeypatch.setattr(Painted, "_exchange_repaint_regions", counted)
        # what the terminal has of it need not be known before the first time
        app.main.detail.fields.refresh()
        await until(lambda: len(sent) > 0, pilot)
        sent.clear()
        app.main.detail.fields.refresh()
        await until(lambda: len(sent) > 0, pilot)
        assert not any(sent)


async def test_a_redraw_sends_everything(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = KproxyApp(capture, ascii_only=False)
    with watched(monkeypatch) as terminal:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(lambda: app.main.pane.count > 0, pilot)
            await until(lambda: terminal.cells == to_be_seen(app), pilot)
            terminal.cells = [[("?", "")] * 120 for _ in range(40)]
            await pilot.press("ctrl+l")
            await until(lambda: terminal.cells == to_be_seen(app), pilot)
