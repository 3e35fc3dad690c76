"""Executors that have the project from a zip alone, beside a data source that is broken, and by Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, counted, exported
from tests.support.require import require
from tests.support.wheel import build

pytestmark = pytest.mark.system
TABLES = ("exchanges", "exchange_topics", "flows", "captures")

SHIPPED = """
import sys, warnings
warnings.simplefilter("ignore")
archive, capture = sys.argv[1:3]
sys.path.insert(0, archive)
from kproxy.captures.spark import tables
from kproxy.captures.spark.session.start import session
from kproxy.captures.spark.session.uncompiled import Uncompiled
from kproxy.captures.spark.source import KafkaCapture
spark = session("local-cluster[2,1,1024]")
spark.sparkContext.addPyFile(archive)
def where(batches):
    import kproxy.captures.spark.read.reading, pyarrow as pa
    yield pa.record_batch([pa.array([kproxy.captures.spark.read.reading.__file__])], ["path"])
print(spark.range(1).mapInArrow(where, "path string").first()["path"])
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always", Uncompiled)
    print(tables(spark, capture, size=1 << 16)["exchanges"].count())
print([one.category.__name__ for one in seen])
spark.dataSource.register(KafkaCapture)
print(spark.read.format("kafka_capture").option("view", "exchanges").load(capture).count())
spark.stop()
"""


CONNECTED = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
archive, out, names, *captures = sys.argv[1:]
names = tuple(names.split(","))
sys.path.insert(0, archive)
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from kproxy.captures.spark import tables
from kproxy.captures.spark.report import by_spark, latency
from kproxy.captures.spark.source import KafkaCapture
spark = SparkSession.builder.remote("local[2]").getOrCreate()
spark.addArtifacts(archive, pyfile=True)
spark.dataSource.register(KafkaCapture)
frames = tables(spark, captures, size=1 << 16, only=names)
for name, frame in frames.items():
    (Path(out) / name).mkdir()
    pq.write_table(frame.toArrow(), Path(out) / name / "1.parquet")
reader = spark.read.format("kafka_capture").option("view", "exchanges")
print(type(spark).__module__)
print(spark.sql("select count(*) from exchanges").first()[0], reader.load(captures).count())
found = by_spark.read(spark, out)
print(found.frame(latency.percentiles()).count(), found["records"].count())
spark.stop()
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a zip."""
    folder = tmp_path_factory.mktemp("wheel")
    return build(folder).rename(folder / "kproxy.zip")


def test_a_zip_and_a_broken_neighbour(shipped: Path, tmp_path: Path) -> None:
    """A module that Spark looks into for data sources, and that cannot be imported, hides all others that it finds."""
    require("java")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "pyspark_broken.py").write_text("raise RuntimeError('broken')\n")
    run = subprocess.run(
        [sys.executable, "-c", SHIPPED, str(shipped), str(traffic.LIBRDKAFKA)],
        capture_output=True, text=True, check=False, timeout=280, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "beside")},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    where, joined, warned, alone = run.stdout.splitlines()
    assert warned == "['Uncompiled']"
    assert "kproxy.zip/kproxy/captures/spark" in where
    count = exported([traffic.LIBRDKAFKA], tables=["exchanges"])["exchanges"].total()
    assert int(joined) == int(alone) == count > 100


def test_by_spark_connect(shipped: Path, tmp_path: Path) -> None:
    """There is no context, the time zone is the server's, and files are not looked for before a table is used."""
    require("java")
    out = tmp_path / "tables"
    out.mkdir()
    captures = [traffic.LIBRDKAFKA, traffic.KAFKA_1_1]
    run = subprocess.run(
        [sys.executable, "-c", CONNECTED, str(shipped), str(out), ",".join(TABLES), *map(str, captures)],
        capture_output=True, text=True, check=False, timeout=280, cwd=tmp_path,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "America/New_York",
        },
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    where, counts, analysed = run.stdout.splitlines()
    assert where == "pyspark.sql.connect.session"
    expected = exported(captures, tables=TABLES)
    found = {name: counted(pq.read_table(out / name / "1.parquet").to_pylist()) for name in TABLES}
    assert_same(found, expected)
    alone = sum(exported([one], tables=["exchanges"])["exchanges"].total() for one in captures)
    assert [*map(int, counts.split())] == [expected["exchanges"].total(), alone]
    assert [int(count) > 10 for count in analysed.split()] == [True, False]
