from __future__ import annotations

from pathlib import Path

from tests.tui.screen import assert_snapshot, grid
from tui import actions
from tui.app import KproxyApp
from tui.screens.menu import ChoiceMenu
from tui.widgets.exchange_list import ExchangeList
from tui.widgets.field_tree import FieldTree


async def test_the_right_button_offers_what_can_be_done_there(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.click(ExchangeList, offset=(30, 5), button=3)
        await pilot.pause()
        assert_snapshot(app, "mouse-menu-80x24")
        screen = app.screen
        assert isinstance(screen, ChoiceMenu)
        texts = [choice.text for choice in screen._choices]
        shown = [action for action in actions.ACTIONS if action.bar and action.help in texts]
        # nothing is exported without an exporter
        assert {action.context for action in shown} == {"list", *app.main.CONTEXTS} - {"exporting"}
        await pilot.click(type(screen.lines), offset=(10, texts.index(shown[0].help)))
        await pilot.pause()
        assert app.main.pane.cursor == 4
        assert app.main.reading


async def test_the_menu_is_that_of_the_pane_under_the_mouse(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.click(FieldTree, offset=(8, 3), button=3)
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "Open this field, or step into it." in text
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.focused, FieldTree)
