"""The input line of the filter bar, with a history of applied filters and suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text
from textual.message import Message
from textual.widgets import Input

from kproxy.tui.actions import registry as actions
from kproxy.tui.settings.keeping import History
from kproxy.tui.widgets.suggestions import Suggestions

if TYPE_CHECKING:
    from kproxy.decoders.filters import Result


class MarkError(Highlighter):
    """Underlines the part of the text that the parser rejects."""

    def __init__(self) -> None:
        self.result: Result | None = None

    def highlight(self, text: Text) -> None:
        if self.result is not None and self.result.status == "error":
            start, end = self.result.span
            text.stylize(Style(color="red", underline=True, bold=True), start, max(end, start + 1))


class FilterInput(Input):
    """Up and down move through the history; from the newest line down moves into the suggestions."""

    CONTEXT: ClassVar[str] = "filter"
    BINDINGS = actions.bindings("filter")

    class Left(Message):
        """The line was left without applying its text."""

    class SuggestionWanted(Message):
        """Asks to show suggestions now."""

    class SuggestionTaken(Message):
        """Asks to put the marked suggestion into the line."""

    def __init__(self, suggestions: Suggestions, history: History, **options: Any) -> None:
        self.mark = MarkError()
        super().__init__(highlighter=self.mark, compact=True, select_on_focus=False, **options)
        self._suggestions = suggestions
        self._history = history
        self._back = 0
        """Position in the history, counted back from the newest line; 0 is the draft."""
        self._draft = ""
        self._shown = ""

    def remember(self, text: str) -> None:
        self._history.add(text)
        self._back = 0

    def set_value(self, text: str) -> None:
        self.value = self._shown = text
        self.cursor_position = len(text)

    def action_history(self, by: int) -> None:
        """Go to an older line (-1) or a newer one (1)."""
        if self.value != self._shown:
            self._back = 0  # an edited line is a new draft
        lines = self._history.lines
        if by < 0 and self._suggestions.chosen and self._suggestions.cursor > 0:
            self._suggestions.choose(-1)
            return
        if by > 0 and not self._back:
            self.action_choose(1)
            return
        back = self._back - by
        if back > len(lines):
            return
        if not self._back:
            self._draft = self.value
            if back == 1 and lines[-1] == self.value and len(lines) > 1:
                back = 2  # skip the newest line: it is the draft itself, the applied filter
        self._back = back
        self.set_value(lines[-back] if back else self._draft)

    def action_choose(self, by: int) -> None:
        """Mark the next (1) or previous (-1) suggestion."""
        if self._suggestions.is_open:
            self._suggestions.choose(by)
        elif by > 0:
            self.post_message(self.SuggestionWanted())

    def action_accept(self) -> None:
        if self._suggestions.candidate is not None:
            self.post_message(self.SuggestionTaken())
        else:
            self.post_message(self.SuggestionWanted())

    async def action_submit(self) -> None:
        if self._suggestions.chosen and self._suggestions.candidate is not None:
            self.post_message(self.SuggestionTaken())
        else:
            await super().action_submit()

    def action_clear(self) -> None:
        self.value = ""

    def action_leave(self) -> None:
        self.post_message(self.Left())
