"""Measures what the relay costs, compared with a direct connection, socat and HAProxy in TCP mode.

    python -m bench.relay [--runs 5] [--megabytes 256] [--trips 1000]

Every figure is the median of the runs. In each run the ways to the broker take turns, request by request and in
changing order, so that other load on the machine affects all ways alike, and the state of caches does not favour one.
Several connections are open at the same time and used in turn, as the goals demand. A second measurement sends on all
connections at once, which mostly measures queueing, in one process or in a peer's threads. Ratios are the medians of
each run's own ratio. Missed goals are reported; the bench continues.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import random
import resource
import select
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

from bench import peers
from bench.peers import FETCH_HELD, Api, Way
from kproxy.runs import scratch

PRODUCE, FETCH = (0, 9), (1, 12)
MOVED = {"produce": PRODUCE, "fetch": FETCH, "fetch, held": FETCH_HELD}
"""APIs of the bulk transfers; the relay holds a Fetch v17 response until it has seen its addresses."""
TRIPS = ((1, False), (10, False), (100, False), (10, True), (100, True))
"""(number of connections, whether all send at once instead of in turn)."""
FIRST = 50
"""Number of warm-up rounds, which are not counted."""
BLOCK = 1 << 20
WINDOW = 4
"""Number of requests in flight."""
TRIP_ANSWER = 108
PIECE = 1 << 16
SETTLE_SECONDS = 10.0

Runs: TypeAlias = dict[str, list[float]]
"""By name of the way, one figure for each run."""


@dataclass(frozen=True, slots=True)
class Moved:
    seconds: float
    cpu: float
    """CPU seconds that the way's processes used."""
    size: int

    @property
    def rate(self) -> float:
        """Megabytes per second."""
        return self.size / 1e6 / self.seconds

    @property
    def seconds_per_gb(self) -> float:
        return self.seconds / (self.size / 1e9)

    @property
    def cpu_per_gb(self) -> float:
        return self.cpu / (self.size / 1e9)


def round_trips(ways: Sequence[Way], connections: int, rounds: int, *, at_once: bool = False) -> list[list[float]]:
    """Seconds of all round trips, sorted, one list for each way.

    A round uses one connection, or with `at_once` all of them.
    """
    opened = [[way.connect() for _ in range(connections)] for way in ways]
    asked = peers.request(PRODUCE, 1, 200, TRIP_ANSWER - 8)
    trips: list[list[float]] = [[] for _ in ways]
    with contextlib.ExitStack() as stack:
        for group in opened:
            for connection in group:
                stack.enter_context(connection)
        asking = [_at_once(group, asked) if at_once else _in_turn(group, asked) for group in opened]
        turns = list(zip(trips, asking, strict=True))
        chance = random.Random(rounds)
        for number in range(FIRST + rounds):
            chance.shuffle(turns)
            for taken, ask in turns:
                found = ask()
                if number >= FIRST:
                    taken.extend(found)
    return [sorted(taken) for taken in trips]


def _in_turn(group: Sequence[socket.socket], asked: bytes) -> Callable[[], list[float]]:
    """A function that sends a request on the next connection and returns the seconds of its round trip."""
    turns = cycle(group)

    def trip() -> list[float]:
        connection = next(turns)
        start = time.perf_counter()
        connection.sendall(asked)
        connection.recv(TRIP_ANSWER, socket.MSG_WAITALL)
        return [time.perf_counter() - start]

    return trip


def _at_once(group: Sequence[socket.socket], asked: bytes) -> Callable[[], list[float]]:
    """A function that sends a request on every connection before it waits for responses; returns their seconds."""
    ready = select.epoll()
    by_number = {connection.fileno(): connection for connection in group}
    for number in by_number:
        ready.register(number, select.EPOLLIN)

    def wave() -> list[float]:
        since, taken = {}, []
        for number, connection in by_number.items():
            since[number] = time.perf_counter()
            connection.sendall(asked)
        while since:
            for number, _ in ready.poll():
                by_number[number].recv(TRIP_ANSWER, socket.MSG_WAITALL)
                taken.append(time.perf_counter() - since.pop(number))
        return taken

    return wave


def move(way: Way, api: Api, megabytes: int, recording: Path | None = None) -> Moved:
    """Move Produce requests or Fetch responses of 1 MiB each; waits until `recording`, if given, holds them all."""
    up = api == PRODUCE
    asked = peers.request(api, 1, BLOCK if up else 100, 100 if up else BLOCK - 100)
    buffer = memoryview(bytearray(2 * BLOCK))
    with way.connect() as connection:

        def answered() -> None:
            connection.recv_into(buffer, 8, socket.MSG_WAITALL)
            connection.recv_into(buffer, struct.unpack_from(">i", buffer)[0] - 4, socket.MSG_WAITALL)

        connection.sendall(asked)
        answered()
        before, start = way.cpu(), time.perf_counter()
        for number in range(megabytes):
            connection.sendall(asked)
            if number >= WINDOW - 1:
                answered()
        for _ in range(min(WINDOW - 1, megabytes)):
            answered()
        size = megabytes * BLOCK
        deadline = start + SETTLE_SECONDS + size / 1e8
        while recording is not None and recording.stat().st_size < size and time.perf_counter() < deadline:
            time.sleep(0.001)
        return Moved(time.perf_counter() - start, way.cpu() - before, size)


def written(path: Path, megabytes: int) -> Moved:
    """Write this many megabytes to a file with `writev` alone, 1 MiB at a time."""
    pieces = [bytes(PIECE)] * (BLOCK // PIECE)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        before, start = _own_cpu(), time.perf_counter()
        for _ in range(megabytes):
            if os.writev(descriptor, pieces) != BLOCK:
                raise OSError("the disk is full")
        return Moved(time.perf_counter() - start, _own_cpu() - before, megabytes * BLOCK)
    finally:
        os.close(descriptor)
        path.unlink()


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ratio(runs: Runs, one: str, other: str) -> float | None:
    """The median over the runs of one way's figure divided by another's; None if the other was not measured."""
    if other not in runs or not all(runs[other]):
        return None
    return statistics.median(a / b for a, b in zip(runs[one], runs[other], strict=True))


def row(name: str, runs: Runs, unit: str, form: str = "8.1f") -> None:
    """Print a line for each way: the median of its runs, and the ratio of kproxy's figure to it."""
    for way, values in runs.items():
        times = ratio(runs, "kproxy", way) if way != "kproxy" else None
        compared = "" if times is None else f"   kproxy is {times:.2f}x"
        print(f"{name:28} {way:8} {statistics.median(values):{form}} {unit}{compared}", flush=True)


class Goals:
    """Collects and prints goals with the measured figures."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def at_most(self, what: str, found: float | None, wanted: float, unit: str = "x") -> None:
        if found is not None:
            said = "met" if found <= wanted else "MISSED"
            self._lines.append(f"goal {what:44} at most {wanted:6.2f} {unit:4} found {found:6.2f}  {said}")

    def at_least(self, what: str, found: float, wanted: float, unit: str = "x") -> None:
        said = "met" if found >= wanted else "MISSED"
        self._lines.append(f"goal {what:44} at least {wanted:5.2f} {unit:4} found {found:6.2f}  {said}")

    def show(self) -> None:
        print(*self._lines, sep="\n")


def latencies(ways: Sequence[Way], runs: int, trips: int, goals: Goals) -> None:
    for connections, at_once in TRIPS:
        p50: Runs = {way.name: [] for way in ways}
        p99: Runs = {way.name: [] for way in ways}
        for _ in range(runs):
            rounds = max(trips // connections, 30) if at_once else trips
            found = round_trips(ways, connections, rounds, at_once=at_once)
            for way, taken in zip(ways, found, strict=True):
                p50[way.name].append(statistics.median(taken) * 1e6)
                p99[way.name].append(taken[int(len(taken) * 0.99)] * 1e6)
        how = "at once" if at_once else "in turn"
        at = f"trip, {connections} {how if connections > 1 else ''}".strip()
        row(f"{at} p50", p50, "us")
        row(f"{at} p99", p99, "us")
        if connections == 1:
            beyond = statistics.median(a - b for a, b in zip(p50["kproxy"], p50["direct"], strict=True))
            goals.at_most("p50 minus direct's", beyond, 60, "us")
            goals.at_most("p50 divided by socat's", ratio(p50, "kproxy", "socat"), 1.15)
            goals.at_most("p99 divided by socat's", ratio(p99, "kproxy", "socat"), 1.5)
        if connections == 100 and not at_once:
            goals.at_most(f"p99 at {connections} {how}, divided by HAProxy's", ratio(p99, "kproxy", "haproxy"), 1)


def bulk(ways: Sequence[Way], runs: int, megabytes: int, goals: Goals) -> None:
    for name, api in MOVED.items():
        found: dict[str, list[Moved]] = {way.name: [] for way in ways}
        for _ in range(runs):
            for way in ways:
                found[way.name].append(move(way, api, megabytes))
        row(name, {way: [each.rate for each in moved] for way, moved in found.items()}, "MB/s", "8.0f")
        cpu = {way: [each.cpu_per_gb for each in moved] for way, moved in found.items() if way != "direct"}
        row(f"{name}, CPU", cpu, "s/GB", "8.2f")
        goals.at_most(f"CPU of {name}, scratch recording", statistics.median(cpu["kproxy"]), 1.6, "s/GB")


def on_disk(address: tuple[str, int], directory: Path, runs: int, megabytes: int, goals: Goals) -> None:
    """Measure recording with `-w`, compared with a pump and with a plain write of the same bytes to the same disk."""
    found: dict[str, list[Moved]] = {"pump": [], "writev": [], "kproxy": []}
    for _ in range(runs):
        with peers.pump(address) as pump:
            found["pump"].append(move(pump, PRODUCE, megabytes))
        found["writev"].append(written(directory / "bare", megabytes))
        recording = directory / "recording.pcapng"
        with peers.kproxy(address, recording) as recorded:
            found["kproxy"].append(move(recorded, PRODUCE, megabytes, recording))
        recording.unlink()
    for what, name in (("wall", "seconds_per_gb"), ("CPU", "cpu_per_gb")):
        figures = {way: [getattr(each, name) for each in moved] for way, moved in found.items()}
        figures["sum"] = [a + b for a, b in zip(figures["pump"], figures["writev"], strict=True)]
        row(f"produce, -w on disk, {what}", figures, "s/GB", "8.2f")
        goals.at_most(f"{what} of -w, divided by pump's plus writev's", ratio(figures, "kproxy", "sum"), 1.2)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=256, help="megabytes moved in each run")
    parser.add_argument(
        "--trips", type=int, default=1000, help="number of round trips in each run, over all connections"
    )
    options = parser.parse_args(arguments)
    goals = Goals()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(scratch.place("bench"))
        address, _ = stack.enter_context(peers.process())
        ways = [peers.direct(address), stack.enter_context(peers.kproxy(address))]
        for name, started in (("socat", peers.socat(address)), ("haproxy", peers.haproxy(address, directory))):
            if started is None:
                print(f"{name} is left out: it is not installed (Debian package {name})")
            else:
                ways.append(stack.enter_context(started))
        cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
        print(f"Python {platform.python_version()}, {cores} cores, load {load:.1f}")
        for way in ways:
            print(f"{way.name:8} {way.about}")
        latencies(ways, options.runs, options.trips, goals)
        bulk(ways, options.runs, options.megabytes, goals)
        on_disk(address, directory, options.runs, options.megabytes, goals)
        _totals(ways)
    goals.show()


def _totals(ways: Iterable[Way]) -> None:
    for way in ways:
        if way.name != "direct":
            print(f"{way.name:8} {way.cpu():.1f} CPU seconds in total")


if __name__ == "__main__":
    main(sys.argv[1:])
