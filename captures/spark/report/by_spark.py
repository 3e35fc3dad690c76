"""Runs the analyses on Spark, for tables of any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from kproxy.captures.spark.report.tables import SOURCE_ID, NoTables, OldTables, named
from kproxy.captures.tables.schema import EXCHANGES, PARTITIONS, TABLES, Table

_NOT_THERE: Final = "PATH_NOT_FOUND"


class Tables:
    """The tables as DataFrames by name."""

    def __init__(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
        self._spark = spark
        self.frames = frames

    def __getitem__(self, name: str) -> DataFrame:
        return self.frames[name]

    def frame(self, query: str) -> DataFrame:
        """The result of a query, sorted."""
        return self._spark.sql(query, args=None, **{name: self.frames[name] for name in named(query)})

    def rows(self, query: str, most: int | None = None) -> list[dict[str, Any]]:
        """Implements tables.Executor. The session's time zone must be UTC."""
        frame = self.frame(query)
        # Spark would convert times to Python's local time zone
        times = {one.name for one in frame.schema if isinstance(one.dataType, TimestampType)}
        columns = [f.col(name).cast("timestamp_ntz") if name in times else f.col(name) for name in frame.columns]
        frame = frame.select(*(column.alias(name) for name, column in zip(frame.columns, columns, strict=True)))
        return [row.asDict() for row in (frame if most is None else frame.limit(most)).collect()]


def read(spark: SparkSession, directory: str) -> Tables:
    """The tables of a folder or URL (`s3a://…`), with their partition columns.

    A missing table is empty, because writers may leave tables out. Raises NoTables if all are missing, OldTables if
    an earlier version of kproxy wrote some.
    """
    found = {name: _read(spark, f"{directory.rstrip('/')}/{name}", table) for name, table in TABLES.items()}
    if not any(found.values()):
        raise NoTables(directory)
    exchanges = found[EXCHANGES.name]
    if exchanges is not None and not exchanges.where(f.col(SOURCE_ID).isNull()).isEmpty():
        raise OldTables(directory)
    empty = (name for name, frame in found.items() if frame is None)
    frames = {name: frame for name, frame in found.items() if frame is not None}
    return Tables(spark, frames | {name: spark.createDataFrame([], _ddl(TABLES[name])) for name in empty})


def _read(spark: SparkSession, path: str, table: Table) -> DataFrame | None:
    try:
        frame = spark.read.schema(_ddl(table)).parquet(path)
        _ = frame.schema  # Spark Connect looks for the files only here
    except AnalysisException as error:
        if error.getCondition() != _NOT_THERE:
            raise
        return None
    return frame


def _ddl(table: Table) -> str:
    return ", ".join((table.ddl, *(f"{name} string" for name in PARTITIONS)))
