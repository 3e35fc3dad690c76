"""Runs a Spark job twice in one session: first cold, then warm.

    python -m bench.spark_job CAPTURE --master local[2] [--no-bodies]

The figures of both runs, and the seconds that the session took to start, are printed as JSON. The first run pays for
the classes that Java loads and compiles, and for Python's workers; a session with several jobs pays for these once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.spent import Spent
from kproxy.cli.spark_session import opened

RUNS = 2


def run(spark: Any, capture: Path, *, bodies: bool) -> dict[str, float]:
    """Make and write the tables once; returns seconds, CPU seconds, number of exchanges and bytes shuffled, by name."""
    from kproxy.captures.spark.job import make, shuffled
    from kproxy.captures.spark.read.flows import Options
    from kproxy.captures.spark.write.parquet import write
    from kproxy.captures.tables.schema import EXCHANGES, USUAL, WITHOUT_BODIES

    before = shuffled(spark)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as out, Spent(os.getpid()) as spent:
        made = make(spark, [capture], Options(USUAL if bodies else WITHOUT_BODIES, bodies=bodies))
        rows = write(made, Path(out))
        seconds = time.perf_counter() - begin
    made.release()
    told = {"seconds": seconds, "cpu": spent.seconds, "exchanges": rows[EXCHANGES.name]}
    return told | {"shuffled": shuffled(spark) - before}


def measure(arguments: Sequence[str]) -> None:
    """Run both jobs and print the figures. It is not called `main`, because a module with `main` is a benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("capture", type=Path)
    parser.add_argument("--master", required=True)
    parser.add_argument("--no-bodies", action="store_true")
    options = parser.parse_args(arguments)
    begin = time.perf_counter()
    with opened(options.master) as spark:
        session = time.perf_counter() - begin
        runs = [run(spark, options.capture, bodies=not options.no_bodies) for _ in range(RUNS)]
    print(json.dumps({"session": session, "runs": runs}))


if __name__ == "__main__":
    measure(sys.argv[1:])
