"""The Python form of what looked.pxd has in C."""

from __future__ import annotations


def piece(view: memoryview, start: int, end: int) -> bytes:
    """The bytes [start, end), as far as they are present."""
    return bytes(view[max(start, 0) : max(end, 0)])
