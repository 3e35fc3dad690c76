"""A Spark data source: the stream of a folder's captures, with one row for each closed capture (see ledger.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from kproxy.captures.spark.follow.ledger import Ledger

try:  # Spark 4.1 lacks both classes; a batch then takes all files
    from pyspark.sql.streaming.datasource import ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:
    ReadMaxFiles, SupportsTriggerAvailableNow = None, object  # type: ignore[assignment,misc]  # as said

NAME: Final = "kafka_capture_files"
MOST: Final = 64
"""Default maximum number of files in a batch."""
MOST_BYTES: Final = 16 << 30
"""Default maximum total size in bytes of the files in a batch."""
COUNT: Final = "files"
"""The only member of an offset: the number of files in all batches up to there."""


class ClosedFiles(DataSource):
    """The data source; its options are path (the folder), ledger (the ledger's file), quiet (seconds), most, bytes.

    `most` and `bytes` are the maximum number of files in a batch and their maximum total size.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "number bigint, path string, size bigint"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802  # Spark's signature
        options = self.options
        ledger = Ledger(Path(options["ledger"]), Path(options["path"]), float(options["quiet"]))
        return ClosedFilesReader(ledger, int(options["most"]), int(options["bytes"]))


@dataclass
class _Range(InputPartition):
    start: int
    end: int


class ClosedFilesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Divides the files of a ledger into batches; an offset is a number of files."""

    def __init__(self, ledger: Ledger, most: int, size: int) -> None:
        """A batch has at most `most` files and `size` bytes; a file that is larger is a batch by itself."""
        self.ledger = ledger
        self._most = most
        self._size = size
        self._target: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self._target = self.ledger.update()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {COUNT: 0}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return ReadMaxFiles(self._most)

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        count = self.ledger.update() if self._target is None else self._target
        if start is not None and limit is not None and isinstance(limit, ReadMaxFiles):
            count = self._bounded(start[COUNT], min(count, start[COUNT] + limit.max_files))
        return {COUNT: count}

    def _bounded(self, start: int, end: int) -> int:
        """The end of the batch that begins at entry `start` of the ledger and may extend to entry `end`."""
        sizes = accumulate(one.size for one in self.ledger.entries()[start:end])
        return start + max(min(1, end - start), sum(size <= self._size for size in sizes))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_Range(start[COUNT], end[COUNT])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, int]]:
        assert isinstance(partition, _Range)  # noqa: S101  # it is one of ours
        entries = self.ledger.entries()
        for number in range(partition.start, partition.end):
            yield number, entries[number].path, entries[number].size
