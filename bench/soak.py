"""Runs a relay and its indexer for long at the full load of two cores, and checks that their memory does not grow.

    python -m bench.soak [--minutes 30] [--connections 16] [--rounds 250]

Clients exchange real messages as fast as they are answered, and connect again from time to time. Every ten seconds a
line is printed: the processes' own memory (anonymous, MiB), bytes that passed, rows that were indexed, size of the
index, and bytes of the ring that were overwritten before the indexer read them. The exit code is 1 if memory or the
index grew after the warm-up, which is the first third.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from kproxy.decoders.writer import write
from kproxy.runs.launcher import Indexer, RelayProcess, arguments
from kproxy.runs.settings import Settings, upstream
from tests.kproxy.core.frames import DEFINITIONS, naming, request, response
from tests.support.peers import DefaultRecordBatchBuilder

EVERY_SECONDS = 10.0
CORES = 2
WORKERS = 3
"""Number of client processes, and of broker processes: enough that neither limits the rate."""
ALLOWED_GROWTH = 0.1
"""Allowed growth after the warm-up, as a share of the level then; growth below ALLOWED_BYTES is always allowed."""
ALLOWED_BYTES = 16 << 20

HEARTBEAT, METADATA, PRODUCE, FETCH = (12, 4), (3, 12), (0, 9), (1, 12)
ROUND = (PRODUCE, FETCH, PRODUCE, FETCH, HEARTBEAT, PRODUCE, FETCH, METADATA)
"""The requests that a client sends, over and over."""

Api = tuple[int, int]


def batch(records: int, size: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for number in range(records):
        builder.append(number, timestamp=1_700_000_000_000 + number, key=b"key", value=bytes(size), headers=[])
    return bytes(builder.build())


def asked(api: Api) -> bytes:
    message = DEFINITIONS.request(*api)
    assert message is not None
    values: dict[str, object] = {}
    if api == PRODUCE:
        partition = {"index": 0, "records": batch(16, 1000)}
        values = {"acks": 1, "timeoutMs": 1000, "topicData": [{"name": "soak", "partitionData": [partition]}]}
    elif api == HEARTBEAT:
        values = {"groupId": "soak", "generationId": 1, "memberId": "one"}
    return request(*api, 0, write(message, api[1], values))


def answered(api: Api, port: int) -> bytes:
    if api == METADATA:
        return naming(*api, 0, [(1, "127.0.0.1", port)])
    if api == FETCH:
        partition = {"partitionIndex": 0, "highWatermark": 64, "records": batch(64, 1000)}
        return response(*api, 0, {"responses": [{"topic": "soak", "partitions": [partition]}]})
    if api == PRODUCE:
        partition = {"index": 0, "baseOffset": 1}
        return response(*api, 0, {"responses": [{"name": "soak", "partitionResponses": [partition]}]})
    return response(*api, 0, {})


def exactly(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("the other side has ended")
    return data


def serve(listener: socket.socket) -> None:
    """Run a broker that answers each API with always the same response."""
    answers = {api[0]: answered(api, listener.getsockname()[1]) for api in set(ROUND)}

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while True:
                frame = exactly(connection, int.from_bytes(exactly(connection, 4), "big"))
                found = answers[int.from_bytes(frame[:2], "big")]
                connection.sendall(found[:4] + frame[4:8] + found[8:])

    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def load(address: tuple[str, int], connections: int, rounds: int) -> None:
    """Run clients that send the requests of a round at once, read their responses, and begin the next round."""
    questions = [asked(api) for api in ROUND]
    whole = b"".join(one[:8] + number.to_bytes(4, "big") + one[12:] for number, one in enumerate(questions))

    def client() -> None:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(address, 30) as connection:
                connection.settimeout(None)  # with a timeout, MSG_WAITALL does not wait
                for _ in range(rounds):
                    connection.sendall(whole)
                    for _ in ROUND:
                        exactly(connection, int.from_bytes(exactly(connection, 4), "big"))

    threads = [threading.Thread(target=client, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def own_memory(pid: int) -> int:
    """Bytes of a process's anonymous memory, without the mapped recording, which comes and goes with the page cache."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise ValueError("this kernel does not report RssAnon")


def meta(index: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((index / "meta.json").read_text())
        return found
    return {}


def on_disk(directory: Path) -> int:
    """Bytes that the files of a directory take on disk, without their holes."""
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())


def grown(curve: list[tuple[float, int]]) -> tuple[int, int]:
    """(level after the warm-up, growth since) in bytes, from a straight line fitted to the curve without its first
    third.

    `curve` is (seconds, bytes) over time.
    """
    settled = curve[len(curve) // 3 :]
    slope, level = statistics.linear_regression([at for at, _ in settled], [value for _, value in settled])
    first, last = settled[0][0], settled[-1][0]
    return round(level + slope * first), round(slope * (last - first))


def watch(relay: RelayProcess, indexer: Indexer, minutes: float) -> dict[str, list[tuple[float, int]]]:
    """Print the curve while relay and indexer run; returns a list of (seconds, bytes) by name.

    The names are "relay" and "indexer", for their own memory, and "index on disk".
    """
    curves: dict[str, list[tuple[float, int]]] = {"relay": [], "indexer": [], "index on disk": []}
    print(
        "seconds  relay  indexer    MB/s  CPU relay  CPU indexer  connections  dropped"
        "      rows  index MiB   gaps  lost MB"
    )
    start = time.monotonic()
    assert indexer.pid is not None
    processes = {"relay": psutil.Process(relay.pid), "indexer": psutil.Process(indexer.pid)}
    before = 0
    for process in processes.values():
        process.cpu_percent()
    while (now := time.monotonic() - start) < minutes * 60:
        time.sleep(EVERY_SECONDS)
        status = relay.command("status")
        passed = status["bytes_from_clients"] + status["bytes_from_brokers"]
        for name, process in processes.items():
            curves[name].append((now, own_memory(process.pid)))
        curves["index on disk"].append((now, on_disk(relay.index_dir)))
        indexed = meta(relay.index_dir)
        health = indexed.get("health", {})
        sizes = [curve[-1][1] / (1 << 20) for curve in curves.values()]
        cpu = [process.cpu_percent() for process in processes.values()]
        print(
            f"{now + EVERY_SECONDS:7.0f} {sizes[0]:6.1f} {sizes[1]:8.1f} {(passed - before) / EVERY_SECONDS / 1e6:7.1f}"
            f" {cpu[0]:9.0f}% {cpu[1]:11.0f}% {status['connections_total']:12} {status['recorder']['dropped']:8}"
            f" {indexed.get('rows', 0):9} {sizes[2]:10.1f}"
            f" {health.get('gaps', 0):6} {health.get('lost', 0) / 1e6:8.0f}",
            flush=True,
        )
        before = passed
    return curves


def soak(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=250, help="rounds after which a client connects again")
    parser.add_argument("--connections", type=int, default=16, help="connections of each client process")
    options = parser.parse_args(given)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    workers = [multiprocessing.Process(target=serve, args=(listener,), daemon=True) for _ in range(WORKERS)]
    settings = Settings(upstream=upstream(f"127.0.0.1:{listener.getsockname()[1]}"), listen_port=0, probe=False)
    with RelayProcess(settings) as relay:
        assert relay.recording is not None
        indexer = Indexer(relay.recording, relay.index_dir, arguments(None, ()))
        assert indexer.pid is not None
        cores = set(sorted(os.sched_getaffinity(0))[:CORES])
        os.sched_setaffinity(relay.pid, cores)
        os.sched_setaffinity(indexer.pid, cores)
        host, _, port = relay.bootstrap.rpartition(":")
        address = (host, int(port))
        workers += [
            multiprocessing.Process(target=load, args=(address, options.connections, options.rounds), daemon=True)
            for _ in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        try:
            curves = watch(relay, indexer, options.minutes)
            died = indexer.starts > 1
        finally:
            for worker in workers:
                worker.terminate()
            indexer.stop()
            listener.close()
    steady = not died
    for name, curve in curves.items():
        level, growth = grown(curve)
        flat = growth <= max(ALLOWED_GROWTH * level, ALLOWED_BYTES)
        steady &= flat
        print(
            f"{name}: {level / (1 << 20):.1f} MiB after the warm-up, {growth / (1 << 20):+.1f} MiB since: "
            + ("flat" if flat else "it grows")
        )
    if died:
        print(f"the indexer was started {indexer.starts} times")
    return 0 if steady else 1


if __name__ == "__main__":
    sys.exit(soak(sys.argv[1:]))
