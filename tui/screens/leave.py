"""The dialog that asks before live traffic stops."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container

from kproxy.tui.screens.modal import Modal
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar

Leave = Literal["stop", "keep", "stay"]
"""Stop the proxy and leave, leave and keep it running, or stay."""


class LeaveScreen(Modal[Leave]):
    """Asks whether the proxy stops or keeps running."""

    BINDINGS: ClassVar = [
        Binding("y,enter", "answer('stop')", show=False),
        Binding("d", "answer('keep')", show=False),
        Binding("n,escape,q", "answer('stay')", show=False),
        Binding("Q,ctrl+c", "answer('stop')", show=False),
    ]
    DEFAULT_CSS = """
    LeaveScreen { background: ansi_default; align: center middle; }
    LeaveScreen Container { max-width: 64; height: 6; border: ascii; padding: 0 1; background: ansi_default; }
    LeaveScreen Bar { height: 4; }
    """

    def __init__(self, cells: Cells, bootstrap: str) -> None:
        super().__init__()
        self._cells = cells
        self._bootstrap = bootstrap

    def compose(self) -> ComposeResult:
        with Container():
            yield Bar(self._cells)

    def on_mount(self) -> None:
        self.query_one(Bar).show(
            ([("Stop the proxy?", look.BOLD)], []),
            ([(f"Clients connected to {self._bootstrap} are disconnected.", look.PLAIN)], []),
            ([], []),
            (
                [
                    ("y", look.KEY),
                    (" stop and leave   ", look.PLAIN),
                    ("d", look.KEY),
                    (" leave it running   ", look.PLAIN),
                    ("n", look.KEY),
                    (" stay", look.PLAIN),
                ],
                [],
            ),
        )

    def action_answer(self, answer: Leave) -> None:
        self.dismiss(answer)
