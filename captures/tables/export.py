"""Writes a reading as a folder of Parquet tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from kproxy.captures.export.records import RecordLines
from kproxy.captures.keys import HEAD, capture_id
from kproxy.captures.reader import Closing, Item, Reader
from kproxy.captures.redaction.exchanges import Redaction
from kproxy.captures.source import FileSource, Part
from kproxy.captures.tables.files import FileCounter
from kproxy.captures.tables.flows import FlowCounter
from kproxy.captures.tables.folders import Target
from kproxy.captures.tables.origin import Origin
from kproxy.captures.tables.parquet import ParquetTables
from kproxy.captures.tables.records import record_rows
from kproxy.captures.tables.rows import Maker, Place, Row
from kproxy.captures.tables.schema import FINDINGS, RECORDS
from kproxy.captures.tcp.packets import Packets
from kproxy.decoders.exchange import Connection, Exchange
from kproxy.decoders.view import View

_base = attrgetter("base")


class MakesRows(Protocol):
    """Makes a table whose rows are known only at the end of a reading, from the batches of a Reader."""

    def add(self, items: Iterable[Item], closings: Iterable[Closing]) -> None:
        """Take the next batch: its items, and the connections that ended (`Reader.closings`)."""

    def rows(self, reading: str) -> Iterator[Row]:
        """The rows of the reading with this id; the reading ends here."""
        ...


class TableExport:
    """Writes a reading to tables.

    The reader must pass every batch of packets to `packets` and every conversation to `began` (see `Reader`), because
    the tables flows and captures count packets.
    """

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._names: Callable[[str], str] = str
        self._reading = capture_id(source)
        self._counter = FlowCounter(self._reading, self._where)
        self._files = FileCounter(self._reading, source)
        self._asked: tuple[Part | None, str, str | None] = None, "", None
        """The part for which `_where` was called last, with its file's name and id."""
        self._connection: Connection | None = None
        """The connection, as captured, of the item whose rows are made at present."""
        self.rows: dict[str, int] = {}
        """By table, the number of rows written."""
        first = source.parts[0]
        self.head = (first.name, bytes(source.read(first.base, min(first.base + HEAD, source.size))))
        """(name, first HEAD bytes) of the first file."""
        self.began = self._counter.began

    def packets(self, packets: Packets) -> None:
        """Count a batch of packets; every packet must be given once, in order."""
        self._counter.packets(packets)
        self._files.packets(packets)

    def write(
        self,
        reader: Reader,
        folder: Target,
        tables: Sequence[str],
        view: View,
        select: Callable[[Iterable[Item]], Iterable[Item]],
        batches: Iterable[Sequence[Item]],
        redaction: Redaction | None = None,
        origin: Origin | None = None,
        *,
        bodies: bool = True,
        record_sizes: bool = False,
        findings: MakesRows | None = None,
    ) -> None:
        """Write the rows of `made` to the tables in `folder`.

        `origin` is as for captures.tables.folders.place. If the capture cannot be read to its end, everything before
        that is written. Raises OSError if the folder cannot be written.
        """
        with ParquetTables(folder, self._reading, tables, origin) as out:
            parts = self.made(
                reader,
                tables,
                view,
                select,
                batches,
                redaction,
                bodies=bodies,
                record_sizes=record_sizes,
                findings=findings,
            )
            for rows in parts:
                out.add(rows)
        self.rows = out.rows

    def made(
        self,
        reader: Reader,
        tables: Sequence[str],
        view: View,
        select: Callable[[Iterable[Item]], Iterable[Item]],
        batches: Iterable[Sequence[Item]],
        redaction: Redaction | None = None,
        *,
        bodies: bool = True,
        record_sizes: bool = False,
        findings: MakesRows | None = None,
    ) -> Iterator[Mapping[str, list[Row]]]:
        """The rows by table of the items of `batches` that `select` passes, redacted by `redaction`, part by part.

        Without `bodies`, no body is decoded, and only columns from headers are filled. With `record_sizes`, batches are
        decompressed, within the limit of `view`, and the columns with sizes of records are filled. `findings` makes the
        table findings, of the same items, if that is among `tables`.
        """
        self._names = str if redaction is None else redaction.file
        known, health = view.knowledge, reader.health
        maker = Maker(
            self._reading,
            reader.source,
            reader.definitions,
            self._where,
            tables,
            known,
            health,
            bodies=bodies,
            batch_limit=view.batch_limit if record_sizes else None,
        )
        records = RecordLines(reader, view) if RECORDS.name in tables else None
        for batch in batches:
            chosen = list(select(batch))
            items = chosen if redaction is None else list(redaction.items(chosen))
            for item, captured in zip(items, chosen, strict=True):
                self._connection = captured.connection
                key = maker.add(item, None if redaction is None else captured)
                self._counter.add(item)
                if records is not None and key is not None and isinstance(item, Exchange):
                    maker.rows[RECORDS.name] += record_rows(key, item, records)
            yield maker.take()
            if findings is not None:
                ended = reader.closings
                findings.add(items, ended if redaction is None else map(redaction.closing, ended))
        address = str if redaction is None else redaction.address
        yield {"flows": list(self._counter.flows(iter(maker.flows), address))}
        yield {"captures": list(self._files.rows(reader, self._names))}
        if findings is not None:
            yield {FINDINGS.name: list(findings.rows(self._reading))}

    def _where(self, address: int) -> Place:
        parts = self._source.parts
        part = parts[0] if len(parts) == 1 else parts[max(0, bisect_right(parts, address, key=_base) - 1)]
        if part is not self._asked[0]:
            self._asked = part, self._names(part.name), self._files.file_id(part)
        _, name, number = self._asked
        if number is None and part.merged and self._connection is not None:
            number = self._files.merged_id(part, self._connection, address)
        return Place(name, address - part.base, number)
