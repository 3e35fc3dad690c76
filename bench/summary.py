"""Measures a summary of every exchange of a large capture: kproxy export compared with tshark, both writing to a file.

The capture is the packaged bench-base multiplied (KPROXY_BENCH_COPIES of it, 18 unless set: 200 MB). Both are measured
as whole processes, start-up included, one after the other, RUNS times each; the best run counts. The bench also
compares the results: tshark's frames (key, correlation id, length) with the requests and responses of kproxy.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.support.multiply import multiply

BASE = Path(__file__).parents[1] / "tests" / "data" / "captures" / "bench-base.pcap.xz"
PORT = 19092
GOAL = 8
RUNS = 3
STAT = Path("/proc/stat")
COLUMNS = ("time", "connection", "api_key", "correlation_id", "request_size", "response_size")
FIELDS = ("frame.time_epoch", "tcp.stream", "kafka.api_key", "kafka.correlation_id", "kafka.len")
Frames = Counter[tuple[int, int, int]]


@dataclass
class Timing:
    """Seconds of wall clock and of CPU time; `others` is the number of cores that other processes used meanwhile."""

    wall: float
    cpu: float
    others: float = 0.0


def busy() -> float:
    """CPU seconds that the whole machine has used since boot; 0 if /proc/stat is missing."""
    if not STAT.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq = map(int, STAT.read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def best(command: list[str], output: Path | None) -> Timing:
    """The fastest of RUNS runs of a command; standard output goes to `output` if given."""
    timings = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        machine, start = busy(), time.perf_counter()
        if output is None:
            subprocess.run(command, check=True)
        else:
            with output.open("wb") as file:
                subprocess.run(command, check=True, stdout=file, stderr=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        timings.append(Timing(wall, cpu, max(0.0, busy() - machine - cpu) / wall))
    return min(timings, key=lambda timing: timing.wall)


def kproxy() -> list[str]:
    """The command line of kproxy: the script installed beside this Python, or its entry point if there is none."""
    beside = Path(sys.executable).with_name("kproxy")
    return [str(beside)] if beside.exists() else [sys.executable, "-c", "from kproxy.cli.main import main; main()"]


def our_frames(path: Path) -> tuple[int, Frames]:
    """(number of exchanges, frames) in kproxy's output at `path`."""
    frames: Frames = Counter()
    lines = path.read_text().splitlines()[1:]
    for line in lines:
        _, _, key, correlation, request, response = line.split(",")
        for size in (request, response):
            if size:
                frames[int(key), int(correlation), int(size)] += 1
    return len(lines), frames


def their_frames(path: Path) -> Frames:
    """The frames in tshark's output; a line has the frames of one packet, separated by commas."""
    frames: Frames = Counter()
    for line in path.read_text().splitlines():
        _, _, keys, correlations, sizes = line.split("\t")
        for key, correlation, size in zip(keys.split(","), correlations.split(","), sizes.split(","), strict=True):
            frames[int(key), int(correlation), int(size)] += 1
    return frames


def main() -> None:
    tshark = shutil.which("tshark")
    copies = int(os.environ.get("KPROXY_BENCH_COPIES", "18"))
    with tempfile.TemporaryDirectory() as place:
        capture, ours, theirs = (Path(place, name) for name in ("bench.pcap", "ours.csv", "theirs.txt"))
        multiply(BASE, copies, capture)
        size = capture.stat().st_size / 1e6
        print(f"{size:.0f} MB: bench-base x {copies}; {os.cpu_count()} cores; best of {RUNS} runs")
        command = [
            *kproxy(),
            "export",
            str(capture),
            "--format",
            "csv",
            "--columns",
            ",".join(COLUMNS),
            "-o",
            str(ours),
        ]
        our = best(command, None)
        exchanges, frames = our_frames(ours)
        print(f"kproxy  {our.wall:6.2f} s wall {our.cpu:6.2f} s CPU {size / our.wall:6.0f} MB/s {exchanges} exchanges")
        if tshark is None:
            print("tshark is not installed: nothing to compare with")
            return
        version = subprocess.run([tshark, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[
            0
        ]
        peer = [tshark, "-r", str(capture), "-d", f"tcp.port=={PORT},kafka", "-Y", "kafka", "-T", "fields"]
        for field in FIELDS:
            peer += ["-e", field]
        their = best(peer, theirs)
        found = their_frames(theirs)
        print(
            f"tshark  {their.wall:6.2f} s wall {their.cpu:6.2f} s CPU {size / their.wall:6.0f} MB/s "
            f"{found.total()} frames"
        )
        print(f"        {version}: {' '.join(peer)}")
        agree = (
            "the same frames"
            if found == frames
            else f"{(frames - found).total()} more, {(found - frames).total()} fewer"
        )
        print(f"ratio   {their.wall / our.wall:.1f}x (goal {GOAL}x); ours {frames.total()} frames: {agree}")


if __name__ == "__main__":
    main()
