"""Creates output files; an existing file is replaced only if the user asked for that."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import BinaryIO, Final

from kproxy.captures import private

ADVICE: Final = "exists already: name another file, or overwrite it with --force"
_BUFFER: Final = 1 << 20


class OutputExists(FileExistsError):  # noqa: N818 (named as what it is a kind of)
    """The output file exists already and is not empty."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EEXIST, ADVICE, str(path))


def refuse_existing(path: Path, *, overwrite: bool = False) -> None:
    """Raise OutputExists if `path` is a file that is not empty; pipes, devices and empty files may be written."""
    if overwrite:
        return
    try:
        found = path.stat()
    except OSError:
        return  # opening the file raises the right error
    if stat.S_ISREG(found.st_mode) and found.st_size:
        raise OutputExists(path)


def create(path: Path, *, overwrite: bool = False) -> BinaryIO:
    """The file at `path`, emptied and opened for writing bytes.

    Raises OutputExists if the file has content and `overwrite` is false, and other OSErrors if it cannot be written.
    """
    refuse_existing(path, overwrite=overwrite)
    return private.output(path, buffering=_BUFFER)
