from __future__ import annotations

import struct
from itertools import chain

import google_crc32c
import lz4.frame
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.captures.redaction.hosts import Hosts
from kproxy.captures.redaction.records import RecordsRedaction, filled
from kproxy.decoders.batches.batch import parse
from kproxy.decoders.batches.current import stretches
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.batches.record import Record
from kproxy.decoders.primitives import write_unsigned_varint


def zigzag(value: int) -> bytes:
    return write_unsigned_varint((value << 1) ^ (value >> 63))


def record(index: int, key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]]) -> bytes:
    def sized(data: bytes | None) -> bytes:
        return zigzag(-1) if data is None else zigzag(len(data)) + data

    inner = b"".join(zigzag(len(name)) + name + sized(content) for name, content in headers)
    body = b"\0" + zigzag(5) + zigzag(index) + sized(key) + sized(value) + zigzag(len(headers)) + inner
    return zigzag(len(body)) + body


def batch(records: list[bytes], codec: int = 0, attributes: int = 0) -> bytes:
    data = b"".join(records)
    if codec == 3:
        data = lz4.frame.compress(data)
    count = len(records)
    rest = struct.pack(">hiqqqhii", codec | attributes, count - 1, 1000, 2000, -1, -1, -1, count) + data
    crc = google_crc32c.value(rest)
    return struct.pack(">qiibI", 7, len(rest) + 9, 0, 2, crc) + rest


def message(key: bytes | None, value: bytes | None, magic: int) -> bytes:
    import zlib

    sized = b"".join(
        struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one for one in (key, value)
    )
    rest = struct.pack(">bb", magic, 0) + (struct.pack(">q", 3) if magic else b"") + sized
    return struct.pack(">qiI", 4, len(rest) + 4, zlib.crc32(rest)) + rest


def opened(field: bytes) -> list[Record]:
    found = parse(field)
    assert not found.troubles
    assert all(one.header["crcValid"] for one in found.batches)
    records = []
    for one in found.batches:
        inside = open_batch(field, one)
        assert not inside.troubles
        records += inside.records
    return records


RECORDS = [record(0, b"the-key", b"the-value", [(b"h", b"inside"), (b"n", None)]), record(1, None, b"", [])]


def test_payloads_of_an_uncompressed_batch() -> None:
    field = batch(RECORDS)
    redaction = RecordsRedaction(None, everything=True)
    out = redaction.field(field)
    assert len(out) == len(field)
    assert opened(out) == [
        (7, 1005, b"x" * 7, b"x" * 9, [(b"h", b"x" * 6), (b"n", None)]),
        (8, 1005, None, b"", ()),
    ] or [tuple(one[:4]) for one in opened(out)] == [(7, 1005, b"xxxxxxx", b"xxxxxxxxx"), (8, 1005, None, b"")]
    assert redaction.payloads == 3


@pytest.mark.parametrize("count", [1, 2, 20, 200])
def test_a_compressed_batch_becomes_a_plain_one_of_its_size(count: int) -> None:
    field = batch([record(i, b"key-%d" % i, b"value %d" % (i * i), []) for i in range(count)], codec=3)
    out = RecordsRedaction(None, everything=True).field(field)
    assert len(out) == len(field)
    records = opened(out)
    assert len(records) == count
    assert [one[0] for one in records] == [7 + i for i in range(count)]
    assert b"value" not in out
    assert parse(out).batches[0].header["compression"] == "none"


def test_a_wrong_crc_stays_wrong() -> None:
    field = bytearray(batch(RECORDS))
    field[17] ^= 1
    out = RecordsRedaction(None, everything=True).field(bytes(field))
    assert not parse(out).batches[0].header["crcValid"]


def test_a_control_batch_is_no_payload() -> None:
    field = batch([record(0, b"\0\0\0\1", b"\0\0\0\0\0\0", [])], attributes=32)
    assert RecordsRedaction(None, everything=True).field(field) == field


def test_what_ends_within_a_batch_holds_nothing() -> None:
    field = batch(RECORDS) + batch([record(0, b"the-key", b"another-value", [])])[:-3]
    out = RecordsRedaction(None, everything=True).field(field)
    assert len(out) == len(field)
    assert b"value" not in out
    assert b"the-key" not in out


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old(magic: int) -> None:
    field = message(b"the-key", b"the-value", magic) + message(None, None, magic)
    out = RecordsRedaction(None, everything=True).field(field)
    assert [one[2:4] for one in opened(out)] == [(b"xxxxxxx", b"xxxxxxxxx"), (None, None)]


@pytest.mark.parametrize("codec", [0, 3])
def test_hosts_in_records(codec: int) -> None:
    hosts = Hosts(b"salt")
    hosts.learn("kafka-1.internal")
    with_host = [record(0, b"k", b"at kafka-1.internal:9092", []), record(1, b"k", b"not here", [])]
    out = RecordsRedaction(hosts, everything=False).field(batch(with_host, codec))
    assert b"internal" not in out
    assert all(b"internal" not in (one[3] or b"") for one in opened(out))
    without = batch([record(0, b"k", b"at home", [])], codec)
    assert RecordsRedaction(hosts, everything=False).field(without) == without


@example(338, 40)
@example(65, 1)
@example(8194, 1)
@given(st.integers(0, 9000), st.integers(1, 90))
def test_filled_takes_exactly_its_room(room: int, most: int) -> None:
    data, count = filled(room, most)
    assert len(data) == room
    assert count <= most
    assert count == most or room < 7 * most + 90
    if count:
        assert len(list(chain.from_iterable(stretches(data, count, 0, 0, None)))) == count


@given(st.binary(max_size=200), st.booleans(), st.integers(0, 100), st.binary(max_size=3))
def test_any_bytes_keep_their_length(noise: bytes, everything: bool, at: int, planted: bytes) -> None:
    hosts = Hosts(b"salt")
    hosts.learn("kafka")
    good = bytearray(batch(RECORDS))
    good[at : at + len(planted)] = planted
    for field in (noise, bytes(good), bytes(good) + noise):
        assert len(RecordsRedaction(hosts, everything=everything).field(field)) == len(field)
