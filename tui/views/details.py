"""The details of a table's row: its view's JSON object as lines of text, with a timeline."""

from __future__ import annotations

from typing import Any

from kproxy.captures.analysis.blocks import block
from kproxy.captures.analysis.timelines import timeline
from kproxy.captures.views import Line
from kproxy.tui.views.analysis import Block, Timeline, TimeRow, block_of


def details(view: str, line: Line) -> Block:
    """A view's JSON object as a block, with its timeline."""
    drawn = timeline(line)
    return block_of(block(view, line), None if drawn is None else _timeline(drawn))


def _timeline(data: dict[str, Any]) -> Timeline:
    rows = tuple(
        TimeRow(row["name"], *(tuple(map(tuple, row[part])) for part in ("spans", "marks", "levels")))
        for row in data["rows"]
    )
    return Timeline(data["title"], data["from"], data["to"], rows, data["more"])
