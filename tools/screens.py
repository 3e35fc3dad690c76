"""Draws docs/screens from captures of the tests: python -m tools.screens."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kproxy.tui.app import KproxyApp

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "tests" / "data" / "captures"
SIZE = (120, 36)


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    capture: str
    keys: tuple[str, ...]
    awaited: str
    """A text on the screen once it has been painted completely."""
    filter_text: str = ""


PICTURES = (
    Picture(
        "exchanges", "kafka-4.4.0-librdkafka.pcap", ("g", *["j"] * 19, "enter", *["j"] * 10), "Response",
        "not api in (ApiVersions, Metadata)",
    ),
    Picture("stats", "kafka-1.1.1.pcap", ("2",), "of 249 exchanges"),
)  # fmt: skip


async def draw(picture: Picture, index: Path) -> str:
    """A screen as SVG."""
    app = KproxyApp(index, filter_text=picture.filter_text, ascii_only=False)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press(*picture.keys)
        text = ""
        while picture.awaited not in text.replace("\u00a0", " ").replace("&#160;", " "):
            await pilot.pause(0.05)
            text = app.export_screenshot(title="kproxy")
        return text


def main() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    for picture in PICTURES:
        with tempfile.TemporaryDirectory() as directory:
            index = Path(directory) / "index"
            subprocess.run(
                [sys.executable, "-m", "kproxy.captures.index.indexer", str(CAPTURES / picture.capture), str(index)],
                check=True, timeout=60,
            )  # fmt: skip
            text = asyncio.run(draw(picture, index))
        # The font is left to the viewer, because a picture in a repository can load none.
        text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)
        target = ROOT / "docs" / "screens" / f"{picture.name}.svg"
        target.parent.mkdir(exist_ok=True)
        target.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
