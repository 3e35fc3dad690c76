"""What became of a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.analysis import transactions
from tests.captures.analysis.support import Exchanged, at, views
from tests.decoders.batches.support import batch, record

WHO = {"transactionalId": "pay", "producerId": 7, "producerEpoch": 1}


def initialised(timeout: int, error: int = 0, name: str | None = "pay") -> Exchanged:
    return 22, 4, {"transactionalId": name, "transactionTimeoutMs": timeout}, {"producerId": 7, "errorCode": error}


def added(*partitions: int) -> Exchanged:
    who = {f"v3AndBelow{name[0].upper()}{name[1:]}": value for name, value in WHO.items()}
    return 24, 3, {**who, "v3AndBelowTopics": [{"name": "t", "partitions": list(partitions)}]}, {}


def produced(count: int, error: int = 0, attributes: int = 0x10) -> Exchanged:
    records = b"".join(record(delta, b"k", b"v") for delta in range(count))
    data = batch(records, count, attributes=attributes, producer=7)
    partitions: list[dict[str, Any]] = [{"index": 0, "records": data}, {"index": 1, "records": None}]
    asked = {"transactionalId": "pay", "acks": -1, "topicData": [{"name": "t", "partitionData": partitions}]}
    told = [{"name": "t", "partitionResponses": [{"index": 0, "errorCode": error}]}]
    return 0, 11, asked, {"responses": told}


def ended(*, committed: bool, error: int = 0) -> Exchanged:
    return 26, 3, {**WHO, "committed": committed}, {"errorCode": error}


def test_a_transaction() -> None:
    offsets_added: Exchanged = (25, 3, {**WHO, "groupId": "g"}, {})
    offsets: Exchanged = (28, 3, {**WHO, "groupId": "h", "memberId": "", "topics": []}, {"topics": []})
    steps = [added(0, 1), produced(2), produced(1), offsets_added, offsets, ended(committed=True)]
    assert list(views(initialised(900), *steps)["transactions"].lines()) == [
        {
            "schema": "kproxy.transaction/1",
            "transactional_id": "pay",
            "producer_id": 7,
            "producer_epoch": 1,
            "client_id": "shop",
            "host": "10.0.0.1",
            "state": "committed",
            "began": at(3),
            "ended": at(14),
            "duration_ms": 11.0,
            "timeout_ms": 900,
            "partitions": ["t-0", "t-1"],
            "groups": ["g", "h"],
            "batches": 2,
            "records": 3,
            "bytes": 79 + 70,
            "failure": None,
            "steps": [
                {"time": at(3), "exchange": 2, "step": "2 partitions added"},
                {"time": at(5), "exchange": 3, "step": "first Produce"},
                {"time": at(9), "exchange": 5, "step": "offsets of group g added"},
                {"time": at(11), "exchange": 6, "step": "offsets of group h committed"},
                {"time": at(13), "exchange": 7, "step": "commit"},
            ],
            "first_exchange": 2,
            "last_exchange": 7,
        }
    ]


@pytest.mark.parametrize(
    ("steps", "state", "times", "failure", "last"),
    [
        ([added(0), ended(committed=False, error=51), ended(committed=False)],
         "aborted", (at(1), at(6), 5.0), None, "abort"),
        ([added(0), ended(committed=False, error=51)],
         "open", (at(1), None, None), "CONCURRENT_TRANSACTIONS", "abort: CONCURRENT_TRANSACTIONS"),
        ([added(0), (26, 3, {**WHO, "committed": True}, None)], "open", (at(1), None, None), None, "commit"),
        ([added(0), produced(1, 90)],
         "fenced", (at(1), at(4), 3.0), "PRODUCER_FENCED", "first Produce: PRODUCER_FENCED"),
        ([added(0), produced(1, 47)],
         "fenced", (at(1), at(4), 3.0), "INVALID_PRODUCER_EPOCH", "first Produce: INVALID_PRODUCER_EPOCH"),
        ([added(0), initialised(100)],
         "aborted", (at(1), at(4), 3.0), "InitProducerId of the same transactional id ended it", "InitProducerId"),
        ([added(0), initialised(100, error=51)], "open", (at(1), None, None), None, "1 partition added"),
        ([added(0), initialised(100, name=None)], "open", (at(1), None, None), None, "1 partition added"),
        ([added(0), produced(1, attributes=0)], "open", (at(1), None, None), None, "1 partition added"),
    ],
)  # fmt: skip
def test_how_transactions_end(steps: list[Exchanged], state: str, times: Any, failure: str | None, last: str) -> None:
    (line,) = views(*steps)["transactions"].lines()
    assert (line["state"], line["failure"]) == (state, failure)
    assert (line["began"], line["ended"], line["duration_ms"]) == times
    assert line["steps"][-1]["step"] == last
    assert line["timeout_ms"] == 60_000


def test_one_id_has_one_transaction_after_another() -> None:
    steps = [added(0), ended(committed=True), added(1), ended(committed=False), added(2), produced(1, 90), added(3)]
    lines = list(views(*steps)["transactions"].lines())
    assert [(line["partitions"], line["state"]) for line in lines] == [
        (["t-0"], "committed"), (["t-1"], "aborted"), (["t-0", "t-2"], "fenced"), (["t-3"], "open"),
    ]  # fmt: skip


@pytest.mark.parametrize(("timeout", "state"), [(2, "hanging"), (3, "open"), (4, "open")])
def test_a_transaction_that_is_open_for_longer_than_its_timeout_hangs(timeout: int, state: str) -> None:
    """From the request at 3 ms to the last answer, at 6 ms."""
    found = views(initialised(timeout), added(0), (3, 12, {}, {}))
    assert [line["state"] for line in found["transactions"].lines()] == [state]
    found = views(initialised(2), added(0), (3, 12, {}, {}), ended(committed=True))
    assert [line["state"] for line in found["transactions"].lines()] == ["committed"]


def read(topic: str, producer: int, first_offset: int) -> Exchanged:
    named = [{"producerId": producer, "firstOffset": first_offset}]
    partitions = [{"partitionIndex": 3, "abortedTransactions": named}]
    return 1, 11, {"isolationLevel": 1}, {"responses": [{"topic": topic, "partitions": partitions}]}


def test_aborted_transactions_that_readers_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[dict[str, Any]]:
        return list(views(*[read("t", 7, 5)] * 3, read("t", 7, 6))["transactions"].lines())

    met = {"schema": "kproxy.aborted_transaction/1", "topic": "t", "partition": 3, "producer_id": 7}
    assert told() == [
        {**met, "first_offset": 5, "exchanges": [1, 2, 3]},
        {**met, "first_offset": 6, "exchanges": [4]},
    ]
    monkeypatch.setattr(transactions, "READERS", 2)
    monkeypatch.setattr(transactions, "MOST", 1)
    assert told() == [{**met, "first_offset": 5, "exchanges": [1, 2]}]


def test_only_so_many_transactions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MOST", 1)
    found = views(initialised(900), added(0), ended(committed=True), added(1), ended(committed=True))
    assert [line["partitions"] for line in found["transactions"].lines()] == [["t-0"]]
    view = found["transactions"]
    assert isinstance(view, transactions.Transactions)
    assert view.more
