"""The comparison of two exchanges, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from rich.segment import Segment
from textual.app import ComposeResult

from kproxy.captures.errors import CaptureError
from kproxy.decoders.plurals import counted
from kproxy.tui.actions import registry as actions
from kproxy.tui.detail.comparing import Comparison, Pair
from kproxy.tui.screens.modal import Modal
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, HelpBar
from kproxy.tui.widgets.lines import Lines

ABSENT: Final = "(absent)"
DIFFERS: Final = "≠"


class CompareLines(Lines):
    """One line a field: its path, and its value in each exchange."""

    CONTEXT = "compare"
    BINDINGS = actions.bindings("compare")
    HEADING = 1

    def __init__(self, cells: Cells, names: tuple[str, str], **options: Any) -> None:
        super().__init__(cells, **options)
        self._names = names
        self._pairs: Sequence[Pair] = ()
        self.message = "Reading both exchanges"

    @property
    def count(self) -> int:
        return len(self._pairs)

    @property
    def pair(self) -> Pair | None:
        return self._pairs[self.cursor] if self.cursor < len(self._pairs) else None

    def show(self, pairs: Sequence[Pair]) -> None:
        """Show other fields; the cursor stays on its field, or goes to the next one after it."""
        old, self._pairs = self.pair, pairs
        self.cursor = next((at for at, pair in enumerate(pairs) if pair == old), 0)
        self.content_changed()
        self.moved()

    def moved(self) -> None:
        assert isinstance(self.screen, CompareScreen)  # noqa: S101 (nobody else has these lines)
        self.screen.show_chrome()

    def _room(self, width: int) -> tuple[int, int]:
        """Widths in cells of the path and of each value."""
        value = (width - 2) * 3 // 10
        return width - 2 - 2 * value, value

    def heading(self, _line: int, width: int) -> list[Segment]:
        path, value = self._room(width)
        titles = (self.cells.fit("  field", path + 2), *(self.cells.fit(name, value) for name in self._names))
        return [Segment("".join(titles), look.HEADING)]

    def segments(self, index: int, width: int) -> list[Segment]:
        pair = self._pairs[index]
        path, value = self._room(width)
        style = look.BOLD if pair.differs else look.PLAIN
        mark = self.cells.glyph(DIFFERS) if pair.differs else " "
        return [
            Segment(f"{mark} ", look.SEVERITY["W"]),
            Segment(self.cells.fit_tail(pair.path, path - 1) + " ", look.NAME),
            *(self._value(text, value, style) for text in (pair.first, pair.second)),
        ]

    def _value(self, text: str | None, width: int, style: Any) -> Segment:
        if text is None:
            return Segment(self.cells.fit(ABSENT, width), look.DIM)
        return Segment(self.cells.fit_middle(text, width - 1) + " ", style)

    def beyond(self, line: int, width: int) -> list[Segment]:
        if self.count or line != 1:
            return []
        return [Segment(self.cells.fit(f"  {self.message}", width))]


class CompareScreen(Modal[None]):
    """The fields in which two exchanges differ, or all their fields."""

    CONTEXTS: ClassVar[tuple[str, ...]] = ()
    BINDINGS: ClassVar = []
    DEFAULT_CSS = """
    CompareScreen { background: ansi_default; layout: vertical; }
    CompareScreen #compare-value { height: 3; }
    """

    def __init__(self, cells: Cells, names: tuple[str, str], compare: Callable[[], Comparison]) -> None:
        """`names` are short names of both exchanges. `compare` is called in a thread; it may raise CaptureError."""
        super().__init__()
        self._cells = cells
        self._names = names
        self._compare = compare
        self._found: Comparison | None = None
        self._all = False

    def compose(self) -> ComposeResult:
        yield Bar(self._cells, fill=look.TITLE, id="compare-title")
        yield CompareLines(self._cells, self._names)
        yield Bar(self._cells, id="compare-value")
        yield HelpBar(self._cells)

    def on_mount(self) -> None:
        self.lines.focus()
        self.show_chrome()
        self.run_worker(self._read, thread=True, exclusive=True)

    @property
    def lines(self) -> CompareLines:
        return self.query_one(CompareLines)

    def _read(self) -> None:
        try:
            found = self._compare()
        except CaptureError as error:
            self.app.call_from_thread(self._failed, str(error))
        else:
            self.app.call_from_thread(self._take, found)

    def _failed(self, why: str) -> None:
        self.lines.message = f"not compared: {why}"
        self.lines.content_changed()

    def _take(self, found: Comparison) -> None:
        self._found = found
        self._show()

    def _show(self) -> None:
        if self._found is not None and self.stands:
            self.lines.message = "No field differs.   a shows all fields."
            self.lines.show([pair for pair in self._found.pairs if self._all or pair.differs])
            self.show_chrome()

    def show_chrome(self) -> None:
        """Show the title, the whole value under the cursor, and the keys."""
        if not self.stands:
            return
        said = ""
        if self._found is not None:
            differ = sum(pair.differs for pair in self._found.pairs)
            more = " and more" if self._found.cut else ""
            said = f"   {differ:,} of {counted(len(self._found.pairs), 'field', ',')}{more} differ"
        first, second = self._names
        title = f" Compare {first} with {second}{said}"
        self.query_one("#compare-title", Bar).show(([(title, look.TITLE)], [("esc back ", look.TITLE)]))
        pair = self.lines.pair
        values = () if pair is None else (("", pair.path), (first, pair.first), (second, pair.second))
        self.query_one("#compare-value", Bar).show(
            *(([(f" {name} " if name else " ", look.DIM), (ABSENT if text is None else text, look.PLAIN)], [])
              for name, text in values)
        )  # fmt: skip
        self.query_one(HelpBar).show_for("compare", self.lines, self)

    def action_all(self) -> None:
        self._all = not self._all
        self._show()

    def action_close(self) -> None:
        self.dismiss(None)
