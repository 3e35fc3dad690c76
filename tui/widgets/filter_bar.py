"""The filter bar: text, its state in a word, and the error marked where it is."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static

from decoders.filters import Result, parse
from decoders.filters.parser import Status
from tui import actions, look
from tui.cells import Cells

QUIET_SECONDS = 0.12
"""Typing stops for this long before the text is judged."""

STATES = {
    Status.OK: ("ok", Style(color="green")),
    Status.UNFINISHED: ("unfinished", Style(color="yellow")),
    Status.ERROR: ("error", Style(color="red", bold=True)),
    Status.EMPTY: ("", look.PLAIN),
}


class _MarkError(Highlighter):
    """Underlines the part of the text that the parser complains about."""

    def __init__(self) -> None:
        self.result: Result | None = None

    def highlight(self, text: Text) -> None:
        if self.result is not None and self.result.status is Status.ERROR:
            start, end = self.result.span
            text.stylize(Style(color="red", underline=True, bold=True), start, max(end, start + 1))


class FilterInput(Input):
    """The line that is typed into; up and down bring back what was applied before."""

    CONTEXT: ClassVar[str] = "filter"
    BINDINGS = actions.bindings("filter")

    def __init__(self, **options: Any) -> None:
        self.mark = _MarkError()
        super().__init__(highlighter=self.mark, compact=True, select_on_focus=False, **options)
        self._history: list[str] = []
        self._at = 0

    def remember(self, text: str) -> None:
        if text and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._at = len(self._history)

    def action_history(self, by: int) -> None:
        at = self._at + by
        if 0 <= at <= len(self._history):
            self._at = at
            self.value = self._history[at] if at < len(self._history) else ""
            self.cursor_position = len(self.value)

    def action_clear(self) -> None:
        self.value = ""

    def action_leave(self) -> None:
        self.post_message(FilterBar.Left())


class FilterBar(Vertical):
    """Parses while one types; tells of a filter only when it is whole, so that a broken one changes nothing."""

    DEFAULT_CSS = """
    FilterBar { height: auto; }
    FilterBar Horizontal { height: 1; }
    FilterBar #filter-label { width: 9; }
    FilterBar FilterInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    FilterBar #filter-state { width: auto; min-width: 2; padding: 0 1; }
    FilterBar #filter-error { height: 1; display: none; }
    FilterBar.-broken #filter-error { display: block; }
    """

    class Applied(Message):
        """A whole filter (or none: `result.expression` is None) is to decide what is shown."""

        def __init__(self, text: str, result: Result) -> None:
            super().__init__()
            self.text = text
            self.result = result

    class Left(Message):
        """The bar is left; what was applied stays."""

    def __init__(self, cells: Cells, **options: Any) -> None:
        super().__init__(**options)
        self._cells = cells
        self._applied = ""
        self._counts = ""
        self._result = parse("")
        self._timer: Any = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(" Filter ", id="filter-label")
            yield FilterInput(id="filter-input")
            yield Static("", id="filter-state")
        yield Static("", id="filter-error")

    @property
    def input(self) -> FilterInput:
        return self.query_one(FilterInput)

    @property
    def broken(self) -> bool:
        return self.has_class("-broken")

    def set_text(self, text: str) -> None:
        """Put a text into the line and apply it if it is whole."""
        self.input.value = text
        self._submit()

    def set_counts(self, counts: str) -> None:
        """What stands at the right: "312 of 18,204"."""
        if counts != self._counts:
            self._counts = counts
            self._show_state()

    def edit(self) -> None:
        self.input.focus()
        self.input.cursor_position = len(self.input.value)

    def restore(self) -> None:
        """Put back the filter that is applied."""
        self.input.value = self._applied
        self._judge()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(QUIET_SECONDS, self._judge)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit()

    def _submit(self) -> None:
        self._judge()
        if self._result.status in {Status.OK, Status.EMPTY}:
            text = self.input.value.strip()
            self._applied = text
            self.input.remember(text)
            self.post_message(self.Applied(text, self._result))

    def _judge(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._result = parse(self.input.value)
        self.input.mark.result = self._result
        self.input.refresh()
        broken = self._result.status is Status.ERROR
        self.set_class(broken, "-broken")
        if broken:
            message = f"{self._result.message}  (col {self._result.span[0] + 1})"
            text = Text(self._cells.escape(f"         {message}"), no_wrap=True, overflow="ellipsis", end="")
            text.stylize(look.SEVERITY["E"])
            self.query_one("#filter-error", Static).update(text)
        self._show_state()

    def _show_state(self) -> None:
        word, style = STATES[self._result.status]
        pending = self.input.value.strip() != self._applied
        if self._result.status is Status.OK and self._result.expression is not None:
            word = f"ok {self._result.expression.cost}"
        if pending and self._result.status in {Status.OK, Status.EMPTY}:
            word = f"{word}, enter applies".lstrip(", ")
        text = Text(no_wrap=True, end="")
        text.append(word, style)
        if self._counts:
            text.append(f"  {self._counts}")
        self.query_one("#filter-state", Static).update(text)
