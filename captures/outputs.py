"""Files that are written: none takes the place of another unless the user said so."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import BinaryIO, Final

from kproxy.captures import private

ADVICE: Final = "exists already: name another file, or overwrite it with --force"
_BUFFER: Final = 1 << 20


class OutputExists(FileExistsError):  # noqa: N818 (named as what it is a kind of)
    """A file that holds something stands where one is to be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EEXIST, ADVICE, str(path))


def refuse_existing(path: Path, *, overwrite: bool = False) -> None:
    """Raise OutputExists where `path` is a file that holds something; pipes, devices and empty files may be written."""
    if overwrite:
        return
    try:
        found = path.stat()
    except OSError:
        return  # whoever opens it says what is wrong
    if stat.S_ISREG(found.st_mode) and found.st_size:
        raise OutputExists(path)


def create(path: Path, *, overwrite: bool = False) -> BinaryIO:
    """The file at `path`, opened for bytes and empty.

    Raises OutputExists where that would replace what is there, and other OSErrors where it cannot be written.
    """
    refuse_existing(path, overwrite=overwrite)
    return private.output(path, buffering=_BUFFER)
