"""Opening batches: formats, null and empty parts, nesting, damage and limits."""

from __future__ import annotations

import gzip
import struct

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.batches.batch import Trouble, parse
from kproxy.decoders.batches.legacy import MOST_NESTED
from kproxy.decoders.batches.opening import HARMLESS, iterate_batch, measure_batch, open_batch, open_pieces
from kproxy.decoders.problems import Code
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.view import View
from tests.decoders.batches.support import batch, message, read, record, sums
from tests.support.peers import READERS

GZIP, LZ4, ZSTD = 1, 3, 4
LOG_APPEND_TIME = 8

RECORDS = b"".join(
    (
        record(0, b"key", b"value"),
        record(1, None, None, time=7),
        record(3, b"", b"", [(b"h", b"1"), (b"h", None), (b"", b"")], time=-9),
        record(200, b"k" * 100, b"v" * 10_000, time=1 << 40),
    )
)


def codes(data: bytes) -> list[Code]:
    return [trouble.code for trouble in read(data).troubles]


def test_a_batch_of_every_kind_of_record() -> None:
    ours = read(batch(RECORDS, 4, offset=50))
    assert ours.troubles == []
    assert ours.records == [
        (50, 1000, b"key", b"value", []),
        (51, 1007, None, None, []),
        (53, 991, b"", b"", [("h", b"1"), ("h", None), ("", b"")]),
        (250, 1000 + (1 << 40), b"k" * 100, b"v" * 10_000, []),
    ]
    for theirs in READERS.values():
        assert theirs(batch(RECORDS, 4, offset=50)) == ours.records


def test_log_append_time_is_the_batch_s() -> None:
    assert {one[1] for one in read(batch(RECORDS, 4, attributes=LOG_APPEND_TIME, max_time=77)).records} == {77}


def test_a_compacted_batch_has_no_records_whatever_its_codec() -> None:
    for attributes in (0, GZIP, ZSTD):
        data = batch(b"", 0, attributes=attributes, last_delta=9)
        assert read(data) == read(b"")
        form = RecordsForm(data)
        form.open(lambda *_: None)
        assert form["batches"][0]["records"] == []
        assert form["batches"][0]["uncompressedSizeInBytes"] == len(data)


def test_delete_horizon() -> None:
    header = parse(batch(RECORDS, 4, attributes=64, base_time=123)).batches[0].header
    assert header["deleteHorizon"] == header["baseTimestamp"] == 123


def test_headers_alone_cost_no_crc() -> None:
    data = batch(RECORDS, 4) + message(1, 7, b"k", b"v")
    assert all("crcValid" not in one.header for one in parse(data, check=False).batches)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_set(magic: int) -> None:
    inner = b"".join(message(magic, offset, b"k", b"%d" % offset, time=offset) for offset in (0, 1, 4))
    data = message(magic, 44, None, gzip.compress(inner), attributes=GZIP)
    base = 40 if magic else 0
    times = [0, 1, 4] if magic else [None] * 3
    assert read(data).records == [
        (base + offset, time, b"k", b"%d" % offset, []) for offset, time in zip((0, 1, 4), times, strict=True)
    ]
    for theirs in READERS.values():
        assert theirs(data) == read(data).records


def test_log_append_time_of_a_compressed_set() -> None:
    inner = message(1, 0, b"k", b"v", time=1) + message(1, 1, b"k", b"v", time=2)
    data = message(1, 9, None, gzip.compress(inner), attributes=GZIP | LOG_APPEND_TIME, time=77)
    assert [(one[0], one[1]) for one in read(data).records] == [(8, 77), (9, 77)]
    for theirs in READERS.values():
        assert theirs(data) == read(data).records


def test_sets_within_sets() -> None:
    def nested(depth: int, magic: int) -> bytes:
        data = message(magic, 0, b"k", b"v") + message(magic, 1, b"k", b"w")
        for _ in range(depth):
            data = message(magic, 1, None, gzip.compress(data), attributes=GZIP)
        return data

    for magic in (0, 1):
        ours = read(nested(MOST_NESTED, magic))
        assert ours.troubles == []
        assert [one[0] for one in ours.records] == [0, 1]
        too_deep = read(nested(MOST_NESTED + 1, magic))
        assert (too_deep.records, [one.code for one in too_deep.troubles]) == ([], [Code.DECOMPRESSION_LIMIT])


def test_several_formats_in_one_field() -> None:
    data = message(0, 1, b"a", b"b") + message(1, 2, b"c", None) + batch(record(0, None, b"d"), 1, offset=3)
    ours = read(data + data[:20])
    assert [one[0] for one in ours.records] == [1, 2, 3]
    assert parse(data + data[:20]).truncated_tail == 20


def test_relative_offsets_behind_damage_are_not_guessed() -> None:
    inner = message(1, 0, b"k", b"v") + message(1, 1, b"k", b"v")[:-3]
    ours = read(message(1, 9, None, gzip.compress(inner), attributes=GZIP))
    assert (ours.records, [one.code for one in ours.troubles]) == ([], [Code.BAD_LENGTH])
    absolute = message(0, 8, b"k", b"v") + message(0, 9, b"k", b"v")[:-3]
    ours = read(message(0, 9, None, gzip.compress(absolute), attributes=GZIP))
    assert ([one[0] for one in ours.records], [one.code for one in ours.troubles]) == ([8], [Code.BAD_LENGTH])


def test_a_crc_within_a_set() -> None:
    inner = bytearray(message(0, 0, b"k", b"v") + message(0, 1, b"k", b"v"))
    inner[-1] ^= 1
    ours = read(message(0, 1, None, gzip.compress(bytes(inner)), attributes=GZIP))
    assert [(one.code, one.path) for one in ours.troubles] == [(Code.CRC_MISMATCH, "records[1]")]
    assert len(ours.records) == 2


@pytest.mark.parametrize(
    ("damaged", "path", "code"),
    [
        (b"\x0e\0\0\0\1\x08v\0", "records[1].value", Code.BAD_LENGTH),
        (b"\x0e\0\0\0\x10k\2v", "records[1].key", Code.BAD_LENGTH),
        (b"\x10\0\0\0\1\2v\2\1", "records[1].headers[0].key", Code.BAD_LENGTH),
        (b"\x0e\0\0\0\1\2v\1", "records[1].headers", Code.BAD_LENGTH),
        (b"\x10\0\0\0\1\2v\0\0", "records[1]", Code.BAD_LENGTH),
        (b"\x7e\0\0\0\1\2v\0", "records[1]", Code.BAD_LENGTH),
        (b"\0", "records[1]", Code.TRUNCATED),
        (b"", "records[1]", Code.TRUNCATED),
        (b"\x0e\0" + b"\xff" * 6, "records[1].timestampDelta", Code.TRUNCATED),
        (b"\x18\0" + b"\xff" * 11, "records[1].timestampDelta", Code.BAD_VARINT),
        (b"\x0e\0\0" + b"\xff" * 5, "records[1].offsetDelta", Code.BAD_VARINT),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_damage_has_its_place(damaged: bytes, path: str, code: Code, compressed: bool) -> None:
    whole = record(0, b"k", b"v")
    records = whole + damaged
    data = batch(zstandard.compress(records) if compressed else records, 2, attributes=ZSTD * compressed)
    ours = read(data)
    assert [one[2] for one in ours.records] == [b"k"]
    (trouble,) = ours.troubles
    assert (trouble.path, trouble.code) == (path, code)
    assert "record 2 of 2" in trouble.message
    if compressed:
        assert trouble.offset == 61
        assert "decompressed" in trouble.message
    else:
        assert 61 + len(whole) <= trouble.offset <= len(data)


def test_bytes_behind_the_last_record() -> None:
    assert codes(batch(record(0, b"k", b"v") + b"x", 1)) == [Code.TRAILING_BYTES]
    assert codes(batch(b"", -1)) == [Code.BAD_LENGTH]


@pytest.mark.parametrize(
    "records",
    [
        batch(RECORDS, 4),
        batch(zstandard.compress(RECORDS), 4, attributes=ZSTD),
        batch(lz4.frame.compress(RECORDS), 4, attributes=LZ4),
    ],
)
def test_every_byte_of_a_batch_matters(records: bytes) -> None:
    """The CRC does not cover base offset and leader epoch: a change there only changes the value."""
    before, after = batch(record(0, b"before", b"v"), 1), batch(record(0, b"after", b"v"), 1)
    whole = read(before + records + after)
    for at in range(min(len(records), 300)):
        changed = bytearray(records)
        changed[at] ^= 0x55
        ours = read(before + changed + after)
        assert ours.records[0] == whole.records[0]
        if at < 8 or 12 <= at < 16:
            assert ours.troubles == []
            continue
        cut = parse(before + changed + after).truncated_tail
        assert cut or ours.troubles
        assert all(len(before) <= trouble.offset for trouble in ours.troubles)
        if not cut:
            assert ours.records[-1] == whole.records[-1]


@pytest.mark.parametrize("magic", [0, 1])
def test_every_byte_of_a_message_matters(magic: int) -> None:
    inner = message(magic, 0, b"k", b"v") + message(magic, 1, b"k", b"w")
    for one in (
        message(magic, 5, b"key", b"value"),
        message(magic, 5, None, gzip.compress(inner, mtime=0), attributes=GZIP),
    ):
        for at in range(8, len(one)):
            changed = bytearray(one)
            changed[at] ^= 0x55
            data = bytes(changed)
            assert read(data).troubles or parse(data).truncated_tail


def test_limits() -> None:
    data = batch(zstandard.compress(record(0, None, bytes(5000))), 1, attributes=ZSTD)
    assert codes(data) == []
    (trouble,) = read(data, limit=5000).troubles
    assert (trouble.code, trouble.offset) == (Code.DECOMPRESSION_LIMIT, 61)
    many = batch(zstandard.compress(record(0, None, None) * 1000), 1000, attributes=ZSTD)
    assert [one.code for one in read(many, limit=10_000).troubles] == [Code.DECOMPRESSION_LIMIT]
    assert len(read(many, limit=64_000).records) == 1000
    sets = message(0, 0, None, gzip.compress(message(0, 0, None, b"v") * 1000), attributes=GZIP)
    assert len(read(sets, limit=40_000).records) == 626
    assert [one.code for one in read(sets, limit=40_000).troubles] == [Code.DECOMPRESSION_LIMIT]
    inner = message(0, 0, None, gzip.compress(message(0, 0, None, bytes(600))), attributes=GZIP)
    assert codes(message(0, 0, None, gzip.compress(inner * 2), attributes=GZIP)) == []
    nested = message(0, 0, None, gzip.compress(inner * 20), attributes=GZIP)
    assert {one.code for one in read(nested, limit=5000).troubles} == {Code.DECOMPRESSION_LIMIT}


def assert_measured_as_opened(field: bytes, limit: int = 10_000) -> None:
    for one in parse(field, check=False).batches:
        whole, measured = open_batch(field, one, limit=limit), measure_batch(field, one, limit=limit)
        assert measured[:4] == sums((key, value, headers) for _, _, key, value, headers in whole.records)
        assert measured.uncompressed_size == whole.uncompressed_size
        assert measured.whole == all(trouble.code in HARMLESS for trouble in whole.troubles)


@given(
    st.binary(max_size=200),
    st.integers(-2, 20),
    st.sampled_from([0, 1, 2, 3, 4, 5, 8, 32, 33, 64]),
)
def test_any_bytes_in_a_batch(data: bytes, count: int, attributes: int) -> None:
    field = batch(data, count, attributes=attributes)
    assert_measured_as_opened(field)
    form = RecordsForm(field)
    form.open(lambda values, *_: values, View(batch_limit=10_000))
    (one,) = form["batches"]
    assert form.troubles or len(one["records"]) == count
    assert all(
        61 <= trouble.offset <= len(field) or trouble.path.startswith("batches[0].") for trouble in form.troubles
    )


@given(st.binary(max_size=100), st.integers(0, 1), st.integers(0, 15))
def test_any_bytes_in_a_set(data: bytes, magic: int, attributes: int) -> None:
    for value in (data, gzip.compress(data), gzip.compress(struct.pack(">qi", 0, len(data)) + data)):
        field = message(magic, 3, None, value, attributes=attributes)
        assert_measured_as_opened(field)
        form = RecordsForm(field)
        form.open(lambda values, *_: values, View(batch_limit=10_000))
        assert form.troubles or form["batches"][0]["records"]


@given(st.data(), st.sampled_from((0, GZIP)), st.integers(1, 5))
def test_pieces_come_to_the_whole(data: st.DataObject, attributes: int, at_once: int) -> None:
    inner = bytearray(RECORDS)
    if data.draw(st.booleans()):
        inner[data.draw(st.integers(0, len(inner) - 1))] = data.draw(st.integers(0, 255))
    count = data.draw(st.integers(-1, 6))
    packed = batch(gzip.compress(bytes(inner)) if attributes else bytes(inner), count, attributes=attributes)
    (one,) = parse(packed).batches
    whole = open_batch(packed, one)
    pieces = list(open_pieces(packed, one, at_once=at_once))
    assert [record for piece in pieces for record in piece.records] == whole.records
    assert all(len(piece.records) <= at_once for piece in pieces)
    assert {piece.uncompressed_size for piece in pieces} == {whole.uncompressed_size}
    assert [trouble for piece in pieces for trouble in piece.troubles] == whole.troubles
    assert pieces[-1].troubles == whole.troubles
    troubles: list[Trouble] = []
    assert list(iterate_batch(packed, one, troubles)) == whole.records
    assert troubles == whole.troubles
    assert_measured_as_opened(packed)


@pytest.mark.parametrize(
    "field",
    [
        message(1, 3, b"k", b"v"),
        message(1, 3, b"k", gzip.compress(message(1, 0, None, b"v")[:-1]), attributes=GZIP),
        batch(RECORDS, 4, attributes=GZIP),
        batch(gzip.compress(RECORDS), 1 << 30, attributes=GZIP),
        batch(b"", 0),
    ],
    ids=["message", "cut message", "batch", "wrong count", "empty"],
)
def test_one_by_one_there_are_the_same(field: bytes) -> None:
    (one,) = parse(field).batches
    whole = open_batch(field, one)
    troubles: list[Trouble] = []
    assert list(iterate_batch(field, one, troubles)) == whole.records
    assert troubles == whole.troubles
    assert_measured_as_opened(field)
