"""The data source `kafka_capture`: `spark.read.format("kafka_capture").load("a.pcap")` reads captures.

A data source cannot shuffle, so it reads only data that a split has by itself: segments
(captures.spark.read.reading.SEGMENTS). With the option `view`, the name of a table (captures.tables.schema), a file is
one split and the rows are complete within their file. `captures.spark.tables` joins connections across splits and
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kproxy.captures.ports import Ports
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Split, expand, plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.read.reading import SEGMENTS, read
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import TABLES
from kproxy.captures.tls import keylog
from kproxy.captures.tls.keylog import Secrets

NAME: Final = "kafka_capture"
OPTIONS: Final = ("path", "paths", "view", "ports", "payloads", "splitsize", "release", "definitions", "keylog")
_PAYLOAD: Final = "payload"


class KafkaCapture(DataSource):
    """The data source `kafka_capture`; Spark gives the names of its options in lower case.

    Options: view, ports, payloads (true or false), splitSize (bytes), release, definitions (separated by commas),
    keylog (a file, which only the driver reads).
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        view, payloads = self._view, self._payloads
        if view is not None:
            return from_arrow_schema(arrow.schema(TABLES[view]))
        return from_arrow_schema(_segments(payloads=payloads))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # Spark's signature
        return _Reader(
            self._paths, self._view, self._payloads, self._size, self._read_options, self._secrets
        )  # fmt: skip

    @property
    def _paths(self) -> list[str]:
        import json

        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            raise ValueError(f"{NAME} has no option {unknown[0]!r}: there are {', '.join(OPTIONS)}")
        if "paths" in self.options:
            return [str(path) for path in json.loads(self.options["paths"])]
        if "path" not in self.options:
            raise ValueError(f"{NAME} needs a path: load(PATH)")
        return [self.options["path"]]

    @property
    def _view(self) -> str | None:
        view = self.options.get("view")
        if view is not None and view not in TABLES:
            raise ValueError(f"{NAME} has no view {view!r}: there are {', '.join(TABLES)}")
        return view

    @property
    def _ports(self) -> Ports | None:
        return Ports.parse(self.options["ports"]) if "ports" in self.options else None

    @property
    def _payloads(self) -> bool:
        return self.options.get("payloads", "true").lower() == "true"

    @property
    def _secrets(self) -> Secrets:
        return keylog.read(Path(self.options["keylog"])) if "keylog" in self.options else {}

    @property
    def _size(self) -> int:
        return int(self.options.get("splitsize", SPLIT_SIZE))

    @property
    def _read_options(self) -> Options:
        given = tuple(filter(None, self.options.get("definitions", "").split(",")))
        return Options((self._view or "",), self.options.get("release"), given, ports=self._ports)


@dataclass
class _Part(InputPartition):
    """A partition of the data source: a split, or a whole file if a view is asked for."""

    split: Split | None = None
    path: str | None = None


@dataclass
class _Reader(DataSourceReader):
    paths: Sequence[str]
    view: str | None
    payloads: bool
    size: int
    options: Options
    secrets: Secrets

    def partitions(self) -> Sequence[InputPartition]:
        if self.view is not None:
            return [_Part(path=path) for path in expand(self.paths)]
        return [_Part(split=split) for split in plan(self.paths, self.size, secrets=self.secrets).splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Part)  # noqa: S101  # it is one of ours
        if partition.split is not None:
            for batch in read(partition.split, self.options.ports):
                yield batch if self.payloads else batch.drop_columns([_PAYLOAD])
        elif self.view is not None:
            made = local.tables([partition.path or ""], self.options, size=1 << 62, secrets=self.secrets)
            yield from made[self.view].to_batches()


def _segments(*, payloads: bool) -> Any:
    return SEGMENTS if payloads else SEGMENTS.remove(SEGMENTS.get_field_index(_PAYLOAD))
