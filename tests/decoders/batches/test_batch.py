from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.batches.batch import corrupt, crc_valid, first_size, first_whole, heads, parse, sent
from kproxy.decoders.message import decode_request
from kproxy.decoders.problems import Code
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.schema import definitions
from tests.decoders.batches.support import batch as written
from tests.decoders.batches.support import message as written_message
from tests.decoders.batches.support import record
from tests.support.golden import DATA, segments

THREE = b"".join(bytes([14, 0, 0, 2 * index, 1, 2, 118, 0]) for index in range(3))
"""Three records with the value "v"."""


def batch(offset: int = 5, attributes: int = 0, records: bytes = THREE) -> bytes:
    checked = struct.pack(">hiqqqhii", attributes, 2, 100, 200, 7, 1, 9, 3) + records
    crc = google_crc32c.value(checked)
    return struct.pack(">qiibI", offset, 9 + len(checked), 4, 2, crc) + checked


def legacy(magic: int, offset: int = 5, attributes: int = 0) -> bytes:
    checked = bytes([magic, attributes]) + (struct.pack(">q", 1234) if magic else b"") + b"\xff\xff\xff\xff\0\0\0\1v"
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


V2 = {
    "baseOffset": 5,
    "partitionLeaderEpoch": 4,
    "magic": 2,
    "crcValid": True,
    "compression": "none",
    "timestampType": "CreateTime",
    "isTransactional": False,
    "isControl": False,
    "lastOffsetDelta": 2,
    "baseTimestamp": 100,
    "maxTimestamp": 200,
    "producerId": 7,
    "producerEpoch": 1,
    "baseSequence": 9,
    "recordCount": 3,
    "sizeInBytes": 85,
}


def test_a_batch() -> None:
    data = batch()
    form = RecordsForm(memoryview(data))
    assert form["sizeInBytes"] == len(data) == 85
    assert form["truncatedTail"] == 0
    (header,) = form["batches"]
    assert header.pop("crc") == int.from_bytes(data[17:21], "big")
    assert header == V2
    assert list(header) == list(V2)


def test_attributes_of_a_batch() -> None:
    header = parse(batch(attributes=0b111100)).batches[0].header
    assert (header["compression"], header["timestampType"]) == ("zstd", "LogAppendTime")
    assert header["isTransactional"] is header["isControl"] is True
    assert parse(batch(attributes=7)).batches[0].header["compression"] == "unknown(7)"


def test_message_sets() -> None:
    data = legacy(0) + legacy(1, offset=6) + legacy(1, offset=7, attributes=0b1010)
    first, second, third = (one.header for one in parse(data).batches)
    assert first == {
        "baseOffset": 5,
        "magic": 0,
        "crc": first["crc"],
        "crcValid": True,
        "compression": "none",
        "timestampType": "NoTimestampType",
        "recordCount": 1,
        "sizeInBytes": 27,
    }
    assert (second["timestampType"], second["maxTimestamp"]) == ("CreateTime", 1234)
    assert (third["compression"], third["timestampType"], third["crcValid"]) == ("snappy", "LogAppendTime", True)
    assert not {"baseOffset", "recordCount"} & third.keys()


@pytest.mark.parametrize("one", [batch(), legacy(0), legacy(1)])
def test_a_batch_that_is_cut_is_the_tail(one: bytes) -> None:
    for cut in range(len(one)):
        parsed = parse(batch() + one[:cut])
        assert (len(parsed.batches), parsed.truncated_tail, parsed.troubles) == (1, cut, [])


def test_a_changed_byte_is_found() -> None:
    data = bytearray(batch())
    data[-1] ^= 1
    parsed = parse(bytes(data))
    assert parsed.batches[0].header["crcValid"] is False
    assert [(t.offset, t.code) for t in parsed.troubles] == [(0, Code.CRC_MISMATCH)]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">qiib", 0, 100, 0, 3) + bytes(200),
        struct.pack(">qiib", 0, 100, 0, -1) + bytes(200),
        struct.pack(">qiib", 0, 48, 0, 2) + bytes(200),
        struct.pack(">qiib", 0, 13, 0, 0) + bytes(200),
        struct.pack(">qiib", 0, 21, 0, 1) + bytes(200),
        struct.pack(">qiib", 0, -5, 0, 2) + bytes(200),
    ],
)
def test_what_is_no_batch_ends_the_reading(data: bytes) -> None:
    parsed = parse(batch() + data)
    assert len(parsed.batches) == 1
    assert parsed.truncated_tail == len(data)
    assert [(t.offset, t.code) for t in parsed.troubles] == [(85, Code.BAD_LENGTH)]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_accounted_for(data: bytes, after_a_batch: bool) -> None:
    if after_a_batch:
        data = batch() + data
    parsed = parse(memoryview(data))
    assert sum(one.end - one.start for one in parsed.batches) + parsed.truncated_tail == len(data)


BATCHES = st.one_of(
    st.builds(batch, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.builds(legacy, st.sampled_from([0, 1]), st.integers(0, (1 << 63) - 1), st.integers(0, 255)),
    st.binary(max_size=90),
)


@given(st.lists(BATCHES, max_size=4).map(b"".join))
def test_heads_are_the_headers_in_short(data: bytes) -> None:
    names = (
        "baseOffset", "sizeInBytes", "recordCount", "magic", "compression", "producerId", "producerEpoch",
        "baseSequence", "isTransactional", "isControl",
    )  # fmt: skip
    headers = (one.header for one in parse(data, check=False).batches)
    assert heads(memoryview(data)) == [tuple(map(header.get, names)) for header in headers]


@given(BATCHES)
def test_a_batch_that_is_sent_is_its_header_in_short(data: bytes) -> None:
    names = (
        "sizeInBytes", "crc", "producerId", "producerEpoch", "baseSequence", "recordCount", "isTransactional",
    )  # fmt: skip
    headers = [one.header for one in parse(data, check=False).batches if one.header["magic"] == 2]
    assert sent(memoryview(data)) == (tuple(map(headers[0].get, names)) if headers else None)


@given(st.lists(BATCHES, max_size=4).map(b"".join), st.integers(0, 400))
def test_corrupt_batches_are_those_whose_crc_does_not_match(data: bytes, flipped: int) -> None:
    if flipped < len(data):
        data = data[:flipped] + bytes([data[flipped] ^ 1]) + data[flipped + 1 :]
    headers = [one.header for one in parse(data).batches]
    expected = [(one.get("baseOffset"), one["crc"], one["sizeInBytes"]) for one in headers if not one["crcValid"]]
    assert corrupt(memoryview(data)) == expected


def test_the_size_of_a_batch_that_is_cut() -> None:
    assert first_size(batch()) == first_size(batch()[:12]) == len(batch())
    assert first_size(batch()[:11]) is None


def produced(name: str) -> Iterator[Any]:
    """Records of those Produce requests that are complete in one TCP segment."""
    for _, _, payload in segments(DATA / "captures" / f"{name}.pcap"):
        if len(payload) > 12 and int.from_bytes(payload[:4], "big") == len(payload) - 4 and payload[4:6] == b"\0\0":
            read = decode_request(payload, definitions())
            if read.problems or read.body is None:
                continue
            for topic in read.body["topicData"]:
                for partition in topic["partitionData"]:
                    yield partition["records"]


@pytest.mark.parametrize(
    ("name", "magic", "codecs"),
    [
        ("kafka-0.8.2.2", 0, {"none", "gzip", "snappy"}),
        ("kafka-1.1.1", 2, {"none", "gzip", "snappy", "lz4"}),
        ("kafka-4.4.0-librdkafka", 2, {"none", "gzip", "snappy", "lz4", "zstd"}),
    ],
)
def test_batches_of_real_producers(name: str, magic: int, codecs: set[str]) -> None:
    found: Counter[str] = Counter()
    for records in produced(name):
        parsed = parse(records)
        assert (parsed.truncated_tail, parsed.troubles) == (0, [])
        for one in parsed.batches:
            assert one.header["magic"] == magic
            assert one.header["crcValid"]
            found[one.header["compression"]] += 1
    assert found.keys() == codecs


def test_checksums_and_beginnings_of_batches() -> None:
    whole = written(record(0, b"k", b"v"), 1)
    for data in (whole, written_message(0, 0, b"k", b"v"), written_message(1, 0, b"k", b"v")):
        (one,) = parse(data).batches
        assert crc_valid(data, one)
        assert not crc_valid(data[:-1] + b"X", one)
    assert [first_whole(bytes(before) + whole) for before in (0, 1, 17)] == [0, 1, 17]
    assert first_whole(whole[1:]) is None


@pytest.mark.parametrize(("attributes", "there"), [(0, False), (1, False), (63, False), (64, True), (65, True)])
def test_only_its_own_bit_tells_of_a_delete_horizon(attributes: int, there: bool) -> None:
    (one,) = parse(written(b"", 0, attributes=attributes)).batches
    assert one.header.get("deleteHorizon") == (1000 if there else None)
