"""The process that makes the views of an indexed capture: python -m captures.analysis.snapshots INDEX_DIR.

It reads the captures that the index's meta.json names, and follows them while they grow; with --since and --until it
leaves out other exchanges. Each snapshot is a file in INDEX_DIR/views, replaced as a whole. The tables of a view are in
NAME.table, whose form captures.analysis.columns.stored describes. Findings, figures and evidence are JSON, NAME.json.
All have these members:
{"state": "reading" | "following" | "complete" | "stopped" | "failed", "exchanges", "bytes_read", "bytes_total",
"renumbered", "left_out", "error"}. "renumbered": whether the beginning of a ring had been deleted when this reading
began, so that its exchange numbers differ from the index's. "left_out" counts blocks beyond MOST_LINES.

Findings are blocks: {"key": its identity across snapshots, "lines": texts as in captures.analysis.display, by the local
clock, "filters": for each line the display filters that select its exchanges}. Figures are the result of
`Figures.to_json`. The file EVIDENCE has "findings": for each its "id", "rule", "severity", "parent" and "evidence", a
list of {"exchange", "note", "path"}.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from kproxy.captures import private
from kproxy.captures.analysis.blocks import MOST_LINES, blocks
from kproxy.captures.analysis.columns.column import Table
from kproxy.captures.analysis.columns.storing import store
from kproxy.captures.analysis.columns.tables import of_view
from kproxy.captures.analysis.concerned import with_findings
from kproxy.captures.analysis.figures import FILES, Figures
from kproxy.captures.analysis.views import Views
from kproxy.captures.bodies import Bodies
from kproxy.captures.errors import CaptureError
from kproxy.captures.findings.making import in_order
from kproxy.captures.findings.model import finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.index import indexer
from kproxy.captures.index.format import META
from kproxy.captures.index.format import VIEWS as FOLDER
from kproxy.captures.index.reader import IndexReader, IndexUnreadableError
from kproxy.captures.index.summary import Summary
from kproxy.captures.period import Period
from kproxy.captures.processes import name_process
from kproxy.captures.reader import Reader
from kproxy.captures.text import local
from kproxy.captures.views import FINDINGS, VIEWS
from kproxy.decoders.exchange import Exchange, StreamProblem

WRITE_SECONDS: Final = 1.0
"""Minimum seconds between snapshots; the interval is also at least ten times as long as writing them takes."""
EVIDENCE: Final = "evidence"
"""Name of the snapshot that lists the findings with the exchanges that are their evidence."""
CLIENTS: Final = "clients"
"""Name of the view whose lines also have the number of findings."""
BEGIN_SECONDS: Final = 0.1
NO_FIGURES: Final[dict[str, Any]] = {"span": {}, "lines": [], "total": {}}

Line = Mapping[str, Any]


# --- the process -----------------------------------------------------------------------------------------------------


class Snapshots:
    """Passes exchanges to the views, and writes snapshots at intervals; the indexer calls it after every step."""

    def __init__(
        self, directory: Path, stopping: threading.Event, *, following: bool, period: Period | None = None
    ) -> None:
        """`directory` is the index's. `stopping` is set when the reading must end. Exchanges outside `period` are left
        out.
        """
        self._directory = directory / FOLDER
        self._index = directory
        self._stopping = stopping
        self._period = period or Period()
        self._state = "following" if following else "reading"
        self._views: Views | None = None
        self._figures: Figures | None = None
        self._findings: Findings | None = None
        self._renumbered = False
        self._position, self._size = 0, 0
        self._exchanges = 0
        self._written: tuple[int, int, str] | None = None
        self._next = 0.0
        self._last: dict[str, bytes] = {}

    def __call__(
        self, done: Sequence[tuple[Exchange, Summary]], problems: Sequence[StreamProblem], reader: Reader
    ) -> None:
        """Process the exchanges that became complete since the last call, and the problems of streams."""
        if self._views is None or self._figures is None or self._findings is None:
            self._views = Views(reader.source, reader.definitions)
            self._figures = Figures(reader.definitions)
            self._findings = Findings(reader.source, reader.definitions)
            self._renumbered = _beginning_is_gone(self._index)
        exchanges = [exchange for exchange, _ in done if self._period.has(exchange)]
        for exchange in exchanges:
            bodies = Bodies(exchange, reader.source, reader.definitions)
            self._views.add(exchange, bodies)
            self._figures.add(exchange, bodies)
        self._findings.add(in_order(exchanges, problems), reader.closings)
        self._exchanges += len(exchanges)
        self._position, self._size = reader.position, reader.source.written()
        if time.monotonic() >= self._next:
            self.write()
            self._stop_with(meta_of(self._index) or {})

    def _stop_with(self, meta: dict[str, Any]) -> None:
        """Set `stopping` if `meta`, the index's meta.json, says that the indexer has ended.

        If the indexer was stopped, the reading goes on up to the place where the index ends.
        """
        if self._state == "following" and meta.get("state") in {"complete", "failed"}:
            self._stopping.set()
        elif meta.get("state") == indexer.STOPPED and self._position >= meta["bytes_read"]:
            self._state = indexer.STOPPED
            self._stopping.set()

    def end(self, error: CaptureError | None) -> None:
        """Write the last snapshots when the reading has ended; `error` is why it ended early."""
        if self._state != indexer.STOPPED:
            self._state = "complete" if error is None else "failed"
        self.write(error)

    def write(self, error: CaptureError | None = None) -> None:
        """Write all snapshots that have changed."""
        began = time.monotonic()
        if self._written != (self._exchanges, self._position, self._state):
            self._written = (self._exchanges, self._position, self._state)
            private.folder(self._directory)
            found = self._found()
            for view in VIEWS:
                if tables := of_view(view):
                    self._write_tables(view, tables, found, error)
            self._write(FINDINGS, blocks(FINDINGS, found), error)
            self._write(EVIDENCE, {"findings": list(map(_evidence, found[:MOST_LINES]))}, error)
            for by, name in FILES.items():
                self._write(name, NO_FIGURES if self._figures is None else self._figures.to_json(by), error)
        now = time.monotonic()
        self._next = now + max(WRITE_SECONDS, 10 * (now - began))

    def _write_tables(
        self, view: str, tables: Sequence[Table], found: Sequence[Line], error: CaptureError | None
    ) -> None:
        lines: list[Line] = [] if self._views is None else list(self._views[view].lines())
        if view == CLIENTS:
            lines = list(with_findings(lines, found))
        self._replace(f"{view}.table", store(self._facts(error), lines, tables, local))

    def _found(self) -> list[Line]:
        """The findings so far as JSON objects; at the capture's end, also those that were held back until then."""
        if self._findings is None:
            return []
        over = self._state in {"complete", "failed"}
        return [finding_json(one) for one in (self._findings.finish() if over else self._findings.result())]

    def _write(self, view: str, content: dict[str, Any], error: CaptureError | None) -> None:
        self._replace(f"{view}.json", json.dumps({**self._facts(error), **content}).encode())

    def _facts(self, error: CaptureError | None) -> dict[str, Any]:
        """The members that all snapshots have."""
        return {
            "state": self._state,
            "exchanges": self._exchanges,
            "bytes_read": self._position,
            "bytes_total": None if self._state == "following" else self._size,
            "renumbered": self._renumbered,
            "left_out": 0,
            "error": None if error is None else str(error),
        }

    def _replace(self, name: str, data: bytes) -> None:
        """Write a file unless it has this content already."""
        digest = blake2b(data).digest()
        if self._last.get(name) != digest:
            self._last[name] = digest
            private.replace(self._directory / name, data)


def _evidence(finding: Line) -> dict[str, Any]:
    """A finding reduced to the members that are stored in the snapshot EVIDENCE."""
    proofs = [
        {member: proof[member] for member in ("exchange", "note", "path")}
        for proof in finding["evidence"]
        if proof["exchange"]
    ]
    return {member: finding[member] for member in ("id", "rule", "severity", "parent")} | {"evidence": proofs}


def _beginning_is_gone(directory: Path) -> bool:
    try:
        with IndexReader(directory) as index:
            return index.first > 0
    except IndexUnreadableError:
        return False


def meta_of(directory: Path) -> dict[str, Any] | None:
    """The content of meta.json in an index directory; None before the file is written."""
    try:
        meta: dict[str, Any] = json.loads((directory / META).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return meta


def main(arguments: list[str] | None = None) -> int:
    """Run the process with these command-line arguments; returns its exit code."""
    parser = argparse.ArgumentParser(prog="kproxy.captures.analysis.snapshots", description=__doc__)
    parser.add_argument("directory", metavar="INDEX_DIR", type=Path)
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process, which started it, ends")
    parser.add_argument("--since", type=int, metavar="NS", help="only exchanges from this time on, ns since the epoch")
    parser.add_argument("--until", type=int, metavar="NS", help="only exchanges before this time")
    options = parser.parse_args(arguments)
    stopping = threading.Event()
    indexer.live_with(stopping, options.parent)
    while (meta := meta_of(options.directory)) is None:
        if stopping.wait(BEGIN_SECONDS):
            return 0
    following = meta["state"] == "following"
    period = Period(options.since, options.until)
    snapshots = Snapshots(options.directory, stopping, following=following, period=period)
    # lower priority than the interface and the relay
    os.nice(5)
    try:
        error = indexer.run(
            meta["sources"],
            None,
            ports=meta["ports"],
            release=meta["release"],
            user_definitions=meta["given"],
            follow=following,
            stopping=stopping,
            watch=snapshots,
        )
    except (CaptureError, ValueError) as problem:
        error = problem if isinstance(problem, CaptureError) else CaptureError(str(problem), meta["sources"][0])
    snapshots.end(error)
    return 0 if error is None else indexer.UNREADABLE


if __name__ == "__main__":
    name_process("stats")
    sys.exit(main())
