"""The base of every screen that asks something, or says it, over another one."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType

from kproxy.tui.screens.composed import Composed


class Modal(ModalScreen[ScreenResultType], Composed[ScreenResultType]):
    """Answers once."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave this screen with an answer; one that comes when it is left already, as by a double click, is dropped.

        The toolkit would take away the screen that is shown by then.
        """
        return super().dismiss(result) if self.is_current else AwaitComplete()
