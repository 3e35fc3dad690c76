"""Records written by other projects are read as other projects read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.reader import read as read_capture
from kproxy.decoders.batches.batch import parse
from kproxy.decoders.batches.opening import measure_batch
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import definitions
from tests.decoders.batches.support import read, sums
from tests.support.golden import DATA
from tests.support.peers import (
    READERS,
    AioBatchBuilder,
    AioLegacyBuilder,
    DefaultRecordBatchBuilder,
    LegacyRecordBatchBuilder,
    Plain,
)

BLOBS = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.tuples(
        BLOBS,
        BLOBS,
        st.integers(0, 1 << 42),
        st.lists(st.tuples(st.text(max_size=5), BLOBS), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def measured(data: bytes) -> tuple[int, ...]:
    """What all batches of a records field add up to."""
    found = [measure_batch(data, one) for one in parse(data).batches]
    assert all(one.whole for one in found)
    return tuple(sum(one[index] or 0 for one in found) for index in range(4))


def given_sums(records: list[Plain]) -> tuple[int, ...]:
    return sums((key, value, [(name.encode(), content) for name, content in headers])
                for _, _, key, value, headers in records)  # fmt: skip


V2_WRITERS = {"kafka-python": DefaultRecordBatchBuilder, "aiokafka": AioBatchBuilder}
LEGACY_WRITERS = {"kafka-python": LegacyRecordBatchBuilder, "aiokafka": AioLegacyBuilder}


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("writer", V2_WRITERS)
@given(records=RECORDS)
def test_batches_of_other_writers(writer: str, codec: int, records: list[Any]) -> None:
    builder = V2_WRITERS[writer](2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, (key, value, time, headers) in enumerate(records):
        builder.append(offset, time, key, value, headers)
    data = bytes(builder.build())
    ours = read(data)
    assert ours.troubles == []
    expected = [(offset, time, key, value, headers) for offset, (key, value, time, headers) in enumerate(records)]
    assert ours.records == expected
    assert measured(data) == given_sums(expected)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(3))
@pytest.mark.parametrize("writer", LEGACY_WRITERS)
@given(records=RECORDS)
def test_message_sets_of_other_writers(writer: str, codec: int, magic: int, records: list[Any]) -> None:
    builder = LEGACY_WRITERS[writer](magic, codec, 1 << 20)
    for offset, (key, value, time, _) in enumerate(records):
        builder.append(offset, time, key, value)
    data = bytes(builder.build())
    ours = read(data)
    assert ours.troubles == []
    assert [one[1:4] for one in ours.records] == [
        (time if magic else None, key, value) for key, value, time, _ in records
    ]
    # a producer leaves the outer offset at 0, so inner offsets are absolute
    assert [one[0] for one in ours.records] == list(range(len(records)))
    assert measured(data) == given_sums([(0, None, key, value, []) for key, value, _, _ in records])


def fields(name: str) -> Iterator[bytes]:
    """Every records field of a capture."""
    with closing(read_capture([DATA / "captures" / f"{name}.pcap"])) as reader:
        for exchange in reader:
            if not isinstance(exchange, Exchange) or exchange.api_key not in {0, 1, 78}:
                continue
            assert exchange.api_version is not None
            sides: list[Decoded] = []
            if exchange.request is not None:
                sides.append(decode_request(bytes(exchange.request.data(reader.source)), definitions()))
            if exchange.response is not None:
                data = bytes(exchange.response.data(reader.source))
                sides.append(decode_response(data, exchange.api_key, exchange.api_version, definitions()))
            for one in sides:
                assert one.body is not None
                for topic in one.body.get("topicData") or one.body.get("responses", ()):
                    for partition in topic.get("partitionData", topic.get("partitions", ())):
                        if partition.get("records"):
                            yield bytes(partition["records"])


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_captured_records_as_others_read_them(name: str) -> None:
    compared: Counter[str] = Counter()
    for data in fields(name):
        ours = read(data)
        assert ours.troubles == []
        for reader, theirs in READERS.items():
            assert ours.records == theirs(data), reader
            assert measured(data) == given_sums(theirs(data))
            compared[reader] += len(ours.records)
    assert min(compared.values()) > 500
