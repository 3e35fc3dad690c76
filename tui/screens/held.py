"""The screen of intercepted frames: what waits for a decision, and the decisions."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.widget import Widget

from kproxy.tui.actions import registry as actions
from kproxy.tui.screens.views import ViewScreen
from kproxy.tui.terminal import look
from kproxy.tui.views.analysis import Block
from kproxy.tui.widgets.outline import Outline

if TYPE_CHECKING:
    from kproxy.tui.captions import Captions
    from kproxy.tui.screens.exporting import Exporting
    from kproxy.tui.settings.live import HeldFrames
    from kproxy.tui.terminal.cells import Cells
    from kproxy.tui.widgets.chrome import Part

MOST_LINES = 500
"""Maximum number of lines of a body that are shown."""
EXPRESSION, ERROR = "Intercept requests that match", "Answer frame {number} with the error"
"""Titles of the input line."""
FALLBACK_EDITOR = "vi"


class HeldScreen(ViewScreen):
    """Lists the frames that the relay holds; decisions are about the frame under the cursor."""

    CONTEXTS = ("app", "held")
    BINDINGS: ClassVar = [binding for context in CONTEXTS[1:] for binding in actions.bindings(context)]

    def __init__(self, view: str, cells: Cells, captions: Captions, exporting: Exporting, held: HeldFrames) -> None:
        super().__init__(view, cells, captions, exporting)
        self._held = held
        self._edited: dict[int, str] = {}
        """Texts that were edited and refused, by the number of the frame."""
        self._shown: tuple[Any, ...] = ()

    def content(self) -> Iterator[Widget]:
        for widget in super().content():
            if isinstance(widget, Outline):
                widget.empty = "No frame waits for a decision. i sets which requests to hold."
            yield widget

    def refreshed(self) -> bool:
        self._held.look()
        frames = self._held.frames
        now = time.monotonic()
        shown = tuple((frame["held"], max(0, round(until - now))) for frame, until in frames)
        if shown == self._shown:
            return False
        self._shown = shown
        self.outline.show([_block(frame, seconds) for (frame, _), (_, seconds) in zip(frames, shown, strict=True)])
        return True

    def facts_told(self) -> list[Part]:
        expression = self._held.expression
        return [(f"  intercepts {expression}" if expression else "  intercepts nothing", look.DIM)]

    # decisions

    @property
    def _chosen(self) -> dict[str, Any] | None:
        """The frame under the cursor, if it still waits."""
        block = self.outline.block
        return next((frame for frame, _ in self._held.frames if block and frame["held"] == block.key), None)

    def _decide(self, **decision: Any) -> None:
        frame = self._chosen
        if frame is not None:
            self._carry_out(frame["held"], decision)

    def _carry_out(self, number: int, decision: dict[str, Any]) -> None:
        self.run_worker(partial(self._asked_relay, number, decision), thread=True)

    def _asked_relay(self, number: int, decision: dict[str, Any]) -> None:
        wrong = self._held.decide(number, decision)
        if wrong:
            self.app.call_from_thread(self.notify, wrong, severity="error", timeout=6)
        else:
            self._edited.pop(number, None)

    def action_forward(self) -> None:
        self._decide(do="forward")

    def action_forward_all(self) -> None:
        for frame, _ in self._held.frames:
            self._carry_out(frame["held"], {"do": "forward"})

    def action_drop(self) -> None:
        self._decide(do="drop")

    def action_disconnect(self) -> None:
        self._decide(do="disconnect")

    def action_duplicate(self) -> None:
        self._decide(do="duplicate")

    def action_error(self) -> None:
        frame = self._chosen
        if frame is None:
            return
        number = frame["held"]  # while the name is typed, another frame may come under the cursor
        self._asking.ask(
            lambda text: partial(self._carry_out, number, {"do": "error", "code": text.strip().upper()}),
            ERROR.format(number=number),
            "",
        )

    def intercept(self, expression: str = "") -> None:
        """Intercept requests that match; without an expression, ask for one if nothing is intercepted."""
        if expression:
            self._intercepted(expression)
        elif not self._held.expression:
            self._ask_expression()

    def action_intercept(self, expression: str = "") -> None:
        if expression:
            self._intercepted(expression)
        else:
            self._ask_expression()

    def _ask_expression(self) -> None:
        self._asking.ask(self._read_expression, EXPRESSION, self._held.expression)

    def _read_expression(self, text: str) -> Callable[[], None]:
        from kproxy.decoders.filters import parse

        text = text.strip()
        if text and (result := parse(text)).expression is None:
            raise ValueError(result.message or "this is not a filter")
        return partial(self._intercepted, text)

    def _intercepted(self, expression: str) -> None:
        wrong = self._held.intercept(expression)
        if wrong:
            self.notify(wrong.splitlines()[0], severity="error", timeout=6)
        self.show_chrome()

    # editing

    def action_edit(self) -> None:
        frame = self._chosen
        if frame is None:
            return
        if frame["body"] is None:
            self.notify("the frame cannot be read, so it cannot be edited", severity="warning", timeout=4)
        elif not self.app.suspends:
            self.notify("an editor needs a terminal: kproxy faults decide edits from the shell", timeout=6)
        else:
            self._edit(frame)

    def _edit(self, frame: dict[str, Any]) -> None:
        number = frame["held"]
        before = self._edited.get(number) or json.dumps(frame["body"], indent=2, ensure_ascii=False) + "\n"
        try:
            with self.app.suspend():
                after = edited(before, f"{frame['api']}-{number}")
        except (OSError, ValueError) as error:  # ValueError: the variable is no command line
            self.notify(f"the editor did not start: {error}", severity="error", timeout=6)
            return
        if after == before and number not in self._edited:
            self.notify("nothing was changed: the frame waits on", timeout=3)
            return
        self._edited[number] = after
        try:
            body = json.loads(after)
        except (ValueError, RecursionError) as error:
            self.notify(f"not valid JSON: {error}; e edits again", severity="error", timeout=6)
            return
        self._carry_out(number, {"do": "forward", "body": body})


def edited(text: str, name: str) -> str:
    """The text as changed in the user's editor ($VISUAL, $EDITOR or vi).

    Raises OSError if the editor cannot start, ValueError if the variable has an open quotation mark.
    """
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or FALLBACK_EDITOR)
    with tempfile.TemporaryDirectory(prefix="kproxy-edit-") as directory:
        path = os.path.join(directory, f"{name}.json")  # noqa: PTH118 (a name for the editor)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        subprocess.run([*command, path], check=False)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return file.read()


def _block(frame: dict[str, Any], seconds: int) -> Block:
    head = (
        f"{frame['held']} {frame['api'] or frame['api_key']} v{frame['api_version']} {frame['side']}  "
        f"{frame['client_id'] or '-'}  "
        f"{frame['client']} > {frame['broker']}  {frame['size']:,} B  sent by itself in {seconds} s"
    )
    body = ["cannot be read"] if frame["body"] is None else _lines(frame["body"])
    lines = (head, *(f"  {line}" for line in body))
    return Block(frame["held"], lines, ((),) * len(lines))


def _lines(body: Any) -> list[str]:
    lines = json.dumps(body, indent=2, ensure_ascii=False).splitlines()
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"… {len(lines) - MOST_LINES:,} more lines; e shows all"]
    return lines
