"""Blocks of indented lines, which can be folded, searched and followed to exchanges."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.segment import Segment
from textual import events
from textual.message import Message

from kproxy.tui.actions import registry as actions
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.analysis import Block
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.tui.search.patterns import Sought

EXCHANGE: Final = re.compile(r"#([0-9]+)$")
"""An exchange's number, at the end of a line."""
FACTS: Final = "  "
"""Separates the facts of a line."""
FOLD_CELLS: Final = 2
HANGING: Final = 4
"""Cells by which the further lines of a wrapped text are indented."""


class Shown(NamedTuple):
    """A line on screen: `piece` is a wrapped part of line `line` in block `block`; `first` marks the first part."""

    block: int
    line: int
    first: bool
    piece: str


class Outline(Lines):
    """Shows blocks; when they change, the cursor stays on the same text of the same block."""

    CONTEXT = "outline"
    BINDINGS = actions.bindings("outline")

    class Moved(Message):
        """The cursor is on another line."""

    class Followed(Message):
        """Asks to show the exchange of the line under the cursor."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class FilterBy(Message):
        """Asks to show the exchanges that pass `tests`."""

        def __init__(self, tests: Sequence[str]) -> None:
            super().__init__()
            self.tests = tests

    class FindAsked(Message):
        """Asks for the find bar."""

    class DismissAsked(Message):
        """Asks to dismiss the finding that a block shows, or to undo that."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self.empty = ""
        self.dismisses = False
        """Whether blocks can be dismissed."""
        self.counts = False
        """Whether each line counts exchanges, which `enter` then shows."""
        self.beside_table = False
        """Whether it shows the details of a table's row."""
        self.sought: Sought | None = None
        self._blocks: Sequence[Block] = ()
        self._folded: set[Hashable] = set()
        self._shown: list[Shown] = []
        self._wrapped: dict[tuple[str, int], list[str]] = {}
        self._width = -1

    @property
    def count(self) -> int:
        self._reflow()
        return len(self._shown)

    @property
    def things(self) -> int:
        return len(self._blocks)

    def show(self, blocks: Sequence[Block]) -> None:
        """Show other blocks."""
        place = self._place()
        self._blocks = blocks
        self._width = -1
        self._return_to(place)
        self.content_changed()

    def moved(self) -> None:
        self.post_message(self.Moved())

    # lines on screen

    def _reflow(self) -> None:
        """Wrap the lines to the pane's width; not at all while it has none."""
        width = max(0, self.size.width - 1)
        if width == self._width:
            return
        # same blocks at another width keep the cursor here; for other blocks `_return_to` places it
        same = self._width >= 0 and self.cursor < len(self._shown)
        at = self._shown[self.cursor] if same else None
        old, self._wrapped = self._wrapped, {}
        self._width = width
        shown: list[Shown] = []
        for number, block in enumerate(self._blocks):
            lines = block.lines[:1] if block.key in self._folded else block.lines
            for line, text in enumerate(lines):
                key = (text, width)
                whole = self.cells.escape(text)
                pieces = old.get(key) or (_wrap(whole, width - FOLD_CELLS) if width else [whole])
                self._wrapped[key] = pieces
                shown += [Shown(number, line, first == 0, piece) for first, piece in enumerate(pieces)]
        self._shown = shown
        if at is not None:
            self.cursor = next(index for index, one in enumerate(shown) if (one.block, one.line) == (at.block, at.line))

    def _place(self) -> tuple[Hashable, int, str, int] | None:
        """Place of the cursor: key of the block, line, its text, row on screen."""
        if not 0 <= self.cursor < len(self._shown):
            return None
        at = self._shown[self.cursor]
        block = self._blocks[at.block]
        return block.key, at.line, block.lines[at.line], self.cursor - self.top

    def _return_to(self, place: tuple[Hashable, int, str, int] | None) -> None:
        """Put the cursor back to a place, or near it; a cursor on the first line stays on it."""
        self._reflow()
        if place is None or self.cursor == 0:
            return
        key, line, text, row = place
        number = next((number for number, block in enumerate(self._blocks) if block.key == key), None)
        if number is None:
            return
        lines = self._blocks[number].lines
        if text in lines:
            line = lines.index(text)
        if key in self._folded:
            line = 0
        before = (index for index, at in enumerate(self._shown) if at.block == number and at.first and at.line <= line)
        self.cursor = max(before, default=0)
        self.top = self.cursor - row

    def segments(self, index: int, width: int) -> list[Segment]:
        at = self._shown[index]
        block = self._blocks[at.block]
        heading = at.line == 0
        mark = " "
        if heading and at.first and len(block.lines) > 1:
            mark = self.cells.glyph("▸" if block.key in self._folded else "▾")
        text = self.cells.fit(at.piece, width - FOLD_CELLS)
        body, number = text, ""
        found = EXCHANGE.search(text.rstrip())
        if found:
            body, number = text[: found.start()], text[found.start() :]
        style = look.BOLD if heading else look.PLAIN
        return [Segment(f"{mark} ", look.DIM), Segment(body, style), Segment(number, look.NAME)]

    def beyond(self, line: int, width: int) -> list[Segment]:
        if self.count or line != 1:
            return []
        return [Segment(self.cells.fit(f"  {self.empty}", width))]

    def scroll_into_sight(self) -> bool:
        """Scroll so that all wrapped parts of the line under the cursor show."""
        scrolled = super().scroll_into_sight()
        last = self.cursor
        while last + 1 < self.count and not self._shown[last + 1].first:
            last += 1
        return self.set_top(max(self.top, min(last - self.rows + 1, self.cursor))) or scrolled

    # actions

    def action_move(self, by: int) -> None:
        """Move by whole lines, over their wrapped parts."""
        index = self.cursor + by
        while 0 <= index < self.count and not self._shown[index].first:
            index += by
        if index < self.count:
            self.move_to(index)

    def _under_cursor(self) -> tuple[Block, int] | None:
        if not 0 <= self.cursor < self.count:
            return None
        at = self._shown[self.cursor]
        return self._blocks[at.block], at.line

    @property
    def block(self) -> Block | None:
        """The block of the line under the cursor."""
        here = self._under_cursor()
        return None if here is None else here[0]

    @property
    def exchange(self) -> int | None:
        """Number of the exchange that the line under the cursor names; None if it names none."""
        here = self._under_cursor()
        return None if here is None else _exchange(here[0].lines[: here[1] + 1])

    def action_enter(self) -> None:
        here = self._under_cursor()
        if here is None:
            return
        block, line = here
        number = self.exchange
        if number is not None:
            self.post_message(self.Followed(number))
        elif line == 0:
            self._fold(block, fold=block.key not in self._folded)
        elif self.counts and block.filters[line]:
            self.action_filter_by()

    def action_filter_by(self) -> None:
        here = self._under_cursor()
        if here is not None:
            self.post_message(self.FilterBy(here[0].filters[here[1]]))

    def action_dismiss(self) -> None:
        here = self._under_cursor()
        if here is not None:
            self.post_message(self.DismissAsked(here[0]))

    def action_fold(self) -> None:
        here = self._under_cursor()
        if here is not None:
            self._fold(here[0], fold=True)

    def action_unfold(self) -> None:
        here = self._under_cursor()
        if here is not None:
            self._fold(here[0], fold=False)

    def _fold(self, block: Block, *, fold: bool) -> None:
        if len(block.lines) < 2 or (block.key in self._folded) == fold:
            return
        place = self._place()
        (self._folded.add if fold else self._folded.discard)(block.key)
        self._refold(place)

    def action_fold_all(self) -> None:
        place = self._place()
        self._folded = {block.key for block in self._blocks if len(block.lines) > 1}
        self._refold(place)

    def action_unfold_all(self) -> None:
        place = self._place()
        self._folded.clear()
        self._refold(place)

    def _refold(self, place: tuple[Hashable, int, str, int] | None) -> None:
        self._width = -1
        self._return_to(place)
        self.content_changed()

    def action_find(self) -> None:
        self.post_message(self.FindAsked())

    def action_found(self, by: int) -> None:
        """Go to the next (1) or previous (-1) matching line, in folded blocks too."""
        sought = self.sought
        if sought is None or not self._blocks:
            return
        places = [(number, line) for number, block in enumerate(self._blocks) for line in range(len(block.lines))]
        at = self._shown[self.cursor] if self.cursor < self.count else Shown(0, 0, True, "")
        start = places.index((at.block, at.line))
        for step in range(1, len(places) + 1):
            number, line = places[(start + by * step) % len(places)]
            block = self._blocks[number]
            if sought.in_text(block.lines[line]):
                if line:
                    self._fold(block, fold=False)
                self.move_to(next(i for i, one in enumerate(self._shown) if (one.block, one.line) == (number, line)))
                return
        self.notify(f"not found here: {sought.words}", timeout=3)

    def clicked(self, event: events.Click) -> None:
        if event.chain == 2:
            self.action_enter()


def _exchange(lines: Sequence[str]) -> int | None:
    """The exchange number that ends the last of `lines`, or the nearest line above with less indentation; else None."""
    room = len(lines[-1]) + 1
    for text in reversed(lines):
        indent = len(text) - len(text.lstrip(" "))
        if indent >= room:
            continue
        room = indent
        if found := EXCHANGE.search(text):
            return int(found[1])
    return None


def _wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` characters, cut between facts if they fit; further lines are indented."""
    if len(text) <= width:
        return [text]
    body = text.lstrip(" ")
    indent = " " * (len(text) - len(body))
    further = indent + " " * HANGING
    lines = [indent]
    facts = body.split(FACTS)
    if EXCHANGE.fullmatch(facts[-1]):
        facts[-2:] = [FACTS.join(facts[-2:])]
    for fact in facts:
        line = lines[-1]
        joined = line + fact if line in {indent, further} else line + FACTS + fact
        if len(joined) <= width:
            lines[-1] = joined
            continue
        # a line less than half full is joined with the fact, so that a word or two do not stand alone
        alone = len(line) >= width // 2
        if not alone:
            lines.pop()
        lines += wrap(
            fact if alone else joined.lstrip(" "),
            max(20, width),
            initial_indent=further if lines else indent,
            subsequent_indent=further,
            break_on_hyphens=False,
        )
    return lines or [""]
