"""An entry of the registry (tui/actions/registry.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EVERYWHERE = frozenset({"app", "exchanges", "filtering", "walking", "copying", "exporting"})
"""Contexts that do not belong to a pane."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a key does. `handler` is "name" or "name(arguments)", a Textual action of the context's widget."""

    id: str
    title: str
    help: str
    keys: tuple[str, ...]
    context: str
    handler: str
    bar: bool = False
    """Whether the help bar shows the action (the help screen shows all)."""
    enabled: Callable[[Any], bool] | None = None
    """Called with the context's widget; an action for which it returns False does nothing and leaves the help bar."""
    priority: bool = False
    bar_key: str = ""
    """The key that the help bar shows instead of `keys`, for an entry that stands for several actions ("0-9")."""
    name: str = ""
    """Name on the command line; "" derives it from the id (see `command`)."""
    argument: str = ""
    """Placeholder for the argument on the command line ("EXPR", or "[FILE]" if optional); the handler gets its text."""

    @property
    def must_have_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def command(self) -> str:
        """The name on the command line; it begins with the context only if that belongs to a pane."""
        context, _, rest = self.id.partition(".")
        return self.name or (rest if context in EVERYWHERE else f"{context} {rest}")
