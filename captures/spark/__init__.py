"""Reads captures that outgrow one machine: in splits, joined flow by flow, written as the tables of captures.tables.

    frames = tables(spark, "captures/*.pcapng")
    frames["exchanges"].groupBy("api_name").count().show()

There are three stages, which are functions over Arrow batches: `reading` turns a split into segments, `flows` turns the
segments of whole flows into items, `closing` turns items into rows once the facts of all flows are known. `folding`
makes the table findings from the event rows of all flows. `local` runs the stages in one process, `job` on Spark.
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
