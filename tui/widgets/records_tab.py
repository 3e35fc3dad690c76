"""The table of records, of one exchange or of many, and the record under its cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.widget import Widget

from kproxy.tui.detail.records import LinesRead, RecordLine
from kproxy.tui.detail.viewing import Choices
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.painted import Ground
from kproxy.tui.widgets.record import RecordPane
from kproxy.tui.widgets.records import RecordTable

READ_AT_ONCE = 256 * 1024
"""Records of frames up to this size in bytes are read at once after a key; those of larger ones in a thread."""
SIDE_BY_SIDE = 120
"""Smallest width, in cells, at which table and record stand side by side."""


Load = Callable[[], tuple[LinesRead | None, str]]
"""Returns (records of an exchange, not read yet, ""), or (None, the reason)."""


class RecordsTab(Ground):
    """Reads records when it is shown, in a thread if the frame is large."""

    DEFAULT_CSS = """
    RecordsTab { width: 1fr; height: 1fr; layout: vertical; }
    RecordsTab RecordTable { height: 3fr; }
    RecordsTab RecordPane { height: 2fr; }
    RecordsTab.-side { layout: horizontal; }
    RecordsTab.-side RecordTable { width: 3fr; height: 1fr; }
    RecordsTab.-side RecordPane { width: 2fr; height: 1fr; }
    """

    def __init__(self, cells: Cells, choices: Choices, **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._choices = choices
        self._load: Load | None = None
        self.lines: LinesRead | None = None
        self._reading = False

    def compose(self) -> ComposeResult:
        yield RecordTable(self._cells, self._choices)
        yield RecordPane(self._cells, self._choices)

    @property
    def table(self) -> RecordTable:
        return self.query_one(RecordTable)

    @property
    def record(self) -> RecordPane:
        return self.query_one(RecordPane)

    @property
    def panes(self) -> list[Widget]:
        """The panes that can have the focus."""
        return [self.table, self.record]

    def lay_out(self, width: int) -> None:
        self.set_class(width >= SIDE_BY_SIDE, "-side", update=self.is_attached)

    def withholds(self, line: RecordLine) -> bool:
        """Whether key and value of a record are withheld."""
        return self._choices.withholds(line.place.topic)

    def viewers_changed(self) -> None:
        """Show the records on screen again, with the viewers as they are now."""
        self.table.content_changed()
        self.record.changed()

    def show(self, load: Load | None, size: int = 0) -> None:
        """Show the records that `load` returns, of a frame of `size` bytes; None shows nothing."""
        self._load, self.lines, self._reading = load, None, False
        if load is not None and size <= READ_AT_ONCE:
            self._show_read(*_first(load))
            return
        self.table.show(None, "" if load is None else f"reading records{self._cells.glyph('…')}")
        self.record.show(None)
        if load is not None:
            self._reading = True
            self._read_first(load)

    def _show_read(self, lines: LinesRead | None, message: str) -> None:
        self.lines = lines
        self.table.show(lines, message)
        self._show_record()

    def _show_record(self) -> None:
        line = self.table.line
        self.record.show(line if isinstance(line, RecordLine) else None)

    @work(thread=True, group="records")
    def _read_first(self, load: Load) -> None:
        lines, message = _first(load)
        self.app.call_from_thread(self._first_read, load, lines, message)

    def _first_read(self, load: Load, lines: LinesRead | None, message: str) -> None:
        """Show what a thread has read, unless another exchange was opened meanwhile."""
        if load is self._load and self.is_attached:
            self._reading = False
            self._show_read(lines, message)

    @work(thread=True, group="records")
    def _read_on(self, lines: LinesRead) -> None:
        lines.take()
        self.app.call_from_thread(self._more_read, lines)

    def _more_read(self, lines: LinesRead) -> None:
        if lines is self.lines and self.is_attached:
            self._reading = False
            self.table.extended()

    @on(RecordTable.Selected)
    def _selected(self, event: RecordTable.Selected) -> None:
        event.stop()
        self._show_record()

    @on(RecordTable.MoreWanted)
    def _more_wanted(self, event: RecordTable.MoreWanted) -> None:
        event.stop()
        self.read_on()

    @property
    def reading(self) -> bool:
        """Whether a thread of this tab is reading."""
        return self._reading

    def read_on(self) -> None:
        """Read more of the records, in a thread."""
        if self.lines is not None and not self._reading:
            self._reading = True
            self._read_on(self.lines)

    @on(RecordTable.RecordWanted)
    def _record_wanted(self, event: RecordTable.RecordWanted) -> None:
        event.stop()
        self.record.focus()

    @on(RecordTable.ViewChanged)
    def _view_changed(self, event: RecordTable.ViewChanged) -> None:
        event.stop()
        self.viewers_changed()


def _first(load: Load) -> tuple[LinesRead | None, str]:
    lines, message = load()
    if lines is not None:
        lines.take()
    return lines, message
