"""Reads captures for Spark's data source (source.py): a partition is a split, or a share of a view of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from kproxy.captures.garbage import seldom_collections
from kproxy.captures.spark import local, pushed
from kproxy.captures.spark.plan.splits import Split, expand, plan
from kproxy.captures.spark.read.flows import MADE, Options
from kproxy.captures.spark.read.reading import read
from kproxy.captures.spark.session import uncompiled
from kproxy.captures.spark.shares import DIVISIBLE, WHOLE, Share, divided
from kproxy.captures.tls.keylog import Secrets

SUMMARY: Final = "summary"
"""The column that holds the summary of a split; null in rows of segments."""


@dataclass
class Part(InputPartition):
    """A partition of the data source: a split, or a share of a file if a view is asked for."""

    split: Split | None = None
    share: Share | None = None


@dataclass
class CaptureReader(DataSourceReader):
    """Reads captures as rows with `columns`, which are columns of the table `view`, or of segments if `view` is None.

    `size` is that of a split in bytes; `size` and `tasks` say how many tasks share the files of a view
    (captures.spark.shares). With `summaries`, each split of segments also has rows with its summaries.
    """

    paths: Sequence[str]
    view: str | None
    columns: tuple[str, ...]
    size: int
    options: Options
    secrets: Secrets
    summaries: bool
    tasks: int = 1
    filters: list[Filter] = field(default_factory=list)

    def partitions(self) -> Sequence[InputPartition]:
        if self.view is not None:
            tasks = self.tasks if self.view in DIVISIBLE and not self.secrets else 1
            return [Part(share=share) for share in divided(expand(self.paths), self.size, tasks)]
        return [Part(split=split) for split in plan(self.paths, self.size, secrets=self.secrets).splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Part)  # noqa: S101  # it is one of ours
        if not uncompiled.compiled():
            uncompiled.warn()
        with seldom_collections():
            for batch in self._batches(partition):
                yield pushed.rows(batch, self.filters).select(self.columns)

    def _batches(self, part: Part) -> Iterator[Any]:
        if part.split is not None:
            for batch in read(part.split, self.options.ports):
                yield batch if self.summaries else batch.filter(pc.is_null(batch.column(SUMMARY)))
        elif part.share is not None and self.view is not None:
            yield from self._rows(part.share, self.view)

    def _rows(self, share: Share, view: str) -> Iterator[Any]:
        """The rows of a share, a batch at a time."""
        planned = share.plan or plan([share.path], WHOLE, secrets=self.secrets)
        options = replace(self.options, ranges=share.ranges)
        if view in MADE:
            for _, batch in local.rows(planned, options, [view], size=WHOLE):
                yield batch
        else:
            yield from local.of_plan(planned, options, size=WHOLE)[view].to_batches()


class FilteringReader(CaptureReader):
    """A reader that takes filters, for its tasks to leave rows out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        self.filters = list(filters)
        return filters
