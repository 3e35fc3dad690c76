"""The loop over records, plain and compiled, agrees with the walk that reads a record part by part."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.decoders.batches import current, loop
from kproxy.decoders.batches.compiled import COMPILED
from kproxy.decoders.batches.record import Record, RecordsError
from tests.decoders.batches.support import record, sized, varint

VARIANTS = [loop, *([import_module("kproxy.decoders.batches._loop")] if COMPILED else [])]

Loop = type[loop.CommonRecords]
Outcome = tuple[list[Record], tuple[object, ...] | None]

PARTS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.sampled_from([b"", b"a", b"trace-id"]) | st.binary(max_size=3), PARTS), max_size=5)
DELTAS = st.integers(0, 3) | st.integers(-(1 << 31), (1 << 31) - 1)
TIMES = st.integers(0, 200) | st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.lists(st.builds(record, DELTAS, PARTS, PARTS, HEADERS, TIMES), max_size=6)
BASES = st.integers(-2, 2) | st.integers(-(1 << 63), (1 << 63) - 1)


class Nothing(loop.CommonRecords):
    """A loop that leaves all records to the walk."""

    def read(self) -> None:
        return None


def outcome(loop: Loop, data: bytes, count: int, offset: int, timestamp: int, append_time: int | None) -> Outcome:
    found: list[Record] = []
    with patch.object(current, "CommonRecords", loop):
        try:
            for stretch in current.stretches(data, count, offset, timestamp, append_time):
                found.extend(stretch)
        except RecordsError as error:
            return found, (error.code, error.message, error.position, error.index, error.part)
    return found, None


def same(data: bytes, count: int, offset: int = 5, timestamp: int = 1000, append_time: int | None = None) -> Outcome:
    careful = outcome(Nothing, data, count, offset, timestamp, append_time)
    for variant in VARIANTS:
        assert outcome(variant.CommonRecords, data, count, offset, timestamp, append_time) == careful
    return careful


@given(RECORDS, BASES, BASES, st.none() | st.integers(-1, 1 << 62))
def test_whole_records(records: list[bytes], offset: int, timestamp: int, append_time: int | None) -> None:
    found, error = same(b"".join(records), len(records), offset, timestamp, append_time)
    assert error is None
    assert len(found) == len(records)


@given(RECORDS, st.integers(-2, 8), st.data())
def test_damaged_records(records: list[bytes], count: int, choose: st.DataObject) -> None:
    data = bytearray(b"".join(records))
    for _ in range(choose.draw(st.integers(0, 3)) if data else 0):
        at = choose.draw(st.integers(0, len(data) - 1))
        data[at] = choose.draw(st.integers(0, 255))
    same(bytes(data[: choose.draw(st.integers(0, len(data)))]), count)


@given(st.binary(max_size=60), st.integers(0, 4))
@example(b"\x0c" + b"\0" * 5, 1)
@example(b"\x0c" + b"\xff" * 6, 1)
@example(b"\x80" * 12, 1)
def test_any_bytes(data: bytes, count: int) -> None:
    same(data, count)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_common_is_read_by_the_loop(variant: ModuleType) -> None:
    records = [
        record(delta, key, value, headers, time)
        for delta, key, value, headers, time in (
            (0, b"key", b"value", [], 0),
            (1, None, None, [(b"h", b"1"), (b"h", None), (b"", b"")], 1 << 40),
            (1 << 26, b"", b"v" * 100_000, [(b"h", b"x" * 300)] * 63, -(1 << 40)),
        )
    ]
    data = b"".join(records)
    common = variant.CommonRecords(data, 0, 3, 10, 1000, None)
    assert list(common) == outcome(Nothing, data, 3, 10, 1000, None)[0]
    assert (common.position, common.left) == (len(data), 0)
    assert list(common) == []


COMMON = b"".join(
    record(delta, b"key", b"v" * 70, [(b"h", None), (b"trace", b"1" * delta)], delta << 40) for delta in range(3)
)


def test_records_that_end_anywhere() -> None:
    for end in range(len(COMMON)):
        assert same(COMMON[:end], 3)[1] is not None


def test_records_with_a_byte_changed_anywhere() -> None:
    for at in range(len(COMMON)):
        for changed in (0, 1, 0x7F, 0x80, 0xFF, COMMON[at] ^ 1, COMMON[at] ^ 2):
            same(COMMON[:at] + bytes([changed]) + COMMON[at + 1 :], 3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_held_of_records_stays_as_it_is(variant: ModuleType) -> None:
    data = b"".join(record(at, b"k%d" % at, b"v%d" % at, [(b"h", b"%d" % at), (b"i", None)]) for at in range(100))
    wanted = list(variant.CommonRecords(data, 0, 100, 0, 0, None))
    assert [one[0] for one in wanted] == list(range(100))
    held: list[list[object]] = [[], [], [], []]
    for at, one in enumerate(variant.CommonRecords(data, 0, 100, 0, 0, None)):
        assert hash(one) == hash(wanted[at])
        # keep a reference to another part of each record: all, its headers, one header, none
        held[at % 4].append((one, one[4], one[4][at // 4 % 2], None)[at % 4])
    assert held[0] == wanted[::4]
    assert held[1] == [one[4] for one in wanted[1::4]]
    assert held[2] == [one[4][at % 2] for at, one in enumerate(wanted[2::4])]


@pytest.mark.skipif(not COMPILED, reason="there was no C compiler when this was installed")
def test_tuples_that_are_let_go_are_filled_anew() -> None:
    data = b"".join(record(at, b"k", b"v", [(b"h", b"%d" % at)]) for at in range(100))
    walk = VARIANTS[-1].CommonRecords(data, 0, 100, 0, 0, None)
    assert len({(id(one), id(one[4]), id(one[4][0])) for one in walk}) == 2


def test_a_walk_that_is_left_off_goes_on_where_it_was() -> None:
    for variant in VARIANTS:
        common = variant.CommonRecords(COMMON, 0, 3, 0, 0, None)
        assert [*islice(common, 1), *common] == list(variant.CommonRecords(COMMON, 0, 3, 0, 0, None))


@pytest.mark.parametrize(
    "rare",
    [
        record(1 << 30, b"k", b"v"),
        record(0, b"k", b"v", time=-(1 << 63)),
        record(0, b"k", b"v", [(b"h", None)] * 64),
    ],
)
def test_behind_a_rare_record_the_loop_goes_on(rare: bytes) -> None:
    data = record(0, b"a", b"b") + rare + record(1, b"c", b"d")
    assert len(same(data, 3)[0]) == 3


def test_sums_wrap_as_java_s_do() -> None:
    ((offset, timestamp, *_),), error = same(record(1, None, None, time=1), 1, (1 << 63) - 1, (1 << 63) - 1)
    assert (offset, timestamp, error) == (-(1 << 63), -(1 << 63), None)


def test_a_number_of_too_many_bytes_is_no_number() -> None:
    inner = b"\0" + varint(0) + b"\x80\x80\x80\x80\x80\x00" + sized(b"k") + sized(b"v") + varint(0)
    _, error = same(varint(len(inner)) + inner, 1)
    assert error is not None
    assert error[3:] == (0, "offsetDelta")


@pytest.mark.parametrize("size", [0, 49, 50])
def test_a_header_s_name_that_begins_like_the_one_before(size: int) -> None:
    """The size of the value, 49, reads as the "b" that the longer name has."""
    headers: list[tuple[bytes, bytes | None]] = [(b"ab", b""), (b"a", bytes(size)), (b"ab", b"x"), (b"abc", None)]
    found, error = same(record(0, b"k", b"v", headers) * 2, 2)
    assert error is None
    assert [one[4] for one in found] == [tuple(headers)] * 2
