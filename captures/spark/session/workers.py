"""What the Python workers of Spark run, and what each does once beforehand."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from kproxy.captures.garbage import seldom_collections

Stage = Callable[[Iterable[Any]], Iterator[Any]]
"""Makes batches (pyarrow.RecordBatch) from those of a partition."""
_NEEDED: Final = ("kproxy.captures.spark.job", "kproxy.captures.spark.write.parquet", "pandas")


def mapped(frame: DataFrame, stage: Stage, schema: Any) -> DataFrame:
    """The result of a stage on each partition of a frame, with this pyarrow.Schema."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        ready()
        with seldom_collections():
            yield from stage(batches)

    return frame.mapInArrow(run, from_arrow_schema(schema))


@cache
def ready() -> None:
    """Import what jobs need, and exclude it from garbage collection: a worker collects after each task, over all its
    objects.
    """
    load()
    gc.collect()
    gc.freeze()


def load() -> None:
    """Import what jobs need, as far as it is installed."""
    for name in _NEEDED:
        with suppress(ImportError):
            import_module(name)
