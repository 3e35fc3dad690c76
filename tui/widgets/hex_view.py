"""The bytes of a frame in hex, with a cursor and the selected field's bytes marked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message

from kproxy.tui.actions import registry as actions
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.tui.detail.opened import Opened

Ranges = Sequence[tuple[int, int]]

_TEXT = "".join(chr(code) if 0x20 <= code < 0x7F else "." for code in range(256))


class HexView(Lines):
    """Rows of 16 bytes, 8 if narrow; `byte` is the cursor, `marked` the range [start, end) of the selected field."""

    CONTEXT = "hex"
    BINDINGS = actions.bindings("hex")

    class Moved(Message):
        """The cursor was moved in this pane, rather than by selecting a field."""

    class FieldWanted(Message):
        """Requests the focus for the field that contains the byte under the cursor."""

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self._data = b""
        self._unparsed: Ranges = ()
        self._secret: Ranges = ()
        self.byte = 0
        self.marked = (0, 0)

    @property
    def per_row(self) -> int:
        return 16 if self.size.width - 1 >= self._digits + 1 + 49 + 1 + 16 else 8

    @property
    def count(self) -> int:
        return -(-len(self._data) // self.per_row)

    @property
    def length(self) -> int:
        return len(self._data)

    def marked_bytes(self) -> bytes | None:
        """The bytes of the marked field; None if some are withheld."""
        start, end = self.marked
        return None if any(_holds(self._secret, at) for at in range(start, end)) else self._data[start:end]

    @property
    def _digits(self) -> int:
        return max(4, len(f"{len(self._data):x}"))

    def show(self, opened: Opened | None) -> None:
        """Show the bytes of a frame."""
        self._show(opened.data, opened.unparsed, sorted(opened.secret)) if opened else self._show(b"")

    def show_made(self, data: bytes, *, secret: bool = False) -> None:
        """Show bytes derived from the frame's, such as decompressed ones; withhold them if `secret`."""
        self._show(data, secret=[(0, len(data))] if secret else ())

    def _show(self, data: bytes, unparsed: Ranges = (), secret: Ranges = ()) -> None:
        self._data, self._unparsed, self._secret = data, unparsed, secret
        self.byte = self.cursor = self.top = 0
        self.marked = (0, 0)
        self.content_changed()

    def mark(self, start: int, end: int) -> None:
        """Mark a field's bytes and scroll to them; the cursor goes to the first."""
        self.marked = (start, min(end, len(self._data)))
        self.byte = max(0, min(start, len(self._data) - 1))
        self.cursor = self.byte // self.per_row
        last = max(self.cursor, (self.marked[1] - 1) // self.per_row)
        if last >= self.top + self.rows:
            self.set_top(min(last - self.rows + 1, self.cursor))
        self.scroll_into_sight()
        self.refresh()

    def line_key(self, _index: int) -> Hashable | None:
        return None

    def cursor_style(self) -> Style:
        return look.PLAIN

    def segments(self, index: int, width: int) -> list[Segment]:
        per_row = self.per_row
        start = index * per_row
        row = self._data[start : start + per_row]
        segments = [Segment(f"{start:0{self._digits}x} ", look.DIM)]
        text: list[Segment] = []
        for offset, value in enumerate(row):
            at = start + offset
            style = self._style(at)
            hidden = self._hidden(at)
            between = style if self._inside(at + 1) and self._inside(at) else look.PLAIN
            segments.append(Segment(self.cells.glyph("•") * 2 if hidden else f"{value:02x}", style))
            segments.append(Segment("  " if offset == 7 and per_row == 16 else " ", between))
            text.append(Segment(self.cells.glyph("•") if hidden else _TEXT[value], style))
        missing = per_row - len(row)
        padding = missing * 3 + (1 if len(row) < 8 and per_row == 16 else 0)
        segments.append(Segment(" " * (padding + (1 if per_row == 8 or width > 70 else 0))))
        return segments + text

    def _inside(self, at: int) -> bool:
        return self.marked[0] <= at < self.marked[1]

    def _style(self, at: int) -> Style:
        if at == self.byte and self.has_focus:
            return look.BYTE_CURSOR
        if self._inside(at):
            return look.BYTES
        return look.UNPARSED if _holds(self._unparsed, at) else look.PLAIN

    def _hidden(self, at: int) -> bool:
        return _holds(self._secret, at)

    def readable(self) -> bytes:
        """The bytes, with zeros in place of withheld ones."""
        data = bytearray(self._data)
        for start, end in self._secret:
            data[start:end] = bytes(max(0, min(end, len(data)) - start))
        return bytes(data)

    # moving: the cursor is a byte, and the cursor line follows it

    def go_to(self, byte: int) -> None:
        """Put the cursor on a byte and post Moved."""
        if not self._data:
            return
        byte = max(0, min(byte, len(self._data) - 1))
        if byte == self.byte:
            return
        self.byte = byte
        self.cursor = byte // self.per_row
        self.scroll_into_sight()
        self.refresh()
        self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        byte = self.byte + by * self.per_row
        if 0 <= byte < len(self._data):
            self.go_to(byte)

    def action_page(self, pages: float) -> None:
        by = (int(self.rows * pages) or (1 if pages > 0 else -1)) * self.per_row
        self.go_to(max(0, min(self.byte + by, len(self._data) - 1)))

    def action_first(self) -> None:
        self.go_to(0)

    def action_last(self) -> None:
        self.go_to(len(self._data) - 1)

    def action_step(self, by: int) -> None:
        self.go_to(self.byte + by)

    def action_field(self) -> None:
        self.post_message(self.FieldWanted())

    def resized(self) -> None:
        self.cursor = self.byte // self.per_row
        super().resized()

    def clicked(self, event: events.Click) -> None:
        column = event.x - self._digits - 1
        per_row = self.per_row
        if column >= 0:
            within = (column - (1 if per_row == 16 and column > 24 else 0)) // 3
            if within < per_row:
                self.go_to(self.cursor * per_row + within)


def _holds(ranges: Ranges, at: int) -> bool:
    i = bisect_right(ranges, at, key=lambda span: span[0]) - 1
    return i >= 0 and at < ranges[i][1]
