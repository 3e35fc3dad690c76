"""Runs a relay with twenty rules until a million exchanges have passed, while clients and brokers leave at any moment.

    python -m bench.soak_rules [--exchanges 1000000] [--seed 1]

Clients end their connections while rules hold their requests, brokers while rules hold their responses. A client that
gets no response for SECONDS ends its connection and opens another one. The exit code is 1 if a client stops, if the
relay's memory or its number of open files grows, or if frames or connections are left in the relay at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import psutil

from bench.soak import ROUND, answered, asked, exactly, grown, own_memory
from kproxy.runs.launcher import RelayProcess
from kproxy.runs.registry import ask
from kproxy.runs.settings import Settings, upstream

RULES = (
    "api == Heartbeat => delay 1ms, every 100",
    "api == Heartbeat => drop response, every 1999",
    "api == Heartbeat => error REBALANCE_IN_PROGRESS not applied, every 3",
    "api == Heartbeat => error COORDINATOR_NOT_AVAILABLE applied, every 5",
    "api == Heartbeat => blackhole connection, every 20011",
    "api == Produce => hold request 100ms, every 1001",
    "api == Produce => hold 100ms, every 1003",
    "api == Produce => disconnect before rst, every 5003",
    "api == Produce => disconnect mid 10, every 5009",
    "api == Produce => drop request, every 4999",
    "api == Produce => throttle 1ms mute, every 501",
    "api == Produce => delay 2ms ±1ms, p 0.002",
    "api == Produce and topic == other => drop response",
    "api == Fetch => set response.body.throttleTimeMs = 7, every 11",
    "api == Fetch => limit 100MB/s, every 301",
    "api == Fetch => slice 10000, every 401",
    "api == Fetch => swap, every 701",
    "api == Fetch => crc, every 601",
    "api == Metadata => brokers = [], every 50",
    "api == Metadata => intercept 50ms, every 2003",
)
PROCESSES, CONNECTIONS = 3, 8
SECONDS = 2.0
"""Time without a response after which a client gives its connection up."""
LEAVES, ENDS = 0.005, 0.0003
"""Probabilities: a client leaves after sending a round, without reading; the broker ends a connection at a request."""
STUCK_SECONDS = 30.0
EVERY_SECONDS = 5.0
SETTLE_SECONDS = 10.0
"""Seconds after the last client has left within which the relay must have released everything."""


def serve(listener: socket.socket, seed: int) -> None:
    """Run a broker that answers each API with always the same response, and sometimes ends a connection instead."""
    answers = {api[0]: answered(api, listener.getsockname()[1]) for api in set(ROUND)}
    chance = random.Random(seed)

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while chance.random() > ENDS:
                frame = exactly(connection, int.from_bytes(exactly(connection, 4), "big"))
                found = answers[int.from_bytes(frame[:2], "big")]
                connection.sendall(found[:4] + frame[4:8] + found[8:])
            if chance.random() < 0.5:
                reset(connection)

    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def reset(connection: socket.socket) -> None:
    """Let this connection end by RST when it is closed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def round_of_requests() -> bytes:
    questions = [asked(api) for api in ROUND]
    return b"".join(one[:8] + number.to_bytes(4, "big") + one[12:] for number, one in enumerate(questions))


def load(address: tuple[str, int], seed: int, counts: Sequence[Synchronized[int]], stop: Any) -> None:
    """Run clients until `stop`, one for each element of `counts`, in which the client counts its responses."""
    whole = round_of_requests()

    def client(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        count = counts[number]
        while not stop.is_set():
            with contextlib.suppress(OSError), socket.create_connection(address, SECONDS) as connection:
                wait = struct.pack("ll", int(SECONDS), 0)
                connection.settimeout(None)  # with a timeout of Python's, MSG_WAITALL does not wait
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
                while not stop.is_set():
                    connection.sendall(whole)
                    if chance.random() < LEAVES:
                        if chance.random() < 0.5:
                            reset(connection)
                        break
                    for _ in ROUND:
                        exactly(connection, int.from_bytes(exactly(connection, 4), "big"))
                        count.value += 1

    threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def watch(
    relay: RelayProcess, counts: Sequence[Synchronized[int]], wanted: int
) -> tuple[list[tuple[float, int]], bool]:
    """Print figures until `wanted` exchanges have passed; returns (memory over time, whether all clients went on).

    Memory over time is a list of (seconds, bytes). Ends early if a client gets no response for STUCK_SECONDS.
    """
    process = psutil.Process(relay.pid)
    curve: list[tuple[float, int]] = []
    before = [0] * len(counts)
    moved = [time.monotonic()] * len(counts)
    start = time.monotonic()
    print("seconds  exchanges  relay MiB  connections  all so far  open files  held bytes")
    while sum(now := [count.value for count in counts]) < wanted:
        at = time.monotonic()
        moved = [at if new > old else last for new, old, last in zip(now, before, moved, strict=True)]
        before = now
        if at - min(moved) > STUCK_SECONDS:
            print(f"client {moved.index(min(moved))} got no response for {STUCK_SECONDS:g} seconds")
            return curve, False
        status = relay.command("status")
        curve.append((at - start, own_memory(relay.pid)))
        print(
            f"{at - start:7.0f} {sum(now):10,} {curve[-1][1] / (1 << 20):10.1f} {status['connections']:12}"
            f" {status['connections_total']:11} {process.num_fds():11} {status['held_bytes']:11}",
            flush=True,
        )
        time.sleep(EVERY_SECONDS)
    return curve, True


def open_files(pid: int) -> Counter[str]:
    """Numbers of a process's open files, by folder, or by kind such as socket."""
    time.sleep(0.2)  # the connection of the last command to the relay has ended by then
    names = [file.readlink() for file in Path(f"/proc/{pid}/fd").iterdir()]
    return Counter(str(name.parent) if name.is_absolute() else name.name.partition(":[")[0] for name in names)


def first_round(relay: RelayProcess, address: tuple[str, int], whole: bytes) -> None:
    """Send the first requests: with them the recording begins, and the relay opens a port for the broker they name."""
    with socket.create_connection(address) as connection:
        connection.sendall(whole)
        for _ in ROUND:
            exactly(connection, int.from_bytes(exactly(connection, 4), "big"))
    while relay.command("status")["connections"]:
        time.sleep(0.01)


def left(relay: RelayProcess, files: Counter[str]) -> list[str]:
    """Texts about what the relay still holds SETTLE_SECONDS after the last client has left, and about unused rules.

    `files` are the files that the relay had open before the load began.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        status = relay.command("status")
        found = {"connections": status["connections"], "held bytes": status["held_bytes"]}
        found |= {f"more open: {name}": number for name, number in (open_files(relay.pid) - files).items()}
        rules = ask(relay.run_dir, "faults", op="list")["rules"]
        found["held frames"] = sum(rule["held"] for rule in rules)
        texts = [f"{number} {name}" for name, number in found.items() if number]
        if not texts or time.monotonic() > deadline:
            unused = [rule["text"] for rule in rules if not rule["hits"] and "topic == other" not in rule["text"]]
            return texts + [f"no hit of {text}" for text in unused]


def soak(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(given)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    settings = Settings(
        upstream=upstream(address), listen_port=0, probe=False, faults=RULES, fault_seed=options.seed, scratch=64 << 20
    )
    stop = multiprocessing.Event()
    counts = [multiprocessing.Value("q", 0, lock=False) for _ in range(PROCESSES * CONNECTIONS)]
    with RelayProcess(settings) as relay:
        host, _, port = relay.bootstrap.rpartition(":")
        brokers = [
            multiprocessing.Process(target=serve, args=(listener, number), daemon=True) for number in range(PROCESSES)
        ]
        clients = [
            multiprocessing.Process(
                target=load, args=((host, int(port)), number, counts[number::PROCESSES], stop), daemon=True
            )
            for number in range(PROCESSES)
        ]
        try:
            for worker in brokers:
                worker.start()
            first_round(relay, (host, int(port)), round_of_requests())
            files = open_files(relay.pid)
            for worker in clients:
                worker.start()
            curve, steady = watch(relay, counts, options.exchanges)
            stop.set()
            for worker in clients:
                worker.join(STUCK_SECONDS)
            rest = left(relay, files)
        finally:
            for child in multiprocessing.active_children():
                child.terminate()
            listener.close()
    level, growth = grown(curve)
    print(f"relay: {level / (1 << 20):.1f} MiB after the warm-up, {growth / (1 << 20):+.1f} MiB since")
    print("left in the relay: " + ("; ".join(rest) or "nothing"))
    return 0 if steady and not rest and growth < max(level // 10, 8 << 20) else 1


if __name__ == "__main__":
    sys.exit(soak(sys.argv[1:]))
