"""The data source `kafka_capture`: `spark.read.format("kafka_capture").load("a.pcap")` reads captures.

A data source cannot shuffle, so it reads only data that a split has by itself: segments
(captures.spark.read.reading.SEGMENTS). With the option `view`, the name of a table (captures.tables.schema), rows are
complete within their file; the tasks that share a large file each read its headers (captures.spark.shares).
`captures.spark.tables` joins connections across splits and files. `spark.readStream` reads the closed files of a folder
in the same way (captures.spark.capture_stream).

Spark does not tell a Python data source which columns it needs, so the option `columns` names them. Spark refuses a
reader that takes filters unless spark.sql.python.filterPushdown.enabled is set, which the reader cannot see: the option
`pushdown` says that it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kproxy.captures.cores import usable_cores
from kproxy.captures.ports import Ports
from kproxy.captures.spark.capture_reader import SUMMARY, CaptureReader, FilteringReader
from kproxy.captures.spark.capture_stream import CaptureStream
from kproxy.captures.spark.follow.closed_files import MOST, MOST_BYTES
from kproxy.captures.spark.follow.ledger import QUIET, Ledger
from kproxy.captures.spark.plan.splits import SPLIT_SIZE
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.read.reading import SEGMENTS
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import TABLES, WITHOUT_BODIES
from kproxy.captures.tls import keylog
from kproxy.captures.tls.keylog import Secrets
from kproxy.decoders.filters import Expression, parse

NAME: Final = "kafka_capture"
OPTIONS: Final = (
    "path", "paths", "view", "ports", "payloads", "splitsize", "release", "definitions", "keylog", "columns", "filter",
    "bodies", "recordsizes", "summaries", "pushdown", "tasks", "ledger", "quiettime", "maxfilespertrigger",
    "maxbytespertrigger", "ignoremissing",
)  # fmt: skip
_PAYLOAD: Final = "payload"


class KafkaCapture(DataSource):
    """The data source `kafka_capture`; Spark gives the names of its options in lower case.

    Options: view, ports, payloads (true or false), splitSize (bytes), release, definitions (separated by commas),
    keylog (a file, which only the driver reads), columns (separated by commas), filter (a display filter, of views),
    tasks (of views: how many share the files; by default as many as the driver has cores), and, each true or false:
    bodies and recordSizes (of views), summaries (of segments), pushdown.

    Options of streams alone: ledger (a file), quietTime (seconds), maxFilesPerTrigger, maxBytesPerTrigger,
    ignoreMissing (true or false).
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(self._schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # Spark's signature
        return self._reader(FilteringReader if self._is("pushdown", default=False) else CaptureReader)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  # Spark's signature
        paths = self._paths
        if len(paths) != 1:
            raise ValueError(f"a stream of {NAME} reads one folder, not {len(paths)}")
        if "ledger" not in self.options:
            raise ValueError(f"a stream of {NAME} needs the option 'ledger': a file that lists what was read")
        quiet = float(self.options.get("quiettime", QUIET))
        return CaptureStream(
            self._reader(CaptureReader),
            Ledger(Path(self.options["ledger"]), Path(paths[0]), quiet),
            int(self.options.get("maxfilespertrigger", MOST)),
            int(self.options.get("maxbytespertrigger", MOST_BYTES)),
            ignores_missing=self._is("ignoremissing", default=False),
        )

    def _reader(self, made: type[CaptureReader]) -> CaptureReader:
        return made(
            self._paths, self._view, tuple(self._schema.names), self._size, self._read_options, self._secrets,
            self._is("summaries", default=False), self._tasks,
        )  # fmt: skip

    @property
    def _schema(self) -> Any:
        """The columns of the result, as a pyarrow.Schema."""
        view = self._view
        whole = arrow.schema(TABLES[view]) if view is not None else SEGMENTS
        left_out = () if self._is("payloads", default=True) else (_PAYLOAD,)
        if not self._is("summaries", default=False):
            left_out = (*left_out, SUMMARY)
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
    def _tasks(self) -> int:
        tasks = int(self.options.get("tasks", usable_cores()))
        if tasks < 1:
            raise ValueError(f"option 'tasks' of {NAME} is a positive number, not {tasks}")
        return tasks

    @property
    def _read_options(self) -> Options:
        given = tuple(filter(None, self.options.get("definitions", "").split(",")))
        bodies = self._is("bodies", default=True)
        if not bodies and self._view not in (None, *WITHOUT_BODIES):
            raise ValueError(
                f"view {self._view!r} needs bodies; the views without bodies are {', '.join(WITHOUT_BODIES)}"
            )
        record_sizes = self._is("recordsizes", default=False)
        if record_sizes and (self._view is None or not bodies):
            raise ValueError("recordSizes fills columns of views that need bodies: give the option 'view', with bodies")
        return Options(
            (self._view or "",), self.options.get("release"), given, self._filter, bodies=bodies, ports=self._ports,
            record_sizes=record_sizes,
        )  # fmt: skip
