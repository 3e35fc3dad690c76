"""The base of all screens but the exchanges: names of the screens, status line, regular refresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.widget import Widget

from kproxy.captures.text import size_text
from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.registry import SCREENS
from kproxy.tui.listing.times import zone_of
from kproxy.tui.output.copying import Copy
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.screens.copying import Copying
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, HelpBar, Part
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.painted import Ground

if TYPE_CHECKING:
    from kproxy.tui.captions import Captions
    from kproxy.tui.screens.exporting import Exporting
    from kproxy.tui.screens.menu import Asked

TICK = 0.25
"""Seconds between refreshes of the content."""
ROOMY_COLUMNS = 110
"""Smallest width, in cells, at which the names of the screens are spaced out."""


def letters(width: int, chosen: str) -> int:
    """The length to which screens' names are cut so that all fit into `width` cells; `chosen` is never cut."""

    def cells(most: int) -> int:
        return sum(
            len(key) + 1 + (len(title) if name == chosen else min(len(title), most))
            for name, (key, title, _) in SCREENS.items()
        )

    longest = max(len(title) for _, title, _ in SCREENS.values())
    return next((most for most in range(longest, 0, -1) if cells(most) <= width), 0)


class TabbedScreen(KproxyScreen):
    """A screen of SCREENS other than the exchanges; a subclass supplies panes and content."""

    CONTEXTS: ClassVar[tuple[str, ...]] = ("app", "copying")
    BINDINGS: ClassVar = actions.bindings("copying")
    LIMITED: ClassVar[bool] = True
    """Whether the application's period limits the screen."""
    CSS = """
    .-tiny #screens, .-tiny .content { display: none; }
    """

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting) -> None:
        """`exporting` makes the commands that read the same captures as this screen."""
        super().__init__(cells, captions)
        self.view = view
        self._exporting = exporting
        self.take_actions(Copying(self, cells, self.copies))

    def compose(self) -> ComposeResult:
        with Ground(id="root"):
            yield Bar(self._cells, fill=look.TITLE, id="title")
            yield Bar(self._cells, id="screens")
            yield from self.content()
            yield Bar(self._cells, id="status")
            yield HelpBar(self._cells, id="keys")
            yield Bar(self._cells, id="small")

    def on_mount(self) -> None:
        self.pane.focus()
        self._lay_out()
        self._tick()
        self.set_interval(TICK, self._tick)

    # implemented by a subclass

    def content(self) -> Iterator[Widget]:
        """The widgets between the names of the screens and the status line; each has the CSS class "content"."""
        raise NotImplementedError

    @property
    def pane(self) -> Lines:
        """The pane that gets the focus at first and whose cursor position the status line shows."""
        raise NotImplementedError

    def refreshed(self) -> bool:
        """Show new content; returns whether there was any. Called every TICK while the screen is shown."""
        raise NotImplementedError

    def status_parts(self) -> list[Part]:
        """Parts of the status line about the content."""
        raise NotImplementedError

    def copies(self) -> list[Copy]:
        """What can be copied now, first what the key `y` copies."""
        raise NotImplementedError

    def forget(self) -> None:
        """Discard the counts, because the period has changed; the screen shows them until there are new counts."""

    # the lines around

    def _tabs(self) -> list[Part]:
        width = self.app.size.width
        roomy = width >= ROOMY_COLUMNS
        cut = letters(width, self.view)
        parts: list[Part] = [(" " if roomy else "", look.PLAIN)]
        for name, (key, title, _) in SCREENS.items():
            chosen = name == self.view
            short = title if chosen else title[:cut]
            goes = f"app.go('{name}')"
            parts.append((key, look.pressed(look.CURSOR if chosen else look.KEY, goes)))
            parts.append((f" {short}" if roomy else short, look.pressed(look.CURSOR if chosen else look.PLAIN, goes)))
            parts.append(("  " if roomy else " ", look.PLAIN))
        return parts

    def _tick(self) -> None:
        if self.is_current:
            self.refreshed()
            self.show_chrome()

    def show_chrome(self) -> None:
        if not self.stands:
            return
        pane = self.pane
        self.query_one("#title", Bar).show(self._captions.title(self.app.size.width))
        self.query_one("#screens", Bar).show((self._tabs(), []))
        place: Part = (f" {pane.cursor + 1 if pane.count else 0:,}/{pane.count:,}", look.BOLD)
        index = self._captions.index
        clock = zone_of(index) if index is not None else ""
        right: list[Part] = [(f"times {clock} ", look.DIM)] if clock else []
        limits = self._captions.limits() if self.LIMITED else []
        self.query_one("#status", Bar).show(([place, *self.status_parts(), *limits], right))
        self.query_one(HelpBar).show_for(self.context, self.focused, self)

    def _lay_out(self) -> None:
        self._mark_tiny()

    def on_screen_resume(self) -> None:
        self._lay_out()
        self._tick()
        self.call_after_refresh(self._keep_focus)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._lay_out()
        self.show_chrome()
        # a pane that was hidden can take the focus only once the new styles are applied
        self.call_after_refresh(self._keep_focus)

    def _keep_focus(self) -> None:
        """Give the pane back the focus that it lost while the terminal was too small."""
        if self.focused is None and not self._root.has_class("-tiny"):
            self.pane.focus()

    def on_descendant_focus(self) -> None:
        self.show_chrome()

    def filter_by(self, tests: Sequence[str]) -> None:
        """Show the exchanges that pass all `tests`; tests that are no valid filters are left out.

        If a filter is applied already, a menu asks how to join them to it.
        """
        known = known_tests(tests)
        applied = self.app.applied_filter
        if not known:
            self.notify("no filter finds the exchanges of this line", timeout=3)
        elif not applied:
            self.app.filter_by(" and ".join(known), self.view)
        else:
            from kproxy.tui.screens.menu import FilterMenu
            from kproxy.tui.search.clauses import Clause

            texts = dict.fromkeys([" and ".join(known), *known])
            clauses = [Clause("this" if number == 0 else "part of it", text) for number, text in enumerate(texts)]
            self.app.push_screen(FilterMenu(self._cells, "Filter by", clauses, applied, self.app.saved), self._asked)

    def _asked(self, asked: Asked | None) -> None:
        if asked is not None:
            self.app.filter_by(asked.text, self.view, prepared=asked.prepared)

    def action_back(self) -> None:
        self.app.go("exchanges")


def known_tests(tests: Sequence[str]) -> list[str]:
    """The `tests` that are valid filters."""
    from kproxy.decoders.filters import parse

    return [test for test in tests if parse(test).expression is not None]


def read_so_far(facts: dict[str, Any] | None, *, died: bool) -> list[Part]:
    """Parts of a status line about a snapshot of captures.analysis.snapshots; `facts` is None before the first one."""
    if died:
        return [("  the analysis process has failed", look.SEVERITY["E"])]
    if facts is None:
        return [("  reading", look.DIM)]
    parts: list[Part] = []
    if facts["error"]:
        parts.append((f"  {facts['error']}", look.SEVERITY["E"]))
    if facts["state"] == "reading":
        total = facts["bytes_total"]
        percent = f" {100 * facts['bytes_read'] // total} %" if total else ""
        parts.append((f"  reading{percent}  {size_text(facts['bytes_read'])}B", look.PLAIN))
    # while the capture is read or grows, the count is not final
    done = facts["state"] in {"complete", "failed"}
    if facts["state"] == "stopped":
        parts.append(("  partial: reading was stopped", look.SEVERITY["W"]))
    parts.append((f"  {'of' if done else 'so far'} {facts['exchanges']:,} exchanges", look.DIM))
    if facts["left_out"]:
        parts.append((f"  {facts['left_out']:,} more are not shown", look.SEVERITY["W"]))
    if facts["renumbered"]:
        parts.append(("  counted again: the beginning was overwritten", look.SEVERITY["W"]))
    return parts


def why_empty(facts: dict[str, Any]) -> str:
    """The text shown for a snapshot without lines."""
    done = facts["state"] in {"complete", "stopped", "failed"}
    return "The capture has nothing for this screen." if done else "Nothing for this screen yet"
