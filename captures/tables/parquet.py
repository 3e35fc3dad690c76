"""Writes tables as Parquet: a folder for each table, in it folders by day and hour.

    DIR/exchanges/capture_date=2026-11-21/capture_hour=05/9f3c…-0001.parquet

Files are named after the capture. They are written elsewhere and put in place when all are complete
(captures.tables.folders); files of an earlier writing of the same capture are removed then, and files of other captures
stay. Spark, DuckDB and pyarrow ignore names that begin with a dot.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kproxy.captures import private
from kproxy.captures.tables import arrow
from kproxy.captures.tables.folders import Target, complete, place
from kproxy.captures.tables.origin import Origin
from kproxy.captures.tables.rows import Row
from kproxy.captures.tables.schema import PARTITIONS, TABLES, Table
from kproxy.decoders.exchange_json import timestamp

ROWS: Final = 1 << 16
"""Maximum number of rows of a table that are buffered before writing; those of one hour become one row group."""
BYTES: Final = 64 << 20
"""Maximum size in bytes of the rows of a table that are buffered before writing."""
OPEN: Final = 32
"""Maximum number of files that are open at a time."""

_HOUR: Final = 3600 * 1_000_000_000
"""An hour in nanoseconds."""
_GROWING: Final = {"bigint": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
"""By type, the encoding of columns with times, counts and offsets: each value is close to the one in the row before.

A dictionary would be useless for these columns; all other columns repeat values and have a dictionary.
"""
_IDENTIFIERS: Final = ("flow_id", "producer_id")
"""Columns of numbers that repeat, but are not close to the number in the row before: they have a dictionary."""
_REPEATING: Final = {"array<string>": ".list.element"}
"""By type of a list column, the suffix that Parquet adds to its name for the column of elements."""
_NEVER_REPEATED: Final = ("exchange_id",)
"""Columns of text that differs in nearly every row, so that a dictionary would be useless."""

Partition = tuple[str, str]


@dataclass(slots=True)
class _Waiting:
    """The batches of a table that wait to be written, and their total number of rows and bytes."""

    batches: list[Any] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    def add(self, batch: Any) -> None:
        self.batches.append(batch)
        self.rows += len(batch)
        self.bytes += batch.nbytes


class Files:
    """Writes batches of rows to Parquet files below a folder.

    A file gets its name when it is complete; `close` completes the last ones.
    """

    def __init__(self, folder: Path, name: str, attempt: str = "") -> None:
        """File names begin with `name`; another attempt with the same name replaces the files of this one.

        `attempt` distinguishes the names of incomplete files of several attempts.
        """
        self._folder = folder
        self._name = name
        self._attempt = attempt
        self._waiting: dict[str, _Waiting] = {}
        self._writers: dict[tuple[str, Partition], Any] = {}
        self._numbers: dict[tuple[str, Partition], int] = {}
        self._paths: dict[tuple[str, Partition], Path] = {}

    def add(self, table: str, batch: Any) -> None:
        """Add a pyarrow.RecordBatch of a table's rows; rows are buffered before they are written."""
        if not len(batch):
            return
        waiting = self._waiting.setdefault(table, _Waiting())
        waiting.add(batch)
        if waiting.rows >= ROWS or waiting.bytes >= BYTES:
            self._write(table)

    def close(self) -> None:
        for table in list(self._waiting):
            self._write(table)
        while self._writers:
            self._close(next(iter(self._writers)))

    def abandon(self) -> None:
        """Stop writing: incomplete files never get their names."""
        while self._writers:
            self._writers.popitem()[1].close()

    def _write(self, name: str) -> None:
        table = TABLES[name]
        whole = pa.Table.from_batches(self._waiting.pop(name).batches, arrow.schema(table))
        times = whole.column(table.time).fill_null(0).to_numpy()
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            whole, times = whole.take(order), times[order]
        hours = times // _HOUR
        for first, until in pairwise([0, *(np.flatnonzero(hours[1:] != hours[:-1]) + 1).tolist(), len(hours)]):
            text = timestamp(int(times[first]))
            self._writer(table, (text[:10], text[11:13])).write_table(whole.slice(first, until - first))

    def _writer(self, table: Table, partition: Partition) -> Any:
        key = (table.name, partition)
        writer = self._writers.get(key)
        if writer is None:
            while len(self._writers) >= OPEN:
                self._close(next(iter(self._writers)))
            number = self._numbers[key] = self._numbers.get(key, 0) + 1
            levels = [f"{name}={value}" for name, value in zip(PARTITIONS, partition, strict=True)]
            path = self._paths[key] = self._folder.joinpath(table.name, *levels, f"{self._name}-{number:04}.parquet")
            private.inherited(path.parent)
            writer = pq.ParquetWriter(self._aside(path), arrow.schema(table), compression="zstd", **encodings(table))
            self._writers[key] = writer
        return writer

    def _close(self, key: tuple[str, Partition]) -> None:
        self._writers.pop(key).close()
        path = self._paths.pop(key)
        private.inherit(self._aside(path))
        self._aside(path).replace(path)

    def _aside(self, path: Path) -> Path:
        return path.with_name(f".{path.name}{self._attempt}")


@cache
def encodings(table: Table) -> dict[str, Any]:
    """Arguments of pyarrow.parquet.ParquetWriter that set the encodings of a table's columns."""
    numbers = (column for column in table.columns if column.type in _GROWING and column.name not in _IDENTIFIERS)
    growing = {column.name: _GROWING[column.type] for column in numbers}
    others = (column for column in table.columns if column.name not in {*growing, *_NEVER_REPEATED})
    dictionaries = [column.name + _REPEATING.get(column.type, "") for column in others if column.type != "binary"]
    return {"use_dictionary": dictionaries, "column_encoding": growing}


class ParquetTables:
    """Writes tables to a folder. Used as a context manager, it commits at the end unless there was an exception."""

    def __init__(self, folder: Target, capture: str, tables: Iterable[str], origin: Origin | None = None) -> None:
        """File names begin with `capture`, the id of the capture; `origin` is as for captures.tables.folders.place.

        Raises OSError if the folder cannot be made.
        """
        self._origin = origin
        self._folder = folder
        self._capture = capture
        self._aside = folder.aside(capture)
        self._files = Files(self._aside, capture)
        self._tables = [TABLES[name] for name in tables]
        self._waiting: dict[str, list[Row]] = {table.name: [] for table in self._tables}
        self.rows = {table.name: 0 for table in self._tables}
        """By table, the number of rows added."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
            else:
                self._files.abandon()
        finally:
            shutil.rmtree(self._aside, ignore_errors=True)

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Add rows by the names of their tables; rows of tables that are not written are ignored."""
        for table in self._tables:
            waiting = self._waiting[table.name]
            given = rows.get(table.name, ())
            waiting += given
            self.rows[table.name] += len(given)
            if len(waiting) >= arrow.AT_ONCE:
                self._turn(table)

    def commit(self) -> None:
        """Put the complete files in place, and remove the files of an earlier writing of this capture."""
        for table in self._tables:
            self._turn(table)
        self._files.close()
        place(self._folder, complete(self._aside, self._capture), self._capture, self._origin)

    def _turn(self, table: Table) -> None:
        """Convert the buffered rows of a table to columns, which use less memory."""
        rows, self._waiting[table.name] = self._waiting[table.name], []
        if rows:
            self._files.add(table.name, arrow.batch(table, rows))
