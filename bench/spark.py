"""Measures the throughput of the Spark pipeline on a large capture, compared with one process and with a plain script.

    python -m bench.spark [--copies 134]

The capture is bench-base multiplied, 1.5 GB. Each engine is measured as a separate process, start-up included. Spark
runs the job twice in one session (bench.spark_job): cold, with the start of the session in its wall clock time, then
warm; the goals apply to the warm run. Both kproxy engines write the tables of `kproxy export --format parquet`, with
bodies and without (`--no-bodies`). The script is what a developer would write with dpkt: it puts streams together in
order, pairs requests and responses by correlation id, and in its second form decodes each body that kafka-python knows.
It detects no gaps, retransmissions or connections without their beginning, and writes nothing.

    one connection   the busiest connection of bench-base, repeated, compared with many connections of the same content
    three captures   the same traffic in three captures of the same time, each connection in one of them
    growth           the job on local[2] over a quarter, a half and all of the capture

Missed goals are reported; the bench continues.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.relay import Goals
from bench.spent import Spent
from bench.summary import BASE, PORT
from tests.support.multiply import deal, lengthen, multiply

COPIES = 134
MASTERS = ("local[1]", "local[2]")


def paired(capture: Path, *, bodies: bool) -> int:
    """Number of exchanges that the script finds; with `bodies` it decodes them."""
    import dpkt

    held: dict[tuple[Any, ...], bytearray] = defaultdict(bytearray)
    waiting: dict[tuple[Any, ...], tuple[int, int]] = {}
    classes: dict[Any, Any] = {}
    if bodies:
        from bench.decode import kafka_python_classes

        for cls in kafka_python_classes().values():
            classes[cls.API_KEY, cls.name.endswith("Request")] = cls
    found = 0
    with capture.open("rb") as file:
        for _, frame in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(frame).data
            if not isinstance(ip, dpkt.ip.IP) or not isinstance(ip.data, dpkt.tcp.TCP) or not ip.data.data:
                continue
            tcp = ip.data
            asks = tcp.dport == PORT
            ends = (ip.src, tcp.sport, ip.dst, tcp.dport) if asks else (ip.dst, tcp.dport, ip.src, tcp.sport)
            buffer = held[*ends, asks]
            buffer += tcp.data
            while len(buffer) >= 8 and len(buffer) >= (size := int.from_bytes(buffer[:4], "big") + 4):
                message = bytes(buffer[:size])
                del buffer[:size]
                if asks:
                    key, version = int.from_bytes(message[4:6], "big"), int.from_bytes(message[6:8], "big")
                    waiting[*ends, message[8:12]] = key, version
                else:
                    asked = waiting.pop((*ends, message[4:8]), None)
                    if asked is None:
                        continue
                    key, version = asked
                    found += 1
                cls = classes.get((key, asks))
                if cls is not None and version <= cls.max_version:
                    cls.decode(message, version=version, header=True, framed=True)
    return found


@dataclass(frozen=True)
class Run:
    """One run of an engine.

    `wall` and `cpu` are seconds, `job` is `wall` without the start of the session. `exchanges` are those found. `size`
    is the capture's size and `shuffled` the amount that Spark shuffled, in bytes.
    """

    wall: float
    job: float
    cpu: float
    size: int
    exchanges: int
    shuffled: int = 0

    @property
    def rate(self) -> float:
        """Exchanges per second of the job, without the start of the session."""
        return self.exchanges / self.job

    def show(self, name: str) -> None:
        spent = (
            f"{self.wall:7.2f} s wall {self.job:7.2f} s job {self.cpu:7.2f} s CPU ({self.cpu / self.wall:.2f} cores)"
        )
        more = f"  shuffled {self.shuffled / self.size:.2%}" if self.shuffled else ""
        print(
            f"{name:32} {spent} {self.size / self.job / 1e6:6.1f} MB/s {self.rate:8,.0f} exchanges/s{more}", flush=True
        )


def script(capture: Path, *, bodies: bool) -> Run:
    start, cpu = time.perf_counter(), time.process_time()
    found = paired(capture, bodies=bodies)
    wall = time.perf_counter() - start
    return Run(wall, wall, time.process_time() - cpu, capture.stat().st_size, found)


def said(*command: str) -> tuple[Any, float, float]:
    """(JSON value that a Python process printed, its wall clock seconds, its CPU seconds)."""
    start = time.perf_counter()
    with (
        subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process,
        Spent(process.pid) as spent,
    ):
        text, _ = process.communicate()
    wall = time.perf_counter() - start
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return json.loads(text), wall, spent.seconds


def alone(capture: Path, *arguments: str) -> Run:
    """The job in one process, without Spark."""
    with tempfile.TemporaryDirectory() as out:
        code = "from kproxy.cli.main import main; main()"
        told, wall, cpu = said(
            "-c", code, "spark", str(capture), "--out", out, "--json", "--engine", "local", *arguments
        )  # fmt: skip
    return Run(wall, told["seconds"], cpu, capture.stat().st_size, told["rows"]["exchanges"])


def on_spark(name: str, capture: Path, cores: int, *arguments: str) -> Run:
    """Run the job on Spark twice and print both runs; returns the warm one."""
    told, _, _ = said("-m", "bench.spark_job", str(capture), "--master", f"local[{cores}]", *arguments)
    files = capture.iterdir() if capture.is_dir() else [capture]
    size = sum(path.stat().st_size for path in files)
    cold, warm = (
        Run(before + run["seconds"], run["seconds"], run["cpu"], size, run["exchanges"], run["shuffled"])
        for before, run in zip((told["session"], 0), told["runs"], strict=True)
    )
    cold.show(f"{name}, cold")
    warm.show(f"{name}, warm")
    return warm


def compared(capture: Path, goals: Goals, *, bodies: bool) -> Run:
    """Run the script, the job in one process, and the job on Spark on the same capture; returns Spark's run on two
    cores.
    """
    what, more = ("bodies", []) if bodies else ("headers", ["--no-bodies"])
    peer = script(capture, bodies=bodies)
    peer.show(f"dpkt script, {what}")
    alone(capture, *more).show(f"one process, {what}")
    one, two = (on_spark(f"Spark local[{cores}], {what}", capture, cores, *more) for cores in (1, 2))
    goals.at_least(f"{what} divided by the script's", two.rate / peer.rate, 2.5 if bodies else 5)
    goals.at_least(f"{what}, local[2] divided by local[1]", two.rate / one.rate, 1.6)
    if bodies:
        goals.at_least("exchanges, thousands a second", two.rate / 1e3, 30, "k")
        goals.at_most("bytes shuffled, share of the capture", two.shuffled / two.size * 100, 2, "%")
    return two


def three(folder: Path, copies: int, spread: Run, goals: Goals) -> None:
    """Run the job on a folder of three overlapping captures, which together hold what the capture of `spread` holds."""
    folder.mkdir()
    deal(BASE, copies, [folder / f"broker{number}.pcap" for number in range(3)])
    found = on_spark("three overlapping captures", folder, 2)
    for path in folder.iterdir():
        path.unlink()
    goals.at_least("three overlapping captures, divided by one", found.rate / spread.rate, 0.9)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=COPIES)
    options = parser.parse_args(arguments)
    goals = Goals()
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "capture.pcap"
        multiply(BASE, options.copies, capture)
        size = capture.stat().st_size
        print(f"{size / 1e6:.0f} MB, {options.copies} copies of bench-base")
        spread = compared(capture, goals, bodies=True)
        compared(capture, goals, bodies=False)
        three(Path(folder) / "three", options.copies, spread, goals)
        for copies in (max(1, options.copies // 4), max(1, options.copies // 2)):
            multiply(BASE, copies, capture)
            on_spark(f"growth, {copies} copies", capture, 2)
        spread.show(f"growth, {options.copies} copies, warm")
        talk = Path(folder) / "talk.pcap"
        lengthen(BASE, 1, talk)
        copies = max(1, size // 3 // talk.stat().st_size)
        multiply(talk, copies, capture)
        many = on_spark(f"{copies} connections", capture, 2)
        lengthen(BASE, copies, capture)
        one = on_spark("one connection", capture, 2)
        goals.at_least("one connection, divided by many", one.rate / many.rate, 0.9)
    goals.show()


if __name__ == "__main__":
    main(sys.argv[1:])
