"""The base of dialogs: screens that ask or show something on top of another screen."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType

from kproxy.tui.screens.composed import Composed


class Modal(ModalScreen[ScreenResultType], Composed[ScreenResultType]):
    """A dialog that returns one result."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close this screen with a result; a second call, as after a double click, is ignored.

        In Textual, a second call would close the screen below.
        """
        return super().dismiss(result) if self.is_current else AwaitComplete()
