"""Runs stages in Spark's Python workers, and prepares each worker once."""

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
"""A function from the batches (pyarrow.RecordBatch) of a partition to other batches."""
_NEEDED: Final = ("kproxy.captures.spark.job", "kproxy.captures.spark.write.parquet", "pandas")


def mapped(frame: DataFrame, stage: Stage, schema: Any) -> DataFrame:
    """A DataFrame with the result of a stage on each partition of `frame`; `schema` is a pyarrow.Schema."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        ready()
        with seldom_collections():
            yield from stage(batches)

    return frame.mapInArrow(run, from_arrow_schema(schema))


@cache
def ready() -> None:
    """Import the modules that jobs need, and exclude them from garbage collection.

    Spark's workers collect after each task, over all objects.
    """
    load()
    gc.collect()
    gc.freeze()


def load() -> None:
    """Import the modules that jobs need, as far as they are installed."""
    for name in _NEEDED:
        with suppress(ImportError):
            import_module(name)
