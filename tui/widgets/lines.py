"""The base of every pane: a list of lines, of which only those on screen are made.

The pane scrolls by itself and has no virtual size: when the list grows, Textual computes no layout, and only changed
lines are repainted.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset, Region
from textual.message import Message
from textual.strip import Strip

from kproxy.tui.actions import registry as actions
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.painted import Painted, joined

CACHED_STRIPS = 512
RIGHT = 3
"""The mouse button that opens a menu."""
LONGEST_LINE = 400
"""Maximum number of cells of a line that is copied."""


class Lines(Painted, can_focus=True):
    """`count` lines with a cursor; subclasses paint the lines and react to moves of the cursor.

    `HEADING` lines at the top do not scroll. The last column is the scroll bar.
    """

    auto_links = False
    CONTEXT: ClassVar[str]
    HEADING: ClassVar[int] = 0
    WHEEL: ClassVar[int] = 3
    DEFAULT_CSS = """
    Lines { width: 1fr; height: 1fr; }
    """

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(**options)
        self.cells = cells
        self.cursor = 0
        self.top = 0
        self._strips: OrderedDict[Hashable, Strip] = OrderedDict()
        self._thumb = (-1, -1)

    class MenuAsked(Message):
        """Asks for a menu of actions on the line under the cursor."""

    # implemented by a subclass

    @property
    def count(self) -> int:
        raise NotImplementedError

    def segments(self, index: int, width: int) -> list[Segment]:
        """The line in at most `width` cells, escaped."""
        raise NotImplementedError

    def line_key(self, index: int) -> Hashable | None:
        """Cache key of a line: all that its look depends on, except width and cursor. None if it must not be cached."""
        return index

    def heading(self, _line: int, _width: int) -> list[Segment]:
        return []

    def moved(self) -> None:
        """Called when the cursor has moved to another line."""

    # geometry

    @property
    def rows(self) -> int:
        """Number of scrolling lines on screen."""
        return max(1, self.size.height - self.HEADING)

    def move_to(self, index: int, *, quiet: bool = False) -> None:
        """Put the cursor on a line and scroll it into sight; calls `moved` unless `quiet`."""
        index = max(0, min(index, self.count - 1))
        old = self.cursor
        self.cursor = index
        if not self.scroll_into_sight() and old != index:
            self.refresh_line(old)
            self.refresh_line(index)
        self._put_terminal_cursor()
        if old != index and not quiet:
            self.moved()

    def scroll_into_sight(self) -> bool:
        """Scroll so that the cursor is on screen and lines fill it; True if that repainted the pane."""
        if not self.size.height:  # before its first layout; `resized` scrolls it then
            return False
        top = self.top
        top = min(top, self.cursor)
        top = max(top, self.cursor - self.rows + 1)
        return self.set_top(top)

    def set_top(self, top: int) -> bool:
        top = max(0, min(top, self.count - self.rows))
        if top == self.top:
            return False
        self.top = top
        self.refresh()
        return True

    def refresh_line(self, index: int) -> None:
        y = index - self.top + self.HEADING
        if self.HEADING <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def content_changed(self) -> None:
        """Repaint all lines, as they have changed."""
        self._strips.clear()
        self.cursor = max(0, min(self.cursor, self.count - 1))
        self.top = max(0, min(self.top, self.count - self.rows))
        self.scroll_into_sight()
        self.refresh()

    def grown(self, old: int) -> None:
        """Paint those lines after the first `old` that are on screen, and the scroll bar if its thumb moved."""
        last = min(self.count, self.top + self.rows)
        if old < last:
            y = max(0, old - self.top) + self.HEADING
            self.refresh(Region(0, y, self.size.width, self.size.height - y))
        if self._thumb_span() != self._thumb:
            self.refresh(Region(self.size.width - 1, 0, 1, self.size.height))

    # painting

    def render_line(self, y: int) -> Strip:
        width = self.size.width - 1
        if width < 1:
            return Strip.blank(self.size.width)
        if y == 0:
            self._thumb = self._thumb_span()
        if y < self.HEADING:
            return joined(self.heading(y, width), width, Segment(" "))
        index, beside = self.top + y - self.HEADING, self._scroll_cell(y - self.HEADING)
        if index >= self.count:
            return joined(self.beyond(index - self.count, width), width, beside)
        return self._line(index, width, beside)

    def line_text(self, index: int) -> str:
        """The text of a line, with the space between its columns reduced to two."""
        text = "".join(segment.text for segment in self.segments(index, LONGEST_LINE))
        return re.sub(" {2,}", "  ", text).strip()

    def beyond(self, _line: int, _width: int) -> list[Segment]:
        """The segments of a line in the space below the last line; `_line` counts from 0 there."""
        return []

    def cursor_style(self) -> Style:
        return look.CURSOR if self.has_focus else look.CURSOR_AWAY

    def _line(self, index: int, width: int, beside: Segment) -> Strip:
        at_cursor = index == self.cursor
        key = self.line_key(index)
        full = (key, width, at_cursor and self.has_focus, at_cursor, beside)
        strip = None if key is None else self._strips.get(full)
        if strip is None:
            style = self.cursor_style() if at_cursor else None
            strip = joined(self.segments(index, width), width, beside, style)
            if key is not None:
                self._strips[full] = strip
                if len(self._strips) > CACHED_STRIPS:
                    self._strips.popitem(last=False)
        else:
            self._strips.move_to_end(full)
        return strip

    def _thumb_span(self) -> tuple[int, int]:
        """First row and number of rows of the scroll bar's thumb; (0, 0) if all lines are on screen."""
        count, rows = self.count, self.rows
        if count <= rows:
            return 0, 0
        length = max(1, rows * rows // count)
        return (rows - length) * self.top // max(1, count - rows), length

    def _scroll_cell(self, row: int) -> Segment:
        start, length = self._thumb_span()
        if not length:
            return Segment(" ")
        if start <= row < start + length:
            return Segment(self.cells.glyph("█"), look.DIM)
        return Segment(self.cells.glyph("│"), look.DIM)

    # actions of every pane

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return actions.is_enabled(self.CONTEXT, action, self)

    def action_move(self, by: int) -> None:
        self.move_to(self.cursor + by)

    def action_page(self, pages: float) -> None:
        by = int(self.rows * pages) or (1 if pages > 0 else -1)
        top = self.top
        # the cursor stays on its row of the screen, as in less
        self.set_top(self.top + by)
        self.move_to(self.cursor + (by if self.top == top else self.top - top))

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(self.count - 1)

    # events

    def watch_virtual_size(self) -> None:
        # a pane has its size as virtual size; Textual sends no Resize event if a pane's region is looked up between the
        # moment when the pane is shown and the next layout
        self.resized()

    def resized(self) -> None:
        """Called when the pane has another size: paint all lines for it."""
        line = self.cursor - self.top
        self.top = max(0, min(self.cursor - min(line, self.rows - 1), self.count - self.rows))
        self._strips.clear()
        self.scroll_into_sight()
        self.refresh()
        self.call_after_refresh(self._put_terminal_cursor)

    async def on_key(self, event: events.Key) -> None:
        # what the application does with keys that no parent handled, but without passing through each parent's queue
        if await self.app._check_bindings(event.key):  # noqa: SLF001 (other ways pass through every parent)
            event.stop()

    def on_focus(self) -> None:
        self.refresh_line(self.cursor)
        # the pane's position is known only once it is laid out
        self.call_after_refresh(self._put_terminal_cursor)

    def _put_terminal_cursor(self) -> None:
        """In plain mode, put the terminal's cursor on the current line, where screen readers read."""
        if self.cells.plain and self.has_focus:
            self.app.cursor_position = self.region.offset + Offset(0, self.HEADING + self.cursor - self.top)

    def on_blur(self) -> None:
        self.refresh_line(self.cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._wheel(self.WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._wheel(-self.WHEEL)

    def on_click(self, event: events.Click) -> None:
        row = event.y - self.HEADING
        if row < 0:
            return
        if event.x >= self.size.width - 1 and self.count > self.rows:
            self.set_top(self.count * row // self.rows)
            self.move_to(max(self.top, min(self.cursor, self.top + self.rows - 1)))
        elif self.top + row < self.count:
            self.move_to(self.top + row)
            if event.button == RIGHT:
                self.focus()
                self.post_message(self.MenuAsked())
            else:
                self.clicked(event)

    def clicked(self, event: events.Click) -> None:
        """Called when a line was clicked; the cursor is on it."""

    def _wheel(self, by: int) -> None:
        if self.set_top(self.top + by):
            self.move_to(max(self.top, min(self.cursor, self.top + self.rows - 1)))
