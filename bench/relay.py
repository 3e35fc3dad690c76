"""What the relay costs beside a direct connection and beside socat: round trips, MB/s, CPU seconds per GB.

    python -m bench.relay [--megabytes 256] [--trips 2000] [--no-record | -w FILE]

A broker that answers every request with as many bytes as it asks for runs in a process of its own; the ways to it are
interleaved, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kproxy.launcher import RelayProcess
from kproxy.settings import Settings, upstream

HEAD = struct.Struct(">ihhi")
PRODUCE, FETCH = (0, 9), (1, 12)
FETCH_HELD = (1, 17)
BLOCK = 1 << 20
WINDOW = 4


def request(api: tuple[int, int], correlation_id: int, size: int, answer: int) -> bytes:
    """A request of `size` bytes whose first body bytes say how long its answer is to be."""
    body = struct.pack(">hi", -1, answer)
    padding = max(size - HEAD.size - len(body), 0)
    return HEAD.pack(HEAD.size - 4 + len(body) + padding, *api, correlation_id) + body + bytes(padding)


def fetch_body(size: int) -> bytes:
    """A Fetch v17 response after its correlation id: one partition with records, no endpoints."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    records = max(size - 90, 1)
    partition = struct.pack(">ihqqq", 0, 0, 0, 0, 0) + b"\x01" + struct.pack(">i", -1) + varint(records + 1)
    partition += bytes(records) + b"\0"
    topic = bytes(16) + b"\x02" + partition + b"\0"
    return b"\0" + struct.pack(">ihi", 0, 0, 0) + b"\x02" + topic + b"\0"


def serve(port_out: multiprocessing.Queue[int]) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port_out.put(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _exactly(connection: socket.socket, view: memoryview) -> bool:
    while view:
        got = connection.recv_into(view)
        if not got:
            return False
        view = view[got:]
    return True


def _answer(connection: socket.socket) -> None:
    buffer = memoryview(bytearray(BLOCK * 2))
    bodies: dict[tuple[int, int], bytes] = {}
    with contextlib.suppress(OSError):
        while _exactly(connection, buffer[:18]):
            size, key, version, correlation_id = HEAD.unpack_from(buffer)
            answer = struct.unpack_from(">i", buffer, 14)[0]
            if not _exactly(connection, buffer[: size - 14]):
                return
            body = bodies.get((key, answer))
            if body is None:
                held = (key, version) == FETCH_HELD
                body = bodies[key, answer] = fetch_body(answer) if held else bytes(answer)
            connection.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)
    connection.close()


@dataclass
class Way:
    """One way to the broker; `cpu` gives the seconds of CPU time that it has cost so far."""

    name: str
    address: tuple[str, int]
    cpu: Callable[[], float]
    trips: list[float] = field(default_factory=list)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, 30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def spent_by(pid: int) -> Callable[[], float]:
    """CPU seconds of a process and its children."""
    process = psutil.Process(pid)

    def cpu() -> float:
        times = [one.cpu_times() for one in (process, *process.children())]
        return float(sum(one.user + one.system for one in times))

    return cpu


def round_trips(ways: list[Way], trips: int) -> None:
    connections = [way.connect() for way in ways]
    asked = request(PRODUCE, 1, 200, 100)
    buffer = memoryview(bytearray(108))
    for number in range(trips + 100):
        for way, connection in zip(ways, connections, strict=True):
            start = time.perf_counter()
            connection.sendall(asked)
            _exactly(connection, buffer)
            if number >= 100:
                way.trips.append(time.perf_counter() - start)
    for connection in connections:
        connection.close()


def throughput(way: Way, api: tuple[int, int], megabytes: int) -> tuple[float, float]:
    """(MB/s, CPU seconds per GB) of one way."""
    up = api == PRODUCE
    connection = way.connect()
    asked = request(api, 1, BLOCK if up else 100, 100 if up else BLOCK - 100)
    connection.sendall(asked)
    head = memoryview(bytearray(8))
    _exactly(connection, head)
    answer = memoryview(bytearray(struct.unpack_from(">i", head)[0] - 4))
    _exactly(connection, answer)
    outstanding = 0
    before, start = way.cpu(), time.perf_counter()
    for _ in range(megabytes):
        connection.sendall(asked)
        outstanding += 1
        if outstanding == WINDOW:
            outstanding -= 1
            _exactly(connection, head)
            _exactly(connection, answer)
    for _ in range(outstanding):
        _exactly(connection, head)
        _exactly(connection, answer)
    seconds = time.perf_counter() - start
    time.sleep(0.05)
    gigabytes = megabytes * BLOCK / 1e9
    spent = (way.cpu() - before) / gigabytes
    connection.close()
    return megabytes * BLOCK / 1e6 / seconds, spent


@contextlib.contextmanager
def socat(port: int) -> Iterator[Way]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = free.getsockname()[1]
    process = subprocess.Popen(
        ["socat", "-b", "65536", f"TCP-LISTEN:{listen},reuseaddr,fork,nodelay,bind=127.0.0.1",
         f"TCP:127.0.0.1:{port},nodelay"]
    )  # fmt: skip
    time.sleep(0.3)
    way = Way("socat", ("127.0.0.1", listen), spent_by(process.pid))
    try:
        yield way
    finally:
        process.terminate()
        process.wait()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--trips", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("-w", dest="record_to", type=Path)
    options = parser.parse_args(arguments)
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    broker = multiprocessing.Process(target=serve, args=(ports,), daemon=True)
    broker.start()
    port = ports.get()
    settings = Settings(
        upstream=upstream(f"127.0.0.1:{port}"),
        listen_port=0,
        probe=False,
        record=not options.no_record,
        record_to=None if options.record_to is None else str(options.record_to),
    )
    with contextlib.ExitStack() as stack:
        relay = stack.enter_context(RelayProcess(settings))
        host, _, listen = relay.bootstrap.rpartition(":")
        ways = [
            Way("direct", ("127.0.0.1", port), lambda: 0.0),
            Way("kproxy", (host, int(listen)), spent_by(relay.pid)),
        ]
        if shutil.which("socat"):
            ways.append(stack.enter_context(socat(port)))
        round_trips(ways, options.trips)
        for way in ways:
            ordered = sorted(way.trips)
            p50, p99 = statistics.median(ordered) * 1e6, ordered[int(len(ordered) * 0.99)] * 1e6
            print(f"{way.name:8} round trip p50 {p50:7.1f} us  p99 {p99:7.1f} us")
        for name, api in (("produce", PRODUCE), ("fetch", FETCH), ("fetch v17, held", FETCH_HELD)):
            results: dict[str, list[tuple[float, float]]] = {}
            for _ in range(options.runs):
                for way in ways:
                    results.setdefault(way.name, []).append(throughput(way, api, options.megabytes))
            for way in ways:
                rate, spent = (statistics.median(values) for values in zip(*results[way.name], strict=True))
                print(f"{way.name:8} {name:16} {rate:7.0f} MB/s  {spent:5.2f} CPU s/GB")
        print(relay.command("status")["recorder"])
    broker.terminate()


if __name__ == "__main__":
    main(sys.argv[1:])
