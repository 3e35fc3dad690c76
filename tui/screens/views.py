"""The screens Topics, Groups, Transactions, Connections, Cluster and Health: analyses of all exchanges as lines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.widget import Widget

from kproxy.tui.captions import Captions
from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.tabbed import TabbedScreen, read_so_far, why_empty
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.analysis import Analysis, Block
from kproxy.tui.views.health import Health
from kproxy.tui.widgets.chrome import Part
from kproxy.tui.widgets.find_bar import FindBar
from kproxy.tui.widgets.outline import Outline
from kproxy.tui.widgets.timeline import TimelinePane

if TYPE_CHECKING:
    from kproxy.tui.search import patterns
    from kproxy.tui.views.findings import Found


class ViewScreen(TabbedScreen):
    """An outline with a timeline below; a subclass supplies the lines."""

    def __init__(self, view: str, cells: Cells, captions: Captions) -> None:
        super().__init__(view, cells, captions)
        self._asking = Asking(self, lambda _: self.pane.focus())

    def content(self) -> Iterator[Widget]:
        yield Outline(self._cells, id="outline", classes="content")
        yield TimelinePane(self._cells, id="timeline", classes="content")
        yield FindBar(id="find", classes="content")

    @property
    def pane(self) -> Outline:
        return self.query_one(Outline)

    def facts_told(self) -> list[Part]:
        """Parts of the status line about the reading that the lines come from."""
        raise NotImplementedError

    def status_parts(self) -> list[Part]:
        sought = self.pane.sought
        return [*self.facts_told(), *([(f"  [find: {sought.words}]", look.PLAIN)] if sought is not None else ())]

    def _draw(self) -> None:
        """Draw the timeline of the block under the cursor."""
        block = self.pane.block
        self.query_one(TimelinePane).show(None if block is None else block.timeline)

    # messages

    @on(Outline.Moved)
    def _moved(self, event: Outline.Moved) -> None:
        event.stop()
        self._draw()
        self.show_chrome()

    @on(Outline.Followed)
    def _followed(self, event: Outline.Followed) -> None:
        event.stop()
        self.follow(event.number)

    def follow(self, number: int) -> None:
        """Go to an exchange in the list."""
        if not self.app.lead_to(number, self.view):
            self.notify(f"exchange {number} is not in the list", timeout=3)

    @on(Outline.FilterBy)
    def _filter_asked(self, event: Outline.FilterBy) -> None:
        event.stop()
        self.filter_by(event.tests)

    @on(Outline.FindAsked)
    def _find_asked(self, event: Outline.FindAsked) -> None:
        event.stop()
        self._asking.ask(self._read)

    def _read(self, text: str) -> Callable[[], None] | None:
        if not text:
            return None
        from kproxy.tui.search import patterns

        return partial(self._find, patterns.read(text))

    def _find(self, sought: patterns.Sought) -> None:
        self.pane.sought = sought
        self.pane.action_found(1)

    @on(FindBar.Done)
    def _answered(self, event: FindBar.Done) -> None:
        self._asking.answer(event)


class AnalysisScreen(ViewScreen):
    """A screen whose lines come from the analysis process."""

    def __init__(self, view: str, cells: Cells, captions: Captions, analysis: Analysis) -> None:
        super().__init__(view, cells, captions)
        self._analysis = analysis
        self._facts: dict[str, Any] | None = None

    def refreshed(self) -> bool:
        self._analysis.start()
        snapshot = self._analysis.snapshot(self.view)
        if snapshot is None:
            if self._facts is None:
                self.pane.empty = "Reading the capture"
            # the first lines come before the pane has a width, without which no line is under the cursor
            self._draw()
            return False
        self._facts = snapshot.facts
        self.pane.empty = why_empty(snapshot.facts)
        self.show_blocks(snapshot.blocks)
        self._draw()
        return True

    def show_blocks(self, blocks: Sequence[Block]) -> None:
        """Show the blocks of a new snapshot."""
        self.pane.show(blocks)

    def facts_told(self) -> list[Part]:
        return read_so_far(self._facts, died=self._analysis.died)

    def filter_by(self, tests: Sequence[str]) -> None:
        """Leave out tests of exchange numbers if exchanges were renumbered, as they would select the wrong ones."""
        renumbered = self._facts is not None and self._facts["renumbered"]
        super().filter_by([test for test in tests if not (renumbered and test.startswith("exchange "))])

    def follow(self, number: int) -> None:
        if self._facts is not None and self._facts["renumbered"]:
            self.notify("exchanges are counted anew here: the beginning was overwritten", timeout=4)
        else:
            super().follow(number)


class FindingsScreen(AnalysisScreen):
    """The Findings screen, on which findings can be dismissed; dismissed ones come last, one line each."""

    def __init__(self, view: str, cells: Cells, captions: Captions, analysis: Analysis, found: Found) -> None:
        super().__init__(view, cells, captions, analysis)
        self._found = found
        self._blocks: Sequence[Block] = ()

    def content(self) -> Iterator[Widget]:
        for widget in super().content():
            if isinstance(widget, Outline):
                widget.dismisses = True
            yield widget

    def show_blocks(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        kept = [block for block in blocks if not self._found.is_dismissed(_finding_of(block))]
        dismissed = [block for block in blocks if self._found.is_dismissed(_finding_of(block))]
        self.pane.show([*kept, *map(_in_short, dismissed)])

    @on(Outline.DismissAsked)
    def _dismiss_asked(self, event: Outline.DismissAsked) -> None:
        event.stop()
        finding = _finding_of(event.block)
        trouble = self._found.dismiss(finding, on=not self._found.is_dismissed(finding))
        if trouble:
            self.notify(trouble, timeout=4)
        self.show_blocks(self._blocks)
        self.show_chrome()


def _finding_of(block: Block) -> str:
    """The id of the finding that a block shows."""
    return str(json.loads(str(block.key))[1])


def _in_short(block: Block) -> Block:
    return Block(block.key, (f"dismissed  {block.lines[0]}",), block.filters[:1])


class HealthScreen(ViewScreen):
    """The Health screen: how well the capture could be read."""

    def __init__(self, view: str, cells: Cells, captions: Captions, health: Health) -> None:
        super().__init__(view, cells, captions)
        self._health = health
        self._looked = 0.0

    def content(self) -> Iterator[Widget]:
        for widget in super().content():
            if isinstance(widget, Outline):
                widget.counts = True
            yield widget

    def refreshed(self) -> bool:
        now = time.monotonic()
        if now - self._looked < 1.0:
            return False
        self._looked = now
        blocks = self._health.blocks()
        if blocks is None:
            return False
        self.pane.show(blocks)
        return True

    def facts_told(self) -> list[Part]:
        return self._captions.progress()
