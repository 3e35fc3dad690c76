"""The input line for a text to find, a place to go to or a comment; marks invalid input."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from kproxy.tui.actions import registry as actions

FIND = "Find"


class FindInput(Input):
    CONTEXT: ClassVar[str] = "find"
    BINDINGS = actions.bindings("find")

    def __init__(self, **options: Any) -> None:
        super().__init__(compact=True, **options)

    class Left(Message):
        """The line was left."""

    def action_leave(self) -> None:
        self.post_message(self.Left())


class FindBar(Horizontal):
    """An input line with a title; hidden unless open."""

    DEFAULT_CSS = """
    FindBar { height: 1; display: none; }
    FindBar.-open { display: block; }
    FindBar Static { width: auto; }
    FindBar.-wrong FindInput { text-style: underline; color: ansi_red; }
    FindBar FindInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    """

    class Done(Message):
        """The line was entered or left: `text` is what was typed, None if left."""

        def __init__(self, text: str | None) -> None:
            super().__init__()
            self.text = text

    def compose(self) -> ComposeResult:
        yield Static(f" {FIND} ")
        yield FindInput()

    @property
    def input(self) -> FindInput:
        return self.query_one(FindInput)

    @property
    def opened(self) -> bool:
        return self.has_class("-open")

    def open(self, title: str = FIND, text: str | None = None) -> None:
        """Show the line with a title and a text; None keeps the text typed before."""
        self.query_one(Static).update(f" {title} ")
        self.remove_class("-wrong")
        if text is not None:
            self.input.value = text
            self.input.cursor_position = len(text)
        self.add_class("-open")
        self.input.focus()

    def close(self) -> None:
        self.remove_class("-open")

    def complain(self, why: str) -> None:
        """Mark the text as invalid and notify the user why; the line stays open for corrections."""
        self.add_class("-wrong")
        self.notify(why, timeout=4)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.remove_class("-wrong")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Done(event.value))

    @on(FindInput.Left)
    def _left(self, event: FindInput.Left) -> None:
        event.stop()
        self.post_message(self.Done(None))
