"""Measures kproxy's commands on a large capture, compared with tshark on the same capture: time, and memory at any
size.

    python -m bench.offline [--megabytes 2000] [--large-megabytes 10000] [PART...]

The capture is bench-base multiplied. For each part, kproxy's command runs first, then tshark with the options that come
closest. Each runs once as a whole, start-up included, and writes text to a pipe whose reader only counts. The parts:

    index   every exchange with its body's topic, group, errors and record count, as the list shows them
    json    every field and record
    filter  a filter that every body must be decoded for; the few matching exchanges as JSON
    csv     a line for each exchange, from headers alone
    open    a larger capture, opened in a terminal: the time to its first rows, then the same again with an index

Memory is the maximum of all processes of a command together, without mapped files; shared pages count once (Pss_Anon
and Pss_Shmem). A frame counts for tshark if tshark finds it and marks it neither as malformed nor with an expert
warning. These are counted in bench-base, whose copies differ only in addresses and times. kproxy's time covers all
frames, so the true ratio on tshark's frames is higher.
"""

from __future__ import annotations

import argparse
import fcntl
import lzma
import os
import pty
import re
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.export import WARNED, frames
from bench.memory import Peak
from bench.summary import BASE, COLUMNS, FIELDS, PORT, busy, kproxy
from tests.support.multiply import multiply

MEGABYTES = 2000
LARGE_MEGABYTES = 10_000
MEMORY_GOAL = 150
"""Goal for the memory of any part, in megabytes, at any size of the capture."""
OPEN_GOAL = 1.0
"""Goal for the seconds until the first rows of a capture that is opened for the first time."""
REOPEN_GOAL = 0.3
OPENINGS = 3
ROWS_PATIENCE, INDEX_PATIENCE = 60.0, 1800.0
"""Maximum seconds to wait for the first rows, and for a complete index."""
SCREEN = struct.pack("HHHH", 40, 140, 0, 0)
ROW = re.compile(rb"\d\d:\d\d:\d\d\.\d{3}")
"""The time of day with which a row of the list begins."""
INDEXER = "kproxy.captures.index.indexer"
TOPIC = "b-gzip"
"""A topic that one in several hundred messages of bench-base names."""


@dataclass(frozen=True)
class Part:
    """A comparison: functions that make kproxy's command and tshark's options from the capture and a folder."""

    about: str
    goal: float | None
    """The goal: how many times faster than tshark, by wall clock on 4 cores; None without a goal."""
    ours: Callable[[Path, Path], list[str]]
    theirs: Sequence[str]


def fields(*names: str) -> list[str]:
    return ["-T", "fields", *(word for name in names for word in ("-e", name))]


INDEXED = (
    *FIELDS, "kafka.api_version", "kafka.client_id", "kafka.topic_name", "kafka.partition_id", "kafka.consumer_group",
    "kafka.error",
)  # fmt: skip
"""Fields of an index row that tshark can print too; tshark has no record counts, latencies and pairs."""

PARTS = {
    "index": Part(
        "index of every exchange",
        10,
        lambda capture, place: [sys.executable, "-m", INDEXER, str(capture), str(place / "index")],
        ["-Y", "kafka", *fields(*INDEXED)],
    ),
    "json": Part(
        "full JSON", 15, lambda capture, _: [*kproxy(), "export", str(capture)], ["-Y", "kafka", "-T", "json"]
    ),
    "filter": Part(
        "a filter that asks bodies",
        None,
        lambda capture, _: [
            *kproxy(), "export", str(capture), "-Y", f'request.body.topicData[].name == "{TOPIC}"',
        ],
        ["-Y", f'kafka.topic_name == "{TOPIC}"', "-T", "json"],
    ),
    "csv": Part(
        "CSV",
        None,
        lambda capture, _: [
            *kproxy(), "export", str(capture), "--format", "csv", "--columns", ",".join(COLUMNS),
        ],
        ["-Y", "kafka", *fields(*FIELDS), "-E", "separator=,", "-E", "quote=d", "-E", "header=y"],
    ),
}  # fmt: skip
OPEN = "open"


@dataclass(frozen=True)
class Run:
    """What one command used: seconds of wall clock and of CPU, memory in bytes, and the size of its output.

    `others` is the number of cores that other processes used meanwhile.
    """

    wall: float
    cpu: float
    others: float
    memory: int
    processes: int
    lines: int
    size: int

    def __str__(self) -> str:
        return (
            f"{self.wall:7.2f} s wall {self.cpu:7.2f} s CPU ({self.cpu / self.wall:.2f} cores, others "
            f"{self.others:.2f}), {self.memory / 1e6:.0f} MB of memory in {self.processes} processes"
            + (f", {self.size / 1e6:.0f} MB in {self.lines} lines" if self.size else "")
        )


def measured(command: list[str]) -> Run:
    """Run a command to its end. Raises CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    machine, start = busy(), time.perf_counter()
    with subprocess.Popen(["wc", "-lc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdin is not None
        with subprocess.Popen(command, stdout=sink.stdin, stderr=subprocess.DEVNULL) as process:
            sink.stdin.close()
            with Peak(process.pid) as peak:
                code = process.wait()
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        others = busy() - machine
        assert sink.stdout is not None
        lines, size = map(int, sink.stdout.read().split())
    if code:
        raise subprocess.CalledProcessError(code, command)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu, max(0.0, others - cpu) / wall, peak.bytes, peak.processes, lines, size)


def compared(part: Part, capture: Path, place: Path, tshark: list[str] | None) -> None:
    command = part.ours(capture, place)
    our = measured(command)
    print(f"-- {part.about}\nkproxy  {our}\n        {' '.join(command)}", flush=True)
    print(f"        memory: goal {MEMORY_GOAL} MB")
    if tshark is None:
        return
    peer = [*tshark, "-r", str(capture), *part.theirs]
    their = measured(peer)
    goal = "" if part.goal is None else f"; goal {part.goal:g}x by wall clock on 4 cores"
    print(f"tshark  {their}\n        {' '.join(peer)}")
    print(f"ratio   {their.wall / our.wall:.1f}x by wall clock, {their.cpu / our.cpu:.1f}x by CPU{goal}", flush=True)


def made(place: Path, name: str, megabytes: int) -> tuple[Path, int]:
    """(path of a capture of about this many megabytes, number of copies of bench-base in it)."""
    copies = max(1, round(megabytes * 1e6 / len(lzma.decompress(BASE.read_bytes()))))
    capture = place / name
    multiply(BASE, copies, capture)
    print(f"{capture.stat().st_size / 1e6:.0f} MB: bench-base x {copies}", flush=True)
    return capture, copies


def peer() -> list[str] | None:
    """The beginning of tshark's command lines; None if tshark is not installed."""
    tshark = shutil.which("tshark")
    if tshark is None:
        print("tshark is not installed: nothing to compare with")
        return None
    version = subprocess.run([tshark, "--version"], check=True, capture_output=True, text=True).stdout
    print(version.splitlines()[0])
    return [tshark, "-d", f"tcp.port=={PORT},kafka"]


def managed(tshark: list[str], place: Path, copies: int) -> None:
    base = place / "base.pcap"
    multiply(BASE, 1, base)
    total, warned = frames(tshark, base, "kafka"), frames(tshark, base, WARNED)
    print(f"tshark reads {(total - warned) * copies} of {total * copies} frames without a warning")


def installed() -> dict[str, str]:
    """The environment variables without PYTHONDONTWRITEBYTECODE: Python keeps compiled modules, as when installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def take_terminal() -> None:
    """Make the terminal on standard input the controlling terminal of this session.

    The system then hangs up the session's processes when the bench ends, however it ends.
    """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Screen:
    """A context that runs `kproxy replay` in a terminal, with a cache of its own in `home`."""

    def __init__(self, capture: Path, home: Path) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, SCREEN)
        self._begin = time.perf_counter()
        self._process = subprocess.Popen(
            [*kproxy(), "replay", str(capture)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**installed(), "TERM": "xterm-256color", "XDG_CACHE_HOME": str(home)},
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 (no other thread runs yet)
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        while self._process.poll() is None:
            self._painted(0.1)
        os.close(self._screen)

    def until(self, there: Callable[[bytes], bool], patience: float) -> float:
        """Seconds from the start until `there` returns True for the painted bytes. Raises TimeoutError."""
        painted = b""
        while not there(painted):
            if time.perf_counter() - self._begin > patience or self._process.poll() is not None:
                raise TimeoutError(f"not painted after {patience:g} s, or ended")
            painted += self._painted(0.1)
        return time.perf_counter() - self._begin

    def _painted(self, wait: float) -> bytes:
        if not select.select([self._screen], [], [], wait)[0]:
            return b""
        try:
            return os.read(self._screen, 1 << 16)
        except OSError:  # the command has closed the terminal
            time.sleep(wait)
            return b""


def until_rows(capture: Path, home: Path) -> float:
    """Seconds from the start of `kproxy replay` until the first row is painted."""
    with Screen(capture, home) as screen:
        return screen.until(lambda painted: ROW.search(painted) is not None, ROWS_PATIENCE)


def index_wholly(capture: Path, home: Path) -> float:
    """Run `kproxy replay` until the index of a capture is complete and kept; returns the seconds."""

    def kept(_: bytes) -> bool:
        return kept_index(home) is not None

    with Screen(capture, home) as screen:
        return screen.until(kept, INDEX_PATIENCE)


def kept_index(home: Path) -> Path | None:
    """The only index that is kept in the cache in `home`; None if there is none."""
    return next((meta.parent for meta in home.glob("kproxy/indexes/[0-9a-f]*/meta.json")), None)


def opened(place: Path, megabytes: int) -> None:
    capture, _ = made(place, "large.pcap", megabytes)
    print(f"-- first rows in a terminal\n        {' '.join([*kproxy(), 'replay', str(capture)])}")
    homes = [Path(tempfile.mkdtemp(dir=place)) for _ in range(OPENINGS)]
    times = [until_rows(capture, home) for home in homes]
    print(f"opened for the first time: {min(times):.2f} s, best of {OPENINGS}; goal {OPEN_GOAL:g} s", flush=True)
    print(f"until the index is complete: {index_wholly(capture, homes[0]):.1f} s", flush=True)
    times = [until_rows(capture, homes[0]) for _ in homes]
    print(f"opened again, with its index: {min(times):.2f} s, best of {OPENINGS}; goal {REOPEN_GOAL:g} s", flush=True)


def bench(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--large-megabytes", type=int, default=LARGE_MEGABYTES, help="of the capture that is opened")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join([*PARTS, OPEN])} (all unless given)")
    options = parser.parse_args(given)
    wanted = options.parts or [*PARTS, OPEN]
    if unknown := set(wanted).difference(PARTS, [OPEN]):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
        if compare := [PARTS[name] for name in wanted if name in PARTS]:
            tshark = peer()
            capture, copies = made(place, "bench.pcap", options.megabytes)
            if tshark is not None:
                managed(tshark, place, copies)
            for part in compare:
                compared(part, capture, place, tshark)
            capture.unlink()
        if OPEN in wanted:
            opened(place, options.large_megabytes)


def main() -> None:
    bench([])


if __name__ == "__main__":
    bench(sys.argv[1:])
