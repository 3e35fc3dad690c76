"""Tables on a file system that only Spark's Java knows, HDFS: written, written anew, and reported of."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.tables.schema import TABLES, USUAL
from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, exported, written
from tests.captures.tables import again
from tests.captures.tables.by_spark import InSession
from tests.support.brokers import READY_SECONDS, Process
from tests.support.java import hdfs_classpath
from tests.support.require import require
from tests.support.spark import kproxy, local_session

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a file system with a node for names and one for data."""
    directory = tmp_path_factory.mktemp("hdfs")
    details = directory / "details.json"
    process = Process(
        "hdfs", hdfs_classpath(),
        ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-writeDetails", str(details)], directory,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not (details.exists() and details.read_text().endswith("}")):
            process.check()
            assert time.monotonic() < deadline, process.tail()
            time.sleep(0.1)
        yield f"hdfs://localhost:{json.loads(details.read_text())['namenode_port']}"
    finally:
        process.kill()


def test_tables_are_those_of_an_export(hdfs: str, tmp_path: Path) -> None:
    url = f"{hdfs}/day 1/tables"
    other = kproxy("spark", traffic.KAFKA_1_1, "--out", url, "--engine", "spark")
    assert other.returncode == 0, other.stderr
    for more in ([], ["-Y", "api == Fetch"]):
        run = kproxy("spark", traffic.LIBRDKAFKA, "--out", url, "--engine", "spark", "--json", *more)
        assert run.returncode == 0, run.stderr
        expected = exported([traffic.LIBRDKAFKA], *more, tables=USUAL)
        assert json.loads(run.stdout)["rows"] == {name: rows.total() for name, rows in expected.items()}
    before = exported([traffic.KAFKA_1_1], tables=USUAL)
    reported = kproxy("spark", "report", url, "--json")
    lines = [json.loads(line) for line in reported.stdout.splitlines()]
    overview = next(line for line in lines if line["section"] == "overview")
    assert overview["exchanges"] == (expected["exchanges"] + before["exchanges"]).total() > 100
    with local_session(tmp_path / "java") as spark:
        fetched(spark, url, tmp_path / "tables")
    found = written(tmp_path / "tables", USUAL)
    assert_same(found, {name: expected[name] + before[name] for name in USUAL})
    assert {path.name for path in (tmp_path / "tables").glob("[!.]*")} <= set(TABLES)


class Hdfs(again.Place):
    fetched = True

    def __init__(self, spark: Any, hdfs: str) -> None:
        self._spark = spark
        self._hdfs = hdfs

    def name(self, path: Path) -> str:
        return f"{self._hdfs}{path}"

    def fetch(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        fetched(self._spark, self.name(folder), folder)


def test_files_whose_tables_are_there_already(hdfs: str, tmp_path: Path) -> None:
    with local_session(tmp_path / "java") as spark:
        way, files = InSession(spark, again.HERE, Hdfs(spark, hdfs)), again.four(tmp_path)
        again.made(way, tmp_path / "out", files[1])
        again.fewer_files_than_before_are_refused(way, files, tmp_path)


def fetched(spark: Any, url: str, to: Path) -> None:
    """Copy a folder by Hadoop's own hands."""
    jvm, context = spark._jvm, spark._jsc
    path = jvm.org.apache.hadoop.fs.Path(url)
    path.getFileSystem(context.hadoopConfiguration()).copyToLocalFile(path, jvm.org.apache.hadoop.fs.Path(str(to)))


def test_where_nobody_listens_the_line_says_so() -> None:
    require("java")
    run = kproxy("spark", traffic.LIBRDKAFKA, "--out", "hdfs://localhost:1/tables", "--engine", "spark")
    assert run.returncode == 3
    assert "localhost:1 failed on connection exception" in run.stderr
    assert len(run.stderr.splitlines()) == 1
