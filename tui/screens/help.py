"""The help screen, made from the registry: what every key does, the focused pane's keys first."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding

from kproxy.decoders.fields import FIELDS
from kproxy.decoders.filters.language import OPERATORS, PREFIXES, operators
from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.keymap import DEFAULT, Keymap, keymap_of
from kproxy.tui.listing.legend import LEGEND
from kproxy.tui.screens.modal import Modal
from kproxy.tui.search import patterns
from kproxy.tui.search.searching import in_lines
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar
from kproxy.tui.widgets.find_bar import FindBar
from kproxy.tui.widgets.lines import Lines


class HelpLines(Lines):
    CONTEXT = "help"
    BINDINGS = actions.bindings("help")

    def __init__(self, cells: Cells, contexts: Sequence[str], **options: Any) -> None:
        super().__init__(cells, **options)
        self._content = help_lines(contexts, keymap_of(self.app))
        self._wrapped: tuple[int, list[tuple[str, str, Style]]] = (0, [])

    @property
    def _lines(self) -> list[tuple[str, str, Style]]:
        """The lines, wrapped to the width of the pane."""
        width = self.size.width
        if self._wrapped[0] != width:
            self._wrapped = (width, [line for whole in self._content for line in _wrap(whole, width - 2)])
        return self._wrapped[1]

    @property
    def count(self) -> int:
        return len(self._lines)

    @property
    def legend(self) -> int:
        """The line at which the legend of the marks begins."""
        before = next(at for at, (_, text, _) in enumerate(self._content) if text == LEGEND[0][0])
        return sum(len(_wrap(line, self.size.width - 2)) for line in self._content[:before])

    def segments(self, index: int, width: int) -> list[Segment]:
        keys, text, style = self._lines[index]
        keys = "".join(one if one.isascii() else self.cells.glyph(one) for one in keys)
        if not keys:
            return [Segment(self.cells.fit(f" {text}", width), style)]
        rest = Segment(self.cells.fit(text, width - KEY_CELLS), style)
        return [Segment(self.cells.fit(f"  {keys}", KEY_CELLS), look.KEY), rest]


KEY_CELLS = 24


def _wrap(line: tuple[str, str, Style], width: int) -> list[tuple[str, str, Style]]:
    keys, text, style = line
    if not keys:
        return [("", piece, style) for piece in wrap(text, max(20, width)) or [""]]
    pieces = wrap(text, max(20, width - KEY_CELLS)) or [""]
    return [(keys if number == 0 else " ", piece, style) for number, piece in enumerate(pieces)]


def help_lines(contexts: Sequence[str], keymap: Keymap = DEFAULT) -> list[tuple[str, str, Style]]:
    """(keys, text, style) of every line: actions of `contexts`, actions of all other contexts, the filter language."""
    order = [*contexts, *(name for name in actions.CONTEXTS if name not in contexts)]
    lines: list[tuple[str, str, Style]] = []
    for name in order:
        lines.append(("", actions.CONTEXTS[name], look.BOLD))
        lines += [(keymap.text(action), action.help, look.PLAIN) for action in actions.of(name)]
        lines.append(("", "", look.PLAIN))
    lines.append(
        ("", "Filter language: api == Produce and latency > 50ms, error in (6, NOT_COORDINATOR), …", look.BOLD)
    )
    lines += [(field.name, f"{field.doc}   {' '.join(operators(field))}", look.PLAIN) for field in FIELDS]
    lines.append(("", "", look.PLAIN))
    lines.append(("request.body.…", "any field of a body by its path, [] for each element of a list", look.PLAIN))
    lines.append(("response.body.…", "response.body.topics[].errorCode == 3", look.PLAIN))
    lines.append(("", "", look.PLAIN))
    lines += [(operator.symbol, operator.doc, look.PLAIN) for operator in OPERATORS]
    lines += [(word, doc, look.PLAIN) for word, doc in PREFIXES.items()]
    lines += [
        ("and or not ( )", "join tests", look.PLAIN),
        ("", "", look.PLAIN),
    ]
    for title, marks in LEGEND:
        lines.append(("", title, look.BOLD))
        lines += [(mark, meaning, look.PLAIN) for mark, meaning in marks]
        lines.append(("", "", look.PLAIN))
    lines += [
        ("", "Result: a long poll is a Fetch that waited for records until its max wait was over.", look.PLAIN),
        ("", "Shift and drag selects text with the terminal's own means.", look.PLAIN),
    ]
    return lines


class HelpScreen(Modal[None]):
    """Help; a second ? shows what the marks mean, q, esc or a third ? close it, / finds a text in it."""

    BINDINGS: ClassVar = [
        Binding("q,escape", "close", show=False),
        Binding("question_mark,f1", "legend", show=False),
        Binding("ctrl+c", "close", show=False),
    ]
    DEFAULT_CSS = """
    HelpScreen { background: ansi_default; layout: vertical; }
    """

    def __init__(self, cells: Cells, contexts: Sequence[str]) -> None:
        """`contexts` are the contexts of the focused pane and of its screen, whose keys come first."""
        super().__init__()
        self._cells = cells
        self._contexts = contexts
        self._sought: patterns.Sought | None = None

    def compose(self) -> ComposeResult:
        yield Bar(self._cells, fill=look.TITLE, id="help-title")
        yield HelpLines(self._cells, self._contexts)
        yield FindBar()

    def on_mount(self) -> None:
        self._show_title()
        self.query_one(HelpLines).focus()

    def _show_title(self) -> None:
        said = f"   [find: {self._sought.words}]" if self._sought is not None else ""
        keys = "? marks  / find  n N next  q back "
        self.query_one(Bar).show(([(f" Help{said}", look.TITLE)], [(keys, look.TITLE)]))

    def action_find(self) -> None:
        self.query_one(FindBar).open()

    def action_found(self, by: int) -> None:
        pane, sought = self.query_one(HelpLines), self._sought
        if sought is None:
            return
        place = in_lines(pane, sought, by)
        if place is None:
            self.notify(f"not found here: {sought.words}", timeout=3)
        else:
            pane.move_to(place)

    @on(FindBar.Done)
    def _find(self, event: FindBar.Done) -> None:
        event.stop()
        bar = self.query_one(FindBar)
        if event.text:
            try:
                self._sought = patterns.read(event.text)
            except ValueError as error:
                bar.complain(str(error))
                return
        bar.close()
        self.query_one(HelpLines).focus()
        if event.text:
            self.action_found(1)
        self._show_title()

    def action_legend(self) -> None:
        """Go to the legend of the marks; from there, close the help."""
        pane = self.query_one(HelpLines)
        at = pane.legend
        if pane.cursor >= at:
            self.action_close()
        else:
            pane.move_to(at)
            pane.set_top(at)

    def action_close(self) -> None:
        self.dismiss()
