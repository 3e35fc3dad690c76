"""Frames of a capture hold what the Parquet export of the same capture holds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from click.testing import CliRunner

import kproxy
from kproxy.captures.tables.schema import TABLES
from kproxy.cli.main import main

MODERN = Path(__file__).parents[2] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    done = CliRunner().invoke(
        main, ["export", str(MODERN), "--format", "parquet", "--tables", ",".join(TABLES), "-o", str(folder)]
    )
    assert not done.exit_code, done.output
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_that_of_the_export(name: str, exported: Path) -> None:
    with kproxy.open(MODERN) as capture:
        table = capture.to_arrow(name)
    if not (exported / name).exists():
        assert not table.num_rows
        return
    wanted = pa.dataset.dataset(exported / name).to_table(columns=table.column_names)
    order = [(TABLES[name].time, "ascending"), *((column, "ascending") for column in _plain(table))]
    assert table.sort_by(order).to_pylist() == wanted.sort_by(order).to_pylist()


def _plain(table: pa.Table) -> list[str]:
    """Columns by which rows can be sorted."""
    return [field.name for field in table.schema if field.type in {pa.string(), pa.int64(), pa.int32()}]


def test_a_filter_narrows_a_table() -> None:
    with kproxy.open(MODERN) as capture:
        some = capture.where("api == Produce").to_arrow()
        assert set(some["api_name"].to_pylist()) == {"Produce"}
        assert some.num_rows == sum(1 for _ in capture.where("api == Produce"))
        assert capture.where("api == Envelope").to_arrow().num_rows == 0


def test_pandas_and_polars() -> None:
    with kproxy.open(MODERN) as capture:
        frame = capture.to_pandas()
        other = capture.to_polars()
        wanted = [one.api for one in capture]
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(other, pl.DataFrame)
    assert list(frame["api_name"]) == other["api_name"].to_list() == wanted
