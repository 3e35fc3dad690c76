"""The input line of a screen: for texts to find, places to go to and comments."""

from __future__ import annotations

from collections.abc import Callable

from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.widgets.find_bar import FIND, FindBar
from kproxy.tui.widgets.lines import Lines

Read = Callable[[str], Callable[[], None] | None]
"""Turns a typed text into the call that carries it out, or None for nothing. Raises ValueError with the reason."""


class Asking:
    def __init__(self, screen: KproxyScreen, focus: Callable[[Lines | None], object]) -> None:
        """`focus(pane)` restores the focus: `pane` had it when the line opened, or is None if that pane is hidden."""
        self._screen = screen
        self._focus = focus
        self._asked_in: Lines | None = None
        """The pane that had the focus when the line was opened."""
        self._read: Read = _nothing

    def ask(self, read: Read, title: str = FIND, text: str | None = None) -> None:
        """Open the line with a title and a text; None keeps the text typed before."""
        focused = self._screen.focused
        self._asked_in = focused if isinstance(focused, Lines) else None
        self._read = read
        self._screen.query_one(FindBar).open(title, text)

    def answer(self, event: FindBar.Done) -> None:
        """Carry out what was typed; invalid text stays in the line for corrections."""
        event.stop()
        bar = self._screen.query_one(FindBar)
        take = None
        if event.text is not None:
            try:
                take = self._read(event.text)
            except ValueError as error:
                bar.complain(str(error))
                return
        bar.close()
        self._focus(self._asked_in if self._asked_in is not None and self._asked_in.is_on_screen else None)
        if take is not None:
            take()
        self._screen.show_chrome()


def _nothing(_: str) -> None:
    return None
