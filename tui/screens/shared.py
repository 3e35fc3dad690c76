"""State that the parts of the exchanges screen share: its panes, and the index that the panes show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.decoders.schema import Definitions
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.detail import Detail
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.filter_bar import FilterBar

if TYPE_CHECKING:
    from kproxy.captures.index.format import Row
    from kproxy.captures.index.reader import IndexReader
    from kproxy.tui.captions import Captions
    from kproxy.tui.detail.many_records import ManyRecords
    from kproxy.tui.detail.opened import Opener
    from kproxy.tui.listing.matching import View


@dataclass(eq=False)
class Shared:
    screen: KproxyScreen
    cells: Cells
    captions: Captions
    directory: Path
    """Where the index is, or will be."""
    definitions: Definitions
    show_secrets: bool
    pane: ExchangeList
    detail: Detail
    bar: FilterBar
    index: IndexReader | None = None
    """The index shown; None until it can be read."""
    opener: Opener | None = None
    """Opens exchanges of `index`."""
    paused: bool = False
    came_from: str | None = None
    """The screen that led here; going back returns to it."""
    return_to: int | None = None
    """Index row that the cursor is put on once the view has it."""

    @property
    def selected_row(self) -> tuple[int, Row] | None:
        number = self.pane.selected
        if number is None or self.index is None:
            return None
        return number, self.index.row(number)

    def broker_of(self, row: int) -> str:
        """Address of the broker that index row `row` went to; "" if unknown."""
        index = self.index
        if index is None or not index.first <= row < index.count:
            return ""
        return index.string(index.connection(index.row(row).connection).broker)

    def records_from(self, shown: View, start: int) -> ManyRecords:
        """The records of the exchanges of a list from line `start` on. Raises IndexUnreadableError."""
        from kproxy.tui.detail.many_records import ManyRecords

        return ManyRecords(self.directory, self.definitions, shown, start, show_secrets=self.show_secrets)
