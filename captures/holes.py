"""Giving back the disk space of what lies at the beginning of a file, whose addresses stay what they are."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

KEEP_SIZE_AND_PUNCH_HOLE = 3
"""FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE of fallocate(2)."""


BLOCK = 65_536
"""Bytes that a file system gives back at once, at most."""


def punch(descriptor: int, start: int, done: int, end: int) -> bool:
    """Make the bytes [start, end) zeros that take no space; False where the system or the file system cannot.

    Those before `done` are zeros already; the last block of them may have been left because it was not all zeros.
    """
    fallocate = _fallocate()
    start = max(start, done // BLOCK * BLOCK)
    if fallocate is None or end <= start:
        return False
    return bool(fallocate(descriptor, KEEP_SIZE_AND_PUNCH_HOLE, start, end - start) == 0)


@cache
def _fallocate() -> Any:
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).fallocate64
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function
