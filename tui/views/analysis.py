"""Views that a separate process computes beside an index: started when first shown, read as snapshots."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy.captures.index.format import VIEWS

MODULE = "kproxy.captures.analysis.snapshots"
STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A row of a timeline: spans (from, to, "ok" or "failed") and marks (time, letter)."""

    name: str
    spans: tuple[tuple[int, int, str], ...]
    marks: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows from `start` to `end`, ns since the epoch; `more` rows are left out. See captures.analysis.timelines."""

    title: str
    start: int
    end: int
    rows: tuple[TimeRow, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One subject of a view and its lines; `key` identifies it from snapshot to snapshot.

    Each line has the tests, as display filters, that find its exchanges.
    """

    key: Hashable
    lines: tuple[str, ...]
    filters: tuple[tuple[str, ...], ...]
    timeline: Timeline | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A view as the process wrote it; captures.analysis.snapshots documents the members of `facts`."""

    facts: dict[str, Any]
    blocks: tuple[Block, ...]


class Analysis:
    """The process that computes the views of an index, and its snapshots."""

    def __init__(self, index_dir: Path) -> None:
        self._directory = index_dir
        self._process: subprocess.Popen[bytes] | None = None
        self._stamps: dict[str, tuple[int, int, int]] = {}

    def start(self) -> None:
        """Start the process unless it was started before."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, "--parent", str(os.getpid()), str(self._directory)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def died(self) -> bool:
        """Whether the process has failed. Exit codes 0 and 3 (the capture cannot be read to its end) are no failure."""
        return self._process is not None and self._process.poll() not in {None, 0, 3}

    def snapshot(self, view: str) -> Snapshot | None:
        """The newest snapshot of a view, as blocks; None if it was returned before or cannot be read."""
        facts = self.facts(view)
        if facts is None:
            return None
        drawn = {key: _timeline(one) for key, one in facts.pop("timelines", {}).items()}
        blocks = tuple(
            Block(
                json.dumps(one["key"]),
                tuple(one["lines"]),
                tuple(map(tuple, one["filters"])),
                drawn.get(one.get("timeline")),
            )
            for one in facts.pop("blocks")
        )
        return Snapshot(facts, blocks)

    def facts(self, view: str) -> dict[str, Any] | None:
        """The newest snapshot of a view, as JSON; None if it was returned before or cannot be read."""
        path = self._directory / VIEWS / f"{view}.json"
        try:
            with path.open("rb") as file:
                status = path.stat()
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                if self._stamps.get(view) == stamp:
                    return None
                facts: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return None
        self._stamps[view] = stamp
        return facts

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _timeline(data: dict[str, Any]) -> Timeline:
    rows = tuple(
        TimeRow(row["name"], tuple(map(tuple, row["spans"])), tuple(map(tuple, row["marks"]))) for row in data["rows"]
    )
    return Timeline(data["title"], data["from"], data["to"], rows, data["more"])
