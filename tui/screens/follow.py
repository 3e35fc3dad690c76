"""The dialog that asks what to follow: one key for each subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from kproxy.tui.actions import registry as actions
from kproxy.tui.screens.modal import Modal
from kproxy.tui.search.subjects import FOLLOWED
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.widgets.chrome import Bar, Part


class Offer(Bar, can_focus=True):
    """The lines of the dialog; they take the focus because some widget must have it."""


class FollowScreen(Modal[str | None]):
    """Lists what can be followed here, with the actions' keys; returns a filter, None to follow nothing."""

    BINDINGS: ClassVar = actions.bindings("follow")
    DEFAULT_CSS = """
    FollowScreen { background: ansi_default; align: center middle; }
    FollowScreen Container { max-width: 110; height: 11; border: ascii; padding: 0 1; background: ansi_default; }
    FollowScreen Offer { height: 9; }
    """

    def __init__(self, cells: Cells, filters: Mapping[str, str]) -> None:
        super().__init__()
        self._cells = cells
        self._filters = filters

    def compose(self) -> ComposeResult:
        with Container():
            yield Offer(self._cells)

    def on_mount(self) -> None:
        keys = {action.id.partition(".")[2]: action.keys[0] for action in actions.of("follow")}
        lines: list[tuple[list[Part], list[Part]]] = [
            ([("Follow, until q goes back", look.BOLD)], [("esc ", look.DIM)]),
            ([], []),
        ]
        for name, title in FOLLOWED.items():
            text = self._filters.get(name)
            style = look.DIM if text is None else look.PLAIN
            lines.append(([(keys[name], look.KEY), (f" {title:<20}", style), (text or "not here", style)], []))
        offer = self.query_one(Offer)
        offer.show(*lines)
        offer.focus()

    def action_follow(self, name: str) -> None:
        if name in self._filters:
            self.dismiss(self._filters[name])

    def action_close(self) -> None:
        self.dismiss(None)
