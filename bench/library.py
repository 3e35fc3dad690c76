"""Measures iterating over a large capture with the library: the headers of every exchange, compared with kproxy stats.

The capture and the way of measuring are those of bench.summary.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.summary import BASE, best, kproxy
from tests.support.multiply import multiply

GOAL = 1.2
IMPORT_GOAL = 0.05
HEADERS = """
import kproxy

latency = 0.0
with kproxy.open({capture!r}) as capture:
    for exchange in capture:
        latency += exchange.latency_ms or 0
        exchange.number, exchange.api, exchange.api_version, exchange.client, exchange.broker, exchange.client_id
"""


def main() -> None:
    copies = int(os.environ.get("KPROXY_BENCH_COPIES", "18"))
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "capture.pcap"
        multiply(BASE, copies, capture)
        print(f"{capture.stat().st_size / 1e6:.0f} MB: bench-base x {copies}")
        stats = best([*kproxy(), "stats", str(capture)], Path(os.devnull))
        library = best([sys.executable, "-c", HEADERS.format(capture=str(capture))], None)
    for name, one in (("kproxy stats", stats), ("iterating headers", library)):
        print(f"{name:<20}{one.wall:7.2f} s{one.cpu:7.2f} s CPU")
    print(f"ratio               {library.wall / stats.wall:7.2f} (goal {GOAL}), by CPU {library.cpu / stats.cpu:.2f}")
    empty = best([sys.executable, "-c", "pass"], None)
    imported = best([sys.executable, "-c", "import kproxy"], None)
    print(f"import kproxy       {1000 * (imported.wall - empty.wall):7.1f} ms (goal {1000 * IMPORT_GOAL:.0f})")


if __name__ == "__main__":
    main()
