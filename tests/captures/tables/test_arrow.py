"""Rows as Arrow columns, some of which are derived from others."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import EXCHANGES, RECORD_BATCHES

TIMES = ("ts_ns", "req_ts_ns", "req_last_ts_ns", "rsp_ts_ns", "rsp_last_ts_ns")


def exchange(*times: int | None) -> list[Any]:
    given = dict(zip(TIMES, times, strict=True))
    return [given.get(column.name) for column in EXCHANGES.given]


def test_times_and_what_lies_between_them_are_microseconds_rounded_down_and_never_negative() -> None:
    rows = [
        exchange(5_999, 5_999, 6_000, 7_999, 9_000),
        exchange(0, 0, 6_000, 5_999, 5_000),
        exchange(1, 1, 2, None, None),
    ]
    made = arrow.batch(EXCHANGES, rows)
    between = [made.column(name).to_pylist() for name in ("latency_us", "first_byte_us", "total_us")]
    assert between == [[3, None, None], [1, None, None], [3, 5, None]]
    assert made.column("req_ts").cast("int64").to_pylist() == [5, 0, 0]
    assert made.column("rsp_ts").null_count == 1


def test_rows_of_other_columns_are_refused() -> None:
    for rows in ([(None,) * 3], [(None,), (None, None)]):
        with pytest.raises(ValueError):  # noqa: PT011  # zip's own words
            arrow.batch(RECORD_BATCHES, rows)
