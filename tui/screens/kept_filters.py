"""The menu of saved and recent filters, each with the number of exchanges that it selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kproxy.decoders.fields import Cost
from kproxy.decoders.filters import parse
from kproxy.tui.listing.matching import View
from kproxy.tui.screens.menu import Choice, FilterMenu
from kproxy.tui.search.clauses import Clause
from kproxy.tui.terminal.cells import Cells

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.schema import Definitions

MOST_RECENT: Final = 15
"""Maximum number of recent filters in the menu."""
COUNT_CELLS: Final = 10
PAUSE: Final = 0.005
"""Seconds between slices of counting, in which keys are handled."""


class KeptFilters(FilterMenu):
    """A menu that counts the exchanges of each filter while it is open, first for filters that need no decoded body."""

    def __init__(
        self,
        cells: Cells,
        clauses: Sequence[Clause],
        applied: str,
        saved: Mapping[str, str],
        index: IndexReader,
        definitions: Definitions,
    ) -> None:
        super().__init__(cells, "Saved and recent filters", clauses, applied, saved)
        self._index = index
        self._definitions = definitions
        self._counts: dict[int, int] = {}
        self._counting: tuple[int, View] | None = None

        found = [(at, parse(clause.text, saved).expression) for at, clause in enumerate(clauses)]
        known = [(at, expression) for at, expression in found if expression is not None]
        self._left = sorted(known, key=lambda one: (one[1].cost is Cost.DECODE, one[0]), reverse=True)
        """The filters that are not counted yet, each with its line in the menu; the last one is counted next."""

    def on_mount(self) -> None:
        super().on_mount()
        self._show_counts()
        self.set_timer(PAUSE, self._count)

    def on_unmount(self) -> None:
        self._end()

    def _count(self) -> None:
        """Count another slice of exchanges."""
        if not self.stands:
            return
        if self._counting is None:
            if not self._left:
                return
            at, expression = self._left.pop()
            self._counting = at, View(self._index, self._definitions, expression)
        at, view = self._counting
        if not view.scan(self._index.count):
            self._counts[at] = view.count
            self._show_counts()
            self._end()
        self.set_timer(PAUSE, self._count)

    def _end(self) -> None:
        if self._counting is not None:
            self._counting[1].close()
            self._counting = None

    def _show_counts(self) -> None:
        def counted(at: int, choice: Choice) -> Choice:
            count = f"{self._counts[at]:,}" if at in self._counts else self._cells.glyph("…")
            return Choice(choice.name, f"{count:>{COUNT_CELLS}}  {choice.text}")

        self.lines.replace([counted(at, choice) for at, choice in enumerate(self._choices)])
