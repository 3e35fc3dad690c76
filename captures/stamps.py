"""Stamps of files, by which a later change is noticed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, Final

ENDS: Final = 65_536
"""Bytes at the beginning and at the end of a file that the digest covers."""


def stamp(path: Path) -> list[Any] | None:
    """What changes when a file does, or one in a folder; JSON values. None for what cannot be read again (a pipe)."""
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
    """As `stamp`, of an open file: device, inode, size, times of change (ns) and a digest of both ends.

    Of the content, which may be set, and of the file, which may not: but it also changes with its name and mode.
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
    """A digest of the first and the last bytes of a file, taken as `size` bytes long. Raises OSError."""
    first = os.pread(descriptor, min(ENDS, size), 0)
    start = max(0, size - ENDS)
    return hashlib.sha256(first + os.pread(descriptor, size - start, start)).hexdigest()
