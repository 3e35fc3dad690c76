"""Parts of a reading's rows on Spark: a DataFrame, and how its batches become rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from kproxy.captures.spark.read.bundles import unbundled
from kproxy.captures.spark.read.closing import Closer
from kproxy.captures.spark.read.flows import MADE
from kproxy.captures.spark.session.workers import mapped
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import FINDINGS, TABLES

Make: TypeAlias = "Callable[[Iterable[Any], Sequence[str]], Iterator[tuple[str, Any]]]"
"""A function of a Part's batches and names of tables, which makes pairs of a table's name and a batch of its rows."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of several tables on Spark.

    `make` turns the batches of `frame` into rows. If `frame` has a column for each of `tables`, only those of wanted
    tables are read.
    """

    frame: DataFrame
    tables: tuple[str, ...]
    make: Make

    def columns(self, names: Sequence[str]) -> DataFrame:
        """The DataFrame without the columns of tables that are not in `names`."""
        return self.frame.drop(*(name for name in self.tables if name not in names))

    def rows(self, name: str) -> DataFrame:
        """The rows of the table with this name, as a DataFrame."""
        make = self.make

        def stage(batches: Iterable[Any]) -> Iterator[Any]:
            for _, batch in make(batches, [name]):
                yield batch

        return mapped(self.columns([name]), stage, arrow.schema(TABLES[name]))


def items(closed: DataFrame) -> Part:
    """The rows of closed items (captures.spark.read.closing.CLOSED)."""
    return Part(closed.select(*MADE), MADE, unfolded)


def findings(found: DataFrame) -> Part:
    """The rows of the table findings (captures.spark.read.folding.FOUND)."""
    return Part(found, (FINDINGS.name,), unfolded)


def unclosed(bundles: DataFrame, closer: Callable[[], Closer]) -> Part:
    """The rows of items that are not closed yet, from bundles (captures.spark.read.bundles) in the order of ranges."""

    def make(batches: Iterable[Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        yield from unfolded(closer().close(unbundled(batches), names), names)

    return Part(bundles, MADE, make)


def unfolded(batches: Iterable[Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """(table's name, batch of its rows) for each table, from columns of lists of rows."""
    for batch in batches:
        for name in batch.schema.names:
            if name in names:
                rows = pa.RecordBatch.from_struct_array(batch.column(name).flatten())
                schema = arrow.schema(TABLES[name])
                # Spark gives times in the session's time zone.
                yield name, rows if rows.schema == schema else rows.cast(schema)
