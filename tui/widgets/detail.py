"""The detail of one exchange: tabs, fields, bytes, and facts about the field under the cursor."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from kproxy.captures.text import size_text
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.tui.detail.buffers import WIRE, bytes_below, holders, title
from kproxy.tui.detail.opened import Opened
from kproxy.tui.detail.viewing import Choices, PlainViewers, Viewers
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, Part
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.hex_view import HexView
from kproxy.tui.widgets.overview import Line, Overview
from kproxy.tui.widgets.painted import Ground
from kproxy.tui.widgets.records_tab import RecordsTab
from kproxy.tui.widgets.timing import TimingPane

if TYPE_CHECKING:
    from kproxy.decoders.tree import Node
    from kproxy.tui.detail.timing import Timing

RECORDS = "Records"
TIMING = "Timing"
OVERVIEW = "Overview"
"""The tab of an exchange with an error, until the user chooses another tab: it says what to do."""
RESPONSE = "Response"
"""The tab of any other exchange, until the user chooses another tab."""
TABS = (OVERVIEW, "Request", RESPONSE, RECORDS, TIMING)
SIDES = {"Request": Side.CLIENT, RESPONSE: Side.BROKER}
SIDE_BY_SIDE = 100
"""Smallest width, in cells, at which fields and bytes stand side by side."""
SIXTEEN_BYTES = 116
"""Smallest width, in cells, at which a row beside the fields holds 16 bytes instead of 8."""
FEW_LINES = 3
"""Up to this height, in rows, the lines below the bytes show only the first fact about a field."""


class Detail(Ground):
    """Shows overview, request, response, records or timing, as `tab` says. Fields and bytes move together."""

    DEFAULT_CSS = """
    Detail { width: 1fr; height: 1fr; }
    Detail #panes { width: 1fr; height: 1fr; layout: vertical; }
    Detail #fields { height: 2fr; }
    Detail #bytes { height: 1fr; }
    Detail #hex { height: 1fr; }
    Detail #buffers { height: 1; display: none; }
    Detail.-buffers #buffers { display: block; }
    Detail #facts { height: 2; }
    Detail.-tall #fields { height: 3fr; }
    Detail.-tall #bytes { height: 2fr; }
    Detail.-tall #facts { height: 8; }
    Detail.-wide #panes { layout: horizontal; }
    Detail.-wide #fields { width: 2fr; height: 1fr; }
    Detail.-wide #bytes { width: 74; height: 1fr; }
    Detail.-wide #facts { height: 8; }
    Detail.-wide.-narrow #bytes { width: 42; }
    Detail #overview, Detail #timing, Detail RecordsTab { display: none; }
    """

    def __init__(
        self, cells: Cells, *, show_secrets: bool = False, viewers: Viewers | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._cells = cells
        self.choices = Choices(viewers or PlainViewers(), View(show_secrets=show_secrets))
        self._records: int | None = None
        self._show_secrets = show_secrets
        self.tab = RESPONSE
        self._is_chosen = False
        """Whether the user, or a finding, has chosen the tab."""
        self._opened: Opened | None = None
        self._sought = ("", "")
        """Name and value of the field to show in the next frame (see `seek`)."""
        self._holder: Node | None = None
        """The node whose children's buffer is shown; None for the frame."""
        self._about = Bar(cells, id="about")
        self._tabs = Bar(cells, id="tabs")
        self._overview = Overview(cells, id="overview")
        self._sides = Ground(id="panes")
        """The fields and the bytes of a request or response."""
        self.fields = FieldTree(cells, show_secrets=show_secrets, id="fields")
        self._buffers = Bar(cells, id="buffers")
        self.hex = HexView(cells, id="hex")
        self._facts = Bar(cells, id="facts")
        self.records = RecordsTab(cells, self.choices)
        self._timing = TimingPane(cells, id="timing")

    def compose(self) -> ComposeResult:
        yield self._about
        yield self._tabs
        yield self._overview
        with self._sides:
            yield self.fields
            with Ground(id="bytes"):
                yield self._buffers
                yield self.hex
                yield self._facts
        yield self.records
        yield self._timing

    def on_mount(self) -> None:
        self._show_tabs()

    @property
    def panes(self) -> list[Widget]:
        """The panes of this tab that can have the focus."""
        if self.tab == RECORDS:
            return self.records.panes
        if self.tab == TIMING:
            return [self._timing]
        return [self._overview] if self.tab == OVERVIEW else [self.fields, self.hex]

    @property
    def side(self) -> Side | None:
        """The side whose frame this tab shows, None if it shows no frame."""
        return SIDES.get(self.tab)

    @property
    def side_name(self) -> str:
        """The side's name, "request" or "response"; "" if `side` is None."""
        return self.tab.lower() if self.side is not None else ""

    def choose(self, by: int) -> None:
        """Go `by` tabs to the right, to the left if negative."""
        self._is_chosen = True
        self._go_to(TABS[(TABS.index(self.tab) + by) % len(TABS)])

    def begin_at(self, tab: str) -> None:
        """Show a tab for the next exchange, unless one was chosen or the user is reading this one."""
        if not self._is_chosen and tab != self.tab and self.screen.focused not in self.panes:
            self._go_to(tab)

    def _go_to(self, tab: str) -> None:
        focused = self.screen.focused in self.panes
        self.tab = tab
        shown = {OVERVIEW: self._overview, RECORDS: self.records, TIMING: self._timing}.get(tab, self._sides)
        self.show_one(shown, (self._sides, self._overview, self.records, self._timing))
        self._show_tabs()
        if focused:
            self.panes[0].focus()

    def seek(self, path: str) -> None:
        """Choose the tab of a field, and show the field in the next frame.

        `path` has the form of captures.findings.model.Evidence.path.
        """
        side, _, field = path.partition(".")
        name, _, value = field.partition("=")
        if side.capitalize() in SIDES:
            self.choose(TABS.index(side.capitalize()) - TABS.index(self.tab))
            self._sought = (name, value)

    def show_overview(self, lines: list[Line]) -> None:
        self._overview.show(lines)

    def show_timing(self, timing: Timing | None) -> None:
        self._timing.draw(timing)

    def show_record_count(self, count: int | None) -> None:
        """Show the number of records on their tab; None shows no number."""
        self._records = count
        self._show_tabs()

    def show_about(self, left: str, right: str) -> None:
        """Show the exchange in one line, for a screen that has no room for the list."""
        self._about.show(([(f" {left}", look.BOLD)], [(f"{right} ", look.PLAIN)]))

    def show_frame(self, opened: Opened | None, *, api: tuple[int, int] | None = None, message: str = "") -> None:
        """Show a frame, or a message if there is none."""
        self._opened, self._holder = opened, None
        self.hex.show(opened)
        self.fields.show(opened, api=api, message=message)
        if opened is not None and self._sought[0]:
            self.fields.reveal_field(*self._sought)
            self._sought = ("", "")
        self._mark()

    def lay_out(self, width: int, *, tall: bool = False) -> None:
        """Lay the panes out for a width in columns; `tall` if the detail is beside the list, where it is narrow."""
        wide, narrow = width >= SIDE_BY_SIDE and not tall, width < SIXTEEN_BYTES
        self.update_classes({"-wide": wide, "-narrow": narrow, "-tall": tall}, update=self.is_attached)
        self.records.lay_out(0 if tall else width)

    def _show_tabs(self) -> None:
        parts: list[Part] = [(" ", look.DIM)]
        for name in TABS:
            chosen = name == self.tab
            left, right = ("[", "]") if chosen else (" ", " ")
            text = f"{name} {size_text(self._records)}" if name == RECORDS and self._records is not None else name
            style = look.CURSOR if chosen else look.PLAIN
            parts.append((f"{left}{text}{right}", look.pressed(style, f"screen.show_tab('{name}')")))
            parts.append((self._cells.glyph("│") if name != TABS[-1] else " ", look.DIM))
        self._tabs.show((parts, [("{ } tab  ", look.DIM)]))

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
        self.fields.reveal(byte, self._holder)
        selected = self.fields.selected
        if selected is not None and selected[0] <= byte < selected[1]:
            self.hex.marked = selected
            self.hex.refresh()
        self._tell_facts()

    @on(HexView.FieldWanted)
    def _field_wanted(self, event: HexView.FieldWanted) -> None:
        event.stop()
        self.fields.focus()

    def _mark(self) -> None:
        selected = self.fields.selected
        self._choose_buffer()
        if selected is not None and self._opened is not None:
            self.hex.mark(*selected)
        self._tell_facts()

    def _choose_buffer(self) -> None:
        """Show the buffer that the selected field's offsets refer to."""
        chain = holders(self.fields.near)
        holder = chain[-1] if chain else None
        if holder is not self._holder:
            self._holder = holder
            if holder is None:
                self.hex.show(self._opened)
            else:
                withheld = self._opened.secret if self._opened is not None else []
                secret = any(start <= chain[0].start < end for start, end in withheld)
                self.hex.show_made(bytes_below(holder), secret=secret)
        self.set_class(bool(chain), "-buffers")
        parts: list[Part] = [(f" {WIRE}", look.PLAIN)]
        for one in chain:
            parts.append((f" {self._cells.glyph('│')} ", look.DIM))
            parts.append((self._cells.escape(title(one)), look.CURSOR if one is holder else look.PLAIN))
        self._buffers.show((parts, []))

    def _tell_facts(self) -> None:
        """Show offsets, size, type, path, versions and explanation of the field under the cursor."""
        bar = self._facts
        selected, item = self.fields.selected, self.fields.item
        if self._opened is None or selected is None or item is None:
            bar.show()
            return
        start, end = selected
        total = self.hex.length
        bytes_text = (
            f" bytes 0x{start:04x}-0x{max(start, end - 1):04x} of {total}" if end > start else f" at byte 0x{start:04x}"
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
        explained = self.fields.explained()
        if bar.size.height <= FEW_LINES:
            bar.show((first, [(f"{node.path[-40:]} ", look.DIM)]), ([(f" {' '.join(explained[:1])}", look.PLAIN)], []))
            return
        room = max(1, bar.size.width - 2)
        lines = [piece for text in explained for piece in wrap(self._cells.escape(text), room)]
        bar.show((first, []), (path, []), (third, []), *(([(f" {line}", look.PLAIN)], []) for line in lines))
