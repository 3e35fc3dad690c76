"""The line in which a text to find is typed."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from tui import actions


class FindInput(Input):
    CONTEXT: ClassVar[str] = "find"
    BINDINGS = actions.bindings("find")

    def __init__(self, **options: Any) -> None:
        super().__init__(compact=True, **options)

    def action_leave(self) -> None:
        self.post_message(FindBar.Done(""))


class FindBar(Horizontal):
    """Shown while a text is typed."""

    DEFAULT_CSS = """
    FindBar { height: 1; display: none; }
    FindBar.-open { display: block; }
    FindBar Static { width: 7; }
    FindBar FindInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    """

    class Done(Message):
        """The text to find; empty where the line was left."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def compose(self) -> ComposeResult:
        yield Static(" Find ")
        yield FindInput()

    @property
    def input(self) -> FindInput:
        return self.query_one(FindInput)

    def open(self) -> None:
        self.add_class("-open")
        self.input.focus()

    def close(self) -> None:
        self.remove_class("-open")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Done(event.value))
