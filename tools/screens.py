"""Draws docs/screens from a capture of the tests: python -m tools.screens."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tui.app import KproxyApp

ROOT = Path(__file__).parent.parent
CAPTURE = ROOT / "tests" / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
SIZE = (120, 36)
FILTER = "not api in (ApiVersions, Metadata)"
DOWN = 19
"""Rows from the first one to the one that is opened."""


async def draw(index: Path) -> str:
    """The exchange list with a response open and a filter applied, as SVG."""
    app = KproxyApp(index, filter_text=FILTER, ascii_only=False)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("g", *["j"] * DOWN, "enter")
        await pilot.press(*["j"] * 10)
        await pilot.pause()
        return app.export_screenshot(title="kproxy")


def main() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as directory:
        index = Path(directory) / "index"
        subprocess.run(
            [sys.executable, "-m", "captures.index.indexer", str(CAPTURE), str(index)], check=True, timeout=60
        )
        text = asyncio.run(draw(index))
    # The font is the viewer's own: a picture in a repository fetches nothing.
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)
    target = ROOT / "docs" / "screens" / "exchanges.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
