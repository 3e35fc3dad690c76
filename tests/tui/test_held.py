"""The screen of intercepted frames: keys become decisions about the frame under the cursor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.held import HeldScreen, edited
from kproxy.tui.settings.live import RunInfo
from tests.tui.screen import grid
from tests.tui.test_views import until

BODY = {"acks": -1, "timeoutMs": 1000}


class Relay:
    """Holds frames, and takes decisions as `kproxy.runs.intercepting.HeldFrames` does."""

    def __init__(self, *numbers: int, expression: str = "api == Produce") -> None:
        self.expression = expression
        self.decided: list[tuple[int, dict[str, Any]]] = []
        self.refusal = ""
        self._frames = {number: (frame(number), time.monotonic() + 100) for number in numbers}

    @property
    def frames(self) -> Sequence[tuple[dict[str, Any], float]]:
        return list(self._frames.values())

    def look(self) -> None:
        pass

    def decide(self, number: int, decision: dict[str, Any]) -> str:
        self.decided.append((number, decision))
        if number not in self._frames:
            return f"no frame {number} waits"
        if not self.refusal:
            self.sent(number)
        return self.refusal

    def sent(self, number: int) -> None:
        """Wait no longer with a frame."""
        del self._frames[number]

    def intercept(self, expression: str) -> str:
        self.expression = expression
        return ""


def frame(number: int, **others: Any) -> dict[str, Any]:
    return {
        "held": number, "api": "Produce", "api_key": 0, "api_version": 9, "side": "request", "client_id": "shop",
        "client": "c:1", "broker": "b:9092", "size": 100, "left_ms": 100_000, "body": BODY, **others,
    }  # fmt: skip


def app_of(index: Path, relay: Relay | None) -> KproxyApp:
    return KproxyApp(index, live=RunInfo("127.0.0.1:19092", "kafka:9092", held=relay), ascii_only=False)


async def shown(app: KproxyApp, pilot: Pilot[bool]) -> HeldScreen:
    await until(lambda: app.main.pane.view is not None, pilot)
    await pilot.press("i")
    await until(lambda: isinstance(app.screen, HeldScreen), pilot)
    screen = app.screen
    assert isinstance(screen, HeldScreen)
    await until(lambda: screen.pane.count > 0 or not screen._held.frames, pilot)
    return screen


@pytest.mark.parametrize(
    ("key", "decision"),
    [
        ("a", {"do": "forward"}),
        ("x", {"do": "drop"}),
        ("X", {"do": "disconnect"}),
        ("D", {"do": "duplicate"}),
    ],
)
async def test_a_key_decides_about_the_frame_under_the_cursor(index: Path, key: str, decision: dict[str, Any]) -> None:
    relay = Relay(3, 4)
    app = app_of(index, relay)
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(app, pilot)
        text = "\n".join(grid(app))
        assert "held 2" in text
        assert "Produce v9 request  shop  c:1 > b:9092" in text
        assert '"timeoutMs": 1000' in text
        await pilot.press("j", "j", "j", "j", "j", key)
        await until(lambda: bool(relay.decided), pilot)
        assert relay.decided == [(4, decision)]


async def test_all_are_let_go(index: Path) -> None:
    relay = Relay(3, 4, 5)
    app = app_of(index, relay)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(app, pilot)
        await pilot.press("A")
        await until(lambda: len(relay.decided) == 3, pilot)
        await until(lambda: "No frame waits for a decision" in "\n".join(grid(app)), pilot)
        await pilot.press("a", "x", "e", "E")
        assert len(relay.decided) == 3


async def test_an_error_is_typed(index: Path) -> None:
    relay = Relay(3)
    app = app_of(index, relay)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(app, pilot)
        await pilot.press("E", *"invalid_record", "enter")
        await until(lambda: bool(relay.decided), pilot)
        assert relay.decided == [(3, {"do": "error", "code": "INVALID_RECORD"})]


async def test_an_error_is_for_the_frame_that_was_chosen_when_it_was_asked_for(index: Path) -> None:
    relay = Relay(3, 4)
    app = app_of(index, relay)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await shown(app, pilot)
        await pilot.press("E", *"invalid_")
        assert "Answer frame 3 with the error" in "\n".join(grid(app))
        relay.sent(3)  # its deadline is over
        await until(lambda: screen._chosen is not None and screen._chosen["held"] == 4, pilot)
        await pilot.press(*"record", "enter")
        await until(lambda: "no frame 3 waits" in [note.message for note in app._notifications], pilot)
        assert relay.decided == [(3, {"do": "error", "code": "INVALID_RECORD"})]


async def test_a_wrong_name_of_an_editor_is_said(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "emacs '")
    monkeypatch.setattr(KproxyApp, "suspends", True)
    monkeypatch.setattr(KproxyApp, "suspend", lambda _: nullcontext())
    relay = Relay(3)
    app = app_of(index, relay)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(app, pilot)
        await pilot.press("e")
        said = "the editor did not start: No closing quotation"
        await until(lambda: said in [note.message for note in app._notifications], pilot)
        assert not relay.decided


async def test_a_refusal_is_said_and_the_frame_waits_on(index: Path) -> None:
    relay = Relay(3)
    relay.refusal = "a request cannot be sent twice"
    app = app_of(index, relay)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(app, pilot)
        await pilot.press("D")
        await until(lambda: relay.refusal in [note.message for note in app._notifications], pilot)
        assert relay.frames


async def test_the_filter_is_asked_for_and_a_wrong_one_is_refused(index: Path) -> None:
    relay = Relay(expression="")
    app = app_of(index, relay)
    async with app.run_test(size=(100, 24)) as pilot:
        await shown(app, pilot)
        await until(lambda: "Intercept requests that match" in "\n".join(grid(app)), pilot)
        await pilot.press(*"api =", "enter")
        assert relay.expression == ""
        await pilot.press(*"= Fetch", "enter")
        await until(lambda: relay.expression == "api == Fetch", pilot)
        await until(lambda: "intercepts api == Fetch" in "\n".join(grid(app)), pilot)


async def test_where_nothing_can_be_intercepted_the_key_does_nothing(index: Path) -> None:
    app = app_of(index, None)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.main.pane.view is not None, pilot)
        await pilot.press("i")
        assert app.screen is app.main


def test_an_editor_gets_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text(f'#!/bin/sh\nls -l "$2" > {tmp_path}/mode\nsed -i s/one/two/ "$2"\n')
    editor.chmod(0o700)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{editor} --wait")
    assert edited('{"a": "one"}', "Produce-3") == '{"a": "two"}'
    assert (tmp_path / "mode").read_text().startswith("-rw-------")
