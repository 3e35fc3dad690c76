"""The three stages in one process give the same rows as an export, wherever captures are cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read import reading
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables.schema import WITHOUT_BODIES
from tests.captures import traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.support.thinned import thinned

CAPTURES = [
    traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.DATA / "golden" / "golden-4.4.0.pcap",
    traffic.DATA / "golden" / "golden-3.9.2.pcap",
]  # fmt: skip


def made(paths: list[Path], size: int, *, record_sizes: bool = False) -> Rows:
    tables = local.tables(paths, Options(tuple(TABLES), record_sizes=record_sizes), size=size)
    return {name: counted(tables[name].to_pylist()) for name in TABLES}


@pytest.mark.parametrize("capture", thinned(CAPTURES, 3), ids=lambda path: path.stem)
def test_every_row_is_that_of_an_export(capture: Path) -> None:
    expected = exported([capture])
    assert sum(map(len, expected.values())) > 400
    for size in (1 << 16, 1 << 40):
        assert_same(made([capture], size), expected)
    assert len(plan([capture], 1 << 16).splits) > 1


@pytest.mark.parametrize("capture", thinned([*CAPTURES[1:3], CAPTURES[0]], 1), ids=lambda path: path.stem)
def test_small_splits(capture: Path) -> None:
    expected = exported([capture])
    for size in (1499, 9999):
        assert len(plan([capture], size).splits) > 10
        assert_same(made([capture], size), expected)


@pytest.mark.parametrize("capture", CAPTURES[:3], ids=lambda path: path.stem)
def test_sizes_of_records(capture: Path) -> None:
    expected = exported([capture], "--record-sizes")
    assert any(dict(row)["value_bytes"] for row in expected["record_batches"])
    for size in (9999, 1 << 40):
        assert_same(made([capture], size, record_sizes=True), expected)


@pytest.mark.parametrize("capture", CAPTURES[:3], ids=lambda path: path.stem)
def test_what_headers_tell(capture: Path) -> None:
    expected = exported([capture], "--no-bodies", tables=WITHOUT_BODIES)
    for size in (9999, 1 << 40):
        tables = local.tables([capture], Options(WITHOUT_BODIES, bodies=False), size=size)
        assert_same({name: counted(tables[name].to_pylist()) for name in WITHOUT_BODIES}, expected)


def test_without_bodies_stage_2_makes_the_rows() -> None:
    batches = local._drafted(plan([traffic.LIBRDKAFKA]), Options(WITHOUT_BODIES, bodies=False), 9999).batches
    items = [row for batch in batches for row in batch.to_pylist() if row["kind"] == "exchange"]
    assert len(items) > 100
    assert all(row["rows"] and row["packed"] is row["open"] is None for row in items)


def test_no_file_stays_open() -> None:
    def opened() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    planned = plan([traffic.KAFKA_1_1], 1 << 14)
    before = opened()
    for split in planned.splits:
        assert sum(batch.num_rows for batch in reading.read(split))
    assert opened() == before
