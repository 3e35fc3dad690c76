"""A capture in memory, which grows when it is told to."""

from __future__ import annotations

from pathlib import Path

from kproxy.captures.source import FileSource, Part


class MemorySource(FileSource):
    """`data` as one file, of which the first `shown` bytes are there; each `grow` shows `step` more."""

    def __init__(self, data: bytes, *, shown: int | None = None, step: int = 0) -> None:
        super().__init__(())
        self.gone = 0
        self._data = memoryview(data)
        self._step = step
        self.parts = [Part(Path("memory"), "memory", 0, 0, memoryview(b""))]
        self._bases = [0]
        self._show(len(data) if shown is None else shown)

    def forget(self, before: int) -> None:
        """Bytes before this address are gone, as those of a deleted segment."""
        self.gone = max(self.gone, before)

    def read(self, start: int, end: int) -> bytes | memoryview:
        return b"" if start < self.gone else super().read(start, end)

    def grow(self, *, wait: bool = False) -> bool:  # noqa: ARG002
        return self._show(self.parts[0].size + self._step)

    def _show(self, size: int) -> bool:
        size = min(size, len(self._data))
        grown = size > self.parts[0].size
        self.parts[0].view, self.parts[0].size = self._data[:size], size
        return grown
