"""Draws docs/screens from captures of the tests: python -m tools.screens [NAME...].

A picture of each screen, and session.svg, in which screens follow one another like in a recorded terminal session.
"""

from __future__ import annotations

import asyncio
import lzma
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kproxy.tui.app import KproxyApp
from kproxy.tui.settings.preferences import Preferences

ROOT: Final = Path(__file__).parent.parent
SCREENS: Final = ROOT / "docs" / "screens"
SIZE: Final = (120, 36)
THEME: Final = "dark"
"""A theme with colours of its own, which are the same in every viewer; a terminal's colours differ."""
INDEXER: Final = "kproxy.captures.index.indexer"
LIBRDKAFKA: Final = "captures/kafka-4.4.0-librdkafka.pcap"
POLL_GAP: Final = "findings/group.poll_gap.pcap.xz"
QUESTION: Final = "question_mark"


@dataclass(frozen=True, slots=True)
class Picture:
    """A screen to draw.

    `capture` is a path below tests/data, `keys` lead to the screen, and `awaited` is a text that it shows once it is
    painted completely; `then` are keys that are pressed after that.
    """

    name: str
    capture: str
    keys: tuple[str, ...]
    awaited: str
    filter_text: str = ""
    then: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A screen of the session: the line under it, the keys that lead there from the screen before, and a text that it
    shows once it is painted completely.
    """

    caption: str
    keys: tuple[str, ...]
    awaited: str


PICTURES: Final = (
    Picture(
        "exchanges", LIBRDKAFKA, ("g", *["j"] * 19, "enter", *["j"] * 10), "Response",
        "not api in (ApiVersions, Metadata)",
    ),
    Picture("stats", "captures/kafka-1.1.1.pcap", ("2",), "of 249 exchanges"),
    Picture("chart", "captures/kafka-1.1.1.pcap", ("2", "m"), "of 249 exchanges"),
    Picture("compare", LIBRDKAFKA, ("ctrl+g", *"129", "enter", "D", "enter", "a"), "fields differ"),
    Picture("overview", LIBRDKAFKA, ("g", "enter"), "Overview", "error"),
    Picture("timing", LIBRDKAFKA, ("g", "enter", *["right_curly_bracket"] * 2), "Timing", "api == Fetch"),
    Picture("records", LIBRDKAFKA, ("g", "9"), "tombstone"),
    Picture("topics", LIBRDKAFKA, ("3",), "producer"),
    Picture("groups", LIBRDKAFKA, ("4",), "generation"),
    Picture("transactions", LIBRDKAFKA, ("5",), "partition added"),
    Picture("connections", LIBRDKAFKA, ("6",), "Received"),
    Picture("clients", LIBRDKAFKA, ("8",), "start-up of"),
    Picture("findings", POLL_GAP, ("7",), "max.poll.interval.ms", then=("j", "j")),
    Picture("cluster", LIBRDKAFKA, ("B",), "leader 1"),
    Picture("health", LIBRDKAFKA, ("0",), "packets"),
    Picture("help", LIBRDKAFKA, (QUESTION,), "What every key does"),
)  # fmt: skip
SESSION: Final = (
    Step("kproxy replay capture.pcap: every request with its response", ("g",), "ApiVersions"),
    Step("7   what is wrong, what proves it, what to change", ("7",), "max.poll.interval.ms"),
    Step("j j enter   the exchange that proves it, with its bytes", ("j", "j", "enter"), "LeaveGroup"),
    Step("4   the group over time, and why it rebalanced", ("4",), "because"),
    Step("2   counts, latencies and errors", ("2",), "exchanges"),
)
"""Screens that lead from the list of exchanges to the reason why a consumer left its group."""
STEP_SECONDS: Final = 4
CAPTION: Final = 40
"""Height of the line under a screen of the session, in the units of the pictures."""


async def shown(app: KproxyApp, steps: Sequence[tuple[tuple[str, ...], str]]) -> AsyncIterator[str]:
    """The screen as SVG after each step (keys, awaited text). Raises TimeoutError if a text does not appear."""
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for keys, awaited in steps:
            await pilot.press(*keys)
            text, before = "", " "
            async with asyncio.timeout(20):
                while text != before or awaited not in text.replace("\u00a0", " ").replace("&#160;", " "):
                    await pilot.pause(0.2)
                    before, text = text, app.export_screenshot(title="kproxy")
            # The font is left to the viewer, because a picture in a repository can load none.
            yield re.sub(r"[ \t]+\n", "\n", re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL))


def drawn(capture: str, filter_text: str, steps: Sequence[tuple[tuple[str, ...], str]]) -> list[str]:
    """The screens of a capture after each step, as SVG."""
    packed = ROOT / "tests/data" / capture
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        data = packed.read_bytes()
        file = Path(packed.stem if packed.suffix == ".xz" else packed.name)
        file.write_bytes(lzma.decompress(data) if packed.suffix == ".xz" else data)
        subprocess.run([sys.executable, "-P", "-m", INDEXER, str(file), "index"], check=True, timeout=60)
        preferences = Preferences(theme=THEME)
        app = KproxyApp(Path("index"), filter_text=filter_text, ascii_only=False, preferences=preferences)
        screens = asyncio.run(_drawn(app, steps))
        return [screen.replace(f"{directory}/", "") for screen in screens]


async def _drawn(app: KproxyApp, steps: Sequence[tuple[tuple[str, ...], str]]) -> list[str]:
    return [one async for one in shown(app, steps)]


def animated(screens: Sequence[str], captions: Sequence[str]) -> Iterator[str]:
    """The lines of an SVG in which screens follow one another, each with its caption; without motion only the first."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', screens[0])
    assert found is not None  # noqa: S101 (all pictures of Textual have it)
    width, height = float(found[1]), float(found[2])
    share = 100 / len(screens)
    yield f'<svg viewBox="0 0 {width:g} {height + CAPTION:g}" xmlns="http://www.w3.org/2000/svg"><style>'
    yield "@keyframes kproxy-step {"
    yield f"0%, {share:.4g}% {{ visibility: visible }} {share + 0.01:.4g}%, 100% {{ visibility: hidden }} }}"
    yield ".kproxy-step { visibility: hidden }"
    yield ".kproxy-step:first-of-type { visibility: visible }"
    yield "@media (prefers-reduced-motion: no-preference) {"
    yield f".kproxy-step {{ animation: kproxy-step {STEP_SECONDS * len(screens)}s step-end infinite }} }}"
    yield ".kproxy-caption { font: 20px monospace; fill: #888 }</style>"
    for number, (screen, caption) in enumerate(zip(screens, captions, strict=True)):
        yield f'<g class="kproxy-step" style="animation-delay: {number * STEP_SECONDS - STEP_SECONDS * len(screens)}s">'
        yield screen.replace("<svg ", f'<svg width="{width:g}" height="{height:g}" ', 1)
        where = f'x="12" y="{height + 0.65 * CAPTION:g}" xml:space="preserve"'
        yield f'<text class="kproxy-caption" {where}>{caption}</text></g>'
    yield "</svg>"


def main(names: Sequence[str]) -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    SCREENS.mkdir(exist_ok=True)
    for one in PICTURES:
        if not names or one.name in names:
            steps = [(one.keys, one.awaited), *([(one.then, one.awaited)] if one.then else [])]
            text = drawn(one.capture, one.filter_text, steps)[-1]
            (SCREENS / f"{one.name}.svg").write_text(text, encoding="utf-8")
    if not names or "session" in names:
        screens = drawn(POLL_GAP, "", [(step.keys, step.awaited) for step in SESSION])
        lines = animated(screens, [step.caption for step in SESSION])
        (SCREENS / "session.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
