"""A table of things, one line each, mapped from a file: sorted by any column, and narrowed to the rows with a text."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from kproxy.captures.analysis.columns.column import Column, Cut, Fitted, fit
from kproxy.captures.analysis.columns.stored import Rows
from kproxy.captures.views import Line
from kproxy.tui.actions import registry as actions
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.lines import Lines

GAP = 2
"""Cells between two columns."""


class TableList(Lines):
    """Shows the rows of one of several tables; the cursor stays on its row when the rows change."""

    CONTEXT = "table"
    BINDINGS = actions.bindings("table")
    HEADING: ClassVar[int] = 2

    class Moved(Message):
        """The cursor is on another row."""

    class Opened(Message):
        """Asks for the details of the row under the cursor."""

    class FilterBy(Message):
        """Asks to show the exchanges of the row under the cursor."""

    class NarrowAsked(Message):
        """Asks the user for a text that shown rows must contain."""

    class TableAsked(Message):
        """Asks to show the table with the name `name`."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, cells: Cells, titles: dict[str, str], **options: Any) -> None:
        """`titles` are those of the tables that can be chosen, by their names."""
        super().__init__(cells, **options)
        self.empty = ""
        self.titles = titles
        self.name_shown = next(iter(titles))
        self.text = ""
        """Only rows with this text are shown."""
        self._rows: Rows | None = None
        self._orders: dict[str, tuple[str, bool]] = {}
        """By table, the column by which it is sorted and whether the greatest value comes first."""
        self._arranged: Sequence[int] = ()
        self._version = 0
        self._fitted: tuple[int, list[Fitted]] = (-1, [])

    @property
    def count(self) -> int:
        return len(self._arranged)

    @property
    def selected(self) -> int | None:
        """The row under the cursor."""
        return self._arranged[self.cursor] if 0 <= self.cursor < self.count else None

    @property
    def rows_shown(self) -> Rows | None:
        return self._rows

    @property
    def tests(self) -> Sequence[str]:
        """The display filters that select the exchanges of the row under the cursor."""
        values = self.values
        return () if values is None or self._rows is None else self._rows.table.tests(values)

    @property
    def values(self) -> Line | None:
        """The values of the row under the cursor."""
        selected = self.selected
        return None if selected is None or self._rows is None else self._rows.values(selected)

    def arranged_by(self) -> list[str]:
        """The options of a command that sorts as the table is sorted."""
        column = self._ordered_by()
        if column is None:
            return []
        _, descending = self._orders[self.name_shown]
        return ["--sort", f"{'-' if descending else ''}{column.name}"]

    def show(self, rows: Rows) -> None:
        """Show the rows of a table; the cursor stays on its row if the table is the same."""
        same = self._rows is not None and self._rows.table is rows.table
        key = self._key() if same else None
        if not same and rows.table.order:
            self._orders.setdefault(
                rows.table.name, (rows.table.order.removeprefix("-"), rows.table.order.startswith("-"))
            )
        self._rows = rows
        self._arrange(key if self.cursor else None)
        if not same:
            self.cursor = self.top = 0
        self.content_changed()
        self.moved()

    def narrow(self, text: str) -> None:
        """Show only the rows with a text; all if it is empty."""
        key = self._key()
        self.text = text
        self._arrange(key)
        self.content_changed()
        self.moved()

    def _key(self) -> bytes | None:
        selected = self.selected
        return None if selected is None or self._rows is None else self._rows.key(selected)

    def _arrange(self, key: bytes | None) -> None:
        """Sort and narrow the rows; if the row with key `key` is among them, put the cursor on it."""
        rows = self._rows
        if rows is None:
            return
        name, descending = self._orders.get(rows.table.name, ("", False))
        arranged = rows.order(name, descending=descending) if name else range(rows.count)
        if self.text:
            having = rows.with_text(self.text)
            arranged = [row for row in arranged if row in having]
        self._arranged = arranged
        self._version += 1
        self._fitted = (-1, [])
        row = None if key is None else rows.find(key)
        found = next((line for line, one in enumerate(arranged) if one == row), None)
        if found is not None:
            self.top, self.cursor = found - self.cursor + self.top, found

    def moved(self) -> None:
        self.post_message(self.Moved())

    # painting

    def line_key(self, index: int) -> Hashable:
        return self._version, index

    def columns(self, width: int) -> list[Fitted]:
        """The columns that fit into `width` cells."""
        rows = self._rows
        if rows is None:
            return []
        if self._fitted[0] != width:
            self._fitted = width, fit(rows.table.columns, rows.widest, width - 1)
        return self._fitted[1]

    def heading(self, line: int, width: int) -> list[Segment]:
        return self._choices(width) if line == 0 else self._titles(width)

    def _choices(self, width: int) -> list[Segment]:
        """The tables to choose from, the shown one in brackets, then the order and the text that rows must have."""
        segments = [Segment(" ")]
        for name, title in self.titles.items():
            at = name == self.name_shown
            text = f"[{title}]" if at else f" {title} "
            segments.append(Segment(text, look.pressed(look.BOLD if at else look.PLAIN, f"choose('{name}')")))
        column = self._ordered_by()
        if column is not None:
            _, descending = self._orders[self.name_shown]
            words = f"  by {column.title}, {'greatest' if descending else 'least'} first"
            segments.append(Segment(words, look.DIM))
        if self.text:
            segments.append(Segment(f"  [with: {self.text}]"))
        return list(Strip(segments).adjust_cell_length(width))

    def _ordered_by(self) -> Column | None:
        name, _ = self._orders.get(self.name_shown, ("", False))
        return None if self._rows is None else self._rows.table.column(name)

    def _titles(self, width: int) -> list[Segment]:
        ordered = self._ordered_by()
        segments = [Segment(" ", look.HEADING)]
        for at in self.columns(width):
            arrow = ""
            if at.column is ordered:
                arrow = self.cells.glyph("▼" if self._orders[self.name_shown][1] else "▲")
            title = self.cells.fit(f"{at.column.title}{arrow}", at.width, right=at.column.form.right)
            segments += [
                Segment(title, look.pressed(look.HEADING, f"order_by('{at.column.name}')")),
                Segment(" " * GAP, look.HEADING),
            ]
        return list(Strip(segments).adjust_cell_length(width, look.HEADING))

    def segments(self, index: int, width: int) -> list[Segment]:
        rows = self._rows
        if rows is None:
            return []
        marks, texts = rows.cells(self._arranged[index])
        segments = [Segment(" ")]
        for at in self.columns(width):
            style = look.SEVERITY.get(marks[at.index], look.PLAIN)
            segments += [Segment(self._fit(texts[at.index], at), style), Segment(" " * GAP)]
        return segments

    def _fit(self, text: str, at: Fitted) -> str:
        match at.column.form.cut:
            case Cut.MIDDLE:
                return self.cells.fit_middle(text, at.width)
            case Cut.BEGINNING:
                return self.cells.fit_tail(text, at.width)
            case _:
                return self.cells.fit(text, at.width, right=at.column.form.right)

    def beyond(self, line: int, width: int) -> list[Segment]:
        if self.count or line != 1:
            return []
        empty = f"No row has the text “{self.text}”" if self.text else self.empty
        return [Segment(self.cells.fit(f"  {empty}", width))]

    # actions

    def action_choose(self, name: str) -> None:
        self.post_message(self.TableAsked(name))

    def action_table(self, by: int) -> None:
        names = list(self.titles)
        self.action_choose(names[(names.index(self.name_shown) + by) % len(names)])

    def action_order(self, by: int) -> None:
        """Sort by the next (1) or previous (-1) column on screen; before the first one is the table's own order."""
        shown = [at.column.name for at in self.columns(self.size.width - 1)]
        names = ["", *shown]
        name, _ = self._orders.get(self.name_shown, ("", False))
        self._order_by(names[((names.index(name) if name in names else 0) + by) % len(names)])

    def action_order_by(self, name: str) -> None:
        """Sort by a column; the present one reverses the order."""
        if name and name == self._orders.get(self.name_shown, ("", False))[0]:
            self.action_reverse()
        else:
            self._order_by(name)

    def action_reverse(self) -> None:
        name, descending = self._orders.get(self.name_shown, ("", False))
        self._sort(name, descending=not descending)

    def _order_by(self, name: str) -> None:
        column = None if self._rows is None else self._rows.table.column(name)
        self._sort(name, descending=column is not None and column.form.greatest_first)

    def _sort(self, name: str, *, descending: bool) -> None:
        self._orders[self.name_shown] = name, descending
        self._arrange(None)
        self.cursor = self.top = 0
        self.content_changed()
        self.moved()

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened())

    def action_filter_by(self) -> None:
        self.post_message(self.FilterBy())

    def action_narrow(self) -> None:
        self.post_message(self.NarrowAsked())

    def clicked(self, event: events.Click) -> None:
        if event.chain == 2:
            self.action_open()
