"""The walkers of pcap and pcapng on files built block by block."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.errors import FormatError
from kproxy.captures.formats.detect import walker
from kproxy.captures.formats.records import Records
from tests.captures import files

START = 1_795_240_934_816_994_123
FRAMES = [bytes([i]) * (20 + 7 * i) for i in range(9)]
PACKETS = [(START + 1_001 * i, frame) for i, frame in enumerate(FRAMES)]


def read(data: bytes, *, step: int = 100) -> list[tuple[int, bytes, int]]:
    """Time, bytes and length on the wire of each record."""
    view = memoryview(data)
    found = walker(view, whole=True)
    assert found is not None
    out = []
    while (records := found.walk(view, step)) is not None:
        out += table(records, data)
    return out


def table(records: Records, data: bytes) -> list[tuple[int, bytes, int]]:
    columns = zip(
        records.time.tolist(), records.data.tolist(), records.captured.tolist(), records.wire.tolist(), strict=True
    )
    return [(time, data[at : at + held], wire) for time, at, held, wire in columns]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap(order: str, nano: bool) -> None:
    found = read(files.pcap(PACKETS, order=order, nano=nano))

    unit = 1 if nano else 1000
    assert found == [(time // unit * unit, frame, len(frame)) for time, frame in PACKETS]


def test_pcap_snap_length() -> None:
    found = read(files.pcap(PACKETS, snap=30))

    assert [(held, wire) for _, held, wire in found] == [(frame[:30], len(frame)) for frame in FRAMES]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_blocks_of_every_kind(order: str) -> None:
    ticks = [START // 1000 + i for i in range(9)]
    data = b"".join(
        [
            files.section(order),
            files.interface(order=order),
            files.interface(resolution=9, order=order),
            files.interface(resolution=0x80 | 20, offset=100, order=order),
            files.enhanced(0, ticks[0], FRAMES[0], order=order),
            files.block(0x0BAD, b"custom", order),
            files.enhanced(1, START + 1, FRAMES[1], comments=["one", "two"], order=order),
            files.statistics(0, 5, order),
            files.enhanced(2, 3 << 19, FRAMES[2], order=order),
            files.obsolete(0, ticks[3], FRAMES[3], order),
            files.simple(FRAMES[4], order),
            files.statistics(0, 7, order),
            files.statistics(1, 2, order),
        ]
    )

    assert read(data) == [
        (ticks[0] * 1000, FRAMES[0], len(FRAMES[0])),
        (START + 1, FRAMES[1], len(FRAMES[1])),
        (101_500_000_000, FRAMES[2], len(FRAMES[2])),
        (ticks[3] * 1000, FRAMES[3], len(FRAMES[3])),
        (ticks[3] * 1000, FRAMES[4], len(FRAMES[4])),
    ]
    view = memoryview(data)
    found = walker(view, whole=True)
    assert found is not None
    comments: list[str] = []
    while (records := found.walk(view, 100)) is not None:
        comments += records.comments.values()
    assert comments == ["one\ntwo"]
    assert found.dropped == 9
    assert found.nanoseconds


def test_pcapng_sections_of_both_byte_orders() -> None:
    data = b""
    for i, order in enumerate("<><"):
        data += files.section(order) + files.interface(101, order=order) + files.enhanced(0, i, FRAMES[i], order=order)

    assert [held for _, held, _ in read(data)] == FRAMES[:3]


PCAPNG = b"".join(
    [
        files.section(),
        files.interface(),
        *(files.enhanced(0, i, frame, comments=["note"] * (i % 2)) for i, frame in enumerate(FRAMES[:4])),
        files.section(">"),
        files.interface(order=">"),
        files.simple(FRAMES[4], ">"),
        files.obsolete(0, 7, FRAMES[5], ">"),
    ]
)


@pytest.mark.parametrize("data", [files.pcap(PACKETS), PCAPNG], ids=["pcap", "pcapng"])
def test_a_growing_file_gives_the_same_byte_by_byte(data: bytes) -> None:
    whole = read(data)
    found = None
    out = []
    for end in range(len(data) + 1):
        view = memoryview(data)[:end]
        found = found or walker(view, whole=False)
        while found is not None and (records := found.walk(view, 2)) is not None:
            out += table(records, data)
    assert out == whole
    assert found is not None
    assert found.position == len(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"hello, world\n", "neither pcap nor pcapng"),
        (b"BZh91AY", "bzip2"),
        (b"\x02\x21\x4c\x18\x00\x00\x00\x00", "lz4 in its legacy form"),
        (files.pcap([])[:20], "ends inside its pcap header"),
        (files.pcap([])[:3], "ends inside its header"),
        (files.section()[:20], "ends inside its pcapng section header"),
    ],
)
def test_what_is_no_capture(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        walker(memoryview(data), whole=True)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (struct.pack("<II", 6, 5), "cannot be 5 bytes long"),
        (files.enhanced(3, 0, b"x"), "interface 3"),
        (files.enhanced(0, 0, b"x")[:-4] + struct.pack("<I", 99), "ends with 99"),
        (files.block(6, struct.pack("<IIIII", 0, 0, 0, 4000, 4000) + b"abcd"), "a packet of 4000 bytes"),
    ],
)
def test_a_broken_pcapng_block_ends_the_reading(tail: bytes, message: str) -> None:
    data = files.section() + files.interface() + files.enhanced(0, 1, b"first") + tail + files.enhanced(0, 2, b"second")
    view = memoryview(data)
    found = walker(view, whole=True)
    assert found is not None
    records = found.walk(view, 100)
    assert records is not None
    assert len(records) == 1
    with pytest.raises(FormatError, match=message) as caught:
        found.walk(view, 100)
    assert caught.value.offset == len(data) - len(tail) - len(files.enhanced(0, 2, b"second"))


def test_an_absurd_pcap_record_ends_the_reading() -> None:
    data = files.pcap(PACKETS[:1]) + struct.pack("<IIII", 1, 1, 1 << 30, 1 << 30) + bytes(100)
    view = memoryview(data)
    found = walker(view, whole=True)
    assert found is not None
    assert found.walk(view, 100) is not None
    with pytest.raises(FormatError, match="exceeds the maximum"):
        found.walk(view, 100)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([files.pcap(PACKETS), PCAPNG]), st.data())
def test_any_bytes_give_records_or_an_error(data: bytes, more: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(more.draw(st.integers(0, 4))):
        broken[more.draw(st.integers(0, len(broken) - 1))] = more.draw(st.integers(0, 255))
    try:
        for _, held, _ in read(bytes(broken)):
            assert len(held) <= len(data)
    except FormatError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017
