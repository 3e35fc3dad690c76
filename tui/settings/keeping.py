"""Histories of lines and saved filters, kept in the user's state directory from one run to the next."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from kproxy.captures import private

MOST_LINES = 500
"""Maximum number of lines that a history keeps, the newest ones."""
MOST_CHARACTERS = 4096
"""Longer lines are not kept."""


def _write(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner alone. Raises OSError."""
    private.folder(path.parent)
    private.replace(path, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class History:
    """Lines that were entered, oldest first, each once; stored in a file if `path` is given.

    If the file cannot be read or written, lines last as long as the process. Lines added by other processes are kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = self._stored()
        return self._lines

    def add(self, line: str) -> None:
        """Append a line, unless it is empty, longer than MOST_CHARACTERS or not printable."""
        if not line or len(line) > MOST_CHARACTERS or not line.isprintable():
            return
        kept = self.lines if self._path is None else self._stored() or self.lines
        self._lines = [*(one for one in kept if one != line), line][-MOST_LINES:]
        if self._path is not None:
            with contextlib.suppress(OSError):
                _write(self._path, "".join(f"{one}\n" for one in self._lines))

    def _stored(self) -> list[str]:
        if self._path is None:
            return []
        return [line for line in _read(self._path).split("\n") if line and line.isprintable()][-MOST_LINES:]


class SavedFilters(Mapping[str, str]):
    """Filters by name: those saved here, in a JSON file, take precedence over those of the configuration."""

    def __init__(self, configured: Mapping[str, str] | None = None, path: Path | None = None) -> None:
        self._configured = dict(configured or {})
        self._path = path
        self._own = self._stored()

    def __getitem__(self, name: str) -> str:
        return self._own[name] if name in self._own else self._configured[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({**self._configured, **self._own}))

    def __len__(self) -> int:
        return len({**self._configured, **self._own})

    def owns(self, name: str) -> bool:
        """Whether a filter was saved here and so can be deleted."""
        return name in self._own

    def save(self, name: str, text: str) -> None:
        """Save a filter under a name. Raises OSError if the file cannot be written."""
        self._own = {**self._own, **self._stored(), name: text}
        self._store()

    def delete(self, name: str) -> None:
        """Delete a filter that was saved here. Raises OSError if the file cannot be written."""
        self._own = {one: text for one, text in {**self._own, **self._stored()}.items() if one != name}
        self._store()

    def _store(self) -> None:
        if self._path is not None:
            _write(self._path, json.dumps(self._own, indent=1, ensure_ascii=False) + "\n")

    def _stored(self) -> dict[str, str]:
        if self._path is None:
            return {}
        try:
            found = json.loads(_read(self._path) or "{}")
        except ValueError:
            return {}
        if not isinstance(found, dict):
            return {}
        return {name: text for name, text in found.items() if isinstance(text, str) and text.isprintable()}
