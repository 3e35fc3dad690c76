"""The list of exchanges: a window onto the mapped index."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from rich.segment import Segment
from textual import events
from textual.message import Message

from captures.index.format import Row, State
from captures.index.reader import IndexReader
from tui import actions, look
from tui.cells import Cells
from tui.matching import View
from tui.rows import Column, RowText, fit_columns
from tui.widgets.lines import Lines

KEEP_LAST_WORD = frozenset({"api", "label", "result"})


class ExchangeList(Lines):
    """Shows a `View` of an index; `tail` keeps the cursor on the newest row.

    Lines of the view stand for exchanges; `selected` is the index row under the cursor, None where there is none.
    """

    CONTEXT = "list"
    HEADING = 1
    BINDINGS = actions.bindings("list")

    class Selected(Message):
        """The cursor is on another exchange."""

    class Opened(Message):
        """The exchange under the cursor is to be opened."""

    class TailChanged(Message):
        """Tail was switched on or off."""

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self.index: IndexReader | None = None
        self.view: View | None = None
        self.text: RowText | None = None
        self.tail = False
        self.seen = 0
        """Lines that had come when tail was switched off: those after them are new."""
        self.empty: Callable[[], list[str]] = list
        """Lines to show where there is no exchange."""
        self._painted: dict[int, Row] = {}
        """Rows as they were last painted, by line; those on screen and some more."""
        self._selected: int | None = None
        self._columns: tuple[int, list[tuple[Column, int]]] = (0, [])

    @property
    def count(self) -> int:
        return 0 if self.view is None else self.view.count

    @property
    def selected(self) -> int | None:
        if self.view is None or not 0 <= self.cursor < self.count:
            return None
        return self.view.row_number(self.cursor)

    @property
    def unseen(self) -> int:
        """Rows that came while tail was off."""
        return 0 if self.tail else max(0, self.count - self.seen)

    def use(self, index: IndexReader, text: RowText) -> None:
        self.index, self.text = index, text

    def show(self, view: View) -> None:
        """Show another view, with the cursor on the row it was on or the next that is shown."""
        row = self._selected
        line = self.cursor - self.top
        self.view = view
        self.seen = view.count
        if row is not None:
            self.cursor = max(0, min(view.position(row), view.count - 1))
            self.top = self.cursor - line
        self.content_changed()
        self._announce()

    def more(self, old: int) -> None:
        """The view has grown from `old` lines; follow where tail is on."""
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
        """The first `gone` lines are no more; the others stay where they are on screen."""
        self.cursor, self.top, self.seen = (max(0, line - gone) for line in (self.cursor, self.top, self.seen))
        self._painted.clear()
        self.content_changed()
        self._announce()

    def changed(self) -> None:
        """Rows may have been completed in place: paint those on screen that are others now."""
        for index in self._on_screen():
            if self._painted.get(index) != self._row(index):
                self.refresh_line(index)

    def time_passed(self) -> None:
        """Paint how long the rows on screen have been waiting."""
        for index in self._on_screen():
            row = self._row(index)
            if row is not None and row.state == State.WAITING:
                self.refresh_line(index)

    def _on_screen(self) -> range:
        return range(self.top, min(self.top + self.rows, self.count))

    def reordered(self) -> None:
        """The view's lines moved (a row that waited left or joined it)."""
        if self._selected is not None and self.view is not None:
            self.cursor = max(0, min(self.view.position(self._selected), self.count - 1))
        self.content_changed()
        self._announce()

    def go_to(self, row: int) -> None:
        """Put the cursor on index row `row`, or the next that is shown."""
        if self.view is not None:
            self.move_to(self.view.position(row))

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
            self._columns = (width, fit_columns(width))
        return self._columns[1]

    def heading(self, _line: int, width: int) -> list[Segment]:
        titles = [self.cells.fit(column.title, cells, right=column.right) for column, cells in self.columns(width)]
        return [Segment(self.cells.fit(" ".join(titles), width), look.HEADING)]

    def line_key(self, index: int) -> Hashable | None:
        # asked for whenever a line is painted, from the cache or not
        row = self._row(index)
        if row is not None:
            if len(self._painted) > 4 * self.rows:
                self._painted = {each: kept for each, kept in self._painted.items() if each in self._on_screen()}
            self._painted[index] = row
        return None if row is None or row.state in (State.WAITING, State.EMPTY) else (index, row)

    def segments(self, index: int, width: int) -> list[Segment]:
        row = self._row(index)
        if row is None or self.view is None or self.text is None:
            return []
        number = self.view.row_number(index) + 1
        if row.state == State.EMPTY:
            return [Segment(self.cells.fit(f"{number:>11} …", width), look.DIM)]
        segments: list[Segment] = []
        for column, cells in self.columns(width):
            if segments:
                segments.append(Segment(" "))
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
        if self.index is None or self.view is None:
            return None
        return self.index.row(self.view.row_number(index))

    # actions

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened())

    def action_tail(self) -> None:
        self.set_tail(on=not self.tail)

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

    def _announce(self) -> None:
        selected = self.selected
        if selected != self._selected:
            self._selected = selected
            self.post_message(self.Selected())
