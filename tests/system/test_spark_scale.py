"""A larger capture in splits of any size: what an export writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark import job
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.write.parquet import write
from tests.captures import traffic
from tests.captures.spark.comparing import Rows, assert_same, exported, written
from tests.support.multiply import multiply
from tests.support.spark import local_session

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]
TABLES = ("exchanges", "exchange_topics", "record_batches", "flows")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("java")) as running:
        yield running


def made(spark: Any, path: Path, size: int, out: Path) -> Rows:
    tables = job.make(spark, [path], Options(TABLES), size=size)
    write(tables, out)
    tables.release()
    return written(out, TABLES)


def test_splits_of_every_size(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    multiply(traffic.BENCH, 4, path)
    expected = exported([path], tables=TABLES)
    assert expected["exchanges"].total() > 10_000
    for size in (1 << 16, 1 << 20, 8 << 20, 32 << 20, 1 << 40):
        assert_same(made(spark, path, size, tmp_path / str(size)), expected)
