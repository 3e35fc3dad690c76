from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.tui.actions import registry as actions
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.command import CommandScreen
from kproxy.tui.settings.preferences import Preferences
from tests.tui.screen import grid


def command(app: KproxyApp) -> CommandScreen:
    assert isinstance(app.screen, CommandScreen)
    return app.screen


def offered(app: KproxyApp) -> list[str]:
    return [offer.text for offer in command(app).lines.offers]


async def run(pilot: Pilot[bool], text: str) -> None:
    await pilot.press("colon", *text, "enter")
    await pilot.pause()


@pytest.mark.parametrize("keys", [[], ["enter"], ["enter", "tab"], ["3"]], ids=["list", "fields", "bytes", "outline"])
async def test_whatever_can_be_done_is_offered(index: Path, keys: list[str]) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        screen, pane = app.screen, app.focused
        contexts = (getattr(pane, "CONTEXT", ""), *screen.CONTEXTS)  # type: ignore[attr-defined]  # a screen of ours
        await pilot.press("colon")
        await pilot.pause()
        expected = {
            action.command
            for action in actions.ACTIONS
            if action.context in contexts
            and action.id != "app.command"
            and (action.enabled is None or action.enabled(pane if action.context == contexts[0] else screen))
        }
        assert set(offered(app)) == expected
        assert len(expected) > 20


async def test_an_action_runs_on_the_pane_that_had_the_focus(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await run(pilot, "list last")
        assert app.main.pane.cursor == 59
        await run(pilot, "open")
        assert app.main.panes.reading
        await run(pilot, "tree last")
        assert app.main.detail.fields.cursor == app.main.detail.fields.count - 1
        await run(pilot, "groups")
        assert app.screen is not app.main


async def test_a_command_takes_an_argument(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await run(pilot, "filter api == Metadata")
        assert app.main.pane.count == 2
        await pilot.press("colon", *"filter api == He")
        await pilot.pause()
        assert offered(app)[0] == "filter api == Heartbeat"
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert app.main.bar.applied == "api == Heartbeat"
        await run(pilot, "filter latenzy > 1ms")
        assert app.main.bar.applied == "api == Heartbeat"
        assert "unknown field 'latenzy'" in grid(app)[2]
        assert app.focused is app.main.bar.input


async def test_a_command_without_its_argument_waits_for_it(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await run(pilot, "filter save")
        assert command(app).input.value == "filter save "
        assert "Save the applied filter under a name" in grid(app)[21]
        await pilot.press("ctrl+u", *"nonsense", "enter")
        await pilot.pause()
        assert "no action has this name" in grid(app)[21]
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_filters_are_saved_listed_and_forgotten(index: Path, tmp_path: Path) -> None:
    preferences = Preferences(filters={"mine": "error"}, state=tmp_path / "state")
    app = KproxyApp(index, ascii_only=False, preferences=preferences)
    async with app.run_test(size=(80, 24)) as pilot:
        await run(pilot, "filter save meta")
        assert dict(app.saved) == {"mine": "error"}
        await run(pilot, "filter api == Metadata")
        await run(pilot, "filter save me ta")
        assert dict(app.saved) == {"mine": "error"}
        await run(pilot, "filter save meta")
        await pilot.press("ctrl+x", "dollar_sign")
        await pilot.pause()
        assert "api == Metadata" in grid(app)[1]
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.bar.applied == "$meta"
        assert app.main.pane.count == 2
    app = KproxyApp(index, ascii_only=False, preferences=preferences)
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.saved["meta"] == "api == Metadata"
        await run(pilot, "filter delete mine")
        await run(pilot, "filter delete $meta")
        assert dict(app.saved) == {"mine": "error"}
        await pilot.press("colon")
        await pilot.pause()
        assert offered(app)[:2] == ["filter delete $meta", "filter delete mine"]


async def test_a_terminal_too_small_for_panes_takes_commands(index: Path) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.resize_terminal(40, 10)
        await pilot.press("colon")
        await pilot.pause()
        assert "help" in offered(app)
        assert "tail" not in offered(app)
