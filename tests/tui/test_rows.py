from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.text import latency_text, size_text
from kproxy.tui.listing.columns import COLUMNS, OFFERED, Column, fit_columns


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (999, "999"), (1000, "1.0k"), (4_100, "4.1k"), (19_000, "19k"), (999_600, "1.0M")]
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0.0"), (62_400_000, "62.4"), (999_940_000, "999.9"), (2.4e9, "2.4s"), (312e9, "312s"), (-5e6, "-5.0")],
)
def test_latencies(ns: float, text: str) -> None:
    assert latency_text(int(ns)) == text


@pytest.mark.parametrize("width", range(56, 260))
def test_columns_fill_the_width_and_never_pass_it(width: int) -> None:
    columns = fit_columns(width)
    used = sum(cells for _, cells in columns) + len(columns) - 1
    assert used <= width
    widest = sum(column.most for column in COLUMNS) + len(COLUMNS) - 1
    assert used == min(width, widest) or len(columns) < len(COLUMNS)
    assert all(cells >= column.width for column, cells in columns)


@given(st.lists(st.sampled_from(OFFERED), min_size=1, unique=True), st.integers(1, 300))
def test_chosen_columns_share_any_width(chosen: list[Column], width: int) -> None:
    columns = fit_columns(width, chosen)
    assert sum(cells for _, cells in columns) + len(columns) - 1 <= width
    kept = [column for column, _ in columns]
    assert kept
    assert kept == [column for column in chosen if column in kept]
    if width >= sum(column.width + 1 for column in chosen):
        assert kept == chosen


def test_columns_go_in_order() -> None:
    names = [[column.name for column, _ in fit_columns(width)] for width in (200, 118, 79, 59)]
    assert "records" in names[0]
    assert "connection" in names[1]
    assert names[2] == ["state", "exchange", "time", "api", "label", "result", "latency"]
    assert names[3] == ["state", "api", "label", "result", "latency"]
