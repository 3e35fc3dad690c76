"""Whatever is pressed, clicked and resized, nothing raises, and the interface is on the screen with a pane in focus.

Leaving is no end here: what would leave is asked again to stay, so that every key of a sequence finds something.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from unittest.mock import patch

from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size

from kproxy.captures.index.indexer import run
from kproxy.tui.actions import registry as actions
from kproxy.tui.app import KproxyApp
from kproxy.tui.output.commands import Exporter, OtherCapture, UnopenedError
from kproxy.tui.screens.base import SMALL_COLUMNS, SMALL_ROWS
from kproxy.tui.settings.live import RunInfo
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.terminal.input import Parser, decoder
from tests.support.indexes import sample
from tests.tui.screen import grid, is_painted

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
STEPS = 200
LEAST, MOST = (20, 5), (200, 60)
BACK = (100, 30)
"""The size in which the screen is looked at in the end."""
STAND_SECONDS = 30.0
TITLES = (
    " kproxy", " Help", " Filter by", " Saved and recent filters", " Columns of the list", " Copy", " Command",
    " Export", " Menu", " An export is running", " Compare",
)  # fmt: skip
KEYS = sorted({key for action in actions.ACTIONS for key in action.keys})
LETTERS = [*"abcxyz0123456789()=!<>\"'/\\.,:;$#-_*", "space", "backspace", "delete", "enter", "tab", "up", "down"]
MOVES = ("enter", "escape", "q", "tab", *(key for key, _, _ in actions.SCREENS.values()))
"""What leads from screen to screen and back."""
TEXTS = (
    "api == Produce",
    "error",
    "latency > 1ms",
    "1",
    "06:11",
    "+5s",
    "/x(",
    "0x00ff",
    "漢字\x1b[31m\u202e",
    "a.csv",
    "open /1",
)

FRAGMENTS = (
    b"\x1b", b"\x1b[", b"\x1b[<", b"\x1b[<0;1;1M", b"\x1b[<65535;99999;0m", b"\x1b[<-1;x;1M", b"\x1b[200~",
    b"\x1b[201~", b"\x1b[999999999999~", b"\x1b[1;1;1R", b"\x1b[48;0;0;0;0t", b"\x1b[?2026;2$y", b"\x1bO", b"\x1b[I",
    b"\x1b[O", b"\x1b[27;5;9~", b"\x1b[1114112u", b"\x1b[57441u", b"\x1b]52;c;", b"\x07", b"\x00", b"\xff", b"\xc3",
    b"\xe6\x97",
)  # fmt: skip
"""Pieces of what terminals send: escapes cut short, numbers out of range, bytes that are not UTF-8."""

Step = events.Event | tuple[int, int]
"""What a terminal sends: a key, a text, the mouse, or its new size."""


class Staying(KproxyApp):
    """Does not leave."""

    def exit(self, *_: object, **__: object) -> None:
        """Nothing has failed: go on."""


def key(name: str) -> events.Key:
    return events.Key(name, " " if name == "space" else None)


def mouse(kind: type[events.MouseEvent], place: tuple[int, int], button: int = 0) -> events.MouseEvent:
    return kind(None, *place, 0, 0, button, shift=False, meta=False, ctrl=False)


def a_click(random: Random) -> Sequence[Step]:
    place = random.randrange(MOST[0]), random.randrange(MOST[1])
    button = random.choice((1, 1, 3))
    times = random.choice((1, 1, 2))
    return [mouse(kind, place, button) for kind in (events.MouseDown, events.MouseUp)] * times


def a_wheel(random: Random) -> Sequence[Step]:
    place = random.randrange(MOST[0]), random.randrange(MOST[1])
    return [mouse(random.choice((events.MouseScrollDown, events.MouseScrollUp)), place)]


def a_size(random: Random) -> Sequence[Step]:
    # most terminals are large enough; what is too small is met as often as that
    least = random.choice((LEAST, (60, 15), (100, 30)))
    return [(random.randint(least[0], MOST[0]), random.randint(least[1], MOST[1]))]


def some_bytes(random: Random) -> Sequence[Step]:
    """What the toolkit's decoder and parser make of bytes that a terminal may send, and of some that none does."""
    data = b"".join(
        random.choice(FRAGMENTS) if random.random() < 0.5 else random.randbytes(random.randint(1, 6))
        for _ in range(random.randint(1, 6))
    )
    parser = Parser()
    text = decoder("utf-8")().decode(data)
    return [message for message in (*parser.feed(text), *parser.tick()) if isinstance(message, events.Event)]


KINDS: tuple[tuple[int, Callable[[Random], Sequence[Step]]], ...] = (
    (50, lambda random: [key(random.choice(KEYS))]),
    (20, lambda random: [key(random.choice(MOVES))]),
    (10, lambda random: [key(random.choice(LETTERS))]),
    (3, lambda random: [events.Paste(random.choice(TEXTS))]),
    (7, a_click),
    (6, a_wheel),
    (4, a_size),
    (5, some_bytes),
)
"""What a step may be, and how often it is."""


def steps(random: Random) -> list[Sequence[Step]]:
    weights = [weight for weight, _ in KINDS]
    return [make(random) for _, make in random.choices(KINDS, weights, k=STEPS)]


@lru_cache(maxsize=1)
def indexes() -> tuple[Path, ...]:
    """Indexes of copies, beside which marks may be kept; they live as long as the process."""
    directory = Path(_held().name)
    shutil.copy(CAPTURE, directory / "copy.pcap")
    run([directory / "copy.pcap"], directory / "real")
    return directory / "real", sample(directory), directory / "none"


@lru_cache(maxsize=1)
def _held() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def stands(app: KproxyApp) -> bool:
    """Whether keys are done, something is painted in all of the screen, and a pane has the focus where one can.

    No pane has it while the terminal's window has not, or on a dialog that has no pane for it.
    """
    if app.keys_wait or not is_painted(app) or not any(grid(app)):
        return False
    if app.size.width < SMALL_COLUMNS or app.size.height < SMALL_ROWS:
        return True
    focused = app.screen.focused
    if not any(line.startswith(TITLES) for line in grid(app)):
        return False
    if focused is None:
        return not app.app_focus or (app.screen.is_modal and not app.screen.focus_chain)
    return focused.is_on_screen


async def until_it_stands(app: KproxyApp) -> None:
    """Raises AssertionError where it does not; what the interface itself raises ends the wait."""
    deadline = time.monotonic() + STAND_SECONDS
    while app._exception is None and not stands(app):
        assert time.monotonic() < deadline, "\n".join(grid(app))
        await asyncio.sleep(0.005)
        app.screen._on_timer_update()


async def take(app: KproxyApp, step: Step) -> None:
    if isinstance(step, events.Event):
        app.post_message(step)
        return
    assert isinstance(app._driver, HeadlessDriver)
    app._driver._size = step
    app.post_message(events.Resize(Size(*step), Size(*step)))
    await until_it_stands(app)


async def play(app: KproxyApp, sequence: list[Sequence[Step]], pauses: Random) -> None:
    """Take the steps, some at once and some once those before are done; raises what the interface raises.

    A pilot's own pauses wait for widgets that are gone by then.
    """
    async with app.run_test(size=BACK, notifications=True):
        for step in sequence:
            for part in step:
                await take(app, part)
            if pauses.random() < 0.3:
                await asyncio.sleep(0.005)
                assert app.is_running, "it has left"
        await take(app, BACK)


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[OtherCapture]:
    """An index for captures of any name, but for those that begin with a letter."""
    name = str(paths[0])
    if name[:1].isalpha():
        raise UnopenedError(f"{name}: is not opened")
    yield OtherCapture(indexes()[len(name) % 3], Exporter(("true",)))


def once(random: Random) -> None:
    index = random.choice(indexes())
    live = RunInfo("127.0.0.1:19092", "kafka:9092", ours=random.random() < 0.5) if random.random() < 0.5 else None
    app = Staying(
        index,
        live=live,
        ascii_only=random.random() < 0.2,
        preferences=Preferences(plain=random.random() < 0.1),
        exporter=Exporter(("true",)) if random.random() < 0.5 else None,
        opener=opened if random.random() < 0.5 else None,
    )
    # what is copied stays off the clipboard of who runs this, and what is exported out of the way
    with chdir(_held().name), patch.dict(os.environ):
        os.environ.pop("TMUX", None)
        asyncio.run(play(app, steps(random), random))
