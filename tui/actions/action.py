"""An entry of the registry (tui/actions/registry.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EVERYWHERE = frozenset({"app", "exchanges", "filtering", "walking", "copying", "exporting"})
"""Contexts that are no pane's."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a key does. `handler` is "name" or "name(arguments)" of the context's widget."""

    id: str
    title: str
    help: str
    keys: tuple[str, ...]
    context: str
    handler: str
    bar: bool = False
    """Whether the help bar shows it (the help screen shows all)."""
    enabled: Callable[[Any], bool] | None = None
    """Asked with the context's widget; a disabled action does nothing and is not in the help bar."""
    priority: bool = False
    bar_key: str = ""
    """What the help bar shows for the key, where it speaks for several actions."""
    name: str = ""
    """What it is called on the command line, where that is not its id (see `command`)."""
    argument: str = ""
    """What stands after the name on the command line ("EXPR"); the handler is called with it, as text. In brackets it
    may be left out ("[FILE]")."""

    @property
    def must_have_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def command(self) -> str:
        """The name on the command line: that of an action that holds in all panes stands without its context."""
        context, _, rest = self.id.partition(".")
        return self.name or (rest if context in EVERYWHERE else f"{context} {rest}")
