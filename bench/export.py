"""Measures writing all fields and records of a large capture as JSON: kproxy export compared with tshark -T json.

The capture is that of bench.summary; both write to a file. Both are measured as whole commands, start-up included, one
after the other; the best of three runs counts. kproxy runs with one process (`--jobs 1`), with two if there are more
than two cores, and with its default if there are several. tshark has one process and its default options, which
decompress records and print every field. A frame counts for tshark if tshark finds it and marks it neither as malformed
nor with an expert warning (an unknown version, a body that does not end where it should). kproxy's time covers all
frames, so the true ratio on tshark's frames is higher.

Other processes on the machine compete for the cores: the bench prints the load, and the number of cores that other
processes used during the best run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from shutil import which

from bench.summary import BASE, PORT, Timing, best, kproxy
from kproxy.captures.cores import usable_cores
from tests.support.multiply import multiply

GOAL = 15
WARNED = "kafka and (_ws.malformed or _ws.expert)"


def frames(tshark: list[str], capture: Path, condition: str) -> int:
    """Number of Kafka frames in the packets that match a display filter of tshark."""
    command = [*tshark, "-r", str(capture), "-Y", condition, "-T", "fields", "-e", "kafka.len"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return sum(len(line.split(",")) for line in lines)


def told(name: str, timing: Timing, size: float, out: Path) -> str:
    cores, rate = timing.cpu / timing.wall, size / timing.wall
    return (
        f"{name:15} {timing.wall:6.2f} s wall {timing.cpu:6.2f} s CPU ({cores:.2f} cores, others {timing.others:.2f}) "
        f"{rate:5.1f} MB/s, {out.stat().st_size / 1e6:.0f} MB of JSON"
    )


def ways() -> dict[str, list[str]]:
    """The ways to run kproxy that are compared: command-line options by name."""
    cores = usable_cores()
    found = {"kproxy --jobs 1": ["--jobs", "1"]}
    if cores > 2:
        found["kproxy --jobs 2"] = ["--jobs", "2"]
    if cores > 1:
        found["kproxy"] = []
    return found


def main() -> None:
    tshark = which("tshark")
    copies = int(os.environ.get("KPROXY_BENCH_COPIES", "18"))
    with tempfile.TemporaryDirectory() as place:
        capture, ours, theirs = (Path(place, name) for name in ("bench.pcap", "ours.jsonl", "theirs.json"))
        multiply(BASE, copies, capture)
        size = capture.stat().st_size / 1e6
        print(f"{size:.0f} MB: bench-base x {copies}; {usable_cores()} cores, load {os.getloadavg()[0]:.1f}")
        timings = {}
        for name, options in ways().items():
            command = [*kproxy(), "export", *options, str(capture), "-o", str(ours)]
            timings[name] = best(command, None)
            print(f"{told(name, timings[name], size, ours)}\n        {' '.join(command)}")
        exchanges = ours.read_bytes().count(b"\n") - 1
        print(f"        {exchanges} exchanges")
        ours.unlink()
        if tshark is None:
            print("tshark is not installed: nothing to compare with")
            return
        decode = [tshark, "-d", f"tcp.port=={PORT},kafka"]
        version = subprocess.run([tshark, "--version"], check=True, capture_output=True, text=True).stdout
        peer = [*decode, "-r", str(capture), "-Y", "kafka", "-T", "json"]
        their = best(peer, theirs)
        total, warned = frames(decode, capture, "kafka"), frames(decode, capture, WARNED)
        print(f"{told('tshark', their, size, theirs)}, {total - warned} of {total} frames read without a warning")
        print(f"        {version.splitlines()[0]}: {' '.join(peer)}")
        for name, our in timings.items():
            print(f"ratio   {their.wall / our.wall:.1f}x by wall clock, {their.cpu / our.cpu:.1f}x by CPU: {name}")
        print(f"goal    {GOAL}x by wall clock on 4 cores")


if __name__ == "__main__":
    main()
