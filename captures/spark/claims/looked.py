"""Records which bytes of a portion were looked at.

Plain Python; where there is a C compiler, setup.py also compiles it as the extension `_looked`, with the C types of
looked.pxd.
"""

from __future__ import annotations

from array import array

from kproxy.captures.spark.claims.pieces import piece  # not in C
from kproxy.decoders.stream import Source

put = array.append  # not in C
COPIED = 1 << 12
"""Up to this number of bytes a copy is quicker than a view."""


class Mapped:
    """The bytes of a mapped file from an address on."""

    def __init__(self, view: memoryview, base: int) -> None:
        self._view = view
        self._bytes = view
        self._base = base

    def read(self, start: int, end: int) -> bytes | memoryview:
        start -= self._base
        end -= self._base
        if end - start > COPIED:
            return self._view[start:end]
        return piece(self._bytes, start, end)


class Looked:
    """The bytes of another source; `starts` and `ends` are the addresses of each range that was read."""

    def __init__(self, source: Source) -> None:
        self._read = source.read
        self.starts = array("q")
        self.ends = array("q")

    def read(self, start: int, end: int) -> bytes | memoryview:
        put(self.starts, start)
        put(self.ends, end)
        return self._read(start, end)
