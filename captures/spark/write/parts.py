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
    """Rows of several tables on Spark; `make` makes them from the batches of `frame`."""

    frame: DataFrame
    tables: tuple[str, ...]
    make: Make

    def rows(self, name: str) -> DataFrame:
        """The rows of the table with this name, as a DataFrame."""
        make = self.make

        def stage(batches: Iterable[Any]) -> Iterator[Any]:
            for _, batch in make(batches, [name]):
                yield batch

        return mapped(self.frame, stage, arrow.schema(TABLES[name]))


def findings(found: DataFrame) -> Part:
    """The rows of the table findings (captures.spark.read.folding.FOUND)."""
    return Part(found, (FINDINGS.name,), _found)


def unclosed(bundles: DataFrame, closer: Callable[[], Closer], *, final: bool | None = None) -> Part:
    """The rows of items that are not closed yet, from bundles (captures.spark.read.bundles) in the order of ranges.

    `final` is as for Closer.rows.
    """

    def make(batches: Iterable[Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        return closer().rows(unbundled(batches), names, final=final)

    return Part(bundles, MADE, make)


def _found(batches: Iterable[Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:  # noqa: ARG001
    for batch in batches:
        rows = pa.RecordBatch.from_struct_array(batch.column(FINDINGS.name).flatten())
        # Spark gives times in the session's time zone.
        yield FINDINGS.name, rows.cast(arrow.schema(FINDINGS))
