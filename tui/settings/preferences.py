"""What a user has set up for the interface, as the command that starts it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SAVED_FILTERS = "filters.json"
"""The file of the state directory with the filters that were saved."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """`filters` are saved filters by name, `keymap` keys by the ids of actions ("list.open": "enter,o")."""

    filters: Mapping[str, str] = field(default_factory=dict)
    keymap: Mapping[str, str] = field(default_factory=dict)
    theme: str = "terminal"
    ascii_only: bool = False
    """Nothing beyond ASCII is painted, as where the locale knows no more."""
    plain: bool = False
    """For who listens: one pane at a time, nothing drawn, the terminal's cursor on the line."""
    mouse: bool = True
    state: Path | None = None
    """Directory in which histories and saved filters are kept; None keeps nothing."""

    def kept(self, name: str) -> Path | None:
        """Where something is kept; None where nothing is."""
        return None if self.state is None else self.state / name
