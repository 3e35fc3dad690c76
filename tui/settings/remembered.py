"""What the interface remembers from one run to the next: the list's columns, and where list and detail stand."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kproxy.captures import private

COLUMN_WIDTHS: Final = range(1, 201)
"""Widths that the user can give to a column, in cells."""
LARGEST: Final = 1 << 16
"""Maximum size in bytes of the file; a larger one is not read."""


class Remembered:
    """Choices that are stored in a JSON file at once, if `path` is given.

    A file that cannot be read or is not of this form counts as empty; if it cannot be written, choices last as long as
    the process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        found = self._stored()
        columns = found.get("columns")
        self.columns: tuple[str, ...] | None = None
        """Names of the list's columns in their order; None for those shown at first."""
        if isinstance(columns, list) and all(isinstance(name, str) for name in columns):
            self.columns = tuple(columns)
        widths = found.get("widths")
        self.widths: dict[str, int] = {}
        """Widths of the list's columns in cells, by name, where the user has chosen one."""
        if isinstance(widths, dict):
            self.widths = {
                str(name): width for name, width in widths.items() if type(width) is int and width in COLUMN_WIDTHS
            }
        layout, share = found.get("layout"), found.get("share")
        self.layout = layout if isinstance(layout, str) else ""
        """A name of tui.screens.layout.LAYOUTS; "" if none was chosen."""
        self.share = share if isinstance(share, int) and not isinstance(share, bool) else None
        """Percent of the shared screen that the list has; None if nothing was chosen."""

    def choose_columns(self, names: Sequence[str] | None, widths: Mapping[str, int]) -> None:
        """Remember the list's columns and their widths; None forgets which columns were chosen."""
        self.columns, self.widths = None if names is None else tuple(names), dict(widths)
        self._store(columns=names and list(names), widths=self.widths)

    def choose_layout(self, layout: str, share: int | None) -> None:
        """Remember where list and detail stand."""
        self.layout, self.share = layout, share
        self._store(layout=layout, share=share)

    def _store(self, **choices: Any) -> None:
        """Store these choices in the file; keep the other choices there, which another process may have stored."""
        if self._path is None:
            return
        kept = self._stored() | choices
        with contextlib.suppress(OSError):
            private.folder(self._path.parent)
            private.replace(self._path, json.dumps({name: value for name, value in kept.items() if value}) + "\n")

    def _stored(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
