"""Counts of field values in an index, made in slices so that key presses are handled in between."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.captures.index.seen import SeenValues
    from kproxy.decoders.schema import Definitions


class SlicedCounts:
    """A decoders.filters.Seen that returns the counts so far without waiting; `advance` counts more rows."""

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        self._index = index
        self._definitions = definitions
        self.asked: set[str] = set()
        """Fields whose values were requested since the last call of `forget_asked`."""

    @cached_property
    def _values(self) -> SeenValues:
        from kproxy.captures.index.seen import SeenValues

        return SeenValues(self._index, self._definitions)

    def __call__(self, name: str) -> Iterable[tuple[str, int]]:
        if name not in self.asked:
            self._values.advance(name)
        self.asked.add(name)
        return self._values.so_far(name)

    def forget_asked(self) -> None:
        """Stop counting until fields are requested again."""
        self.asked.clear()

    def advance(self) -> bool:
        """Count a slice of rows for the requested fields; True if rows are left."""
        return bool([name for name in self.asked if self._values.advance(name)])
