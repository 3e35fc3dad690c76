"""Tables that Spark has made, as Parquet: the folders that captures.tables.parquet writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from captures.spark.job import Tables
from captures.tables.parquet import place
from captures.tables.schema import PARTITIONS, TABLES

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What Spark must be told so that its files are as captures.tables.parquet writes them."""
_FORMATS: Final = ("yyyy-MM-dd", "HH")
"""Of the day and the hour, as PARTITIONS names them."""


def write(made: Tables, directory: Path) -> dict[str, int]:
    """Write tables below a folder that every executor sees; how many rows each has.

    Files are written aside, and take their places when all are there; those of an earlier writing of the same capture
    go then, and no others. Raises OSError where the folder cannot be written.
    """
    return put(made.frames, directory, made.order.capture)


def put(frames: Mapping[str, DataFrame], directory: Path, name: str) -> dict[str, int]:
    """Write tables as `write` does, in files that are named so, in place of those that were."""
    aside = directory / f".{name}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        for table, frame in frames.items():
            with _settings(frame.sparkSession):
                _write(frame, table, aside)
        rows = {table: _named(aside / table, name) for table in frames}
        place(aside, directory, name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return rows


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _write(frame: Any, name: str, aside: Path) -> None:
    time = TABLES[name].time
    moment = f.expr(f"timestamp_micros(coalesce(`{time}`, 0) div 1000)")
    levels = {level: f.date_format(moment, form) for level, form in zip(PARTITIONS, _FORMATS, strict=True)}
    (
        frame.withColumns(levels)
        .sortWithinPartitions(*PARTITIONS, time)
        .write.partitionBy(*PARTITIONS)
        .option("compression", "zstd")
        .parquet(str((aside / name).absolute()))
    )


def _named(folder: Path, capture: str) -> int:
    """Name the files of a table after their capture; how many rows they have."""
    import pyarrow.parquet as pq

    rows = 0
    for level in sorted({path.parent for path in folder.rglob("*.parquet")}):
        for number, path in enumerate(sorted(level.glob("*.parquet")), 1):
            rows += pq.read_metadata(path).num_rows
            path.rename(level / f"{capture}-{number:04}.parquet")
    return rows
