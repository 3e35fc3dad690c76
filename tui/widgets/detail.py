"""One exchange: tabs, the fields beside the bytes, and what is known of the bytes under the cursor."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget

from decoders.conversation.stream import Side
from tui import look
from tui.cells import Cells
from tui.opened import Opened
from tui.widgets.chrome import Bar, Part
from tui.widgets.field_tree import FieldTree
from tui.widgets.hex_view import HexView
from tui.widgets.overview import Line, Overview

TABS = ("Overview", "Request", "Response")
SIDES = {"Request": Side.CLIENT, "Response": Side.BROKER}
SIDE_BY_SIDE = 100
"""Columns from which fields and bytes stand beside each other."""
SIXTEEN_BYTES = 116
"""Columns from which the bytes beside the fields come 16 a row; below it is 8."""
FEW_LINES = 3
"""Lines below the bytes up to which only the first of what is known of a field is told, in one of them."""


class Detail(Vertical):
    """Shows an overview and two frames; `tab` says which. Fields and bytes follow each other."""

    DEFAULT_CSS = """
    Detail { width: 1fr; height: 1fr; }
    Detail #panes { width: 1fr; height: 1fr; layout: vertical; }
    Detail #fields { height: 2fr; }
    Detail #bytes { height: 1fr; }
    Detail #hex { height: 1fr; }
    Detail #facts { height: 2; }
    Detail.-wide #panes { layout: horizontal; }
    Detail.-wide #fields { width: 2fr; height: 1fr; }
    Detail.-wide #bytes { width: 74; height: 1fr; }
    Detail.-wide #facts { height: 8; }
    Detail.-wide.-narrow #bytes { width: 42; }
    Detail #overview { display: none; }
    Detail.-overview #overview { display: block; }
    Detail.-overview #panes { display: none; }
    """

    def __init__(self, cells: Cells, *, show_secrets: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._show_secrets = show_secrets
        self.tab = "Response"
        self._opened: Opened | None = None

    def compose(self) -> ComposeResult:
        yield Bar(self._cells, id="about")
        yield Bar(self._cells, id="tabs")
        yield Overview(self._cells, id="overview")
        with Container(id="panes"):
            yield FieldTree(self._cells, show_secrets=self._show_secrets, id="fields")
            with Vertical(id="bytes"):
                yield HexView(self._cells, id="hex")
                yield Bar(self._cells, id="facts")

    def on_mount(self) -> None:
        self._show_tabs()

    @property
    def fields(self) -> FieldTree:
        return self.query_one(FieldTree)

    @property
    def hex(self) -> HexView:
        return self.query_one(HexView)

    @property
    def panes(self) -> list[Widget]:
        """What can have the focus in this tab."""
        return [self.query_one(Overview)] if self.tab == "Overview" else [self.fields, self.hex]

    @property
    def side(self) -> Side | None:
        """The side this tab shows, None for the overview."""
        return SIDES.get(self.tab)

    def choose(self, by: int) -> None:
        """Go `by` tabs to the right."""
        focused = self.screen.focused in {self.fields, self.hex, self.query_one(Overview)}
        self.tab = TABS[(TABS.index(self.tab) + by) % len(TABS)]
        self.set_class(self.tab == "Overview", "-overview")
        self._show_tabs()
        if focused:
            self.panes[0].focus()

    def show_overview(self, lines: list[Line]) -> None:
        self.query_one(Overview).show(lines)

    def show_about(self, left: str, right: str) -> None:
        """The exchange in one line, for where the list cannot be seen."""
        self.query_one("#about", Bar).show(([(f" {left}", look.BOLD)], [(f"{right} ", look.PLAIN)]))

    def show_frame(self, opened: Opened | None, *, api: tuple[int, int] | None = None, message: str = "") -> None:
        """Show a frame, or a message where there is none."""
        self._opened = opened
        self.hex.show(opened)
        self.fields.show(opened, api=api, message=message)
        self._mark()

    def lay_out(self, width: int) -> None:
        """Lay the panes out for a width."""
        self.set_class(width >= SIDE_BY_SIDE, "-wide")
        self.set_class(width < SIXTEEN_BYTES, "-narrow")

    def _show_tabs(self) -> None:
        parts: list[Part] = [(" ", look.DIM)]
        for name in TABS:
            chosen = name == self.tab
            left, right = (self._cells.glyph("▐"), self._cells.glyph("▌")) if chosen else (" ", " ")
            parts.append((f"{left}{name}{right}", look.CURSOR if chosen else look.PLAIN))
            parts.append((self._cells.glyph("│") if name != TABS[-1] else " ", look.DIM))
        self.query_one("#tabs", Bar).show((parts, [("{ } tab  ", look.DIM)]))

    @on(FieldTree.Selected)
    def _field_selected(self, event: FieldTree.Selected) -> None:
        event.stop()
        self._mark()

    @on(FieldTree.BytesWanted)
    def _bytes_wanted(self, event: FieldTree.BytesWanted) -> None:
        event.stop()
        self.hex.focus()

    @on(HexView.Moved)
    def _byte_moved(self, event: HexView.Moved) -> None:
        event.stop()
        byte = self.hex.byte
        self.fields.reveal(byte)
        selected = self.fields.selected
        if selected is not None and selected[0] <= byte < selected[1]:
            self.hex.marked = selected
            self.hex.refresh()
        self._facts()

    @on(HexView.FieldWanted)
    def _field_wanted(self, event: HexView.FieldWanted) -> None:
        event.stop()
        self.fields.focus()

    def _mark(self) -> None:
        selected = self.fields.selected
        if selected is not None and self._opened is not None:
            self.hex.mark(*selected)
        self._facts()

    def _facts(self) -> None:
        """Which bytes these are, as what type, of which field."""
        bar = self.query_one("#facts", Bar)
        selected, item = self.fields.selected, self.fields.item
        if self._opened is None or selected is None or item is None:
            bar.show()
            return
        start, end = selected
        total = len(self._opened.data)
        bytes_text = (
            f" bytes {start:04x}-{max(start, end - 1):04x} of {total}" if end > start else f" at byte {start:04x}"
        )
        first: list[Part] = [(bytes_text, look.BOLD)]
        if item.node is None:
            bar.show((first, []))
            return
        node = item.node
        first.append((f"   {end - start} B   {node.type}", look.PLAIN))
        path: list[Part] = [(f" field {node.path or node.name}", look.PLAIN)]
        third: list[Part] = []
        if node.field is not None:
            field = node.field
            third.append((f" in versions {field.versions}", look.DIM))
            if field.tag is not None:
                third.append((f", tag {field.tag}", look.DIM))
            if field.nullable:
                third.append((f", may be null in {field.nullable}", look.DIM))
        told = self.fields.explained()
        if bar.size.height <= FEW_LINES:
            bar.show((first, [(f"{node.path[-40:]} ", look.DIM)]), ([(f" {' '.join(told[:1])}", look.PLAIN)], []))
            return
        room = max(1, bar.size.width - 2)
        lines = [piece for text in told for piece in wrap(self._cells.escape(text), room)]
        bar.show((first, []), (path, []), (third, []), *(([(f" {line}", look.PLAIN)], []) for line in lines))
