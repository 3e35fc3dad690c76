"""Freeing the disk space of a file's beginning; positions in the file stay valid."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

KEEP_SIZE_AND_PUNCH_HOLE = 3
"""FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE of fallocate(2)."""


BLOCK = 65_536
"""Largest unit, in bytes, in which file systems free space."""


def punch(descriptor: int, start: int, done: int, end: int) -> bool:
    """Free the disk space of bytes [start, end), which then read as zeros; False if the system cannot.

    Bytes before `done` were freed already, except perhaps their last block, which was only partly within the range.
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
