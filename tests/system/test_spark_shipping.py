"""Executors that have the project from a zip alone, and a data source beside one that is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures import traffic
from tests.captures.spark.comparing import exported
from tests.support.require import require
from tests.support.wheel import build

pytestmark = pytest.mark.system

SHIPPED = """
import sys, warnings
warnings.simplefilter("ignore")
archive, capture = sys.argv[1:3]
sys.path.insert(0, archive)
from captures.spark import tables
from captures.spark.session import session
from captures.spark.source import KafkaCapture
spark = session("local-cluster[2,1,1024]")
spark.sparkContext.addPyFile(archive)
def where(batches):
    import captures.spark.reading, pyarrow as pa
    yield pa.record_batch([pa.array([captures.spark.reading.__file__])], ["path"])
print(spark.range(1).mapInArrow(where, "path string").first()["path"])
print(tables(spark, capture, size=1 << 16)["exchanges"].count())
spark.dataSource.register(KafkaCapture)
print(spark.read.format("kafka_capture").option("view", "exchanges").load(capture).count())
spark.stop()
"""


def test_a_zip_and_a_broken_neighbour(tmp_path: Path) -> None:
    """A module that Spark looks into for data sources, and that cannot be imported, hides all others that it finds."""
    require("java")
    archive = tmp_path / "kproxy.zip"
    build(tmp_path / "wheel").rename(archive)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "pyspark_broken.py").write_text("raise RuntimeError('broken')\n")
    run = subprocess.run(
        [sys.executable, "-c", SHIPPED, str(archive), str(traffic.LIBRDKAFKA)],
        capture_output=True, text=True, check=False, timeout=280, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "beside")},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    where, joined, alone = run.stdout.splitlines()
    assert "kproxy.zip/captures/spark" in where
    count = exported([traffic.LIBRDKAFKA], tables=["exchanges"])["exchanges"].total()
    assert int(joined) == int(alone) == count > 100
