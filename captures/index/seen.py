"""Counts the values of fields in an index, for completion and statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from kproxy.captures.index.format import Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.values import CHUNK, KEYS, Columns, RowValues, of_row
from kproxy.decoders.fields import BY_NAME, Field, Type
from kproxy.decoders.filters import Unavailable
from kproxy.decoders.filters.expression import meant_errors
from kproxy.decoders.filters.values import LITERALS
from kproxy.decoders.schema import Definitions


class SeenValues:
    """The values of fields in an index, with the number of exchanges for each value: a `decoders.filters.Seen`.

    Only rows that are written at the time of the call are counted, and only fields that rows have.
    """

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        self._index = index
        self._values = RowValues(index, definitions)
        self._counted: dict[str, tuple[int, Counter[str]]] = {}
        self._generation = index.generation

    def __call__(self, name: str) -> Iterable[tuple[str, int]]:
        """(value, count) of each value of a field, the most frequent first; empty if rows lack the field."""
        while self.advance(name):
            pass
        return self.so_far(name)

    def so_far(self, name: str) -> list[tuple[str, int]]:
        """(value, count) in the rows counted so far, the most frequent first."""
        return self._counted[name][1].most_common() if name in self._counted else []

    def advance(self, name: str) -> bool:
        """Count a field's values in the next CHUNK rows; returns whether rows are left."""
        field = BY_NAME.get(name)
        if field is None or name not in KEYS or field.type is Type.FLAG:
            return False
        if self._generation != self._index.generation:
            self._counted.clear()
            self._generation = self._index.generation
        start, counts = self._counted.get(name, (0, Counter()))
        start = max(start, self._index.first)
        columns = Columns(self._index, start, min(start + CHUNK, self._index.count))
        self._count(field, columns, counts)
        self._counted[name] = start + columns.count, counts
        return start + columns.count < self._index.count

    def _count(self, field: Field, columns: Columns, counts: Counter[str]) -> None:
        keys: Sequence[Hashable] = list(zip(*(columns[name] for name in KEYS[field.name]), strict=True))
        get = self._values.getter(field.attributes[0])
        if field.type is Type.ERROR:
            get = meant_errors(get, self._values.getter)
        write = str if field.type in {Type.TEXT, Type.ADDRESS, Type.BROKER} else LITERALS[field.type].write
        single: set[Hashable] = set()
        for key, times in Counter(keys).items():
            row = columns.row(keys.index(key))
            if row.state == State.EMPTY or of_row(field, row):
                single.add(key)
            else:
                self._add(field, get, row, times, counts, write)
        if single:
            for at, key in enumerate(keys):
                if key in single and columns["state"][at] != State.EMPTY:
                    self._add(field, get, columns.row(at), 1, counts, write)

    def _add(
        self,
        field: Field,
        get: Callable[[Row], Any],
        row: Row,
        times: int,
        counts: Counter[str],
        write: Callable[..., str],
    ) -> None:
        try:
            value = get(row)
            for one in value if field.many else () if value is None else (value,):
                counts[write(one)] += times
        except Unavailable:
            return
