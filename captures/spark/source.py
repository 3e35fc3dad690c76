"""The data source `kafka_capture`: `spark.read.format("kafka_capture").load("a.pcap")` reads captures.

A data source cannot shuffle, so it reads only data that a split has by itself: segments
(captures.spark.read.reading.SEGMENTS). With the option `view`, the name of a table (captures.tables.schema), a file is
one split and the rows are complete within their file. `captures.spark.tables` joins connections across splits and
files.

Spark does not tell a Python data source which columns it needs, so the option `columns` names them. Spark refuses a
reader that takes filters unless spark.sql.python.filterPushdown.enabled is set, which the reader cannot see: the option
`pushdown` says that it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kproxy.captures.ports import Ports
from kproxy.captures.spark import local, pushed
from kproxy.captures.spark.plan.splits import SPLIT_SIZE, Split, expand, plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.read.reading import SEGMENTS, read
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import TABLES, WITHOUT_BODIES
from kproxy.captures.tls import keylog
from kproxy.captures.tls.keylog import Secrets
from kproxy.decoders.filters import Expression, parse

NAME: Final = "kafka_capture"
OPTIONS: Final = (
    "path", "paths", "view", "ports", "payloads", "splitsize", "release", "definitions", "keylog", "columns", "filter",
    "bodies", "summaries", "pushdown",
)  # fmt: skip
_PAYLOAD: Final = "payload"
_SUMMARY: Final = "summary"


class KafkaCapture(DataSource):
    """The data source `kafka_capture`; Spark gives the names of its options in lower case.

    Options: view, ports, payloads (true or false), splitSize (bytes), release, definitions (separated by commas),
    keylog (a file, which only the driver reads), columns (separated by commas), filter (a display filter, of views),
    and, each true or false: bodies (of views), summaries (of segments), pushdown.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(self._schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # Spark's signature
        made = _Pushed if self._is("pushdown", default=False) else _Reader
        return made(
            self._paths, self._view, tuple(self._schema.names), self._size, self._read_options, self._secrets,
            self._is("summaries", default=False),
        )  # fmt: skip

    @property
    def _schema(self) -> Any:
        """The columns of the result, as a pyarrow.Schema."""
        view = self._view
        whole = arrow.schema(TABLES[view]) if view is not None else SEGMENTS
        left_out = () if self._is("payloads", default=True) else (_PAYLOAD,)
        if not self._is("summaries", default=False):
            left_out = (*left_out, _SUMMARY)
        there = [name for name in whole.names if view is not None or name not in left_out]
        asked = [name.strip() for name in self.options["columns"].split(",")] if "columns" in self.options else there
        for name in asked:
            if name not in there:
                raise ValueError(f"{NAME} has no column {name!r} here: there are {', '.join(there)}")
        return pa.schema([whole.field(name) for name in asked])

    def _is(self, option: str, *, default: bool) -> bool:
        value = self.options.get(option, str(default)).lower()
        if value not in {"true", "false"}:
            raise ValueError(f"option {option!r} of {NAME} is true or false, not {value!r}")
        return value == "true"

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
    def _filter(self) -> Expression | None:
        text = self.options.get("filter", "")
        if text and self._view is None:
            raise ValueError("a filter selects rows of a view: give the option 'view', too")
        result = parse(text)
        if text and result.expression is None:
            raise ValueError(f"filter {text!r}: {result.message}")
        return result.expression

    @property
    def _secrets(self) -> Secrets:
        return keylog.read(Path(self.options["keylog"])) if "keylog" in self.options else {}

    @property
    def _size(self) -> int:
        return int(self.options.get("splitsize", SPLIT_SIZE))

    @property
    def _read_options(self) -> Options:
        given = tuple(filter(None, self.options.get("definitions", "").split(",")))
        bodies = self._is("bodies", default=True)
        if not bodies and self._view not in (None, *WITHOUT_BODIES):
            raise ValueError(f"view {self._view!r} needs bodies: without, there are {', '.join(WITHOUT_BODIES)}")
        return Options(
            (self._view or "",), self.options.get("release"), given, self._filter, bodies=bodies, ports=self._ports
        )


@dataclass
class _Part(InputPartition):
    """A partition of the data source: a split, or a whole file if a view is asked for."""

    split: Split | None = None
    path: str | None = None


@dataclass
class _Reader(DataSourceReader):
    paths: Sequence[str]
    view: str | None
    columns: tuple[str, ...]
    size: int
    options: Options
    secrets: Secrets
    summaries: bool
    filters: list[Filter] = field(default_factory=list)

    def partitions(self) -> Sequence[InputPartition]:
        if self.view is not None:
            return [_Part(path=path) for path in expand(self.paths)]
        return [_Part(split=split) for split in plan(self.paths, self.size, secrets=self.secrets).splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Part)  # noqa: S101  # it is one of ours
        for batch in self._batches(partition):
            yield pushed.rows(batch, self.filters).select(self.columns)

    def _batches(self, part: _Part) -> Iterator[Any]:
        if part.split is not None:
            for batch in read(part.split, self.options.ports):
                yield batch if self.summaries else batch.filter(pc.is_null(batch.column(_SUMMARY)))
        elif self.view is not None:
            made = local.tables([part.path or ""], self.options, size=1 << 62, secrets=self.secrets)
            yield from made[self.view].to_batches()


class _Pushed(_Reader):
    """A reader that takes filters, for its tasks to leave rows out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        self.filters = list(filters)
        return filters
