"""Captures as a collection of exchanges: `kproxy.open`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from kproxy.captures.errors import CaptureError
from kproxy.captures.ports import Ports
from kproxy.captures.reader import Reader
from kproxy.captures.segments import SegmentReader, StoredBatch, holds_segments
from kproxy.captures.source import STANDARD_INPUT
from kproxy.decoders.batches.codecs import DEFAULT_LIMIT
from kproxy.decoders.exchange_json import health_json, timestamp
from kproxy.decoders.exchange_row import Why
from kproxy.decoders.extras import installing
from kproxy.library.closing import Closing
from kproxy.library.exchange import Exchange, Record
from kproxy.library.reading import Options, Reading, expression_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kproxy.captures.source import FileSource

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def open(  # noqa: A001 (kproxy.open is the name that users expect)
    captures: Paths,
    *,
    ports: str | int | None = None,
    release: str | None = None,
    definitions: Sequence[str | os.PathLike[str]] = (),
    keylog: str | os.PathLike[str] | None = None,
    show_secrets: bool = False,
    batch_limit: int = DEFAULT_LIMIT,
    strict: bool = True,
) -> Capture:
    """Opens captures: pcap or pcapng files, compressed or not, a folder of kproxy's recording, "-" for standard input.

    Several files are read as one, in the order of time. Kafka's log segments, or the folder of a partition, have
    records but no exchanges. `ports` are the brokers' ports ("9092-9094,19092"; without it every connection that
    speaks Kafka is read), `release` is a Kafka release whose message definitions are used ("3.9"), `definitions` are
    files or folders with further definitions, `keylog` is a file of TLS secrets. Secrets in messages are withheld
    unless `show_secrets` is true. Record batches that decompress to more than `batch_limit` bytes stay closed. A
    capture that is damaged gives everything before the damage, and then raises CaptureError; with `strict` false it
    raises none, and `Capture.errors` says what could not be read.

    Raises CaptureError if a file cannot be opened, ValueError if an argument is wrong.
    """
    given = [captures] if isinstance(captures, str | os.PathLike) else captures
    paths = tuple(map(Path, given))
    if not paths:
        raise ValueError("name at least one capture")
    options = Options(
        paths,
        None if ports is None else Ports.parse(str(ports)),
        release,
        tuple(os.fspath(one) for one in definitions),
        None if keylog is None else Path(keylog),
        show_secrets,
        batch_limit,
        strict,
    )
    options.known()
    return Capture(options, first=options.source())


class Capture(Closing):
    """Captures that are read as one. Iterate over it for its exchanges: each iteration reads it from the start.

    A context manager that closes its files at the end; they are also closed once nothing refers to the capture or
    to one of its exchanges. Bodies are decoded when they are asked for, so memory does not grow with the capture.
    `open` and `where` make captures.
    """

    def __init__(self, options: Options, filters: tuple[str, ...] = (), first: FileSource | None = None) -> None:
        """`first` is the opened source for the first reading. Raises FilterError."""
        self._options = options
        self._filters = filters
        self._expression = expression_of(" and ".join(f"({text})" for text in filters))
        self._first = first
        self._readings: WeakSet[Reading] = WeakSet()
        self._narrowed: WeakSet[Capture] = WeakSet()
        self._last: Reading | None = None
        self._unknown: Counter[Why] = Counter()
        self._closed = False

    # --- what is read ---

    def __iter__(self) -> Iterator[Exchange]:
        """The exchanges in the order in which they become complete.

        Raises CaptureError after the last one if the capture could not be read to its end (see `open`), and ValueError
        for log segments, which have no exchanges.
        """
        return self._exchanges(self._source())

    def where(self, text: str) -> Capture:
        """The same capture with the exchanges that match a display filter (docs/filters.md). Raises FilterError."""
        expression_of(text)
        narrowed = Capture(self._options, (*self._filters, text) if text.strip() else self._filters)
        self._narrowed.add(narrowed)
        return narrowed

    def records(self) -> Iterator[Record]:
        """The records of all exchanges, or of log segments."""
        source = self._source()
        if not holds_segments(source):
            for exchange in self._exchanges(source):
                yield from exchange.records()
            return
        from kproxy.captures.export.segments import StoredRecords

        stored, records = SegmentReader(source, self._options.view()), StoredRecords()
        for item in stored:
            if isinstance(item, StoredBatch):
                yield from map(Record, records.records(item))
        if self._options.strict and stored.error is not None:
            raise stored.error

    def findings(self, severity: str = "note") -> list[dict[str, Any]]:
        """The findings that `kproxy findings` prints: objects "kproxy.finding/1" (docs/findings.md), most costly first.

        Findings below `severity` ("error", "warn", "note" or "info") are left out. Raises ValueError for another word.
        """
        from kproxy.captures.findings.model import Severity, finding_json
        from kproxy.captures.findings.reading import Findings

        if severity.upper() not in Severity.__members__:
            raise ValueError(f"{severity!r} is not a severity; there are {', '.join(Severity.__members__).lower()}")
        reading = self._read()
        reader = reading.reader
        found = Findings(reader.source, reader.definitions, reader.health)
        select = reading.selection(self._expression, self._unknown)
        for batch in reader.batches():
            found.add(select(batch), reader.closings)
        reading.check()
        return [finding_json(one) for one in found.finish() if one.severity >= Severity[severity.upper()]]

    def stats(self, by: str = "api") -> list[dict[str, Any]]:
        """The figures that `kproxy stats` prints: objects "kproxy.stats/1" by "api", "client", "broker" or "topic"."""
        from kproxy.captures.analysis.stats import Stats

        reading = self._read()
        reader = reading.reader
        stats = Stats(reader.definitions, by, reader.health)
        for found in reading.exchanges(self._expression, self._unknown):
            stats.add(found, reader.source)
        return [line.to_json(by) for line in stats.lines()]

    def summary(self) -> dict[str, Any]:
        """An overview of the capture, from reading it once: first and last time, the number of exchanges, and more.

        "clients" and "brokers" are numbers of exchanges by client id and by address, "apis" are those of `stats`,
        "findings" are numbers by severity, "health" is as in `health`. Times are RFC 3339 text, or None.
        """
        from kproxy.captures.analysis.stats import Stats
        from kproxy.captures.findings.model import Severity
        from kproxy.captures.findings.reading import Findings
        from kproxy.decoders.exchange import Exchange as Found

        reading = self._read()
        reader = reading.reader
        stats, findings = Stats(reader.definitions), Findings(reader.source, reader.definitions)
        clients: Counter[str] = Counter()
        brokers: Counter[str] = Counter()
        times: list[int] = []
        select = reading.selection(self._expression, self._unknown)
        for batch in reader.batches():
            items = list(select(batch))
            findings.add(items, reader.closings)
            for found in items:
                if isinstance(found, Found):
                    stats.add(found, reader.source)
                    clients[found.client_id or "(no client id)"] += 1
                    brokers[found.connection.broker] += 1
                    time = Exchange(found, reading).time_ns
                    times = [min([time, *times]), max([time, *times])]
        reading.check()
        severities = Counter(one.severity for one in findings.finish())
        first, last = map(timestamp, times) if times else (None, None)
        return {
            "first_time": first,
            "last_time": last,
            "exchanges": brokers.total(),
            "clients": dict(clients.most_common()),
            "brokers": dict(brokers.most_common()),
            "apis": [line.to_json("api") for line in stats.lines()],
            "findings": {one.name.lower(): severities[one] for one in reversed(Severity)},
            "health": self.health,
        }

    def view(self, name: str) -> list[dict[str, Any]]:
        """The JSON objects of a view across exchanges: "topics", "groups", "transactions", "connections", "clients" or
        "cluster".

        They are those of the commands `kproxy topics`, `groups`, `txns`, `conns`, `clients` and `cluster`. Raises
        ValueError for another name.
        """
        from kproxy.captures.analysis.views import Views
        from kproxy.captures.views import VIEWS

        names = [view.name for view in VIEWS.values() if view.command is not None]
        if name not in names:
            raise ValueError(f"there is no view {name!r}; there are {', '.join(names)}")
        reading = self._read()
        reader = reading.reader
        views = Views(reader.source, reader.definitions, reader.health)
        for found in reading.exchanges(self._expression, self._unknown):
            views.add(found)
        return list(views[name].lines())

    def problems(self) -> Iterator[dict[str, Any]]:
        """What is wrong with connections' bytes outside of exchanges, such as gaps: objects "kproxy.problem/1"."""
        from kproxy.decoders.exchange import StreamProblem
        from kproxy.decoders.exchange_json import problem_json

        reading = self._read()
        for item in reading.items(None, Counter()):
            if isinstance(item, StreamProblem):
                yield problem_json(item, precision=reading.reader.precision)

    def lines(self) -> Iterator[str]:
        """The lines of `kproxy export`: JSON of exchanges, of problems between them, and of the health at the end."""
        from kproxy.captures.export.jsonl import JsonLines

        reading = self._read()
        lines = JsonLines(reading.reader, self._options.view())
        for item in reading.items(self._expression, self._unknown):
            yield lines.lines([item]).decode().removesuffix("\n")
        yield lines.lines([reading.reader.health]).decode().removesuffix("\n")

    @property
    def health(self) -> dict[str, Any]:
        """Counters of what the capture lacks, "kproxy.health/1": packets, gaps, lost bytes, cut frames …

        They are those of the newest iteration, as far as it went; without any, the capture is read once.
        """
        if self._last is None:
            for _ in self:
                pass
        assert self._last is not None  # noqa: S101 (iterating has set it)
        return health_json(self._last.reader.health)

    @property
    def errors(self) -> list[CaptureError]:
        """Why the newest iteration could not read the captures to their ends; one error for each such file."""
        return [] if self._last is None else list(self._last.reader.errors)

    @property
    def undecided(self) -> dict[str, int]:
        """By reason, how many exchanges the newest iteration left out because the filter could not decide."""
        return {why.value: count for why, count in self._unknown.items() if count}

    # --- tables ---

    def to_arrow(self, table: str = "exchanges") -> pa.Table:
        """A table of docs/tables.md as a pyarrow.Table, whole in memory.

        Raises ImportError without pyarrow, ValueError for an unknown table.
        """
        if find_spec("pyarrow") is None:
            raise ImportError(f"tables need pyarrow: {installing('parquet')}")
        from kproxy.library.dataframes import Collected

        source = self._source()
        collected = Collected(source, table)
        reading = self._read(source, **collected.watching)
        select = reading.selection(self._expression, self._unknown)
        made = collected.table(reading.reader, self._options.view(), select)
        reading.check()
        return made

    def to_pandas(self, table: str = "exchanges") -> pd.DataFrame:
        """As `to_arrow`, a pandas.DataFrame. Raises ImportError without pyarrow or pandas."""
        return self.to_arrow(table).to_pandas()

    def to_polars(self, table: str = "exchanges") -> pl.DataFrame:
        """As `to_arrow`, a polars.DataFrame. Raises ImportError without pyarrow or polars."""
        if find_spec("polars") is None:
            raise ImportError("to_polars needs polars: pip install polars")
        import polars as pl

        return pl.DataFrame(self.to_arrow(table))

    # --- files ---

    def close(self) -> None:
        """Closes the files. Exchanges keep their headers and what was decoded before."""
        self._closed = True
        if self._first is not None:
            self._first.close()
            self._first = None
        for reading in self._readings:
            reading.close()
        for narrowed in self._narrowed:
            narrowed.close()

    def _source(self) -> FileSource:
        """The opened captures, to be read from the start. Raises CaptureError."""
        if self._closed:
            raise ValueError("the capture is closed")
        source, self._first = self._first, None
        if source is not None:
            return source
        if any(str(path) == STANDARD_INPUT for path in self._options.paths):
            raise CaptureError("standard input can be read once only", STANDARD_INPUT)
        return self._options.source()

    def _read(self, source: FileSource | None = None, **watching: Any) -> Reading:
        """Begins a reading; `watching` are arguments of `Reader`. Raises CaptureError, and ValueError for segments."""
        source = self._source() if source is None else source
        if holds_segments(source):
            source.close()
            raise ValueError("log segments have no exchanges: use records()")
        reader = Reader(source, self._options.known(), ports=self._options.ports, **watching)
        reading = self._last = Reading(reader, self._options.view(), strict=self._options.strict)
        self._readings.add(reading)
        self._unknown = Counter()
        return reading

    def _exchanges(self, source: FileSource) -> Iterator[Exchange]:
        reading = self._read(source)
        for found in reading.exchanges(self._expression, self._unknown):
            yield Exchange(found, reading)

    def __repr__(self) -> str:
        names = " + ".join(map(str, self._options.paths))
        filters = f" where {' and '.join(self._filters)}" if self._filters else ""
        return f"<Capture {names}{filters}>"

    def _repr_html_(self) -> str:
        from kproxy.library.notebook import ROWS, capture_html

        lines: list[Mapping[str, Any]] = []
        note = ""
        try:
            lines.extend(one.json for one in islice(self, ROWS + 1))
        except (CaptureError, ValueError) as error:
            note = str(error)
        return capture_html(repr(self), lines, note)
