"""How many records there are, as the headers and the compressed sets say."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import pytest

from kproxy.decoders.records.counting import INFLATED, counted, record_count
from tests.decoders.batches.support import batch, message, record

TWO = batch(record(0, b"k", b"v") * 2, 2)
CLAIMED = batch(b"", -5)
ONE_MESSAGE = message(0, 0, b"k", b"v")
INNER = [message(1, number, b"k", b"v") for number in range(3)]
SET = message(1, 2, None, gzip.compress(b"".join(INNER), mtime=0), attributes=1)
UNREADABLE = message(1, 2, None, b"nothing", attributes=1)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        (b"", (0, False)),
        (TWO, (2, False)),
        (TWO + TWO, (4, False)),
        (TWO + TWO[:-1], (2, True)),
        (TWO + TWO[:16], (2, True)),
        (TWO + TWO[:17], (2, True)),
        (TWO[:16], (0, True)),
        (TWO + b"\0", (2, True)),
        (CLAIMED, (0, False)),
        (ONE_MESSAGE, (1, False)),
        (ONE_MESSAGE + message(1, 1, None, None), (2, False)),
        (SET, (3, False)),
        (SET + ONE_MESSAGE, (4, False)),
        (UNREADABLE, (1, False)),
        (message(0, 0, None, gzip.compress(message(0, 0, b"", b""), mtime=0), attributes=1), (1, False)),
        (struct.pack(">qi", 0, 13) + bytes(13), (0, True)),  # shorter than any message
        (struct.pack(">qi", 0, -1) + bytes(13), (0, True)),
        # No more than the head of a message, and of a batch without a count.
        (struct.pack(">qi", 0, 14) + bytes(14), (1, False)),
        (struct.pack(">qi", 0, 14) + bytes(4) + b"\2" + bytes(9), (0, False)),
        (struct.pack(">qi", 0, 48) + bytes(4) + b"\2" + bytes(43), (0, False)),
        (struct.pack(">qi", 0, 49) + bytes(4) + b"\2" + bytes(40) + struct.pack(">i", 7), (7, False)),
    ],
)
def test_records_of_a_field(records: bytes, found: tuple[int, bool]) -> None:
    assert record_count(records) == found
    assert record_count(memoryview(records)) == found


def test_what_would_take_too_much_memory_counts_as_one() -> None:
    large = message(1, 0, None, bytes(INFLATED))
    packed = message(1, 0, None, gzip.compress(large), attributes=1)
    assert record_count(packed) == (1, False)
    fits = [message(1, number, None, bytes(INFLATED // 2)) for number in range(2)]
    halves = [message(1, 0, None, gzip.compress(one + INNER[0]), attributes=1) for one in fits]
    # All sets of a field share what they may come to: the third is beyond it.
    assert record_count(halves[0] + halves[1]) == (2 + 2, False)
    assert record_count(halves[0] * 3) == (2 + 2 + 1, False)


def topics(*records: bytes | None, produce: bool = True) -> dict[str, Any]:
    named = [{"records": one} for one in records]
    if produce:
        return {"topicData": [{"partitionData": named[:1]}, {"partitionData": named[1:]}]}
    return {"responses": [{"partitions": named}]}


@pytest.mark.parametrize(
    ("key", "asked", "answered", "found"),
    [
        (0, topics(TWO, SET, None), None, (5, False)),
        (0, topics(TWO, SET[:-1]), topics(TWO, produce=False), (2, True)),
        (0, topics(TWO[:-1], SET), None, (3, True)),
        (0, None, topics(TWO, produce=False), (None, False)),
        (1, topics(TWO), topics(TWO, None, TWO, produce=False), (4, False)),
        (1, topics(TWO), None, (None, False)),
        (1, {}, {"responses": None}, (0, False)),
        (3, {}, {}, (None, False)),
        (59, {}, {}, (None, False)),  # a piece of a snapshot begins anywhere
        (None, {}, {}, (None, False)),
    ],
)
def test_records_of_an_exchange(key: int | None, asked: Any, answered: Any, found: tuple[int | None, bool]) -> None:
    assert counted(key, asked, answered) == found
