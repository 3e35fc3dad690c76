"""Exceptions for input that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

WARNING: Final = "kproxy: warning: "
"""Prefix of a warning of a kproxy process on standard error; a warning is not the reason why the process exited."""


class FormatError(Exception):
    """The bytes at `offset` of a file are not what its format demands there."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class CaptureError(Exception):
    """A capture cannot be read, or not to its end; everything before the error was delivered first.

    `path` is the file or directory as the user named it ("-" for standard input). `offset` is the byte of the file at
    which reading stopped, None if the error concerns no byte.
    """

    others: Sequence[CaptureError] = ()
    """The errors of further files that were read together with this one, because they are of the same time."""

    def __init__(self, message: str, path: Path | str, offset: int | None = None) -> None:
        where = f"{path}" if offset is None else f"{path}: byte {offset}"
        super().__init__(f"{where}: {message}")
        self.message = message
        self.path = path
        self.offset = offset

    @classmethod
    def of(cls, error: FormatError, path: Path | str) -> Self:
        """The CaptureError for a FormatError in the file at `path`."""
        return cls(error.message, path, error.offset or None)
