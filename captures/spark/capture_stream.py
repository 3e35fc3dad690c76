"""Reads the closed captures of a folder as a stream: `spark.readStream.format("kafka_capture")` (see source.py).

Each file is read once, by itself, as `spark.read` reads it: rows are complete within their file. A ledger
(captures.spark.follow.ledger) keeps which files belong to a batch, so that a query goes on after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from kproxy.captures.spark.capture_reader import CaptureReader
from kproxy.captures.spark.follow.closed_files import COUNT, ClosedFilesReader
from kproxy.captures.spark.follow.ledger import Ledger


class CaptureStream(ClosedFilesReader):
    """A stream of the rows that `reader` reads in the files of a ledger."""

    def __init__(
        self, reader: CaptureReader, ledger: Ledger, most: int, size: int, *, ignores_missing: bool = False
    ) -> None:
        """`ignores_missing` leaves out files that were deleted before they were read; otherwise they end the query.

        For `most` and `size` see ClosedFilesReader.
        """
        super().__init__(ledger, most, size)
        self._reader = reader
        self._ignores_missing = ignores_missing

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        paths = [one.path for one in self.ledger.entries()[start[COUNT] : end[COUNT]]]
        if self._ignores_missing:
            paths = [path for path in paths if Path(path).exists()]
        return replace(self._reader, paths=paths).partitions() if paths else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)
