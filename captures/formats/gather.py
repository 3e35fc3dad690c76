"""Reads numbers at any offsets of a byte buffer, many at a time, by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Bytes:
    """A buffer seen as overlapping items of any type: `Bytes(b).view(">u2")[offsets]` is the big-endian shorts at
    `offsets`.

    An offset beyond the last complete item raises IndexError.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._views: dict[str, npt.NDArray[Any]] = {}

    def view(self, kind: str) -> npt.NDArray[Any]:
        """An array of items of type `kind`; item i begins at byte i."""
        held = self._views.get(kind)
        if held is None:
            item = np.dtype(kind)
            count = max(0, len(self._buffer) - item.itemsize + 1)
            held = np.ndarray((count,), item, buffer=self._buffer if count else b"", strides=(1,) if count else None)
            self._views[kind] = held
        return held

    def items(self, kind: npt.DTypeLike, at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The items of a type at the offsets `at`; for structured headers this is faster than field by field."""
        item = np.dtype(kind)
        return self.view(f"V{item.itemsize}")[at].view(item)
