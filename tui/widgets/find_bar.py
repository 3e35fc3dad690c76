"""The line in which a text to find is typed, or what else is asked for; what is wrong is marked in it."""

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
    """Shown while a text is typed."""

    DEFAULT_CSS = """
    FindBar { height: 1; display: none; }
    FindBar.-open { display: block; }
    FindBar Static { width: auto; }
    FindBar.-wrong FindInput { text-style: underline; color: ansi_red; }
    FindBar FindInput { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    """

    class Done(Message):
        """What was typed, and what for (the title); None where the line was left."""

        def __init__(self, text: str | None, title: str) -> None:
            super().__init__()
            self.text = text
            self.asked = title

    asked = FIND

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
        """Ask for something; None leaves what was typed before."""
        self.asked = title
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
        """Mark what was typed, which can be mended then, and say what is wrong with it."""
        self.add_class("-wrong")
        self.notify(why, timeout=4)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.remove_class("-wrong")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Done(event.value, self.asked))

    @on(FindInput.Left)
    def _left(self, event: FindInput.Left) -> None:
        event.stop()
        self.post_message(self.Done(None, self.asked))
