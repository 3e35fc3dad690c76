"""Tables that Spark has made, as Parquet: the folders that captures.tables.parquet writes.

Executors write the files, each those of its partitions, so that rows need not become Spark's.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.taskcontext import TaskContext

from captures.spark.job import Stage, Tables
from captures.spark.parts import Part
from captures.tables.parquet import Files, emptied, place

_NOTHING: Final = pa.schema([("written", pa.int64())])


def write(made: Tables, directory: Path) -> dict[str, int]:
    """Write tables below a folder that every executor sees; how many rows each has.

    Files are written aside, and take their places when all are there; those of an earlier writing of the same capture
    go then, and no others. Raises OSError where the folder cannot be written.
    """
    return put(made.parts, made.given, made.names, directory, made.order.capture)


def put(
    parts: Sequence[Part], given: Mapping[str, Sequence[Any]], names: Sequence[str], directory: Path, name: str
) -> dict[str, int]:
    """Write tables as `write` does, in files that are named so, in place of those that were.

    `given` are batches of rows that are at hand.
    """
    aside = emptied(directory.absolute(), name)
    try:
        files = Files(aside, "given")
        for table in names:
            for batch in given.get(table, ()):
                files.add(table, batch)
        files.close()
        for number, part in enumerate(parts):
            part.columns(names).mapInArrow(_writing(part, names, aside, number), "written bigint").collect()
        rows = {table: _named(aside / table, name) for table in names}
        place(aside, directory, name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return rows


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
    """Name the files of a table after their capture; how many rows they have."""
    import pyarrow.parquet as pq

    rows = 0
    for level in sorted({path.parent for path in folder.rglob("[!.]*.parquet")}):
        for number, path in enumerate(sorted(level.glob("[!.]*.parquet")), 1):
            rows += pq.read_metadata(path).num_rows
            path.rename(level / f"{capture}-{number:04}.parquet")
    return rows
