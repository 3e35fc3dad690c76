"""The tables of a folder that `kproxy export --format parquet` or `kproxy spark` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.tables.schema import PARTITIONS, TABLES, Table

Tables = Mapping[str, DataFrame]

_NOT_THERE: Final = "PATH_NOT_FOUND"


class NoTables(Exception):  # noqa: N818 (a finding about a folder)
    """A folder has none of the tables that kproxy writes."""

    def __init__(self, directory: str) -> None:
        names = ", ".join(TABLES)
        super().__init__(f"{directory}: holds no tables, which are folders named {names} (docs/tables.md)")


def read(spark: SparkSession, directory: str) -> dict[str, DataFrame]:
    """The tables of a folder or URL (`s3a://…`) by name, with their partition columns.

    A missing table is empty, because writers may leave tables out. Raises NoTables if all are missing.
    """
    found = {name: _read(spark, f"{directory.rstrip('/')}/{name}", table) for name, table in TABLES.items()}
    if not any(found.values()):
        raise NoTables(directory)
    return {name: held or spark.createDataFrame([], _ddl(TABLES[name])) for name, held in found.items()}


def _read(spark: SparkSession, path: str, table: Table) -> DataFrame | None:
    try:
        frame = spark.read.schema(_ddl(table)).parquet(path)
        _ = frame.schema  # by Spark Connect nobody looks for files before
    except AnalysisException as error:
        if error.getCondition() != _NOT_THERE:
            raise
        return None
    return frame


def _ddl(table: Table) -> str:
    return ", ".join((table.ddl, *(f"{name} string" for name in PARTITIONS)))
