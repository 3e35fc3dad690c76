"""Runs the analyses in this process, for tables of up to some million rows: pyarrow reads, DuckDB computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from kproxy.captures.spark.plan.files import file_system, is_url
from kproxy.captures.spark.report.tables import SOURCE_ID, NoTables, OldTables, named
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import EXCHANGES, PARTITIONS, TABLES, Table

_FAILURES: Final = (duckdb.Error, pa.ArrowException, OSError)
"""The exceptions that reading tables and running queries may raise."""
MACROS: Final = {
    "collect_set(x)": "coalesce(list(DISTINCT x) FILTER (WHERE x IS NOT NULL), [])",
    "count_if(x)": "count(*) FILTER (WHERE x)",  # DuckDB's own returns null if all conditions are null
    "explode(x)": "unnest(x)",
    "regexp_like(x, pattern)": "regexp_matches(x, pattern)",
    "size(x)": "len(x)",
    "sort_array(x)": "list_sort(x)",
    "timestamp_seconds(x)": "make_timestamp(x * 1000000)",
    "unix_micros(x)": "epoch_us(x)",
    "unix_seconds(x)": "epoch_us(x) // 1000000",
}
"""Functions of Spark that DuckDB lacks or defines differently, and their definitions for DuckDB."""
_CONFIG: Final = {
    # queries cannot read files or URLs
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # names in a query denote tables, never Python variables
    "python_enable_replacements": "false",
    "preserve_insertion_order": "false",
    # sort nulls as Spark does
    "default_null_order": "nulls_first_on_asc_last_on_desc",
}


class Unreadable(Exception):  # noqa: N818 (a finding about a folder)
    """Tables that cannot be read, for example because a file is damaged."""


class Tables:
    """The tables of a folder."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, sizes: Mapping[str, int]) -> None:
        self._connection = connection
        self.sizes = sizes
        """The number of rows of each table."""

    def rows(self, query: str, most: int | None = None) -> list[dict[str, Any]]:
        """Implements tables.Executor. Raises Unreadable."""
        with _as_unreadable():
            result = self._connection.execute(query.format(**{name: name for name in named(query)}))
            names = [column[0] for column in result.description or ()]
            rows = result.fetchall() if most is None else result.fetchmany(most)
        return [dict(zip(names, row, strict=True)) for row in rows]


@contextmanager
def opened(directory: str) -> Iterator[Tables]:
    """The tables of a folder, or of a URL that pyarrow reads (`s3://…`).

    A missing table is empty, because writers may leave tables out. Raises NoTables if all are missing, OldTables if
    an earlier version of kproxy wrote some, and Unreadable if they cannot be read.
    """
    with _as_unreadable():
        found = {name: _dataset(directory, table) for name, table in TABLES.items()}
        sizes = {name: 0 if held is None else held.count_rows() for name, held in found.items()}
        exchanges = found[EXCHANGES.name]
        old = exchanges is not None and exchanges.count_rows(filter=ds.field(SOURCE_ID).is_null()) > 0
    if not any(found.values()):
        raise NoTables(directory)
    if old:
        raise OldTables(directory)
    with (
        TemporaryDirectory(prefix="kproxy-") as aside,
        duckdb.connect(config={**_CONFIG, "temp_directory": aside}) as connection,
    ):
        for head, body in MACROS.items():
            connection.execute(f"CREATE TEMP MACRO {head} AS {body}")
        for name, held in found.items():
            connection.register(name, _schema(TABLES[name]).empty_table() if held is None else held)
        yield Tables(connection, sizes)


@contextmanager
def _as_unreadable() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise Unreadable(str(error).partition("\n")[0]) from None


def _dataset(directory: str, table: Table) -> Any:
    """The pyarrow.dataset.Dataset of a table; None if its folder is missing."""
    if is_url(directory):
        system, root = file_system(directory)
    else:
        # resolve the link of a followed folder once: its tree stays unchanged for some time
        system, root = fs.LocalFileSystem(), str(Path(directory).absolute())
    path = f"{root.rstrip('/')}/{table.name}"
    if not is_url(directory):
        path = str(Path(path).resolve())
    if system.get_file_info(path).type != fs.FileType.Directory:
        return None
    levels = ds.partitioning(pa.schema([(name, pa.string()) for name in PARTITIONS]), flavor="hive")
    return ds.dataset(path, _schema(table), format="parquet", filesystem=system, partitioning=levels)


def _schema(table: Table) -> Any:
    """The table's schema with its partition columns; times have no zone, because all are UTC."""
    fields = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in arrow.schema(table)
    ]
    return pa.schema([*fields, *((name, pa.string()) for name in PARTITIONS)])
