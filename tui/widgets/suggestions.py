"""The list of suggestions below the filter's input line; it never has the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message

from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.decoders.filters import Candidate

MOST_ROWS = 10
MOST_CELLS = 90
LEFT = 7
"""Column in which the list begins, so that candidates stand below the typed text."""
MOST_TEXT = 44
"""Maximum number of cells that a candidate's text takes; its description stands beside it."""


class Suggestions(Lines, can_focus=False):
    """Candidates with their description or count; `chosen` says whether the user has moved to one."""

    CONTEXT = "filter"
    DEFAULT_CSS = """
    Suggestions { overlay: screen; constrain: inside; offset: 7 0; display: none; background: ansi_default; }
    Suggestions.-open { display: block; }
    """

    class Taken(Message):
        """A candidate was clicked."""

    def __init__(self, cells: Cells) -> None:
        super().__init__(cells)
        self.chosen = False
        self._candidates: tuple[Candidate, ...] = ()

    @property
    def count(self) -> int:
        return len(self._candidates)

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    @property
    def candidate(self) -> Candidate | None:
        """The marked candidate; None if there is none."""
        return self._candidates[self.cursor] if self.is_open and self._candidates else None

    def offer(self, candidates: tuple[Candidate, ...]) -> None:
        """Show candidates; () closes the list. A candidate that the user has marked stays marked if still there."""
        marked = self._candidates[self.cursor].text if self.chosen and self._candidates else None
        self._candidates = candidates
        texts = [one.text for one in candidates]
        self.cursor = texts.index(marked) if marked in texts else 0
        self.chosen = marked in texts
        if candidates:
            width = self.app.size.width
            self.styles.height = min(MOST_ROWS, len(candidates))
            self.styles.width = min(MOST_CELLS, width - LEFT)
        self.set_class(bool(candidates), "-open")
        self.content_changed()

    def close(self) -> None:
        self.chosen = False
        self.offer(())

    def choose(self, by: int) -> None:
        """Mark another candidate; the first call marks the first one."""
        self.move_to(self.cursor + by if self.chosen else max(0, self.cursor + by - 1))
        self.chosen = True
        self.refresh_line(self.cursor)

    def cursor_style(self) -> Style:
        return look.CURSOR if self.chosen else look.CURSOR_AWAY

    def line_key(self, index: int) -> None:
        del index  # counts change while the list is open

    def segments(self, index: int, width: int) -> list[Segment]:
        one = self._candidates[index]
        edge = self.cells.glyph("│")
        mark = ">" if index == self.cursor else " "
        texts = max((len(each.text) for each in self._candidates[:MOST_ROWS]), default=0)
        room = max(1, min(MOST_TEXT, texts, width // 2))
        text = self.cells.fit(one.text, max(room, min(len(one.text), width // 2)))
        said = f"{one.count:,}" if one.count is not None else "for example" if one.kind == "example" else one.doc
        rest = width - len(text) - 5
        style = look.DIM if one.kind == "example" else look.PLAIN
        return [
            Segment(f"{edge}{mark}", look.DIM),
            Segment(text, style),
            Segment("  "),
            Segment(self.cells.fit(said, rest), look.DIM),
            Segment(edge, look.DIM),
        ]

    def clicked(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Taken())
