"""Frees the disk space of a file's beginning; positions in the file stay valid."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

KEEP_SIZE_AND_PUNCH_HOLE = 3
"""FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE of fallocate(2)."""


BLOCK = 65_536
"""Largest block, in bytes, that a file system frees as a unit."""


def punch(descriptor: int, start: int, done: int, end: int) -> bool:
    """Free the disk space of the bytes [start, end) of a file, which then read as zeros; False if nothing was freed.

    Bytes before `done` were freed by earlier calls, except perhaps the block that contains `done`.
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
