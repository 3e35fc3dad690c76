"""Live, offline and on Spark a capture has the same findings: ids, numbers, evidence and order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.findings.live import Change, LiveFindings, News
from kproxy.captures.findings.model import Finding, finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.findings.rows import finding_rows
from kproxy.captures.reader import Reader, read
from kproxy.captures.spark import job
from kproxy.captures.spark import tables as spark_tables
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.write.parquet import write
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import FINDINGS
from kproxy.captures.tcp.waiting import LONGEST_TIME
from tests.captures import files, traffic
from tests.captures.spark.comparing import assert_same, exported, written
from tests.support.spark import local_session

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]
GOLDEN = sorted((traffic.DATA / "golden").glob("*.pcap"))
RECIPES = sorted((traffic.DATA / "findings").glob("*.pcap.xz"))
SHARED = [traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA, traffic.BENCH, *RECIPES, *GOLDEN]
ON_SPARK = [
    traffic.KAFKA_1_1,
    *(one for one in RECIPES if one.name.startswith(("leader.unclean", "group.lag_state", "topic.life", "txn.lso"))),
]
PIECES = 40
"""Number of pieces in which a capture grows."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("java")) as running:
        yield running


def named(path: Path) -> str:
    return path.name.split(".pcap")[0]


def unpacked(capture: Path, folder: Path) -> Path:
    """The capture as a file that can be cut, with room for its copy."""
    path = folder / "a.pcap"
    data = files.pcap(traffic.packets(capture)) if capture.suffix == ".xz" else capture.read_bytes()
    path.write_bytes(data)
    return path


def offline(path: Path) -> list[Finding]:
    reader = read([path])
    found = Findings(reader.source, reader.definitions)
    for batch in reader.batches():
        found.add(batch, reader.closings)
    reader.close()
    return found.finish()


def live(path: Path, growing: Path) -> tuple[list[News], list[Finding]]:
    """(changes, findings at the end) of a capture that is followed while it is written."""
    data = path.read_bytes()
    growing.write_bytes(data[:24])
    source = read([growing], follow=True).source
    # with the patience of an offline reading, as numbers depend on how long a packet waits for those before it
    reader = Reader(source, read([path]).definitions, follow=True, patience=LONGEST_TIME)
    found = LiveFindings(reader.source, reader.definitions)
    news: list[News] = []
    for start in range(24, len(data), len(data) // PIECES):
        with growing.open("ab") as file:
            file.write(data[start : start + len(data) // PIECES])
        items = reader.poll()
        while not reader.idle:
            news += found.add(items, reader.closings)
            items = reader.poll()
    items = reader.finish()
    news += found.add(items, reader.closings)
    news += found.finish()
    reader.close()
    return news, found.result()


@pytest.mark.parametrize("capture", SHARED, ids=named)
def test_live_as_offline(capture: Path, tmp_path: Path) -> None:
    path = unpacked(capture, tmp_path)
    expected = offline(path)
    news, found = live(path, tmp_path / "growing.pcap")
    assert [finding_json(one) for one in found] == [finding_json(one) for one in expected]
    opened = {one.finding.id for one in news if one.change is Change.OPENED}
    assert opened == {one.id for one in expected}


@pytest.mark.parametrize("capture", ON_SPARK, ids=named)
def test_on_spark_as_offline(spark: Any, capture: Path, tmp_path: Path) -> None:
    path = unpacked(capture, tmp_path)
    size = path.stat().st_size // 20
    planned = plan([path], size)
    assert len(planned.splits) > 10
    expected = arrow.batch(FINDINGS, list(finding_rows(planned.capture, offline(path)))).to_pylist()
    frames = spark_tables(spark, path, only=("exchanges", FINDINGS.name), size=size)
    assert sorted(frames[FINDINGS.name].toArrow().to_pylist(), key=lambda row: row["rank"]) == expected
    assert expected
    assert frames["exchanges"].count() > 30


def test_findings_beside_the_other_tables_as_files(spark: Any, tmp_path: Path) -> None:
    tables = ("exchanges", "exchange_topics", "group_events", "flows", "captures", "anomalies", FINDINGS.name)
    made = job.make(spark, [traffic.KAFKA_1_1], Options(tables), size=1 << 14)
    rows = write(made, tmp_path)
    made.release()
    expected = exported([traffic.KAFKA_1_1], tables=tables)
    assert rows == {name: found.total() for name, found in expected.items()}
    assert_same(written(tmp_path, tables), expected)
