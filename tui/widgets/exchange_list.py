"""The list of exchanges, read from the mapped index as it is painted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from kproxy.captures.index.format import Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.tui.actions import registry as actions
from kproxy.tui.listing.arrangement import BY_TITLE, GREATEST_FIRST, MOST_ORDERED, ORDERS, Fixed, Rows, Without, ordered
from kproxy.tui.listing.columns import COLUMNS, Column, fit_columns
from kproxy.tui.listing.matching import View
from kproxy.tui.listing.rows import RowText
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from kproxy.tui.listing.notes import Notes

KEEP_LAST_WORD = frozenset({"api", "label", "result"})


class ExchangeList(Lines):
    """Shows a `View` of an index; `tail` keeps the cursor on the newest row.

    Each line is an exchange; `selected` is the index row under the cursor, None if there is none.
    """

    CONTEXT = "list"
    HEADING = 1
    BINDINGS = actions.bindings("list")

    class Opened(Message):
        """Asks to open the exchange under the cursor."""

    class TailChanged(Message):
        """Tail was switched on or off."""

    class Resized(Message):
        """The right end of a column was dragged; `width` is the column's new width in cells."""

        def __init__(self, name: str, width: int) -> None:
            super().__init__()
            self.name, self.width = name, width

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self.index: IndexReader | None = None
        self.view: View | None = None
        self.text: RowText | None = None
        self.tail = False
        self.seen = 0
        """Number of lines when tail was switched off; later lines count as unseen."""
        self.empty: Callable[[], list[str]] = list
        """Returns the lines to show if there is no exchange."""
        self.chosen: Callable[[], None] = lambda: None
        """Called directly when the cursor moves to another exchange, so that list and detail are painted together."""
        self.notes: Notes | None = None
        self.hidden: set[int] = set()
        """Index rows that the user has hidden."""
        self.marked_only = False
        self.order = ""
        """A key of ORDERS, "" for the order in which exchanges passed."""
        self.descending = True
        self._arranged: Rows | None = None
        self._newer = 0
        """Number of rows that came after a fixed arrangement was made."""
        self._painted: dict[int, Row] = {}
        """Rows as last painted, by line: those on screen and some more."""
        self._selected: int | None = None
        self._chosen: Sequence[Column] = COLUMNS
        self._columns: tuple[int, list[tuple[Column, int]]] = (0, [])
        self._resizing: tuple[str, int] | None = None
        """The column whose right end the mouse drags: its name, and the cell at which it begins."""
        self._resized = False
        """Whether the mouse button that dragged was just released."""

    @property
    def rows_shown(self) -> Rows | None:
        """The rows that the list shows, as lines: the view or an arrangement of it."""
        return self.view if self._arranged is None else self._arranged

    @property
    def count(self) -> int:
        rows = self.rows_shown
        return 0 if rows is None else rows.count

    @property
    def selected(self) -> int | None:
        rows = self.rows_shown
        return rows.row_number(self.cursor) if rows is not None and 0 <= self.cursor < rows.count else None

    def shows(self, row: int) -> bool:
        """Whether an index row has a line."""
        rows = self.rows_shown
        if rows is None:
            return False
        place = rows.position(row)
        return place < rows.count and rows.row_number(place) == row

    @property
    def unseen(self) -> int:
        """Number of rows that came while tail was off."""
        return 0 if self.tail else max(0, self.count - self.seen)

    def use(self, index: IndexReader, text: RowText) -> None:
        self.index, self.text = index, text

    def show(self, view: View) -> None:
        """Show another view; the cursor stays on its row, or moves to the next one shown."""
        self.view = view
        self.rearrange()
        self.seen = self.count

    def rearrange(self) -> None:
        """Arrange the rows again after a change of view, order, marks or hidden rows."""
        row = self._selected
        line = self.cursor - self.top
        self._newer = 0
        self._arranged = self._arrangement()
        rows = self.rows_shown
        if row is not None and rows is not None:
            self.cursor = max(0, min(rows.position(row), rows.count - 1))
            self.top = self.cursor - line
        self._painted.clear()
        self.content_changed()
        self._announce()

    def _arrangement(self) -> Rows | None:
        view, index = self.view, self.index
        if view is None or index is None:
            return None
        if self.marked_only or self.order:
            rows: Iterable[int] = map(view.row_number, range(view.count))
            if self.marked_only:
                notes = self.notes
                marked = [] if notes is None else [row for row in notes.numbers if row < index.count]
                shown = (row for row in marked if _holds(view, row))
                rows = [row for row in shown if notes is not None and notes.is_marked(row, index.row(row))]
            elif view.count > MOST_ORDERED:
                self.order = ""
                self.notify(f"more than {MOST_ORDERED:,} exchanges cannot be sorted: filter first", timeout=4)
                return self._arrangement()
            rows = [row for row in rows if row not in self.hidden]
            return (
                ordered(index, rows, self.order, descending=self.descending)
                if self.order
                else Fixed(index.directory, rows)
            )
        return Without(view, self.hidden) if self.hidden else None

    def said(self) -> str:
        """The arrangement in words, for the status line."""
        words = []
        if self.marked_only:
            words.append("marked only")
        if self.order:
            title, _ = ORDERS[self.order]
            words.append(f"by {title}, {'greatest' if self.descending else 'least'} first")
        if self.hidden:
            words.append(f"{len(self.hidden):,} hidden")
        if isinstance(self._arranged, Fixed) and self._newer:
            words.append(f"{self._newer:,} newer not here")
        return ", ".join(words)

    def more(self, old: int) -> None:
        """Paint the lines after the first `old`; with tail on, move to the newest."""
        if isinstance(self._arranged, Fixed):
            self._newer += 0 if self.view is None else self.view.count - old
            return
        if isinstance(self._arranged, Without):
            old = max(0, self.count - (0 if self.view is None else self.view.count - old))
        row, self._selected = self._selected, None if old == 0 else self._selected
        if self.tail:
            self.cursor = max(0, self.count - 1)
            self.refresh_line(old - 1)
            if not self.scroll_into_sight():
                self.grown(old)
            self._announce()
        else:
            self.grown(old)
            if old == 0 or row is None:
                self._announce()
        if old == 0:
            self.refresh()

    def let_go(self, gone: int) -> None:
        """Remove the first `gone` lines; the others stay where they are on screen."""
        if self._arranged is not None:
            self.rearrange()
            return
        self.cursor, self.top, self.seen = (max(0, line - gone) for line in (self.cursor, self.top, self.seen))
        self._painted.clear()
        self.content_changed()
        self._announce()

    def changed(self) -> None:
        """Repaint rows on screen that the indexer has completed in place."""
        for index in self._on_screen():
            if self._painted.get(index) != self._row(index):
                self.refresh_line(index)

    def time_passed(self) -> None:
        """Repaint the latencies of requests in flight on screen."""
        for index in self._on_screen():
            row = self._row(index)
            if row is not None and row.state == State.WAITING:
                self.refresh_line(index)

    def _on_screen(self) -> range:
        return range(self.top, min(self.top + self.rows, self.count))

    def reordered(self) -> None:
        """Repaint after lines of the view moved, because a row left or joined the view when its response came."""
        if isinstance(self._arranged, Fixed):
            return
        rows = self.rows_shown
        if self._selected is not None and rows is not None:
            self.cursor = max(0, min(rows.position(self._selected), self.count - 1))
        self.content_changed()
        self._announce()

    def go_to(self, row: int) -> None:
        """Put the cursor on index row `row`, or on the next one shown."""
        rows = self.rows_shown
        if rows is not None:
            self.move_to(rows.position(row))

    def moved(self) -> None:
        self._announce()

    def move_to(self, index: int, *, quiet: bool = False) -> None:
        if index < self.cursor and self.tail:
            self.set_tail(on=False)
        super().move_to(index, quiet=quiet)

    def set_tail(self, *, on: bool) -> None:
        if on != self.tail:
            self.tail = on
            self.seen = self.count
            self.post_message(self.TailChanged())
        if on:
            self.move_to(self.count - 1)

    # painting

    def columns(self, width: int) -> list[tuple[Column, int]]:
        if self._columns[0] != width:
            self._columns = (width, fit_columns(width, self._chosen))
        return self._columns[1]

    def show_columns(self, columns: Sequence[Column]) -> None:
        """Show these columns, in this order, as far as there is room."""
        self._chosen, self._columns = columns, (0, [])
        self.content_changed()

    def heading(self, _line: int, width: int) -> list[Segment]:
        titles = []
        for column, cells in self.columns(width):
            text = self.cells.fit(self._title(column), cells, right=column.right)
            order = BY_TITLE.get(column.title, "")
            titles += [Segment(text, look.pressed(look.HEADING, f"order_by('{order}')")), Segment(" ", look.HEADING)]
        return list(Strip(titles).adjust_cell_length(width, look.HEADING))

    def _title(self, column: Column) -> str:
        return self.text.times.title(self.index) if column.name == "time" and self.text is not None else column.title

    def line_key(self, index: int) -> Hashable | None:
        # called whenever a line is painted, from the cache or not
        row = self._row(index)
        if row is not None:
            if len(self._painted) > 4 * self.rows:
                self._painted = {each: kept for each, kept in self._painted.items() if each in self._on_screen()}
            self._painted[index] = row
        return None if row is None or row.state in (State.WAITING, State.EMPTY) else (index, row)

    def segments(self, index: int, width: int) -> list[Segment]:
        row = self._row(index)
        rows = self.rows_shown
        if row is None or rows is None or self.text is None or self.index is None:
            return []
        number = rows.row_number(index) + 1
        if row.state == State.EMPTY:
            return [Segment(self.cells.fit(f"{number:>11} …", width), look.DIM)]
        segments: list[Segment] = []
        for column, cells in self.columns(width):
            if segments:
                segments.append(Segment(" "))
            if column.name == "time":
                text = self.text.times.text(self.index, number - 1, row, self._row(index - 1) if index else None)
            else:
                text = self.text.cell(column.name, number, row)
            if column.name in KEEP_LAST_WORD:
                text = self.cells.fit_keeping_last_word(text, cells)
            else:
                text = self.cells.fit(text, cells, right=column.right)
            segments.append(Segment(text, self._style(column.name, row)))
        return segments

    def beyond(self, line: int, width: int) -> list[Segment]:
        if self.count:
            return []
        lines = self.empty()
        return [Segment(self.cells.fit(f"  {lines[line]}", width))] if line < len(lines) else []

    def _style(self, column: str, row: Row) -> Any:
        if self.text is None:
            return look.PLAIN
        if column in {"state", "result"}:
            severity = self.text.severity(row)
            if severity:
                return look.SEVERITY[severity]
            if row.state == State.OK:
                return look.OK if column == "result" else look.PLAIN
            return look.WAITING
        if column == "api":
            return look.CLASS.get(self.text.api_class(row), look.PLAIN)
        return look.PLAIN

    def _row(self, index: int) -> Row | None:
        rows = self.rows_shown
        return None if self.index is None or rows is None else self.index.row(rows.row_number(index))

    # actions

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened())

    def action_tail(self) -> None:
        self.set_tail(on=not self.tail)

    def action_order(self) -> None:
        names = ["", *ORDERS]
        self._order_by(names[(names.index(self.order) + 1) % len(names)])

    def action_order_by(self, order: str) -> None:
        """Order by a key of ORDERS, "" for the order in which exchanges passed; the present key reverses the order."""
        if order and order == self.order:
            self.action_reverse()
        else:
            self._order_by(order)

    def _order_by(self, order: str) -> None:
        self.order = order
        self.descending = order in GREATEST_FIRST
        self.set_tail(on=False)
        self.rearrange()
        self.action_first()

    def action_reverse(self) -> None:
        if self.order:
            self.descending = not self.descending
            self.rearrange()
            self.action_first()

    def action_only_marked(self) -> None:
        self.marked_only = not self.marked_only
        self.rearrange()

    def action_hide(self) -> None:
        if self.selected is not None:
            self.hidden.add(self.selected)
            self.rearrange()

    def action_show_hidden(self) -> None:
        self.hidden.clear()
        self.rearrange()

    def action_last(self) -> None:
        super().action_last()
        if self.following():
            self.set_tail(on=True)

    def following(self) -> bool:
        """Whether more rows may come."""
        return self.index is not None and self.index.meta.get("state") in {"indexing", "following"}

    def clicked(self, event: events.Click) -> None:
        if event.chain == 2:
            self.action_open()

    # widths of columns

    def _border_at(self, x: int) -> tuple[str, int] | None:
        """The column whose right end is at a cell of the heading: its name, and the cell at which it begins."""
        start = 0
        for column, cells in self.columns(self.size.width - 1):
            if x == start + cells:
                return column.name, start
            start += cells + 1
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._resized = False
        self._resizing = self._border_at(event.x) if event.y < self.HEADING and event.button == 1 else None
        if self._resizing is not None:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._resizing is not None:
            event.stop()
            name, start = self._resizing
            self.post_message(self.Resized(name, event.x - start))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._resizing is not None:
            event.stop()
            self._resizing, self._resized = None, True
            self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        """Drop the click that ends the drag of a column's border, so that the title below the mouse does not react."""
        if self._resized:
            self._resized = False
            event.stop()
            event.prevent_default()

    def _announce(self) -> None:
        selected = self.selected
        if selected != self._selected:
            self._selected = selected
            self.chosen()


def _holds(view: View, row: int) -> bool:
    place = view.position(row)
    return place < view.count and view.row_number(place) == row
