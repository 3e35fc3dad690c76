"""The exchange that a line names, beside the line: the beginning of its Overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment

from kproxy.tui.detail.presenter import DECODE_AT_ONCE
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.overview import Overview, overview

if TYPE_CHECKING:
    from kproxy.tui.screens.shared import Shared

ROOMY_ROWS: Final = 30
"""Smallest height of the terminal, in rows, at which there is room for the preview."""


class Preview(Overview, can_focus=False):
    """The beginning of an exchange's Overview; hidden without an exchange."""

    HEADING = 1
    DEFAULT_CSS = """
    Preview { height: 11; display: none; }
    Preview.-shown { display: block; }
    """

    def __init__(self, cells: Cells, shared: Shared, **options: Any) -> None:
        super().__init__(cells, **options)
        self._shared = shared
        self._number: int | None = None

    def show_exchange(self, number: int | None) -> None:
        """Show exchange `number`; hide if it is None or not in the index, or if there is no room."""
        index = self._shared.index
        known = number is not None and index is not None and index.first < number <= index.count
        number = number if known and self.app.size.height >= ROOMY_ROWS else None
        if number == self._number:
            return
        self._number = number
        self.set_class(number is not None, "-shown")
        if number is not None:
            self._read(number)

    def _read(self, number: int) -> None:
        shared = self._shared
        index, text, opener = shared.index, shared.pane.text, shared.opener
        if index is None or text is None or opener is None:
            return
        row = index.row(number - 1)
        detail = index.detail(row)
        frames = [frame.size for frame in (detail.request, detail.response) if frame is not None]
        remarks = opener.remarks(row, detail) if max(frames, default=0) <= DECODE_AT_ONCE else ()
        lines = overview(number, row, detail, index, text, shared.definitions, remarks)
        self.show([line for line in lines if line[1]])

    def heading(self, _line: int, width: int) -> list[Segment]:
        return [Segment(self.cells.fit(f" exchange {self._number}: enter opens it", width), look.DIM)]
