"""What the Spark pipeline makes of a large capture, beside one process and an ordinary script, in the same run.

    python -m bench.spark [--copies 9]

The capture is bench-base multiplied. Every engine is a process of its own, start-up included; of Spark the time of the
job is given as well, without that of the session. All write the tables of `kproxy export --format parquet`, bodies
decoded. The script is what somebody would write with dpkt: streams put together in order, requests and responses paired
by correlation id, and in its second form each body decoded by kafka-python where that knows the message. It finds no
gaps, retransmissions or connections whose beginning is missing, and writes nothing.

    growth   the job on local[2] over a quarter, a half and all of the capture
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.summary import BASE, PORT
from tests.support.multiply import multiply

COPIES = 9
MASTERS = ("local[1]", "local[2]")


def paired(capture: Path, *, bodies: bool) -> int:
    """The exchanges that the script finds."""
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


def script(capture: Path, *, bodies: bool) -> tuple[float, int]:
    start = time.perf_counter()
    found = paired(capture, bodies=bodies)
    return time.perf_counter() - start, found


def run(capture: Path, *arguments: str) -> tuple[float, dict[str, Any]]:
    """Seconds of a `kproxy spark`, start-up included, and what it says."""
    with tempfile.TemporaryDirectory() as out:
        code = "from kproxy.cli.main import main; main()"
        command = [sys.executable, "-c", code, "spark", str(capture), "--out", out, "--json", *arguments]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        wall = time.perf_counter() - start
    told: dict[str, Any] = json.loads(done.stdout)
    return wall, told


def show(name: str, seconds: float, size: int, exchanges: int, more: str = "") -> None:
    rates = f"{size / seconds / 1e6:8.1f} MB/s {exchanges / seconds:10,.0f} exchanges/s"
    print(f"{name:34} {seconds:8.2f} s {rates}  {more}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=COPIES)
    options = parser.parse_args(arguments or [])
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "capture.pcap"
        multiply(BASE, options.copies, capture)
        size = capture.stat().st_size
        print(f"{size / 1e6:.0f} MB, {options.copies} copies of bench-base")
        for bodies in (False, True):
            seconds, found = script(capture, bodies=bodies)
            show(f"dpkt script, {'bodies' if bodies else 'headers'}", seconds, size, found)
        wall, told = run(capture, "--engine", "local")
        exchanges = told["rows"]["exchanges"]
        show("in one process", wall, size, exchanges)
        for master in MASTERS:
            wall, told = run(capture, "--engine", "spark", "--master", master)
            show(f"Spark {master}", wall, size, exchanges)
            shuffled = told["shuffle_bytes"]
            job = told["seconds"]
            show(f"Spark {master}, the job", job, size, exchanges, f"shuffled {shuffled / size:.1%} of the capture")
        for copies in (max(1, options.copies // 4), max(1, options.copies // 2), options.copies):
            multiply(BASE, copies, capture)
            _, told = run(capture, "--engine", "spark", "--master", "local[2]")
            job, size = told["seconds"], capture.stat().st_size
            show(f"growth, {copies} copies", job, size, told["rows"]["exchanges"])


if __name__ == "__main__":
    main(sys.argv[1:])
