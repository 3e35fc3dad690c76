"""Views that a separate process computes beside an index: started when first shown, read as snapshots."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.captures.index.format import VIEWS
from kproxy.captures.period import Period

if TYPE_CHECKING:
    from kproxy.captures.analysis.columns.stored import Stored

MODULE = "kproxy.captures.analysis.snapshots"
STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A row of a timeline: spans (from, to, "ok" or "failed"), marks (time, letter) and levels (time, value)."""

    name: str
    spans: tuple[tuple[int, int, str], ...]
    marks: tuple[tuple[int, str], ...]
    levels: tuple[tuple[int, int], ...] = ()


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
        self._period = Period()
        self._process: subprocess.Popen[bytes] | None = None
        self._stamps: dict[str, tuple[int, int, int]] = {}
        self._tables: dict[str, Stored] = {}

    def start(self) -> None:
        """Start the process unless it was started before."""
        if self._process is None:
            period = self._period
            ends = [f"--{name}={time}" for name, time in (("since", period.since), ("until", period.until)) if time]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, "--parent", str(os.getpid()), *ends, str(self._directory)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def limit(self, period: Period) -> None:
        """Count only the exchanges of a period from now on; restarts the process if it was started."""
        self._period = period
        if self._process is not None:
            self._process.kill()  # a process that is terminated could still write
            self._process.wait()
            shutil.rmtree(self._directory / VIEWS, ignore_errors=True)
            self._stamps.clear()
            self._tables.clear()
            self._process = None
            self.start()

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
        blocks = tuple(map(block_of, facts.pop("blocks")))
        return Snapshot(facts, blocks)

    def stored(self, view: str) -> Stored | None:
        """The newest tables of a view, the same object until they change; None until they can be read."""
        from kproxy.captures.analysis.columns.stored import Stored, UnreadableError

        path = self._directory / VIEWS / f"{view}.table"
        with contextlib.suppress(OSError, UnreadableError):
            stamp = _stamp(path.stat())
            if self._stamps.get(path.name) != stamp:
                self._tables[view] = Stored(path)
                self._stamps[path.name] = stamp
        return self._tables.get(view)

    def facts(self, view: str) -> dict[str, Any] | None:
        """The newest snapshot of a view, as JSON; None if it was returned before or cannot be read."""
        path = self._directory / VIEWS / f"{view}.json"
        try:
            with path.open("rb") as file:
                stamp = _stamp(os.fstat(file.fileno()))
                if self._stamps.get(path.name) == stamp:
                    return None
                facts: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return None
        self._stamps[path.name] = stamp
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


def block_of(data: dict[str, Any], drawn: Timeline | None = None) -> Block:
    """A block in the form of captures.analysis.blocks."""
    return Block(json.dumps(data["key"]), tuple(data["lines"]), tuple(map(tuple, data["filters"])), drawn)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size
