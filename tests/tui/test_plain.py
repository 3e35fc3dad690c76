from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.tui.app import KproxyApp
from kproxy.tui.settings.preferences import Preferences
from tests.tui.screen import grid


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_nothing_is_drawn_and_one_pane_shown(index: Path, size: tuple[int, int]) -> None:
    app = KproxyApp(index, ascii_only=False, preferences=Preferences(plain=True))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for keys in ([], ["enter"], ["left_curly_bracket"], ["question_mark"], ["escape", "escape", "f", "a"]):
            await pilot.press(*keys)
            await pilot.pause(0.2)
            assert not set("\n".join(grid(app))) & set("│─█▐▌┃")
            assert app.main.pane.display != app.main.detail.display


async def test_the_terminal_s_cursor_is_on_the_line(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False, preferences=Preferences(plain=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "j", "j")
        await pilot.pause()
        first = app.cursor_position
        line = grid(app)[first.y]
        assert line.split()[:2] == ["W", "4"]
        await pilot.press("enter", *["right_curly_bracket"] * 2, "j")
        await pilot.pause()
        assert app.cursor_position.y == app.main.detail.fields.region.y + 1
        await pilot.press("escape")
        await pilot.pause()
        assert app.cursor_position == first
