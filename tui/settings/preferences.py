"""The user's settings of the interface, as passed by the command that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SAVED_FILTERS = "filters.json"
"""Name of the file of saved filters in the state directory."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """`filters` are the configuration's filters by name, `keymap` the keys by action id ("list.open": "enter o")."""

    filters: Mapping[str, str] = field(default_factory=dict)
    keymap: Mapping[str, str] = field(default_factory=dict)
    theme: str = "terminal"
    ascii_only: bool = False
    """Paint only ASCII characters."""
    plain: bool = False
    """For screen readers: one pane at a time, no decoration, the terminal's cursor on the current line."""
    mouse: bool = True
    looks_for_findings: bool = False
    """Look for findings as soon as a capture is indexed, if it is not too large."""
    read_only: bool = False
    """Write no file and open no other capture; what the user keeps lasts until leaving."""
    state: Path | None = None
    """Directory of histories and saved filters; None stores nothing."""

    def kept(self, name: str) -> Path | None:
        """Path of a file in the state directory; None if nothing is stored."""
        return None if self.state is None or self.read_only else self.state / name
