"""A screen as text: the grid of characters that a person would see, and the styles that matter."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from textual.app import App

from tests.support.patience import SECONDS

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "UPDATE_SNAPSHOTS"
"""Environment variable that writes the snapshots instead of comparing with them."""


STILL_SECONDS = 1.0
"""Within which a screen does settle while snapshots are written."""


def grid(app: App[Any]) -> list[str]:
    """The lines of what is painted now, without trailing blanks."""
    width, height = app.size
    lines = []
    for strip in app.screen._compositor.render_strips():
        assert strip.cell_length == width
        lines.append("".join(segment.text for segment in strip).rstrip())
    assert len(lines) == height
    return lines


def is_painted(app: App[Any]) -> bool:
    """Whether there is a grid: while screens change they have no size, or that of before."""
    width, height = app.size
    return [strip.cell_length for strip in app.screen._compositor.render_strips()] == [width] * height


def styled(app: App[Any], attribute: str) -> list[str]:
    """The texts on screen that are painted with an attribute ("reverse", "underline") or a colour ("red")."""
    found = []
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            style = segment.style
            if style is None or not segment.text.strip():
                continue
            if getattr(style, attribute, False) or (style.color is not None and style.color.name == attribute):
                found.append(segment.text.strip())
    return found


def name(what: str, size: tuple[int, int]) -> str:
    """The snapshot's of something in a size."""
    return f"{what}-{size[0]}x{size[1]}"


def assert_snapshot(app: App[Any], name: str) -> None:
    """Compare the grid with tests/tui/snapshots/NAME.txt."""
    seen = "\n".join(grid(app)) + "\n"
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get(UPDATE):
        path.write_text(seen, encoding="utf-8")
    assert path.exists(), f"{path} is missing; {UPDATE}=1 writes it"
    assert seen.splitlines() == path.read_text(encoding="utf-8").splitlines()


async def assert_settles(app: App[Any], name: str) -> None:
    """Wait until the grid is the snapshot: what is read, and what is judged after a while, may not be painted yet."""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get(UPDATE):
        await asyncio.sleep(STILL_SECONDS)
    expected = path.read_text(encoding="utf-8").splitlines() if path.exists() else None
    deadline = time.monotonic() + (0 if os.environ.get(UPDATE) else SECONDS)
    while not (is_painted(app) and grid(app) == expected) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
        app.screen._on_timer_update()
    assert_snapshot(app, name)
