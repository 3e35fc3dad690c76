"""What `kproxy findings` costs, beside `kproxy stats` and tshark on the same capture in the same run.

    python -m bench.findings [--megabytes 202] [--exchanges 200000] [PART...]

    offline  bench-base multiplied: `kproxy findings`, `kproxy stats`, and tshark with the fields that the busiest rules
             need (those of groups, offsets and errors). What tshark manages: see bench.offline.
    live     findings of a recording of small exchanges while it is followed, and what following costs without them
    memory   small exchanges of 20,000 clients in 5,000 groups, a thousand of them at once; the goal is for ten million

Commands run whole, each RUNS times in turn; the median counts. Memory is counted as in bench.offline.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.offline import Run, fields, made, managed, measured, peer
from bench.summary import FIELDS, kproxy
from kproxy.captures.formats.pcapng_writer import ACK, FIN, SYN, Direction, file_header
from kproxy.decoders.schema.lookup import definitions
from kproxy.decoders.writer import write

MEGABYTES = 202
EXCHANGES = 200_000
RUNS = 3
STATS_GOAL, TSHARK_GOAL, LIVE_GOAL, MEMORY_GOAL = 1.5, 8, 20_000, 150
CLIENTS, GROUPS, AT_ONCE = 20_000, 5_000, 1_000
NEEDED = (
    *FIELDS, "kafka.client_id", "kafka.consumer_group", "kafka.member_id", "kafka.topic_name", "kafka.partition_id",
    "kafka.offset", "kafka.error", "kafka.session_timeout", "kafka.rebalance_timeout",
)  # fmt: skip
"""The fields that the rules of groups and offsets read of each message, as far as tshark has them."""
HEARTBEAT, OFFSET_COMMIT, API_VERSIONS = 12, 8, 18
OFFERED = dict.fromkeys(range(19), 3)
"""The newest version of each API that the brokers of the recordings offer, by API key."""


def median(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda run: run.cpu)[len(runs) // 2]


def offline(place: Path, megabytes: int) -> None:
    tshark = peer()
    capture, copies = made(place, "bench.pcap", megabytes)
    if tshark is not None:
        managed(tshark, place, copies)
    ours, stats = [*kproxy(), "findings", str(capture)], [*kproxy(), "stats", str(capture)]
    found, counted = [], []
    for _ in range(RUNS):
        found.append(measured(ours))
        counted.append(measured(stats))
    our, their = median(found), median(counted)
    print(f"findings {our}\n         {' '.join(ours)}\nstats    {their}\n         {' '.join(stats)}")
    ratios = [one.cpu / other.cpu for one, other in zip(found, counted, strict=True)]
    print(f"ratio    {statistics.median(ratios):.2f} of the CPU time of stats; goal at most {STATS_GOAL:g}", flush=True)
    if tshark is not None:
        command = [*tshark, "-r", str(capture), "-Y", "kafka", *fields(*NEEDED)]
        peers = measured(command)
        print(f"tshark   {peers}\n         {' '.join(command)}")
        print(
            f"ratio    {peers.wall / our.wall:.1f}x by wall clock, {peers.cpu / our.cpu:.1f}x by CPU; "
            f"goal at least {TSHARK_GOAL}x",
            flush=True,
        )


class Frames:
    """Requests of consumers and their responses, made once as templates; `exchange` replaces the ids in them.

    Each client asks for versions once, then sends heartbeats and commits.
    """

    def __init__(self) -> None:
        known = definitions()
        beat = {"groupId": "group-00000", "generationId": 1, "memberId": "member-00000"}
        partition = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}
        commit = {
            "groupId": "group-00000", "generationIdOrMemberEpoch": 1, "memberId": "member-00000",
            "retentionTimeMs": -1, "topics": [{"name": "orders", "partitions": [partition]}],
        }  # fmt: skip
        answered = {"topics": [{"name": "orders", "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]}
        versions = [{"apiKey": key, "minVersion": 0, "maxVersion": newest} for key, newest in OFFERED.items()]
        self._made = []
        for key, version, asked, answer in (
            (HEARTBEAT, 1, beat, {"throttleTimeMs": 0, "errorCode": 0}),
            (OFFSET_COMMIT, 2, commit, answered),
            (API_VERSIONS, 2, {}, {"errorCode": 0, "apiKeys": versions, "throttleTimeMs": 0}),
        ):
            request, response = known.request(key, version), known.response(key, version)
            assert request is not None
            assert response is not None
            head = struct.pack(">hhih", key, version, 0, 12) + b"client-00000"
            self._made.append((head + write(request, version, asked), bytes(4) + write(response, version, answer)))

    def exchange(self, number: int, client: int, *, first: bool) -> tuple[bytes, bytes]:
        """Request and response number `number`: ApiVersions if `first`, else Heartbeat or, one in ten, OffsetCommit."""
        request, response = self._made[2 if first else (number // 7) % 10 == 0]
        correlation = struct.pack(">i", number & 0x7FFFFFFF)
        request = request[:4] + correlation + request[8:]
        request = request.replace(b"client-00000", b"client-%05d" % client)
        request = request.replace(b"member-00000", b"member-%05d" % client)
        request = request.replace(b"group-00000", b"group-%05d" % (client % GROUPS))
        return (
            struct.pack(">i", len(request)) + request,
            struct.pack(">i", len(response)) + correlation + response[4:],
        )


def recorded(path: Path, exchanges: int, clients: int) -> None:
    """Write a recording of so many exchanges, 10,000 a second: AT_ONCE clients take turns, then the next AT_ONCE."""
    frames = Frames()
    each = max(1, exchanges // clients)
    now, number = 1_760_000_000_000_000_000, 0
    with path.open("wb") as out:
        out.write(file_header("bench", "bench", (), 101))
        for first in range(0, clients, AT_ONCE):
            wave = range(first, min(first + AT_ONCE, clients))
            flows = {client: _flow(client) for client in wave}
            for turn in range(each):
                for client, (up, down) in flows.items():
                    number, now = number + 1, now + 100_000
                    if not turn:
                        out.writelines(up.packet(now, b"", 0, SYN))
                        out.writelines(down.packet(now, b"", up.sequence, SYN | ACK))
                    asked, answered = frames.exchange(number, client, first=not turn)
                    out.write(asked.join(up.packet(now, asked, down.sequence)))
                    out.write(answered.join(down.packet(now + 50_000, answered, up.sequence)))
            for up, down in flows.values():
                out.writelines(up.packet(now + 60_000, b"", down.sequence, FIN | ACK))
                out.writelines(down.packet(now + 60_000, b"", up.sequence, FIN | ACK))


def _flow(client: int) -> tuple[Direction, Direction]:
    """Both directions of the connection of a client."""
    address = f"10.{1 + (client >> 16)}.{client >> 8 & 255}.{client & 255}", 40_000
    broker = "10.0.0.1", 9092
    return Direction(address, broker, 1000), Direction(broker, address, 5000)


FOLLOW = """
import sys, time
from contextlib import closing
from kproxy.captures.findings.live import LiveFindings
from kproxy.captures.garbage import few_collections
from kproxy.captures.reader import read
with closing(read(sys.argv[1], follow=True)) as reader, few_collections():
    live = LiveFindings(reader.source, reader.definitions) if sys.argv[2] == "findings" else None
    count, begin = 0, time.process_time()
    while count < int(sys.argv[3]):
        items = reader.poll()
        count += len(items)
        if live is not None:
            live.add(items, reader.closings)
    print(count / (time.process_time() - begin))
"""
"""Follows a recording as `kproxy run --headless` does, but prints only the number of exchanges per CPU second."""


def live(place: Path, exchanges: int) -> None:
    capture = place / "live.pcapng"
    recorded(capture, exchanges, 1_000)
    rates = {}
    for what in ("findings", "nothing"):
        command = [sys.executable, "-c", FOLLOW, str(capture), what, str(exchanges)]
        done = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(RUNS)]
        rates[what] = statistics.median(map(float, done))
    print(f"following {exchanges} exchanges of 1,000 clients, a CPU second: {rates['nothing']:,.0f} exchanges without")
    print(f"findings, {rates['findings']:,.0f} with; goal {LIVE_GOAL:,}", flush=True)


def memory(place: Path, exchanges: int) -> None:
    capture = place / "many.pcapng"
    begin = time.perf_counter()
    recorded(capture, exchanges, CLIENTS)
    print(f"{exchanges:,} exchanges of {CLIENTS:,} clients in {GROUPS:,} groups, {capture.stat().st_size / 1e6:.0f} MB")
    print(f"(made in {time.perf_counter() - begin:.0f} s)", flush=True)
    run = measured([*kproxy(), "findings", str(capture)])
    print(f"findings {run}; goal {MEMORY_GOAL} MB, for ten million", flush=True)


PARTS = ("offline", "live", "memory")


def bench(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--exchanges", type=int, default=EXCHANGES, help="of the parts live and memory")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (all unless given)")
    options = parser.parse_args(given)
    wanted = options.parts or PARTS
    if unknown := set(wanted).difference(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
        if "offline" in wanted:
            offline(place, options.megabytes)
        if "live" in wanted:
            live(place, options.exchanges)
        if "memory" in wanted:
            memory(place, options.exchanges)


def main() -> None:
    bench([])


if __name__ == "__main__":
    bench(sys.argv[1:])
