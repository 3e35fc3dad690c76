"""The screens Findings and Health: blocks of lines; and what they share with the screens that have tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.widget import Widget

from kproxy.tui.captions import Captions
from kproxy.tui.output.copying import Copy
from kproxy.tui.screens.asking import Asking
from kproxy.tui.screens.tabbed import TabbedScreen, read_so_far, why_empty
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.views.analysis import Analysis, Block
from kproxy.tui.views.health import Health
from kproxy.tui.widgets.chrome import Part
from kproxy.tui.widgets.find_bar import FindBar
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.outline import Outline
from kproxy.tui.widgets.preview import Preview
from kproxy.tui.widgets.timeline import TimelinePane

if TYPE_CHECKING:
    from kproxy.tui.screens.exporting import Exporting
    from kproxy.tui.screens.shared import Shared
    from kproxy.tui.search import patterns
    from kproxy.tui.views.findings import Found


class ViewScreen(TabbedScreen):
    """An outline with a timeline below; a subclass supplies the lines."""

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting) -> None:
        super().__init__(view, cells, captions, exporting)
        self._asking = Asking(self, lambda pane: (pane or self.pane).focus())

    def content(self) -> Iterator[Widget]:
        yield Outline(self._cells, id="outline", classes="content")
        yield TimelinePane(self._cells, id="timeline", classes="content")
        yield FindBar(id="find", classes="content")

    @property
    def pane(self) -> Lines:
        return self.outline

    @property
    def outline(self) -> Outline:
        return self.query_one(Outline)

    def copies(self) -> list[Copy]:
        """Copies of the line under the cursor and of all lines about its subject."""
        outline = self.outline
        if outline.cursor >= outline.count or outline.block is None:
            return []
        line, whole = outline.line_text(outline.cursor), "\n".join(outline.block.lines)
        return [Copy("line", line, lambda: line), Copy("all lines", "of what the line is about", lambda: whole)]

    def facts_told(self) -> list[Part]:
        """Parts of the status line about the reading that the lines come from."""
        raise NotImplementedError

    def status_parts(self) -> list[Part]:
        sought = self.outline.sought
        return [*self.facts_told(), *([(f"  [find: {sought.words}]", look.PLAIN)] if sought is not None else ())]

    def _draw(self) -> None:
        """Draw the timeline of the block under the cursor."""
        block = self.outline.block
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
        self.outline.sought = sought
        self.outline.action_found(1)

    @on(FindBar.Done)
    def _answered(self, event: FindBar.Done) -> None:
        self._asking.answer(event)


class AnalysisScreen(ViewScreen):
    """A screen whose content comes from the analysis process."""

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting, analysis: Analysis) -> None:
        super().__init__(view, cells, captions, exporting)
        self._analysis = analysis
        self._facts: dict[str, Any] | None = None

    def forget(self) -> None:
        self._facts = None

    def facts_told(self) -> list[Part]:
        return read_so_far(self._facts, died=self._analysis.died)

    def filter_by(self, tests: Sequence[str]) -> None:
        """Show the exchanges that pass all `tests`.

        If exchanges were renumbered, tests of exchange numbers are left out, as they would select other exchanges.
        """
        renumbered = self._facts is not None and self._facts["renumbered"]
        super().filter_by([test for test in tests if not (renumbered and test.startswith("exchange "))])

    def follow(self, number: int) -> None:
        if self._facts is not None and self._facts["renumbered"]:
            self.notify("exchanges are counted again here: the beginning was overwritten", timeout=4)
        else:
            super().follow(number)


class FindingsScreen(AnalysisScreen):
    """The Findings screen, on which findings can be dismissed; dismissed ones come last, one line each.

    Below the lines is the exchange that the line under the cursor names.
    """

    def __init__(
        self, view: str, cells: Cells, captions: Captions, exporting: Exporting, analysis: Analysis, found: Found,
        shared: Shared,
    ) -> None:  # fmt: skip
        super().__init__(view, cells, captions, exporting, analysis)
        self._found = found
        self._shared = shared
        self._blocks: Sequence[Block] = ()

    def content(self) -> Iterator[Widget]:
        for widget in super().content():
            if isinstance(widget, Outline):
                widget.dismisses = True
            yield widget
            if isinstance(widget, Outline):
                yield Preview(self._cells, self._shared, id="preview", classes="content")

    def copies(self) -> list[Copy]:
        return [*super().copies(), *self._exporting.commands("findings")]

    def refreshed(self) -> bool:
        self._analysis.start()
        snapshot = self._analysis.snapshot(self.view)
        if snapshot is None:
            if self._facts is None:
                self.outline.empty = "Reading the capture"
            # the first blocks may come before the pane has a width, and then there is no cursor line to draw for
            self._draw()
            return False
        self._facts = snapshot.facts
        self.outline.empty = why_empty(snapshot.facts)
        self.show_blocks(snapshot.blocks)
        self._draw()
        return True

    def show_blocks(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        kept = [block for block in blocks if not self._found.is_dismissed(_finding_of(block))]
        dismissed = [block for block in blocks if self._found.is_dismissed(_finding_of(block))]
        self.outline.show([*kept, *map(_in_short, dismissed)])

    def _draw(self) -> None:
        super()._draw()
        renumbered = self._facts is not None and self._facts["renumbered"]
        self.query_one(Preview).show_exchange(None if renumbered else self.outline.exchange)

    def on_resize(self, event: events.Resize) -> None:
        del event  # the base class takes it too
        self._draw()

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
    """The Health screen: how well the capture could be read, whatever times are shown."""

    LIMITED = False

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting, health: Health) -> None:
        super().__init__(view, cells, captions, exporting)
        self._health = health
        self._looked = 0.0

    def content(self) -> Iterator[Widget]:
        for widget in super().content():
            if isinstance(widget, Outline):
                widget.counts = True
            yield widget

    def copies(self) -> list[Copy]:
        # the last line of an export is the health
        return [*super().copies(), *self._exporting.commands("export", limited=False, piped=" | tail -n 1")]

    def refreshed(self) -> bool:
        now = time.monotonic()
        if now - self._looked < 1.0:
            return False
        self._looked = now
        blocks = self._health.blocks()
        if blocks is None:
            return False
        self.outline.show(blocks)
        return True

    def facts_told(self) -> list[Part]:
        return self._captions.progress()
