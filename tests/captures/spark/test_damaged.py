"""Captures damaged by networks, recorders and disks give the rows of an export, wherever they are cut."""

from __future__ import annotations

import gzip
import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproxy.captures.ports import Ports
from kproxy.captures.spark import local
from kproxy.captures.spark.plan import splits as planning
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.read.reading import read, summaries
from kproxy.decoders.filters import parse
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.captures.spark.cutting import cut_at
from tests.captures.traffic import KAFKA_1_1, LIBRDKAFKA, packets
from tests.support.thinned import thinned

SIZES = (1 << 14, 1 << 40)


def made(paths: list[Path], size: int, ports: Ports | None = None) -> Rows:
    tables = local.tables(paths, Options(tuple(TABLES), ports=ports), size=size)
    return {name: counted(tables[name].to_pylist()) for name in TABLES}


def assert_exported(*paths: Path, sizes: tuple[int, ...] = SIZES) -> None:
    expected = exported(paths)
    for size in sizes:
        assert_same(made(list(paths), size), expected)


def dropped(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    return [one for one in taken if rng.random() > 0.05]


def disordered(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    frames = [frame for _, frame in taken]
    for _ in range(len(frames) // 5):
        i = rng.randrange(len(frames) - 3)
        j = i + rng.randrange(1, 4)
        frames[i], frames[j] = frames[j], frames[i]
    return [(time, frame) for (time, _), frame in zip(taken, frames, strict=True)]


def repeated(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    out = []
    for index, one in enumerate(taken):
        out.append(one)
        if rng.random() < 0.2:
            out.append((one[0], taken[max(0, index - rng.randrange(6))][1]))
    return out


def later(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:  # noqa: ARG001
    return taken[len(taken) // 3 :]


def again(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:  # noqa: ARG001
    """The same connections again an hour later, on the same ports."""
    return taken + [(time + 3_600_000_000_000, frame) for time, frame in taken]


def fragmented(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Some packets in two IP fragments, in any order."""
    out: list[files.Packet] = []
    for number, (time, frame) in enumerate(taken):
        header = (frame[14] & 15) * 4
        body = frame[14 + header :]
        if len(body) < 200 or rng.random() < 0.5:
            out.append((time, frame))
            continue
        cut = 104
        pieces = [(0, body[:cut]), (cut, body[cut:])]
        for start, piece in pieces[:: rng.choice((1, -1))]:
            ip = bytearray(frame[14 : 14 + header])
            struct.pack_into(">HHH", ip, 2, header + len(piece), number, (0 if start else 0x2000) | start // 8)
            out.append((time, frame[:14] + bytes(ip) + piece))
    return out


def tcp_of(frame: bytes) -> tuple[int, int]:
    """Offsets of a frame's TCP header and of its payload."""
    start = 14 + (frame[14] & 15) * 4
    return start, start + (frame[start + 12] >> 4) * 4


def wrapped(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:  # noqa: ARG001
    """Sequence numbers of all connections wrap soon after their beginning."""
    first: dict[bytes, int] = {}
    out = []
    for time, frame in taken:
        at, _ = tcp_of(frame)
        seq, ack = struct.unpack_from(">II", frame, at + 4)
        ends = frame[26:34] + frame[at : at + 4]
        back = frame[30:34] + frame[26:30] + frame[at + 2 : at + 4] + frame[at : at + 2]
        first.setdefault(ends, seq)
        first.setdefault(back, ack)
        moved = bytearray(frame)
        numbers = ((seq - first[ends] - 500) % (1 << 32), (ack - first[back] - 500) % (1 << 32))
        struct.pack_into(">II", moved, at + 4, *numbers)
        out.append((time, bytes(moved)))
    return out


def tiny(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Many packets are divided into pieces of few bytes."""
    out = []
    for time, frame in taken:
        at, start = tcp_of(frame)
        end = 14 + int.from_bytes(frame[16:18], "big")
        payload = frame[start:end]
        if not 0 < len(payload) < 200 or rng.random() < 0.5:
            out.append((time, frame))
            continue
        position = 0
        while position < len(payload):
            piece = payload[position : position + rng.choice([1, 1, 2, 3, 40])]
            head = bytearray(frame[:start])
            struct.pack_into(">H", head, 16, start - 14 + len(piece))
            struct.pack_into(">I", head, at + 4, (struct.unpack_from(">I", frame, at + 4)[0] + position) % (1 << 32))
            out.append((time, bytes(head) + piece))
            position += len(piece)
    return out


def foreign(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Some connections carry TLS, others random bytes."""
    out = []
    for time, frame in taken:
        at, start = tcp_of(frame)
        port = max(struct.unpack_from(">HH", frame, at))
        size = len(frame) - start
        if port % 3 == 0 and size:
            frame = frame[:start] + (b"\x16\x03\x01\x02\x00" + rng.randbytes(size))[:size]  # noqa: PLW2901
        elif port % 3 == 1 and size and port % 2:
            frame = frame[:start] + rng.randbytes(size)  # noqa: PLW2901
        out.append((time, frame))
    return out


@pytest.mark.parametrize("capture", thinned([LIBRDKAFKA, KAFKA_1_1], 1), ids=lambda path: path.stem)
@pytest.mark.parametrize(
    "how", thinned([dropped, disordered, again, tiny, repeated, later, fragmented, wrapped, foreign], 4)
)  # fmt: skip
def test_whatever_becomes_of_packets(
    how: Callable[[list[files.Packet], random.Random], list[files.Packet]], capture: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(how(packets(capture), random.Random(7))))
    assert_exported(path)


@pytest.mark.parametrize("capture", thinned([LIBRDKAFKA, traffic.KAFKA_0_8, KAFKA_1_1], 1), ids=lambda path: path.stem)
@pytest.mark.parametrize("before", [lambda taken, _: taken, later], ids=["from the beginning", "midstream"])
def test_lost_packets_cost_an_exchange_each(
    before: Callable[[list[files.Packet], random.Random], list[files.Packet]], capture: Path, tmp_path: Path
) -> None:
    rng = random.Random(5)
    taken = before(packets(capture), rng)
    whole, path = _answered(taken, tmp_path / "whole.pcap"), tmp_path / "a.pcap"
    assert whole.total() > 50
    for count in (1, 1, 1, 5, 20):
        lost = set(rng.sample(range(len(taken)), count))
        found = _answered([one for number, one in enumerate(taken) if number not in lost], path)
        assert (whole - found).total() <= count
        assert (found - whole).total() <= count


def _answered(taken: list[files.Packet], path: Path) -> Counter[Any]:
    path.write_bytes(files.pcap(taken))
    table = local.tables([path], Options(("exchanges",)), size=1 << 14)["exchanges"]
    told = ("flow_id", "conn_epoch", "correlation_id", "api_key", "status")
    return Counter(tuple(row[name] for name in told) for row in table.to_pylist())


@pytest.mark.parametrize(
    "form",
    thinned(
        [
            lambda taken: files.pcap(taken, order=">"),
            lambda taken: files.pcap(taken, nano=True),
            lambda taken: files.pcap(taken, snap=200),
            lambda taken: files.pcap(taken)[:-7],
            lambda taken: _corrupt(files.pcap(taken)),
            traffic.pcapng,
            lambda taken: interfaces(taken),  # noqa: PLW0108  # it stands below
            lambda taken: traffic.pcapng(taken[:300]) + traffic.pcapng(taken[300:]),
            lambda taken: _corrupt(traffic.pcapng(taken)),
            lambda taken: files.section() + files.interface() + b"".join(files.simple(frame) for _, frame in taken),
            lambda taken: gzip.compress(files.pcap(taken)),
            lambda taken: files.pcap(taken[:0]),
            lambda taken: traffic.pcapng(taken[:0]),
            lambda taken: files.pcap([(0, b""), *taken[:200], (taken[200][0], b""), *taken[200:]]),
        ],
        3,
    ),
    ids=[
        "big-endian", "nanoseconds", "snap", "cut", "corrupt", "pcapng", "interfaces", "sections", "corrupt pcapng",
        "simple", "gzip", "empty", "empty pcapng", "empty records",
    ],
)  # fmt: skip
def test_whatever_the_format(form: Callable[[list[files.Packet]], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(form(packets(LIBRDKAFKA)))
    assert_exported(path)


@pytest.mark.parametrize(
    ("header", "link"),
    thinned([(bytes(12) + b"\x81\0\0\x07\x08\0", 1), (bytes(14) + b"\x08\0", 113), (b"\x08\0" + bytes(18), 276),
     (b"\2\0\0\0", 0), (b"", 101)], 1),
    ids=["VLAN", "SLL", "SLL2", "loopback", "raw IP"],
)  # fmt: skip
def test_whatever_the_link(header: bytes, link: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap([(time, header + frame[14:]) for time, frame in packets(LIBRDKAFKA)], link=link))
    expected = exported([path])
    assert expected["exchanges"].total() == 176
    assert_same(made([path], 1 << 14), expected)


def _corrupt(data: bytes) -> bytes:
    """The capture with a corrupt record, so that reading fails there."""
    walked = bytearray(data)
    taken = [split.end for split in _plan_of(data, 100_000)]
    struct.pack_into("<I", walked, taken[0] + (8 if data[:4] != files.section()[:4] else 4), 0xFFFF_FFF1)
    return bytes(walked)


def _plan_of(data: bytes, size: int) -> tuple[planning.Split, ...]:
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return plan([file.name], size).splits


def interfaces(taken: list[files.Packet]) -> bytes:
    """A pcapng with a second interface, of another resolution, from the middle on."""
    half = len(taken) // 2
    first = [files.enhanced(0, time // 1000, frame) for time, frame in taken[:half]]
    rest = [files.enhanced(1, time, frame) for time, frame in taken[half:]]
    return b"".join([files.section(), files.interface(), *first, files.interface(resolution=9), *rest])


@pytest.mark.system
def test_rotated_files_in_any_order(tmp_path: Path) -> None:
    taken = packets(LIBRDKAFKA)
    paths = []
    for number, start in enumerate(range(0, len(taken), 150)):
        path = tmp_path / f"{9 - number}.pcap"
        path.write_bytes(files.pcap(taken[start : start + 150]))
        paths.append(path)
    (tmp_path / "note.txt").write_text("no capture")
    assert_exported(*paths)
    expected = exported(paths)
    assert_same(made([tmp_path], 1 << 40), expected)
    assert_same(made([tmp_path / "*.pcap"], 1 << 14), expected)


def test_files_that_overlap_and_one_that_is_compressed(tmp_path: Path) -> None:
    taken = packets(LIBRDKAFKA)
    (tmp_path / "a.pcap").write_bytes(files.pcap(taken[:400:2]))
    (tmp_path / "b.pcap").write_bytes(files.pcap(taken[1:400:2]))
    (tmp_path / "c.pcap.gz").write_bytes(gzip.compress(files.pcap(taken[400:])))
    assert_exported(*(tmp_path / name for name in ("c.pcap.gz", "b.pcap", "a.pcap")))


def test_a_file_that_is_cut_leaves_a_hole(tmp_path: Path) -> None:
    taken = packets(LIBRDKAFKA)
    (tmp_path / "a.pcap").write_bytes(files.pcap(taken[:300])[:-9])
    (tmp_path / "b.pcap").write_bytes(files.pcap([(time + 90_000_000_000, frame) for time, frame in taken[301:]]))
    assert_exported(tmp_path / "a.pcap", tmp_path / "b.pcap")


def test_only_some_ports() -> None:
    expected = exported([KAFKA_1_1], "--port", "23002")
    assert 0 < len(expected["flows"]) < len(exported([KAFKA_1_1])["flows"])
    assert_same(made([KAFKA_1_1], 1 << 14, ports=Ports.parse("23002")), expected)


@pytest.mark.parametrize(
    "text", thinned(["latency > 1ms and not api == Metadata", "api == Fetch", "client ~ 'rdkafka'"], 1)
)
def test_a_filter(text: str) -> None:
    assert_filtered(LIBRDKAFKA, text)


def assert_filtered(capture: Path, text: str) -> Rows:
    expected = exported([capture], "-Y", text)
    for size in SIZES:
        tables = local.tables([capture], Options(tuple(TABLES), filter=parse(text).expression), size=size)
        assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, expected)
    return expected


@given(st.lists(st.integers(0, 126_999), max_size=12))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_splits_at_any_records(at: list[int]) -> None:
    planned = cut_at(traffic.KAFKA_0_8, [value / 127_000 for value in at])
    tables = local.of_plan(planned, Options(tuple(TABLES)), size=1 << 40)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, _kafka_0_8())


def _kafka_0_8(held: list[Rows] = []) -> Rows:  # noqa: B006  # it is made once
    if not held:
        held.append(exported([traffic.KAFKA_0_8]))
    return held[0]


@pytest.mark.parametrize("shift", thinned([-1, 1, 16, -16, -4, 4, 8, 40], 1))
def test_a_wrong_edge_is_found(shift: int) -> None:
    planned = plan([LIBRDKAFKA], 1 << 14)
    splits = list(planned.splits)
    before, wrong = splits[3], splits[4]
    assert wrong.walker is not None
    moved = planning.moved(wrong.walker, wrong.start + shift)
    splits[3] = replace(before, end=wrong.start + shift)
    splits[4] = replace(wrong, start=wrong.start + shift, walker=moved)
    planned = replace(planned, splits=tuple(splits))
    found = [one for split in splits for batch in read(split) for one in summaries(batch)]
    assert found[3].trouble is not None
    order = Order.of(planned, found)
    mended = order.mended(planned, 1 << 14)
    assert mended is not None
    assert mended.groups == ((str(LIBRDKAFKA),),)
    assert [split.walker for split in mended.splits] == [None]
    assert mended.whole == ((str(LIBRDKAFKA), found[3].trouble),)
    tables = local.of_plan(planned, Options(tuple(TABLES)), size=1 << 14)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, exported([LIBRDKAFKA]))
