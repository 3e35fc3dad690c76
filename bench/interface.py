"""Measures how long a user at the terminal waits: the interface in a pty, on large indexes, compared with Textual's
DataTable.

    python -m bench.interface [--exchanges 1000000] [--times 10] [--keys 40]

The index is that of bench-base, multiplied until it has this many exchanges; a larger index repeats its rows. The time
of a key ends with the last byte that the interface writes because of it; a pause without a byte (QUIET) marks that end.
While exchanges arrive, the interface writes by itself ten times a second, so a shorter pause counts, and writing that
coincides with such an update counts for the key.

Memory is that of the process that paints, without mapped files: RssAnon and RssShmem. DataTable holds the cells of only
100,000 of these rows, because filling it takes minutes; its time ends when it has painted the first row.

The capture that is opened for the first time is the one from which the index is made: 3.2 GB unless more exchanges are
asked for. The time to its first rows does not depend on its size (bench.offline measures 10 GB).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from bench.offline import index_wholly, installed, kept_index, take_terminal, until_rows
from bench.relay import Goals
from bench.summary import BASE, PORT
from kproxy.captures.analysis.columns.storing import store
from kproxy.captures.analysis.columns.tables import of_view
from kproxy.captures.index import format as layout
from kproxy.captures.text import local
from tests.support.multiply import multiply

COLUMNS, LINES = 120, 40
PER_COPY = 3513
"""Number of exchanges in bench-base."""
QUIET, QUIET_GROWING = 0.06, 0.006
"""Seconds without a byte after which the painting for a key counts as finished; the second while exchanges arrive."""
PATIENCE = 120.0
RATE = 20_000
"""Number of exchanges that are appended each second."""
TABLE_ROWS = 100_000
TAILING_SECONDS, LOADING_SECONDS = 10.0, 10.0
KEYS = {"down": b"j", "page down": b" ", "page up": b"\x02", "end": b"G", "home": b"g"}
KEYS_GROWING = {name: key for name, key in KEYS.items() if name != "end"}
"""The keys without "end", because at the end of the list the interface follows new exchanges."""
SORTS = {"sort by the next column": b"o"}
ARROWS = {"down": b"\x1b[B", "page down": b"\x1b[6~"}
"""The keys that other programs than kproxy understand as well."""
FILTER, EVERYTHING, CLEAR = b"api == Fetch\r", b"exchange > 0\r", b"\x15\r"
"""Keys typed into the filter bar, which the key `f` opens."""
ROW = re.compile(rb"\d\d:\d\d:\d\d\.\d{3}")
SHOW = "import sys, kproxy.tui; kproxy.tui.run(sys.argv[1])"
SHOW_STORED = """
import sys, kproxy.tui
from kproxy.tui.views import analysis
analysis.MODULE = "this"  # the tables are there already: nothing is to be counted
kproxy.tui.run(sys.argv[1])
"""


class Terminal:
    """A context that runs a command in a terminal."""

    def __init__(self, command: Sequence[str]) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**installed(), "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"},
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 (no other thread runs yet)
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        while self.process.poll() is None:
            self.read(0.1)
        os.close(self._screen)

    def read(self, wait: float) -> bytes:
        """The bytes that the command writes within `wait` seconds, as soon as there are some; b"" if there are none."""
        if not select.select([self._screen], [], [], wait)[0]:
            return b""
        try:
            return os.read(self._screen, 1 << 16)
        except OSError:  # the command has closed the terminal
            time.sleep(min(wait, 0.01))
            return b""

    def first_row(self) -> float:
        """Seconds from the start of the command until it has painted the first row. Raises TimeoutError."""
        painted = b""
        while not ROW.search(painted):
            if time.perf_counter() - self.begin > PATIENCE or self.process.poll() is not None:
                raise TimeoutError(f"no row, but {painted[-200:]!r}")
            painted += self.read(0.1)
        return time.perf_counter() - self.begin

    def settle(self, quiet: float = 0.5) -> None:
        while self.read(quiet):
            pass

    def rest(self, seconds: float) -> int:
        """Number of bytes that the command writes in this many seconds."""
        end, size = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            size += len(self.read(left))
        return size

    def send(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def key(self, keys: bytes, quiet: float = QUIET) -> float:
        """Milliseconds from sending keys to the last byte that is painted for them. Raises TimeoutError if nothing is
        painted.
        """
        while self.read(0):
            pass
        start = time.perf_counter()
        self.send(keys)
        if not self.read(5):
            raise TimeoutError(f"nothing painted after {keys!r}")
        last = time.perf_counter()
        while self.read(quiet):
            last = time.perf_counter()
        return (last - start) * 1000

    def until(self, wanted: bytes) -> None:
        painted = b""
        begin = time.perf_counter()
        while wanted not in painted:
            if time.perf_counter() - begin > PATIENCE:
                raise TimeoutError(f"no {wanted!r}")
            painted = painted[-1000:] + self.read(0.1)

    @property
    def memory(self) -> float:
        """Megabytes of the process's memory that are not backed by a file."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem"))) / 1e6


@dataclass(frozen=True)
class Taken:
    """Durations of key presses in milliseconds, sorted."""

    times: list[float]

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    def at(self, share: float) -> float:
        return self.times[min(len(self.times) - 1, int(share * len(self.times)))]

    def __str__(self) -> str:
        return f"p50 {self.p50:7.1f} ms   p95 {self.at(0.95):7.1f} ms   p99 {self.at(0.99):7.1f} ms"


def pressed(terminal: Terminal, keys: Mapping[str, bytes], times: int, quiet: float = QUIET) -> Taken:
    """Press all keys in turn, `times` times, and print how long each took; returns the durations of all keys."""
    taken: dict[str, list[float]] = {name: [] for name in keys}
    for _ in range(times):
        for name, key in keys.items():
            taken[name].append(terminal.key(key, quiet))
    for name, found in taken.items():
        print(f"  {name:12} {Taken(sorted(found))}", flush=True)
    together = Taken(sorted(time for found in taken.values() for time in found))
    print(f"  {'together':12} {together}", flush=True)
    return together


def repeated(index: Path, times: int, to: Path) -> Path:
    """Make an index at `to` with the rows of another index, repeated `times` times; returns its path."""
    shutil.copytree(index, to, ignore=shutil.ignore_patterns(layout.ROWS))
    data = (index / layout.ROWS).read_bytes()
    with (to / layout.ROWS).open("wb") as file:
        file.write(data[: layout.ROW_SIZE])
        for _ in range(times):
            file.write(data[layout.ROW_SIZE :])
    _mark(to, "complete")
    return to


def _mark(index: Path, state: str) -> None:
    meta = json.loads((index / layout.META).read_text())
    meta["state"] = state
    meta["rows"] = (index / layout.ROWS).stat().st_size // layout.ROW_SIZE - 1
    (index / layout.META).write_text(json.dumps(meta))


@contextmanager
def growing(index: Path) -> Iterator[None]:
    """A context that appends RATE exchanges to the index each second."""
    rows = (index / layout.ROWS).read_bytes()[layout.ROW_SIZE : layout.ROW_SIZE * (RATE + 1)]
    _mark(index, "following")
    over = Event()

    def write() -> None:
        step = len(rows) // 20
        with (index / layout.ROWS).open("ab", buffering=0) as file:
            at = 0
            while not over.wait(0.05):
                file.write(rows[at : at + step])
                at = (at + step) % (step * 20)

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def on_index(index: Path, name: str, times: int, goals: Goals) -> None:
    """Measure keys and memory on a complete index."""
    total = (index / layout.ROWS).stat().st_size // layout.ROW_SIZE - 1
    print(f"-- {name}: {total:,} rows", flush=True)
    with Terminal([sys.executable, "-c", SHOW, str(index)]) as terminal:
        terminal.first_row()
        terminal.settle()
        print(f"  memory {terminal.memory:.1f} MB")
        keys = pressed(terminal, KEYS, times)
        goals.at_most(f"key to paint p50, {name}", keys.p50, 8, "ms")
        goals.at_most(f"key to paint p99, {name}", keys.at(0.99), 20, "ms")
        toggled = []
        for text in (FILTER, CLEAR) * 3:
            terminal.key(b"f")
            toggled.append(terminal.key(text))
        print(f"  applying or clearing a filter, until the first pause: p50 {statistics.median(toggled):.1f} ms")
        # a late key must not be typed into the filter
        terminal.settle()
        terminal.send(b"f")
        terminal.settle()
        terminal.send(EVERYTHING)
        terminal.until(f"{total:,} of {total:,}".encode())
        terminal.settle()
        print(f"  memory with a filter that matches every row {terminal.memory:.1f} MB", flush=True)
        goals.at_most(f"memory, filter that matches every row, {name}", terminal.memory, 55, "MB")


def while_growing(index: Path, times: int, goals: Goals) -> None:
    print(f"-- while {RATE:,} exchanges a second arrive", flush=True)
    with Terminal([sys.executable, "-c", SHOW, str(index)]) as terminal:
        terminal.first_row()
        terminal.settle()
        with growing(index):
            keys = pressed(terminal, KEYS_GROWING, times, QUIET_GROWING)
            goals.at_most("key to paint p95, exchanges arriving", keys.at(0.95), 25, "ms")
            away = terminal.rest(3.0) / 3.0
            terminal.send(KEYS["end"])
            terminal.rest(1.0)
            size = terminal.rest(TAILING_SECONDS)
        rate = size / TAILING_SECONDS / 1000
        print(
            f"  written: {away / 1000:.1f} kB/s at the top, {rate:.1f} kB/s at the end ({rate * 0.06:.1f} MB a minute)"
        )
        goals.at_most("written at the end of the list", rate, 60, "kB/s")
        print(f"  memory {terminal.memory:.1f} MB", flush=True)
        goals.at_most("memory, exchanges arriving", terminal.memory, 55, "MB")


def on_tables(index: Path, times: int, goals: Goals) -> None:
    """Measure keys on a table of TABLE_ROWS connections: moving, sorting by another column, and narrowing."""
    began = time.perf_counter()
    lines = [_connection(number) for number in range(1, TABLE_ROWS + 1)]
    facts = {"state": "complete", "exchanges": TABLE_ROWS, "bytes_read": 0, "bytes_total": 0, "renumbered": False}
    folder = index / layout.VIEWS
    folder.mkdir(exist_ok=True)
    stored = store({**facts, "left_out": 0, "error": None}, lines, of_view("connections"), local)
    (folder / "connections.table").write_bytes(stored)
    print(f"-- table of {TABLE_ROWS:,} connections: stored in {time.perf_counter() - began:.1f} s", flush=True)
    with Terminal([sys.executable, "-c", SHOW_STORED, str(index)]) as terminal:
        terminal.first_row()
        terminal.settle()
        terminal.send(b"6")
        terminal.until(b"client-7919")
        terminal.settle()
        keys = pressed(terminal, KEYS, times)
        goals.at_most("key to paint p50, table", keys.p50, 20, "ms")
        goals.at_most("key to paint p99, table", keys.at(0.99), 40, "ms")
        goals.at_most("sort by another column p50, table", pressed(terminal, SORTS, times).p50, 100, "ms")
        print(f"  memory {terminal.memory:.1f} MB", flush=True)


def _connection(number: int) -> dict[str, Any]:
    return {
        "schema": "kproxy.connection/1", "connection": number, "client": f"10.0.{number % 250}.7:{number}",
        "broker": f"10.1.0.{number % 9}:9092", "began": "2026-11-28T06:00:00.000000000Z",
        "last": f"2026-11-28T06:{number % 60:02}:00.000000000Z", "client_ids": [f"client-{number * 7919 % TABLE_ROWS}"],
        "software": "apache-kafka-java 4.4.0", "sasl_mechanism": None, "sasl": None, "tls": False,
        "exchanges": number * 31 % 9973, "errors": number % 13, "first_error": None, "unanswered": 0,
        "request_bytes": number * 101 % 99_991, "response_bytes": number * 103 % 99_991, "in_flight_most": number % 6,
        "first_exchange": number, "last_exchange": number,
    }  # fmt: skip


def beside_table(index: Path, times: int) -> None:
    print(f"-- Textual's DataTable: {TABLE_ROWS:,} rows", flush=True)
    with Terminal([sys.executable, "-m", "bench.data_table", str(index), str(TABLE_ROWS)]) as terminal:
        print(f"  first row after {terminal.first_row():.1f} s")
        terminal.settle(1.0)
        pressed(terminal, ARROWS, times)
        print(f"  memory {terminal.memory:.1f} MB", flush=True)


def beside_termshark(capture: Path, times: int) -> None:
    """Measure termshark on the same capture; tshark reads the capture for it, which may take minutes."""
    program = shutil.which("termshark")
    if program is None:
        print("-- termshark is not installed: nothing to compare with")
        return
    command = [program, "-r", str(capture), "-d", f"tcp.port=={PORT},kafka", "-Y", "kafka"]
    with Terminal(command) as terminal:
        try:
            terminal.until(b"Kafka")
        except TimeoutError:
            print(f"-- termshark has painted no exchange of this capture after {PATIENCE:g} s")
            return
        print(f"-- termshark, first rows of the same capture: {time.perf_counter() - terminal.begin:.1f} s", flush=True)
        terminal.rest(LOADING_SECONDS)
        pressed(terminal, ARROWS, times, QUIET_GROWING)
        print(f"  memory {terminal.memory:.1f} MB, without the memory of its tshark", flush=True)


def bench(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=10, help="how often the larger index repeats the rows")
    parser.add_argument("--keys", type=int, default=40, help="how often each key is pressed")
    options = parser.parse_args(given)
    goals = Goals()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        capture = place / "bench.pcap"
        multiply(BASE, -(-options.exchanges // PER_COPY), capture)
        print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; {COLUMNS}x{LINES}")
        homes = [Path(tempfile.mkdtemp(dir=place)) for _ in range(3)]
        size = capture.stat().st_size / 1e9
        goals.at_most(
            f"first rows, {size:.1f} GB, opened for the first time",
            min(until_rows(capture, one) for one in homes),
            1,
            "s",
        )
        index_wholly(capture, homes[0])
        goals.at_most("first rows, indexed", min(until_rows(capture, homes[0]) for _ in range(5)), 0.3, "s")
        index = kept_index(homes[0])
        assert index is not None
        on_index(index, "index", options.keys, goals)
        larger = repeated(index, options.times, place / "larger")
        on_index(larger, f"index repeated {options.times} times", options.keys, goals)
        while_growing(larger, options.keys, goals)
        on_tables(index, options.keys, goals)
        beside_table(larger, options.keys)
        beside_termshark(capture, options.keys)
    goals.show()


def main() -> None:
    bench([])


if __name__ == "__main__":
    bench(sys.argv[1:])
