"""The lines around the panes: title, status, keys, tabs of the detail, facts about bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.screen import Screen
from textual.strip import Strip

from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action
from kproxy.tui.actions.keymap import keymap_of
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.painted import Painted

Part = tuple[str, Style]
KEY_PARTS = 2
"""Number of parts of an entry in the help bar: the key, and what the key does."""


class Bar(Painted):
    """One or more lines of styled parts, repainted only if they change; left parts are cut before right ones.

    A part with a style of `look.pressed` runs an action when clicked.
    """

    auto_links = False

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; }
    """

    def __init__(self, cells: Cells, *, fill: Style = look.PLAIN, **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._fill = fill
        self._lines: list[tuple[list[Part], list[Part]]] = []

    def show(self, *lines: tuple[list[Part], list[Part]]) -> None:
        """Show lines, each given as (its left parts, its right parts)."""
        if list(lines) != self._lines:
            self._lines = list(lines)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        left, right = self._lines[y] if y < len(self._lines) else ([], [])
        tail = Strip([Segment(self._cells.escape(text), style) for text, style in right])
        head = Strip([Segment(self._cells.escape(text), style) for text, style in left])
        if tail.cell_length > width:
            tail = tail.crop(0, width)
        room = width - tail.cell_length
        if head.cell_length > room:
            cut = self.cut(head, max(0, room - 1))
            head = Strip([*cut, Segment(self._cells.glyph("…"), self._fill)]) if room else Strip([])
        return Strip.join([head.adjust_cell_length(room, self._fill), tail])

    def cut(self, line: Strip, room: int) -> Strip:
        """The beginning of a line that is longer than `room` cells."""
        return line.crop(0, room)


class HelpBar(Bar):
    """Two lines of keys: the focused pane's, then those of its screen and of the application."""

    DEFAULT_CSS = """
    HelpBar { height: 2; }
    """

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(cells, **options)
        self._shown: tuple[Any, ...] = ()
        """What the keys that are shown depend on."""

    def show_for(self, context: str, widget: Any, screen: Any) -> None:
        """Show the keys of `widget`'s context and those of `screen.CONTEXTS`, which work in all its panes."""
        own = actions.on_bar(actions.of(context), widget)
        shared = actions.on_bar([action for one in screen.CONTEXTS for action in actions.of(one)], screen)
        shown = (context, isinstance(widget, Screen), own, shared, keymap_of(self.app))
        if shown == self._shown:
            return  # as after most keys
        self._shown = shown
        title = f" {actions.CONTEXTS[context].split()[-1].capitalize()}: "
        self.show(
            (self._keys(title, own, widget), []),
            (self._keys(" kproxy: ", shared, screen) if screen.CONTEXTS else [], []),
        )

    def cut(self, line: Strip, room: int) -> Strip:
        """Cut between entries, so that each key is shown with what it does."""
        kept = list(line)
        while len(kept) > KEY_PARTS and len("".join(part.text for part in kept).rstrip()) > room:
            del kept[-KEY_PARTS:]
        return Strip(kept).crop(0, room)

    def _keys(self, title: str, able: Sequence[Action], widget: Any) -> list[Part]:
        keymap = keymap_of(self.app)
        parts: list[Part] = [(title, look.DIM)]
        whose = "screen" if isinstance(widget, Screen) else "focused"
        for action in able:
            key = action.bar_key or keymap.text(action).split()[0]
            name = action.handler.partition("(")[0]
            does = action.handler if "." in name else f"{whose}.{action.handler}"
            parts += [(key, look.pressed(look.KEY, does)), (f" {action.title}  ", look.pressed(look.PLAIN, does))]
        return parts
