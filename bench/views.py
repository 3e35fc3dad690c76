"""Measures views of the data source `kafka_capture`: one task compared with tasks that share the capture.

    python -m bench.views [--copies 27] [--cores 2] [--views exchanges,records]

The capture is bench-base multiplied, 300 MB. For each view, Spark makes its rows and drops them (format `noop`), in one
session, with `tasks` 1 and then with as many as there are cores. Of both, the faster of two runs counts; the first rows
of the session are not measured. It also shows, in this process, what share of the work of one task the first two stages
take, which every task repeats.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.spent import Spent
from bench.summary import BASE
from kproxy.captures.garbage import seldom_collections
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.shares import DIVISIBLE, WHOLE
from tests.support.multiply import multiply

COPIES = 27
RUNS = 2


def stages(capture: Path, view: str) -> tuple[float, float]:
    """Seconds that stages 1 and 2 take of a task that makes the whole view, and seconds of stage 3."""
    from kproxy.captures.spark import local
    from kproxy.captures.spark.plan.splits import plan

    with seldom_collections():
        begin = time.perf_counter()
        rows = local.rows(plan([capture], WHOLE), Options((view,)), [view], size=WHOLE)
        drafted = time.perf_counter()
        for _ in rows:
            pass
        return drafted - begin, time.perf_counter() - drafted


def made(spark: Any, capture: Path, view: str, tasks: int) -> tuple[float, float]:
    """Seconds and CPU seconds in which Spark makes the rows of a view."""
    read = spark.read.format("kafka_capture").options(view=view, tasks=tasks, splitSize=1 << 20).load(str(capture))
    begin = time.perf_counter()
    with Spent(os.getpid()) as spent:
        read.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - begin
    return seconds, spent.seconds


def main(arguments: Sequence[str] = ()) -> None:
    from kproxy.cli.spark_session import opened

    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=COPIES)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--views", default=",".join(DIVISIBLE))
    options = parser.parse_args(arguments)
    views = options.views.split(",")
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "capture.pcap"
        multiply(BASE, options.copies, capture)
        print(f"{capture.stat().st_size / 1e6:.0f} MB, {options.copies} copies of bench-base", flush=True)
        for view in views:
            before, after = stages(capture, view)
            share = before / (before + after)
            print(f"{view:16} stages 1 and 2 {before:6.2f} s, stage 3 {after:6.2f} s: share {share:.2f}", flush=True)
        with opened(f"local[{options.cores}]") as spark:
            made(spark, capture, "captures", 1)
            for view in views:
                one, many = (
                    min(made(spark, capture, view, tasks) for _ in range(RUNS)) for tasks in (1, options.cores)
                )
                print(
                    f"{view:16} one task {one[0]:6.2f} s wall {one[1]:6.2f} s CPU, {options.cores} tasks "
                    f"{many[0]:6.2f} s wall {many[1]:6.2f} s CPU: {one[0] / many[0]:.2f} times as fast",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
