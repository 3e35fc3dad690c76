"""Writes tables that Spark has made as Parquet, in the folders that captures.tables.parquet writes.

Each executor writes the files of its partitions, so that rows need not be converted to Spark's rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.taskcontext import TaskContext

from kproxy.captures.spark.job import Tables
from kproxy.captures.spark.plan.files import heads
from kproxy.captures.spark.session.workers import Stage, mapped
from kproxy.captures.spark.write import hadoop
from kproxy.captures.spark.write.parts import Part
from kproxy.captures.tables.folders import Local, complete, place
from kproxy.captures.tables.origin import Origin
from kproxy.captures.tables.origin import origin as origin_in
from kproxy.captures.tables.parquet import Files
from kproxy.captures.tables.schema import PARTITIONS, TABLES

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Options with which Spark writes files as captures.tables.parquet does."""
_FORMATS: Final = ("yyyy-MM-dd", "HH")
"""Date formats of the partition columns: the day and the hour, in the order of PARTITIONS."""
_NOTHING: Final = pa.schema([("written", pa.int64())])


def write(made: Tables, directory: Path | str, origin: Origin | None = None) -> dict[str, int]:
    """Write tables below a folder that every executor sees, or below a URL; returns the number of rows by table.

    `origin` is what captures.tables.origin.origin gives for the captures and this folder; without it, it is asked here.

    Files are written elsewhere and put in place when all are complete (captures.tables.folders.place). Raises OSError
    if the folder cannot be written, and the errors of captures.tables.origin.origin.
    """
    if isinstance(directory, str):
        at_url = hadoop.Folder(made.spark, directory)
        return _put_at(made, at_url, origin or origin_in(at_url, heads(made.files)))
    name, folder = made.order.capture, Local(directory.absolute())
    origin = origin or origin_in(folder, heads(made.files))
    aside = folder.aside(name)
    try:
        rows = fill(made.parts, made.given, made.names, aside, name)
        place(folder, complete(aside, name), name, origin)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return rows


def fill(
    parts: Sequence[Part], given: Mapping[str, Sequence[Any]], names: Sequence[str], folder: Path, name: str
) -> dict[str, int]:
    """Write the tables `names` to files in `folder` whose names begin with `name`; returns the number of rows by table.

    `given` are further batches of rows by table.
    """
    files = Files(folder, "given")
    for table in names:
        for batch in given.get(table, ()):
            files.add(table, batch)
    files.close()
    writings = (
        mapped(part.frame, _writing(part, names, folder, number), _NOTHING) for number, part in enumerate(parts)
    )
    reduce(DataFrame.union, writings).collect()
    return {table: _named(folder / table, name) for table in names}


def _put_at(made: Tables, folder: hadoop.Folder, origin: Origin) -> dict[str, int]:
    """Write tables below a URL with Spark itself, because its file systems can write there."""
    spark, name = made.spark, made.order.capture
    aside = f".{name}.partial"
    folder.remove(aside)
    rows = {}
    try:
        for table in made.names:
            to = f"{folder.url}/{aside}/{table}"
            with _settings(spark):
                _write(made.frame(table), table, to)
            rows[table] = spark.read.parquet(to).count() if folder.files(f"{aside}/{table}") else 0
        place(folder, hadoop.written(folder, aside, name, made.names), name, origin)
    finally:
        folder.remove(aside)
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


def _write(frame: DataFrame, name: str, to: str) -> None:
    time = TABLES[name].time
    moment = f.expr(f"timestamp_micros(coalesce(`{time}`, 0) div 1000)")
    levels = {level: f.date_format(moment, form) for level, form in zip(PARTITIONS, _FORMATS, strict=True)}
    (
        frame.withColumns(levels)
        .sortWithinPartitions(*PARTITIONS, time)
        .write.partitionBy(*PARTITIONS)
        .option("compression", "zstd")
        .parquet(to)
    )


def _writing(part: Part, names: Sequence[str], aside: Path, number: int) -> Stage:
    make = part.make

    def stage(batches: Iterable[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        assert task is not None  # noqa: S101  # executors have one
        files = Files(aside, f"{number}-{task.partitionId()}", f".{task.taskAttemptId()}")
        for name, batch in make(batches, names):
            files.add(name, batch)
        files.close()
        yield pa.record_batch([pa.array([], pa.int64())], schema=_NOTHING)

    return stage


def _named(folder: Path, capture: str) -> int:
    """Rename the files of a table so that their names begin with `capture`; returns the number of rows in them."""
    import pyarrow.parquet as pq

    rows = 0
    for level in sorted({path.parent for path in folder.rglob("[!.]*.parquet")}):
        for number, path in enumerate(sorted(level.glob("[!.]*.parquet")), 1):
            rows += pq.read_metadata(path).num_rows
            path.rename(level / f"{capture}-{number:04}.parquet")
    return rows
