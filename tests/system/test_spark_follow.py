"""Tables that grow with a folder of captures: those of an export of what has been read, whatever happens in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark import job
from kproxy.captures.spark.follow.query import STATE, follow
from kproxy.captures.spark.job import in_one_task
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.report import by_spark
from tests.captures import files, traffic
from tests.captures.spark.comparing import Rows, assert_same, exported, written
from tests.captures.spark.test_carrying import rotated
from tests.captures.spark.test_damaged import dropped
from tests.support.require import require
from tests.support.spark import kproxy, local_session

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
ROOT = Path(__file__).parents[2]
TABLES = ("exchanges", "exchange_topics", "flows", "captures", "anomalies", "findings")
FEW = ("exchanges", "flows", "captures", "findings")
RECIPE = traffic.DATA / "findings" / "group.lag_state.pcap.xz"
PATIENCE = 280
"""Seconds."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("java")) as running:
        yield running


def cut(folder: Path, count: int, capture: Path = traffic.LIBRDKAFKA) -> list[Path]:
    """A capture as so many files, which an hour ago were written one after the other."""
    folder.mkdir()
    taken = traffic.packets(capture)
    paths = rotated(taken, sorted(random.Random(count).sample(range(1, len(taken)), count - 1)), folder)
    for number, path in enumerate(paths):
        then = time.time() - 3600 + number
        os.utime(path, (then, then))
    return paths


def took(spark: Any, folder: Path, out: Path, *, most: int = 64, quiet: float = 60) -> list[int]:
    """Read what is there; the numbers of the batches that were made."""
    made: list[int] = []

    def step(number: int, what: str) -> None:
        if what == "begun":
            made.append(number)

    query = follow(spark, folder, out, Options(TABLES), once=True, most=most, quiet=quiet, step=step)
    assert query.awaitTermination(PATIENCE)
    return made


def rows(out: Path) -> Rows:
    return written(out, TABLES)


def expected(paths: Sequence[Path]) -> Rows:
    return exported(paths, tables=TABLES)


def test_a_rotation_in_batches(spark: Any, tmp_path: Path) -> None:
    """Twice is no more than once, and plain Spark and the report read it."""
    folder, out = tmp_path / "in", tmp_path / "out"
    paths = cut(folder, 5)
    assert took(spark, folder, out, most=3) == [0, 1]
    assert_same(rows(out), expected(paths))
    before = {path: path.stat().st_mtime_ns for path in out.glob("[!.]*/**/*.parquet")}
    assert took(spark, folder, out) == []
    assert {path: path.stat().st_mtime_ns for path in out.glob("[!.]*/**/*.parquet")} == before
    with pytest.raises(ValueError, match="was started with different options"):
        follow(spark, folder, out, Options(FEW), once=True)
    found = by_spark.read(spark, str(out))["exchanges"]
    assert found.count() == spark.read.parquet(str(out / "exchanges")).count() == len(rows(out)["exchanges"])
    assert found.where("capture_date is null or capture_hour is null").count() == 0


def test_findings_of_a_capture_with_gaps(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a batch ends in a gap, some batches make findings twice: for the tables, and for the next batch."""
    folds: list[Any] = []

    def counted(*given: Any) -> Any:
        folds.append(given)
        return in_one_task(*given)

    monkeypatch.setattr(job, "in_one_task", counted)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    rng = random.Random(3)
    taken = dropped(traffic.packets(RECIPE), rng)
    paths = rotated(taken, sorted(rng.sample(range(1, len(taken)), 5)), folder)
    made = took(spark, folder, out, most=1, quiet=0)
    assert len(made) == len(paths)
    assert len(folds) > len(paths)
    assert rows(out)["findings"]
    assert_same(rows(out), expected(paths))


def test_batches_without_traffic(spark: Any, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    paths = cut(folder, 2, RECIPE)
    empty = folder / "a.pcap"
    empty.write_bytes(files.pcap([]))
    os.utime(empty, (1, 1))
    assert took(spark, folder, out, most=1, quiet=0) == [0, 1, 2]
    assert rows(out)["findings"]
    assert_same(rows(out), expected([empty, *paths]))


def test_the_newest_file_waits_until_it_is_closed(spark: Any, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    paths = cut(folder, 3)
    newest = paths[-1].read_bytes()
    paths[-1].write_bytes(newest[: len(newest) // 2 + 3])
    assert took(spark, folder, out) == [0]
    assert_same(rows(out), expected(paths[:2]))
    assert took(spark, folder, out) == []
    paths[-1].write_bytes(newest)
    assert took(spark, folder, out, quiet=0) == [1]
    assert_same(rows(out), expected(paths))


def test_files_that_go_and_files_that_are_late(spark: Any, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    paths = cut(folder, 6)
    late = paths[0].rename(tmp_path / "late")
    lost = paths[3]

    def step(number: int, what: str) -> None:
        if (number, what) == (1, "begun"):
            lost.unlink()

    options = Options(TABLES)
    assert follow(spark, folder, out, options, once=True, most=2, quiet=0, step=step).awaitTermination(PATIENCE)
    kinds = [dict(row)["kind"] for row in rows(out)["anomalies"]]
    assert kinds.count("lost_file") == 1
    captures = {dict(row)["path"]: dict(row)["truncated"] for row in rows(out)["captures"]}
    assert captures == {str(path): path == lost for path in paths[1:]}
    late.rename(paths[0])
    before = rows(out)
    assert took(spark, folder, out, quiet=0) == [3]
    after, alone = rows(out), expected(paths[:1])
    assert after["exchanges"] == before["exchanges"] + alone["exchanges"]
    anomaly = [dict(row) for row in after["anomalies"] if dict(row)["kind"] == "late_file"]
    assert [one["detail"].split(":")[0] for one in anomaly] == [str(paths[0])]


@pytest.mark.parametrize("more", [(), ("--follow", "--once", "--quiet-time", "0")], ids=["at once", "followed"])
def test_bad_files_among_good_ones_of_one_time(more: Sequence[str], tmp_path: Path) -> None:
    """All rows of what can be read are there, each file has its own row, and every bad file is named."""
    require("java")
    folder, out, tables = tmp_path / "in", tmp_path / "out", ("exchanges", "flows", "captures")
    folder.mkdir()
    taken, left = traffic.packets(traffic.LIBRDKAFKA), (None, -7, None, -9)
    paths = [folder / f"{number}.pcap" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(files.pcap(taken[number::4])[: left[number]])
    run = kproxy("spark", folder, "-o", out, "--master", "local[2]", "--tables", ",".join(tables), *more)
    assert run.returncode == 3, run.stderr
    said = [line for line in run.stderr.splitlines() if "ends inside a packet" in line]
    assert [sum(str(path) in line for line in said) for path in paths] == [0, 1, 0, 1]
    found = written(out, tables)
    assert_same(found, exported(paths, tables=tables))
    assert {row["path"]: row["truncated"] for row in map(dict, found["captures"])} == {
        str(path): cut is not None for path, cut in zip(paths, left, strict=True)
    }


DRIVER = """
import os, signal, sys, warnings
from pathlib import Path
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.follow.query import follow
from kproxy.captures.spark.session.start import session
warnings.simplefilter("ignore")
folder, out, at, tables = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
def step(number, what):
    print(number, what, flush=True)
    if f"{number} {what}" == at:
        os.kill(os.getpid(), signal.SIGKILL)
query = follow(session("local[2]"), folder, out, Options(tuple(tables)), once=True, most=2, quiet=0, step=step)
query.awaitTermination()
"""


def test_the_driver_is_killed_at_every_point(tmp_path: Path) -> None:
    """When the files of a batch are written, when they are read, and when it is over: readers see whole batches."""
    require("java")
    folder, out = tmp_path / "in", tmp_path / "out"
    paths = cut(folder, 4, RECIPE)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    for at, begun, read in (
        ("0 switched", ["0"], 2), ("0 carry", ["0"], 2), ("1 tables", ["1"], 2), ("", ["1"], 4),
    ):  # fmt: skip
        run = subprocess.run(
            [sys.executable, "-c", DRIVER, str(folder), str(out), at, ",".join(FEW)],
            capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert run.returncode == (-signal.SIGKILL if at else 0), run.stderr[-2000:]
        assert [line.split()[0] for line in run.stdout.splitlines() if line.endswith("begun")] == begun
        assert_same(written(out, FEW), exported(paths[:read], tables=FEW))
    assert written(out, FEW)["findings"]
    assert [one.name for one in sorted((out / STATE / "carry").iterdir())] == ["batch=0", "batch=1"]
    assert not list(out.glob(".*.partial"))
