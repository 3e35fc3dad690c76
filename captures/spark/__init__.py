"""Captures that outgrow one machine: read in splits, put together flow by flow, as the tables of captures.tables.

    frames = tables(spark, "captures/*.pcapng")
    frames["exchanges"].groupBy("api_name").count().show()

Three stages, each a plain function over Arrow batches: `reading` makes segments of a split, `flows` items of the
segments of whole flows, `closing` rows of items once all is known. `local` runs them in one process, `job` on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kproxy.captures.spark.job import tables

__all__ = ["tables"]


def __getattr__(name: str) -> Any:
    if name == "tables":
        from kproxy.captures.spark.job import tables

        return tables
    raise AttributeError(name)
