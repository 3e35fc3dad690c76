"""Stamps of files: values that change when the file changes."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, Final

ENDS: Final = 65_536
"""Number of bytes at the beginning of a file, and at its end, that the digest covers."""


def stamp(path: Path) -> list[Any] | None:
    """JSON values that change when a file changes, or any file in a folder.

    None for a file that cannot be read twice, such as a pipe.
    """
    try:
        if path.is_dir():
            return [[str(one.relative_to(path)), stamp(one)] for one in sorted(path.rglob("*")) if one.is_file()]
        if not path.is_file():
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return stamp_of(descriptor)
    finally:
        os.close(descriptor)


def stamp_of(descriptor: int) -> list[Any] | None:
    """The stamp of an open file: [device, inode, size, mtime and ctime in ns, digest of both ends]; None if it is not
    regular.

    A user can set mtime but not ctime; ctime changes also with the file's name and mode.
    """
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        times = status.st_mtime_ns, status.st_ctime_ns
        return [status.st_dev, status.st_ino, status.st_size, *times, ends(descriptor, status.st_size)]
    except OSError:
        return None


def ends(descriptor: int, size: int) -> str:
    """A digest of the first and the last ENDS bytes of a file of `size` bytes. Raises OSError."""
    first = os.pread(descriptor, min(ENDS, size), 0)
    start = max(0, size - ENDS)
    return hashlib.sha256(first + os.pread(descriptor, size - start, start)).hexdigest()
