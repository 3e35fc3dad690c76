"""An entry of the registry (tui/actions.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
