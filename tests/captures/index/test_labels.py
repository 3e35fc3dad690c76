from __future__ import annotations

import gzip
from typing import Any

import pytest

from kproxy.captures.index.labels import label
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.records.counting import record_count
from tests.decoders.batches.support import message

TOPIC_ID = bytes(range(1, 17))


@pytest.mark.parametrize(
    ("api", "request_body", "expected"),
    [
        ("Produce", {"topicData": [{"name": "orders.v1", "partitionData": [{"index": 3}, {"index": 4}]},
                                   {"name": "x", "partitionData": [{"index": 0}]}]}, "orders.v1-3 +2"),
        ("Produce", {"topicData": [{"topicId": TOPIC_ID, "partitionData": [{"index": 3}]}]}, "known-3"),
        ("Fetch", {"topics": [{"topicId": bytes(15) + b"\x02", "partitions": [{"partition": 0}]}]},
         "AAAAAAAAAAAAAAAAAAAAAg-0"),
        ("Fetch", {"topics": [{"topicId": bytes(15) + b"\x01", "partitions": [{"partition": 0}]}]},
         "__cluster_metadata-0"),
        ("Metadata", {"topics": [{"name": "a"}, {"name": "b"}]}, "2 topics"),
        ("Metadata", {"topics": [{"name": "a"}]}, "a"),
        ("Metadata", {"topics": None}, ""),
        ("Heartbeat", {"groupId": "billing"}, "g:billing"),
        ("DescribeGroups", {"groups": ["a", "b"]}, "g:a +1"),
        ("EndTxn", {"transactionalId": "pay-7", "committed": True}, "t:pay-7 commit"),
        ("EndTxn", {"transactionalId": "pay-7", "committed": False}, "t:pay-7 abort"),
        ("TxnOffsetCommit", {"transactionalId": "pay-7", "groupId": "billing"}, "t:pay-7 g:billing"),
        ("AddPartitionsToTxn",
         {"transactions": [{"transactionalId": "t", "topics": [{"name": "o", "partitions": [1]}]}]}, "t:t o-1"),
        ("FindCoordinator", {"key": "billing", "keyType": 0}, "g:billing"),
        ("FindCoordinator", {"key": "billing"}, "g:billing"),
        ("FindCoordinator", {"keyType": 1, "coordinatorKeys": ["a", "b"]}, "t:a +1"),
        ("CreateTopics", {"topics": [{"name": "a"}, {"name": "b"}]}, "2 topics"),
        ("DeleteTopics", {"topicNames": ["a", "b", "c"]}, "3 topics"),
        ("Nobody", {"groupId": None, "topics": "nonsense"}, ""),
        ("Produce", {"topicData": None}, ""),
    ],
)  # fmt: skip
def test_labels(api: str, request_body: dict[str, Any], expected: str) -> None:
    known = Knowledge()
    known.learn_topic(TOPIC_ID, "known")
    assert label(api, request_body, None, known) == expected


def test_a_request_that_names_nothing_is_told_by_its_response() -> None:
    answered = {"responses": [{"topic": "orders", "partitions": [{"partitionIndex": 2}]}]}
    assert label("Fetch", {"topics": []}, answered, Knowledge()) == "orders-2"
    assert label("Metadata", {"topics": None}, {"topics": [{"name": "a"}, {"name": "b"}]}, Knowledge()) == "2 topics"
    assert label("Fetch", None, None, Knowledge()) == ""


def test_records_are_counted_without_opening_batches() -> None:
    def batch(count: int) -> bytes:
        body = bytes(4) + b"\x02" + bytes(40) + count.to_bytes(4, "big") + bytes(7)
        return bytes(8) + len(body).to_bytes(4, "big") + body

    assert record_count(b"") == (0, False)
    assert record_count(batch(5) + batch(7)) == (12, False)
    assert record_count(batch(5) + batch(7)[:-1]) == (5, True)
    message = bytes(8) + (20).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(15)
    assert record_count(message * 3) == (3, False)
    assert record_count(b"\xff" * 100) == (0, True)


def compressed(count: int, size: int = 5) -> bytes:
    """A gzipped message of magic 0 with `count` inner messages."""
    inner = b"".join(message(0, number, None, bytes(size)) for number in range(count))
    return message(0, count - 1, None, gzip.compress(inner), attributes=1)


def test_compressed_messages_count_as_those_inside() -> None:
    assert record_count(compressed(70) + message(1, 70, None, b"x") + compressed(3)) == (74, False)
    damaged = bytearray(compressed(70))
    damaged[-20:] = bytes(20)
    assert record_count(bytes(damaged)) == (1, False)


def test_what_is_decompressed_for_a_count_is_bounded() -> None:
    """A field of many message sets of 64 MB each: beyond the allowance each counts as one record."""
    bomb = compressed(60, 1 << 20)
    assert len(bomb) < 1 << 17
    assert record_count(bomb * 20) == (20, False)
