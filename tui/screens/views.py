"""Topics, groups, transactions, connections, cluster and health: what the exchanges come to, line by line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container

from captures.export.text import size_text
from tui import look
from tui.actions import SCREENS
from tui.analysis import Analysis
from tui.captions import Captions
from tui.cells import Cells
from tui.health import Health
from tui.screens.base import KproxyScreen
from tui.widgets.chrome import Bar, HelpBar, Part
from tui.widgets.find_bar import FindBar
from tui.widgets.outline import Outline

TICK = 0.25
"""Seconds between looks at what is to be shown."""


class ViewScreen(KproxyScreen):
    """A screen of lines; a subclass says where they come from."""

    CSS = """
    .-tiny #screens, .-tiny #outline, .-tiny #find { display: none; }
    """

    def __init__(self, view: str, cells: Cells, captions: Captions) -> None:
        super().__init__(cells, captions)
        self.view = view
        self._sought = ""

    def compose(self) -> ComposeResult:
        with Container(id="root"):
            yield Bar(self._cells, fill=look.TITLE, id="title")
            yield Bar(self._cells, id="screens")
            yield Outline(self._cells, id="outline")
            yield FindBar(id="find")
            yield Bar(self._cells, id="status")
            yield HelpBar(self._cells, id="keys")
            yield Bar(self._cells, id="small")

    def on_mount(self) -> None:
        self.query_one("#screens", Bar).show((self._tabs(), []))
        self.pane.focus()
        self._mark_tiny()
        self._tick()
        self.set_interval(TICK, self._tick)

    @property
    def pane(self) -> Outline:
        return self.query_one(Outline)

    def refreshed(self) -> bool:
        """Take in what is new; called while the screen is looked at."""
        raise NotImplementedError

    def told(self) -> list[Part]:
        """What the status line says of the lines."""
        raise NotImplementedError

    # the lines around

    def _tabs(self) -> list[Part]:
        parts: list[Part] = [(" ", look.PLAIN)]
        for name, (key, title, _) in SCREENS.items():
            style = look.CURSOR if name == self.view else look.PLAIN
            parts += [(key, look.KEY if name != self.view else look.CURSOR), (f" {title}", style), ("  ", look.PLAIN)]
        return parts

    def _tick(self) -> None:
        if self.is_current:
            self.refreshed()
            self._show_chrome()

    def _show_chrome(self) -> None:
        if not self.is_mounted:
            return
        pane = self.pane
        self.query_one("#title", Bar).show(self._captions.title(self.app.size.width))
        parts: list[Part] = [(f" {pane.cursor + 1 if pane.count else 0:,}/{pane.count:,}", look.BOLD), *self.told()]
        if pane.sought:
            parts.append((f"  [find: {pane.sought}]", look.PLAIN))
        self.query_one("#status", Bar).show((parts, []))
        self.query_one(HelpBar).show_for(self.context, self.focused, self)

    def on_screen_resume(self) -> None:
        self._mark_tiny()
        self._tick()
        self.call_after_refresh(self._keep_focus)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._mark_tiny()
        self._show_chrome()
        # what was hidden can take the focus once the new styles are in force
        self.call_after_refresh(self._keep_focus)

    def _keep_focus(self) -> None:
        """Give the lines the focus that they lost while the terminal was too small."""
        if self.focused is None and not self._root.has_class("-tiny"):
            self.pane.focus()

    def on_descendant_focus(self) -> None:
        self._show_chrome()

    # messages

    @on(Outline.Moved)
    def _moved(self, event: Outline.Moved) -> None:
        event.stop()
        self._show_chrome()

    @on(Outline.Followed)
    def _followed(self, event: Outline.Followed) -> None:
        event.stop()
        self.follow(event.number)

    def follow(self, number: int) -> None:
        """Go to an exchange."""
        if not self.app.lead_to(number, self.view):
            self.notify(f"exchange {number} is not in the list", timeout=3)

    @on(Outline.FilterBy)
    def _filter_by(self, event: Outline.FilterBy) -> None:
        event.stop()
        text = filter_text(event.tests)
        if text:
            self.app.filter_by(text, self.view)
        else:
            self.notify("no filter finds the exchanges of this line", timeout=3)

    @on(Outline.FindAsked)
    def _find_asked(self, event: Outline.FindAsked) -> None:
        event.stop()
        self.query_one(FindBar).open()

    @on(FindBar.Done)
    def _find(self, event: FindBar.Done) -> None:
        event.stop()
        self.query_one(FindBar).close()
        self.pane.focus()
        if event.text:
            self.pane.sought = event.text
            self.pane.action_found(1)
        self._show_chrome()

    def action_back(self) -> None:
        self.app.go("exchanges")


def filter_text(tests: Sequence[str]) -> str:
    """Those of the tests that the filter language knows, as one filter."""
    from decoders.filters import parse

    return " and ".join(test for test in tests if parse(test).expression is not None)


class AnalysisScreen(ViewScreen):
    """A view that the analysis adds up."""

    def __init__(self, view: str, cells: Cells, captions: Captions, analysis: Analysis) -> None:
        super().__init__(view, cells, captions)
        self._analysis = analysis
        self._facts: dict[str, Any] | None = None

    def refreshed(self) -> bool:
        self._analysis.start()
        snapshot = self._analysis.snapshot(self.view)
        if snapshot is None:
            self.pane.empty = "Reading the capture"
            return False
        self._facts = snapshot.facts
        done = snapshot.facts["state"] in {"complete", "failed"}
        self.pane.empty = "Nothing of this in the capture." if done else "Nothing of this yet"
        self.pane.show(snapshot.blocks)
        return True

    def told(self) -> list[Part]:
        if self._analysis.died:
            return [("  the process that adds up has failed", look.SEVERITY["E"])]
        facts = self._facts
        if facts is None:
            return [("  reading", look.DIM)]
        parts: list[Part] = []
        if facts["error"]:
            parts.append((f"  {facts['error']}", look.SEVERITY["E"]))
        if facts["state"] == "reading":
            total = facts["bytes_total"]
            percent = f" {100 * facts['bytes_read'] // total} %" if total else ""
            parts.append((f"  reading{percent}  {size_text(facts['bytes_read'])}B", look.PLAIN))
        parts.append((f"  of {facts['exchanges']:,} exchanges", look.DIM))
        if facts["left_out"]:
            parts.append((f"  {facts['left_out']:,} more are not shown", look.SEVERITY["W"]))
        if facts["renumbered"]:
            parts.append(("  counted anew: the beginning was overwritten", look.SEVERITY["W"]))
        return parts

    def follow(self, number: int) -> None:
        if self._facts is not None and self._facts["renumbered"]:
            self.notify("exchanges are counted anew here: the beginning was overwritten", timeout=4)
        else:
            super().follow(number)


class HealthScreen(ViewScreen):
    """How well the capture could be read."""

    def __init__(self, view: str, cells: Cells, captions: Captions, health: Health) -> None:
        super().__init__(view, cells, captions)
        self._health = health
        self._looked = 0.0

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

    def told(self) -> list[Part]:
        return self._captions.progress()
