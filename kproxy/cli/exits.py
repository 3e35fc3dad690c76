"""Exit codes, the same for every command, the exception that carries them, and lines on standard error."""

from __future__ import annotations

import errno
from enum import IntEnum
from typing import IO, Any, Final

import click

OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of writing to a full disk."""


class Exit(IntEnum):
    OK = 0
    CONDITION = 1
    """The condition that the command checks holds (a difference, a failed check)."""
    USAGE = 2
    """The command line or the configuration is wrong."""
    INPUT = 3
    """The input is unreadable or truncated; the readable part was written."""
    CONNECT = 4
    """Cannot connect or listen."""
    PERMISSION = 5
    EMPTY = 6
    """Nothing was found, and `--fail-on empty` was given."""
    BUG = 70
    INTERRUPTED = 130
    PIPE = 141
    """The reader of the output has closed it."""


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done",
    Exit.CONDITION: "the command's check found differences, problems or failures",
    Exit.USAGE: "wrong command line or configuration",
    Exit.INPUT: "input unreadable or cut (the readable part was written)",
    Exit.CONNECT: "cannot connect or listen",
    Exit.PERMISSION: "permission denied",
    Exit.EMPTY: "nothing was found (with --fail-on empty)",
    Exit.BUG: "a bug in kproxy",
    Exit.INTERRUPTED: "interrupted (ctrl+c)",
    Exit.PIPE: "the reader of the output closed it",
}


class Failure(click.ClickException):
    """An expected failure: one line on standard error, then `exit_code`."""

    def __init__(self, message: str, exit_code: Exit = Exit.INPUT) -> None:
        super().__init__(message)
        self.exit_code = int(exit_code)  # type: ignore[misc]  # click means each class to have one code

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"kproxy: {self.format_message()}", file=file, err=file is None)


def say(line: str) -> None:
    """Prints a line on standard error; on a full disk the line is lost. Raises OSError for all other errors."""
    try:
        click.echo(line, err=True)
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
