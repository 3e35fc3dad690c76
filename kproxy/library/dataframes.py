"""Collects one table of a capture in memory, as a pyarrow.Table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kproxy.captures.findings.rows import FindingsTable
from kproxy.captures.tables import arrow
from kproxy.captures.tables.export import TableExport
from kproxy.captures.tables.schema import FINDINGS, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from kproxy.captures.reader import Item, Reader
    from kproxy.captures.source import FileSource
    from kproxy.decoders.view import View


class Collected:
    """Collects one table of docs/tables.md from a reading; `watching` are the arguments of its Reader."""

    def __init__(self, source: FileSource, name: str) -> None:
        """Raises ValueError for an unknown name."""
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        self._table = TABLES[name]
        self._export = TableExport(source)
        self.watching: dict[str, Any] = {"watch": self._export.packets, "began": self._export.began}

    def table(self, reader: Reader, view: View, select: Callable[[Iterable[Item]], Iterable[Item]]) -> pa.Table:
        """The table of the items that `select` passes, up to the end of the captures or to what cannot be read."""
        import pyarrow as pa

        name = self._table.name
        findings = FindingsTable(reader.source, reader.definitions) if name == FINDINGS.name else None
        parts = self._export.made(reader, [name], view, select, reader.batches(), findings=findings)
        batches = [arrow.batch(self._table, rows) for part in parts if (rows := part.get(name))]
        return pa.Table.from_batches(batches, arrow.schema(self._table))
