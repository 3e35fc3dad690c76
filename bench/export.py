"""All fields and records of a large capture as JSON: kproxy export beside tshark -T json, both writing to a file.

The capture is that of bench.summary. Both are whole processes on one core, start-up included, in turn; tshark takes its
defaults, which decompress records and print every field. What tshark manages are the frames that it finds and neither
calls malformed nor marks with an expert's warning (an unknown version, a body that does not end where it should). We
do all frames in our time, so that the ratio is at least that on the managed ones alone.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from shutil import which

from bench.summary import BASE, PORT, Timing, best, kproxy
from tests.support.multiply import multiply

GOAL = 15
WARNED = "kafka and (_ws.malformed or _ws.expert)"


def frames(tshark: list[str], capture: Path, condition: str) -> int:
    """Kafka's frames in the packets that a display filter lets pass."""
    command = [*tshark, "-r", str(capture), "-Y", condition, "-T", "fields", "-e", "kafka.len"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return sum(len(line.split(",")) for line in lines)


def told(name: str, timing: Timing, size: float, out: Path) -> str:
    cores, rate = timing.cpu / timing.wall, size / timing.wall
    return (
        f"{name:7} {timing.wall:6.2f} s wall {timing.cpu:6.2f} s CPU ({cores:.2f} cores) {rate:5.1f} MB/s, "
        f"{out.stat().st_size / 1e6:.0f} MB of JSON"
    )


def main() -> None:
    tshark = which("tshark")
    copies = int(os.environ.get("KPROXY_BENCH_COPIES", "18"))
    with tempfile.TemporaryDirectory() as place:
        capture, ours, theirs = (Path(place, name) for name in ("bench.pcap", "ours.jsonl", "theirs.json"))
        multiply(BASE, copies, capture)
        size = capture.stat().st_size / 1e6
        print(f"{size:.0f} MB: bench-base x {copies}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        command = [*kproxy(), "export", str(capture), "-o", str(ours)]
        our = best(command, None)
        exchanges = ours.read_bytes().count(b"\n") - 1
        print(f"{told('kproxy', our, size, ours)}, {exchanges} exchanges\n        {' '.join(command)}")
        ours.unlink()
        if tshark is None:
            print("tshark is not installed: nothing to compare with")
            return
        decode = [tshark, "-d", f"tcp.port=={PORT},kafka"]
        version = subprocess.run([tshark, "--version"], check=True, capture_output=True, text=True).stdout
        peer = [*decode, "-r", str(capture), "-Y", "kafka", "-T", "json"]
        their = best(peer, theirs)
        total, warned = frames(decode, capture, "kafka"), frames(decode, capture, WARNED)
        print(f"{told('tshark', their, size, theirs)}, {total - warned} frames managed of {total}")
        print(f"        {version.splitlines()[0]}: {' '.join(peer)}")
        print(f"ratio   {their.wall / our.wall:.1f}x by wall clock, {their.cpu / our.cpu:.1f}x by CPU (goal {GOAL}x)")


if __name__ == "__main__":
    main()
