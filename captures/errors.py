"""Unreadable input."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

WARNING: Final = "kproxy: warning: "
"""Prefix of a line that a process of ours writes to standard error and that does not explain its exit."""


class FormatError(Exception):
    """Bytes that are not what the format says must stand at `offset` of the file."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class CaptureError(Exception):
    """A capture that cannot be read (on); whatever could be read before it was delivered first.

    `path` is the file or directory as the user named it ("-" for standard input), `offset` the byte in it where
    reading stopped, None where no byte is concerned.
    """

    def __init__(self, message: str, path: Path | str, offset: int | None = None) -> None:
        where = f"{path}" if offset is None else f"{path}: byte {offset}"
        super().__init__(f"{where}: {message}")
        self.message = message
        self.path = path
        self.offset = offset

    @classmethod
    def of(cls, error: FormatError, path: Path | str) -> Self:
        """The error of the file that holds these bytes."""
        return cls(error.message, path, error.offset or None)
