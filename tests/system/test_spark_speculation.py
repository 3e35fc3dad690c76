"""Tasks that Spark does twice at the same time, because the first attempt is slow: each row is there once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, exported, written
from tests.support.spark_cluster import spark_cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
TABLES = ("exchanges", "exchange_topics", "flows", "anomalies")

DRIVER = """
import sys, time, warnings
from pathlib import Path
from pyspark.taskcontext import TaskContext
from kproxy.captures.spark import job
from kproxy.captures.spark.write import parquet as writing
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.session.start import session
from kproxy.captures.tables.parquet import Files

warnings.simplefilter("ignore")
master, capture, out, marks, tables, how = sys.argv[1:]
marks = Path(marks)

def mark(name):
    (marks / name).touch()

def wait(name):
    until = time.monotonic() + 200
    while not (marks / name).exists():
        assert time.monotonic() < until, name
        time.sleep(0.02)

def attempt(what):
    # Which attempt this is of the one task that is slow; None in other tasks.
    task = TaskContext.get()
    number, partition = task.attemptNumber(), str(task.partitionId())
    try:
        with (marks / what).open("x") as file:
            file.write(partition)
    except FileExistsError:
        while not (marks / what).read_text():
            time.sleep(0.01)
        if (marks / what).read_text() != partition:
            return None
    mark(f"{what} attempt {number}")
    return number

def of_splits(*given, before=job.of_splits, **more):
    stage = before(*given, **more)
    def slow(batches):
        number = attempt("read")
        if number == 0:
            wait("read again")
        yield from stage(batches)
        if number:
            mark("read again")
    return slow

class Slow(Files):
    rows = 0
    def add(self, table, batch):
        self.rows += len(batch)
        super().add(table, batch)
    def close(self):
        part = self._name.partition("-")[0]
        number = attempt(part) if self.rows and part != "given" else None
        if how == "too late" and number == 0:
            wait("named")
        super().close()
        if number is not None:
            mark(f"{part} written {number}")
        if how == "again" and number == 0:
            wait("0 written 1")

def place(*arguments, before=writing.place):
    # All is named; now the attempt that was given up writes its files.
    mark("named")
    if how == "too late":
        wait("0 written 0")
    before(*arguments)

job.of_splits, writing.Files, writing.place = of_splits, Slow, place
job.evenly = lambda digest, parts: [1, 2]  # Spark tries a task again only beside others that have ended
spark = session(master)
made = job.make(spark, [capture], Options(tuple(tables.split(","))), size=1 << 15)
print(writing.write(made, Path(out)), flush=True)
spark.stop()
"""

SPECULATION = " ".join(
    f"--conf spark.{name}={value}"
    for name, value in {
        "speculation": "true", "speculation.quantile": "0.1", "speculation.multiplier": "1.01",
        "speculation.interval": "50ms", "executor.memory": "512m", "python.task.killTimeout": "300s",
        "driver.host": "127.0.0.1", "log.level": "ERROR",
    }.items()
)  # fmt: skip


@pytest.mark.parametrize("how", ["again", "too late"])
def test_two_attempts_of_a_task(how: str, tmp_path: Path) -> None:
    """Of reading a split, and of writing: one that has written all when it is done again, one that does so too late."""
    out, marks = tmp_path / "out", tmp_path / "marks"
    marks.mkdir()
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{SPECULATION} pyspark-shell",
    }  # fmt: skip
    with spark_cluster(tmp_path / "cluster") as master:
        run = subprocess.run(
            [sys.executable, "-c", DRIVER, master, *map(str, (traffic.LIBRDKAFKA, out, marks)), ",".join(TABLES), how],
            capture_output=True, text=True, check=False, timeout=400, cwd=ROOT, env=environment,
        )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    done = {one.name for one in marks.iterdir()}
    assert done >= {f"{what} attempt {number}" for what in ("read", "0") for number in (0, 1)}
    assert done >= {f"0 written {number}" for number in (0, 1)}
    assert_same(written(out, TABLES), exported([traffic.LIBRDKAFKA], tables=TABLES))
    assert sorted(one.name for one in out.glob("[!.]*")) == sorted(name for name in TABLES if name != "anomalies")
