"""Very many connections with next to nothing in them, and one that has all the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from pyspark import SparkContext

from kproxy.captures.spark import job
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.write.parquet import write
from tests.captures import files, traffic
from tests.captures.spark.comparing import Rows, assert_same, exported, written
from tests.captures.spark.test_joined import COORDINATOR, Talk, find_coordinator, response, timed
from tests.support.multiply import lengthen, multiply
from tests.support.spark import local_session

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
FEW, MANY = 5_000, 50_000
TABLES = ("exchanges", "flows")
MOST = 500_000_000
"""Bytes that processes of Python may ever have held, each of them."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("java")) as running:
        yield running


def java() -> psutil.Process:
    gateway: Any = SparkContext._gateway
    return psutil.Process(gateway.proc.pid)


def held() -> int:
    """The most bytes that a process which runs Python functions has held at a time."""
    found = []
    for one in java().children(recursive=True):
        with suppress(OSError):
            told = Path(f"/proc/{one.pid}/status").read_text().splitlines()
            found += [int(line.split()[1]) << 10 for line in told if line.startswith("VmHWM:")]
    return max(found)


def spent() -> float:
    """Seconds of a core that Java and all that it started have taken."""
    total = 0.0
    for one in (java(), *java().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def made(spark: Any, path: Path, out: Path, size: int) -> tuple[Rows, float]:
    """The rows that are written of a capture, and the seconds of a core that they cost."""
    before = spent()
    tables = job.make(spark, [path], Options(TABLES), size=size)
    write(tables, out)
    tables.release()
    cost = spent() - before
    assert held() < MOST
    return written(out, TABLES), cost


def tiny(folder: Path, count: int) -> Path:
    """So many connections with one exchange each, one in a second."""
    talk = Talk()
    frames = [*talk.opening, talk.send(0, find_coordinator(1)), talk.send(1, response(1, COORDINATOR)), talk.reset()]
    base, path = folder / "base", folder / f"{count}.pcap"
    base.write_bytes(files.pcap(timed(frames)))
    multiply(base, count, path)
    return path


def test_very_many_connections(spark: Any, tmp_path: Path) -> None:
    """Ten times as many are about ten times the work; the first ones are those that Spark starts with."""
    costs = []
    for count in (FEW, MANY):
        path = tiny(tmp_path, count)
        found, cost = made(spark, path, tmp_path / str(count), 1 << 20)
        costs.append(cost)
        expected = exported([path], tables=TABLES)
        assert {name: rows.total() for name, rows in expected.items()} == dict.fromkeys(TABLES, count)
        assert_same(found, expected)
    assert costs[1] < costs[0] * MANY / FEW * 1.5


def test_one_connection_that_has_all_bytes(spark: Any, tmp_path: Path) -> None:
    """All splits have about as much to decode, and what is put together in one task is little."""
    path, size = tmp_path / "a.pcap", 1 << 20
    lengthen(traffic.BENCH, 10, path)
    splits = [one.end - one.start for one in plan([path], size).splits]
    assert len(splits) > 8
    assert max(splits) < 1.5 * median(splits)
    expected = exported([path], tables=TABLES)
    assert expected["flows"].total() == 1
    before = job.shuffled(spark)
    assert_same(made(spark, path, tmp_path / "out", size)[0], expected)
    assert job.shuffled(spark) - before < path.stat().st_size / 5
