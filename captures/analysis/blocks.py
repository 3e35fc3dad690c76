"""JSON objects of views as blocks of text, for the panes that show one thing at a time.

A block is one thing, such as a group, with its details: {"key": what identifies it across snapshots, "lines": texts as
in captures.analysis.display, "filters": for each line the display filters that select its exchanges}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kproxy.captures.analysis.texts import view_text
from kproxy.captures.text import local
from kproxy.captures.views import VIEWS, Line

MOST_LINES: Final = 5_000
"""Maximum number of lines of the blocks of a view."""


def block(view: str, line: Line) -> dict[str, Any]:
    """A JSON object of a view as a block, by the local clock."""
    kind = VIEWS[view].kinds[line["schema"]]
    texts = list(view_text(view, [line], local))
    found = list(kind.filters(line))
    found += [found[0] if found else []] * (len(texts) - len(found))
    key = [line["schema"], *(line[member] for member in kind.members)]
    return {"key": key, "lines": texts, "filters": found}


def blocks(view: str, lines: Iterable[Line]) -> dict[str, Any]:
    """{"blocks", "left_out"} of a view: blocks with at most MOST_LINES lines in all, and the number of those left out.

    The last block is cut if it does not fit.
    """
    shown: list[dict[str, Any]] = []
    room, left_out = MOST_LINES, 0
    for line in lines:
        if room <= 0:
            left_out += 1
            continue
        made = block(view, line)
        for member in ("lines", "filters"):
            del made[member][room:]
        room -= len(made["lines"])
        if shown and made["lines"][0].startswith(" "):
            # indented: an event that belongs to the block above
            for member in ("lines", "filters"):
                shown[-1][member] += made[member]
        else:
            shown.append(made)
    return {"left_out": left_out, "blocks": shown}
