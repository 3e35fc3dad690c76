from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.keymap import Keymap
from kproxy.tui.app import KproxyApp
from kproxy.tui.settings.preferences import Preferences
from tests.tui.screen import grid


def test_no_default_key_has_a_rival() -> None:
    keymap = Keymap()
    assert {action.id: [other.id for other in keymap._rivals(action)] for action in actions.ACTIONS} == {
        action.id: [] for action in actions.ACTIONS
    }


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"list.opne": "z"}, "no action 'list.opne'; did you mean list.open?"),
        ({"list.open": " "}, "list.open: no key"),
        ({"list.open": "F"}, "list.open: list.tail already has that key"),
        ({"list.open": "z ?"}, "list.open: app.help already has that key"),
        ({"app.help": "enter"}, "app.help: list.open already has that key"),
    ],
)
def test_what_cannot_be_is_told_and_left(entries: dict[str, str], problem: str) -> None:
    keymap = Keymap(entries)
    assert keymap.problems == [problem]
    assert keymap.bindings() == {}


def test_keys_may_be_exchanged() -> None:
    keymap = Keymap({"list.open": "F", "list.tail": "enter ?x"})
    assert keymap.problems == []
    assert keymap.bindings() == {"list.open": "F", "list.tail": "enter,?x"}


async def reading_after(pilot: Pilot[bool], app: KproxyApp, key: str) -> bool:
    await pilot.press(key)
    await pilot.pause()
    return app.main.panes.reading


async def test_a_key_that_was_moved_works_and_is_shown(index: Path) -> None:
    preferences = Preferences(keymap={"list.open": "z", "app.help": "? F1", "app.quit": "F"})
    app = KproxyApp(index, ascii_only=False, preferences=preferences)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert any(line.startswith(" List: z Open  F Tail") for line in grid(app))
        assert [note.message for note in app._notifications] == ["keymap: app.quit: list.tail already has that key"]
        assert await reading_after(pilot, app, "enter") is False
        assert await reading_after(pilot, app, "z") is True
        await pilot.press("question_mark")
        await pilot.pause()
        assert "? F1" in "\n".join(grid(app)) or any(line.startswith("  z  ") for line in grid(app))
