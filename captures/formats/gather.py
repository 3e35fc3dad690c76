"""Numbers at any offsets of a byte buffer, many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Bytes:
    """A buffer, seen as overlapping items of any type: `Bytes(b).view(">u2")[offsets]` gathers big-endian shorts.

    An offset past the last whole item raises IndexError, as for any array.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._views: dict[str, npt.NDArray[Any]] = {}

    def view(self, kind: str) -> npt.NDArray[Any]:
        """Item i has the bytes [i, i + item size)."""
        held = self._views.get(kind)
        if held is None:
            item = np.dtype(kind)
            count = max(0, len(self._buffer) - item.itemsize + 1)
            held = np.ndarray((count,), item, buffer=self._buffer if count else b"", strides=(1,) if count else None)
            self._views[kind] = held
        return held

    def items(self, kind: npt.DTypeLike, at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The items of any type at these offsets; for headers this is faster than field by field."""
        item = np.dtype(kind)
        return self.view(f"V{item.itemsize}")[at].view(item)
