"""Edges of splits are found at starts of records, whatever payloads contain."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from kproxy.captures.formats import detect
from kproxy.captures.formats.pcap import LONGEST, RECORD
from kproxy.captures.spark.plan.edges import edges
from kproxy.captures.spark.plan.splits import plan
from tests.captures import files, traffic


def pcap(frames: list[bytes], order: str = "<") -> bytes:
    head = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    return head + b"".join(
        struct.pack(order + "IIII", 1_700_000_000 + i, i % 1_000_000, len(frame), len(frame)) + frame
        for i, frame in enumerate(frames)
    )


def pcapng(frames: list[bytes]) -> bytes:
    blocks = [files.enhanced(0, 1_700_000_000_000_000 + i, frame) for i, frame in enumerate(frames)]
    return b"".join([files.section(), files.interface(), *blocks])


def beginnings(data: bytes) -> set[int]:
    """Offsets of all records, found by the ordinary walk."""
    view = memoryview(data)
    walker = detect.walker(view, whole=True)
    assert walker is not None
    starts: set[int] = set()
    while True:
        before = walker.position
        if walker.walk(view, 1) is None:
            return starts
        starts |= {before, walker.position}


def found(data: bytes, at: list[int]) -> list[int]:
    view = memoryview(data)
    walker = detect.walker(view, whole=True)
    assert walker is not None
    return edges(view, walker, at)


def payloads(kind: str, rng: random.Random) -> list[bytes]:
    """Payloads of a kind that is hard to tell from records, more than two megabytes."""
    inner = {
        "pcap": pcap([rng.randbytes(rng.randrange(60, 1500)) for _ in range(300)]),
        "big-endian": pcap([rng.randbytes(rng.randrange(60, 1500)) for _ in range(300)], ">"),
        "pcapng": pcapng([rng.randbytes(rng.randrange(60, 1500)) for _ in range(300)]),
        "zeros": bytes(400_000),
        "random": rng.randbytes(400_000),
        "headers": struct.pack("<IIII", 1_700_000_000, 0, 0, 0) * 25_000,
    }[kind]
    frames: list[bytes] = []
    while sum(map(len, frames)) < 2_500_000:
        start = rng.randrange(len(inner)) & ~3
        size = rng.choice([0, 60, 1500, 9000, 65_000])
        frames.append(inner[start : start + size])
    return frames


@pytest.mark.parametrize("form", [pcap, pcapng])
@pytest.mark.parametrize("kind", ["pcap", "big-endian", "pcapng", "zeros", "random", "headers"])
def test_an_edge_is_where_a_record_begins(form: object, kind: str) -> None:
    assert callable(form)
    rng = random.Random(f"{kind}")
    data = form(payloads(kind, rng))
    true = beginnings(data)
    at = sorted(rng.randrange(len(data)) for _ in range(40))
    proven = found(data, at)
    assert set(proven) <= true
    assert len(proven) > 10


def test_the_first_record_behind_a_place_is_found_from_the_beginning() -> None:
    data = pcap([bytes(100)] * 50)
    assert found(data, [24, 25, 139, 141]) == [24, 140, 256]
    assert found(data, [len(data) - 1]) == []


def test_what_a_plan_cuts_is_everything_once(tmp_path: Path) -> None:
    data = pcap(payloads("pcap", random.Random(1)))
    (tmp_path / "a.pcap").write_bytes(data)
    splits = plan([tmp_path / "a.pcap"], 100_000).splits
    assert len(splits) > 15
    assert splits[0].start == 24
    assert splits[-1].end == len(data)
    assert all(one.end == other.start for one, other in pairwise(splits))


def test_records_of_any_length_that_a_reader_takes_have_edges() -> None:
    frames = [bytes(LONGEST), b"", bytes(LONGEST - RECORD), b"", b"x"] * 3
    data = pcap(frames)
    assert set(found(data, list(range(24, len(data), 50_021)))) <= beginnings(data)


def test_a_file_with_records_too_long_is_not_cut() -> None:
    data = bytearray(pcap([bytes(100)] * 50))
    struct.pack_into("<I", data, 16, 1 << 30)
    assert found(bytes(data), [200]) == []


@pytest.mark.parametrize("name", ["kafka-4.4.0-librdkafka", "kafka-0.8.2.2", "kafka-1.1.1"])
def test_real_captures(name: str) -> None:
    data = (traffic.DATA / "captures" / f"{name}.pcap").read_bytes()
    true = beginnings(data)
    for at in range(24, len(data), 997):
        assert found(data, [at]) == [min(one for one in true if one >= at)][: at <= max(true - {len(data)})]
