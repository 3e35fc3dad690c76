"""Hostile text in every field of every message, on every screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widget import Widget

from kproxy.captures.index.indexer import run
from kproxy.tui.actions import registry as actions
from kproxy.tui.app import KproxyApp
from kproxy.tui.widgets.detail import TABS, Detail
from kproxy.tui.widgets.lines import Lines
from tests.decoders.test_escaping import controls
from tests.support import hostile_messages
from tests.tui.screen import grid
from tests.tui.test_views import until


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    run([hostile_messages.capture(folder / "messages.pcap")], folder / "index")
    return folder / "index"


def painted(within: Widget, width: int = 400) -> Iterator[str]:
    """Every line of every pane, those that are scrolled out of sight too."""
    for pane in within.query(Lines):
        for number in range(pane.count):
            yield "".join(segment.text for segment in pane.segments(number, width))


async def test_no_pane_controls_a_terminal(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False, show_secrets=True)
    async with app.run_test(size=(200, 50)) as pilot:
        await until(lambda: app.main.pane.count > 0, pilot)
        detail = app.main.query_one(Detail)
        presenter = app.main._presenter
        assert presenter is not None
        seen = 0
        for _ in TABS:
            detail.choose(1)
            for number in range(app.main.pane.count):
                presenter.show(number, "")
                for line in painted(detail):
                    seen += "]52;c;" in line
                    assert not controls(line), (number, detail.tab, line)
        assert seen > 500


async def test_no_screen_controls_a_terminal(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(200, 50)) as pilot:
        for name, (key, _, _) in actions.SCREENS.items():
            await pilot.press(key)
            await until(lambda: bool(grid(app)) and "reading" not in "\n".join(grid(app)[-3:]), pilot)
            for line in (*grid(app), *painted(app.screen)):
                assert not controls(line), (name, line)
