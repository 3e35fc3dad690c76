"""Whatever is pressed, clicked and resized, nothing raises, and the interface is on the screen with a pane in focus.

Leaving is no end here: what would leave is asked again to stay, so that every key of a sequence finds something.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import lru_cache
from pathlib import Path
from random import Random
from unittest.mock import patch

from textual import events
from textual.pilot import Pilot

from captures.index.indexer import run
from tests.support.indexes import sample
from tests.tui.screen import grid, is_painted
from tui import actions
from tui.app import KproxyApp
from tui.live import RunInfo
from tui.outside import Exporter
from tui.preferences import Preferences

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
STEPS = 200
LEAST, MOST = (20, 5), (200, 60)
BACK = (100, 30)
"""The size in which the screen is looked at in the end."""
PAINT_SECONDS = 30.0
TITLES = tuple(
    f" {title}"
    for title in ("kproxy", "Help", "Filter by", "Saved filters", "Copy", "Command", "Export", "Menu", "An export runs")
)
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
)

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


KINDS: tuple[tuple[int, Callable[[Random], Sequence[Step]]], ...] = (
    (50, lambda random: [key(random.choice(KEYS))]),
    (20, lambda random: [key(random.choice(MOVES))]),
    (10, lambda random: [key(random.choice(LETTERS))]),
    (3, lambda random: [events.Paste(random.choice(TEXTS))]),
    (7, a_click),
    (6, a_wheel),
    (4, a_size),
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


async def until_painted(app: KproxyApp, pilot: Pilot[bool]) -> None:
    """Until something stands on the screen, in all of it."""
    deadline = time.monotonic() + PAINT_SECONDS
    while not (is_painted(app) and any(grid(app))):
        assert time.monotonic() < deadline, "nothing is painted"
        await pilot.pause(0.01)


async def take(app: KproxyApp, pilot: Pilot[bool], step: Step) -> None:
    if isinstance(step, tuple):
        await pilot.resize_terminal(*step)
        await until_painted(app, pilot)
    else:
        app.post_message(step)


async def play(app: KproxyApp, sequence: list[Sequence[Step]], pauses: Random) -> None:
    """Take the steps, some at once and some once those before are done; raises what the interface raises."""
    async with app.run_test(size=BACK, notifications=True) as pilot:
        for step in sequence:
            for part in step:
                await take(app, pilot, part)
            if pauses.random() < 0.3:
                await pilot.pause(0)
                assert app.is_running, "it has left"
        await take(app, pilot, BACK)
        painted = grid(app)
        assert any(line.startswith(TITLES) for line in painted), painted
        assert app.screen.focused is not None or app.screen.is_modal, painted
        assert app.screen.focused is None or app.screen.focused.is_on_screen, painted


def once(random: Random) -> None:
    index = random.choice(indexes())
    live = RunInfo("127.0.0.1:19092", "kafka:9092", ours=random.random() < 0.5) if random.random() < 0.5 else None
    app = Staying(
        index,
        live=live,
        ascii_only=random.random() < 0.2,
        preferences=Preferences(plain=random.random() < 0.1),
        exporter=Exporter(("true",)) if random.random() < 0.5 else None,
    )
    # what is copied stays off the clipboard of who runs this, and what is exported out of the way
    with chdir(_held().name), patch.dict(os.environ):
        os.environ.pop("TMUX", None)
        asyncio.run(play(app, steps(random), random))
