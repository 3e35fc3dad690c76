"""Which batches belong to aborted transactions (KIP-98), and from where a Fetch was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.records.skipped import aborted, fetch_offsets


def header(offset: int, producer: int, kind: str = "data", last: int = 0, magic: int = 2) -> dict[str, Any]:
    """`kind`: data (of a transaction), plain, abort or commit."""
    return {
        "magic": magic, "baseOffset": offset, "lastOffsetDelta": last, "producerId": producer,
        "isTransactional": kind != "plain", "isControl": kind in {"abort", "commit"}, "kind": kind,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "transactions", "expected"),
    [
        ([header(0, 1), header(1, 1, "abort"), header(2, 1)], [(0, 1)], [0]),
        ([header(0, 1), header(1, 1, "commit"), header(2, 1)], [(0, 1)], [0, 2]),
        ([header(0, 1), header(1, 2), header(2, 1, "abort"), header(3, 2)], [(0, 1)], [0]),
        ([header(0, 1), header(1, 1, "plain")], [(0, 1)], [0]),
        ([header(0, 1), header(5, 1)], [(5, 1)], [1]),
        ([header(0, 1, last=4), header(5, 1)], [(5, 1)], [1]),
        ([header(0, 1, last=5)], [(5, 1)], [0]),
        ([header(0, 1), header(1, 1, "abort"), header(2, 1), header(3, 1, "abort")], [(2, 1), (0, 1)], [0, 2]),
        ([header(0, 0)], [(0, 0)], [0]),
        ([header(0, -1)], [(0, -1)], []),
        ([header(0, 1, magic=1)], [(0, 1)], []),
        ([header(0, 1)], [], []),
        ([header(0, 2), header(1, 1), header(2, 2)], [(1, 1), (2, 2)], [1, 2]),
    ],
)  # fmt: skip
def test_batches_of_aborted_transactions(
    headers: list[dict[str, Any]], transactions: list[tuple[int, int]], expected: list[int]
) -> None:
    named = [{"firstOffset": offset, "producerId": producer} for offset, producer in transactions]
    assert aborted(headers, named, lambda index: bool(headers[index]["kind"] == "abort")) == expected


def test_from_where_was_asked() -> None:
    partitions = [{"partition": 0, "fetchOffset": 5}, {"partition": 3, "fetchOffset": 7}]
    request = {"topics": [{"topic": "t", "partitions": partitions}, {"topicId": "id", "partitions": partitions[:1]}]}
    assert fetch_offsets(request) == {("t", 0): 5, ("t", 3): 7, ("id", 0): 5}
    assert fetch_offsets({"topics": None}) == fetch_offsets(None) == {}
