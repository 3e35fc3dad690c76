from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from kproxy.tui.actions import registry as actions
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.menu import Choice, ChoiceMenu, FilterMenu
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.field_tree import FieldTree
from tests.tui.screen import assert_snapshot, grid


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
        assert app.main.panes.reading


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


@pytest.mark.parametrize("kind", [events.MouseDown, events.MouseUp, events.MouseScrollDown])
async def test_a_menu_takes_keys_after_the_mouse_was_where_nothing_is(
    index: Path, kind: type[events.MouseEvent]
) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c")
        menu = app.screen
        assert isinstance(menu, ChoiceMenu)
        # sent before the terminal was made as small as it is
        app.post_message(kind(None, 100, 40, 0, 0, 1, shift=False, meta=False, ctrl=False))
        await pilot.pause()
        assert app.focused is menu.lines
        await pilot.press("down")
        assert menu.lines.cursor == 1
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_a_click_where_nothing_is_gives_a_window_back_the_focus_of_its_pane(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c")
        menu = app.screen
        assert isinstance(menu, ChoiceMenu)
        app.post_message(events.AppBlur())
        await pilot.pause()
        assert app.focused is None
        app.post_message(events.MouseDown(None, 100, 40, 0, 0, 1, shift=False, meta=False, ctrl=False))
        await pilot.pause()
        assert app.focused is menu.lines


async def test_a_key_of_a_pane_that_has_lost_the_focus_does_nothing(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.set_focus(None)
        assert not await app.run_action("focused.open")


async def test_a_menu_that_is_clicked_twice_answers_once(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    answers: list[int | None] = []
    async with app.run_test(size=(80, 24)) as pilot:
        menu = ChoiceMenu(app._cells, "Menu", [Choice("one", "")])
        await app.push_screen(menu, answers.append)
        menu.lines.action_take()
        menu.lines.action_take()
        await pilot.pause()
        assert app.screen is app.main
        assert answers == [0]


def place(app: KproxyApp, text: str) -> tuple[int, int]:
    """Where on the screen a text stands, the first time."""
    for line, row in enumerate(grid(app)):
        if text in row:
            return row.index(text), line
    raise AssertionError(text)


async def test_titles_tabs_screens_and_keys_are_clicked(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        pane = app.main.pane
        await pilot.click(offset=place(app, " ms"))
        assert (pane.order, pane.descending) == ("latency", True)
        await pilot.click(offset=place(app, " ms"))
        assert (pane.order, pane.descending) == ("latency", False)
        await pilot.click(offset=place(app, "No."))
        assert pane.order == ""
        assert pane.cursor == 0
        await pilot.click(offset=place(app, "Overview"))
        assert app.main.detail.tab == "Overview"
        assert app.focused is pane
        await pilot.click(offset=place(app, "Timing"))
        assert app.main.detail.tab == "Timing"
        await pilot.click(offset=place(app, "enter Open"))
        await pilot.pause()
        assert app.main.panes.reading
        await pilot.click(offset=place(app, "0-9 Screens"))
        await pilot.click(offset=place(app, "= Filter by"))
        await pilot.pause()
        assert isinstance(app.screen, FilterMenu)
        await pilot.click(offset=place(app, "! Not"))
        await pilot.pause()
        assert app.main.bar.applied.startswith("not ")


async def test_screens_are_clicked(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("0")
        await pilot.pause()
        await pilot.click(offset=place(app, "Topic"))
        await pilot.pause()
        assert app.screen is app._showing.views["topics"]
        await pilot.click(offset=place(app, "Excha"))
        await pilot.pause()
        assert app.screen_stack[-1] is app.main


async def test_the_border_between_list_and_detail_is_dragged(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        pane, detail = app.main.pane, app.main.detail
        x, y = place(app, "{ } tab")
        assert detail.region.y == y
        await pilot.mouse_down(offset=(x - 10, y))
        await pilot.hover(offset=(x, y + 6))
        await pilot.mouse_up(offset=(x, y + 6))
        await pilot.pause()
        assert abs(detail.region.y - (y + 6)) <= 1
        dragged = pane.region.height
        await pilot.hover(offset=(x, 10))
        await pilot.pause()
        assert pane.region.height == dragged
        await pilot.press("less_than_sign")
        await pilot.pause()
        assert pane.region.height < dragged
        await pilot.press("tab", "greater_than_sign", "greater_than_sign")
        await pilot.pause()
        assert detail.region.height > 3 * pane.region.height // 2
        await pilot.press("minus", "minus")
        await pilot.pause()
        assert detail.region.x > 0
        assert detail.region.y == pane.region.y
        border = detail.region.x
        await pilot.mouse_down(offset=(border, 20))
        await pilot.hover(offset=(border - 20, 20))
        await pilot.mouse_up(offset=(border - 20, 20))
        await pilot.pause()
        assert abs(detail.region.x - (border - 20)) <= 1


async def test_the_border_stays_where_a_menu_opens_while_it_is_dragged(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        x, y = place(app, "{ } tab")
        await pilot.mouse_down(offset=(x - 10, y))
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(app.screen, ChoiceMenu)
        await pilot.mouse_up(offset=(x - 10, y))
        await pilot.press("escape")
        await pilot.pause()
        assert app.main.is_current
        await pilot.hover(offset=(x, y + 6))
        await pilot.pause()
        assert app.main.detail.region.y == y
