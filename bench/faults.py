"""Measures what rules cost the frames on which they do not act, and what a decision of a rule costs.

    python -m bench.faults [--runs 7] [--trips 2000]

Three relays take turns, request by request: one without rules, one with an empty file of rules, and one with a rule for
Heartbeat. The requests are Produce requests of 200 bytes, on which no rule acts.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench import peers
from bench.relay import Runs, ratio, round_trips
from kproxy.core.verdict import Parties, Turn, Verdict
from kproxy.decoders.stream import Side
from kproxy.faults.engine import Engine
from kproxy.faults.parsing import parse
from tests.kproxy.core.frames import DEFINITIONS
from tests.kproxy.faults.support import producing

RULE = "api == Heartbeat => delay 1ms"
WAYS: dict[str, dict[str, Any]] = {
    "no rule": {},
    "empty file": {"faults_file": "/dev/null"},
    "one rule": {"faults": (RULE,)},
}
DECISIONS = 20_000
GOALS = {"empty file": 1.03, "one rule": 1.05}
"""Goals for the median round trip, divided by that of a relay without rules."""
ON_HEADERS, ON_BODY = 20.0, 100.0
"""Goals for a decision, in microseconds."""


def decision(rule: str, frame: bytes) -> float:
    """Microseconds that an engine with one rule needs to decide on a Produce request."""
    engine = Engine([parse(rule, "rule")], DEFINITIONS, lambda *_: None, time.monotonic, 1, lambda _: None)
    parties = Parties("127.0.0.1:1", "127.0.0.1:2", number=1)
    turns = [Turn(0, 9, number, parties) for number in range(DECISIONS)]
    start = time.perf_counter()
    for turn in turns:
        engine.offer(Side.CLIENT, turn, Verdict(frame))
    return (time.perf_counter() - start) / DECISIONS * 1e6


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--trips", type=int, default=2000, help="number of round trips in each run")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        address, _ = stack.enter_context(peers.process())
        ways = [stack.enter_context(peers.kproxy(address, name=name, **more)) for name, more in WAYS.items()]
        p50: Runs = {way.name: [] for way in ways}
        p99: Runs = {way.name: [] for way in ways}
        for _ in range(options.runs):
            for way, trips in zip(ways, round_trips(ways, 10, options.trips), strict=True):
                p50[way.name].append(trips[len(trips) // 2] * 1e6)
                p99[way.name].append(trips[len(trips) * 99 // 100] * 1e6)
        for name in WAYS:
            print(f"{name:12} p50 {statistics.median(p50[name]):6.1f} us, p99 {statistics.median(p99[name]):6.1f} us")
        for name, goal in GOALS.items():
            print(f"{name}, p50 divided by that without rules: {ratio(p50, name, 'no rule'):.3f} (goal {goal})")
    frame = producing(1)
    large = producing(1, *range(60))
    headers = statistics.median(decision("client.id == other => drop response", frame) for _ in range(5))
    body = statistics.median(decision("topic == other => drop response", large) for _ in range(5))
    print(f"a decision on headers: {headers:.1f} us (goal {ON_HEADERS:.0f})")
    print(f"a decision on a body of {len(large):,} bytes: {body:.1f} us (goal {ON_BODY:.0f})")


if __name__ == "__main__":
    main(sys.argv[1:])
