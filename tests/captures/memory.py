"""A capture in memory that grows on demand."""

from __future__ import annotations

from pathlib import Path

from kproxy.captures.source import FileSource, Part


class MemorySource(FileSource):
    """A Source of `data` as one file, whose first `shown` bytes exist at first; each `grow` adds `step` bytes."""

    def __init__(self, data: bytes, *, shown: int | None = None, step: int = 0) -> None:
        super().__init__(())
        self.forgotten = 0
        self._data = memoryview(data)
        self._step = step
        self.parts = [Part(Path("memory"), "memory", 0, 0, memoryview(b""))]
        self._bases = [0]
        self._show(len(data) if shown is None else shown)

    def forget(self, before: int) -> None:
        """Remove the bytes before an address, as if their ring segment were deleted."""
        self.forgotten = max(self.forgotten, before)

    def read(self, start: int, end: int) -> bytes | memoryview:
        return b"" if start < self.forgotten else super().read(start, end)

    def grow(self, *, wait: bool = False) -> bool:  # noqa: ARG002
        return self._show(self.parts[0].size + self._step)

    def _show(self, size: int) -> bool:
        size = min(size, len(self._data))
        grown = size > self.parts[0].size
        self.parts[0].view, self.parts[0].size = self._data[:size], size
        return grown
