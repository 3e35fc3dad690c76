"""Stages after the first read only the bytes that they need, by address, and find out if a file was changed."""

from __future__ import annotations

import errno
import gzip
import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kproxy.captures.errors import CaptureError
from kproxy.captures.spark import local
from kproxy.captures.spark.plan import files as spark_files
from kproxy.captures.spark.plan.files import PAGE, Blocks
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read import addressed, parcels
from kproxy.captures.spark.read.addressed import ByAddress
from kproxy.captures.spark.read.by_flow import Flows
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.spark.read.pieces import heads
from kproxy.captures.tables.schema import USUAL
from kproxy.captures.tcp.packets import ACK, PSH, Packets
from kproxy.captures.tcp.shares import Share
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported
from tests.support.multiply import deal, interleave, lengthen
from tests.support.objects import Objects, as_somebody, serving

Make = Callable[[Path, int, Path], None]
MOST = 1.3
"""Bytes that stages 2 and 3 may read together, as a multiple of the capture's."""
each = pytest.mark.parametrize("make", [lengthen, interleave], ids=["one connection", "interleaved connections"])


@pytest.fixture
def objects() -> Iterator[Objects]:
    with as_somebody(), serving() as server:
        yield server


@each
def test_bytes_that_are_read_by_address(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture, sizes = tmp_path / "a.pcap", []
    make(traffic.BENCH, 3, capture)
    read = ByAddress.read

    def noted(self: ByAddress, start: int, end: int) -> Any:
        found = read(self, start, end)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(ByAddress, "read", noted)
    tables = local.tables([capture], Options(USUAL), size=4 << 20)
    assert len(tables["exchanges"]) > 3000
    assert sum(sizes) < MOST * capture.stat().st_size


@each
def test_bytes_that_are_read_from_a_url(make: Make, objects: Objects, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    make(traffic.BENCH, 3, capture)
    size = capture.stat().st_size
    objects.held["bucket/a.pcap"] = capture.read_bytes()
    url = f"s3://bucket/a.pcap{objects.options}"
    planned = plan([url], 4 << 20)
    sent = [batch for split in planned.splits for batch in parcels.read(split)]
    assert sum(batch.nbytes for batch in sent) < 0.03 * size
    objects.ranges.clear()
    tables = local.of_plan(planned, Options(USUAL), size=4 << 20)
    read = sum(last + 1 - first for _, first, last in objects.ranges)
    assert len(tables["exchanges"]) > 3000
    assert read < (1 + MOST) * size, "stage 1 reads all bytes once"
    assert len(objects.ranges) < 100


@each
def test_next_to_nothing_goes_from_splits_to_flows(make: Make, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    make(traffic.BENCH, 3, capture)
    planned = plan([capture], 4 << 20)
    sent = sum(batch.nbytes for split in planned.splits for batch in parcels.read(split))
    assert sent < 0.015 * capture.stat().st_size


def removed(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:24] + bytes(len(data) - 24))
    os.utime(path, ns=(1, 1))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def compressed(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes()))


def after_stage_1(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Let a change happen when all splits have been read."""
    ordered = local.ordered

    def changing(*given: Any, **more: Any) -> Any:
        found = ordered(*given, **more)
        change()
        return found

    monkeypatch.setattr(local, "ordered", changing)


@pytest.mark.parametrize("change", [removed, replaced, cut, compressed])
def test_a_file_that_changes_between_stages(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(traffic.LIBRDKAFKA.read_bytes())
    after_stage_1(monkeypatch, lambda: change(path))
    with pytest.raises(CaptureError, match=r"was changed while it was read|No such file or directory") as raised:
        local.tables([path], Options(USUAL), size=1 << 16)
    assert str(raised.value.path) == str(path)


@pytest.mark.parametrize("other", [None, b"other bytes"])
def test_an_object_that_changes_between_stages(
    other: bytes | None, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.held["bucket/a.pcap"] = traffic.LIBRDKAFKA.read_bytes()

    def change() -> None:
        del objects.held["bucket/a.pcap"]
        if other is not None:
            objects.held["bucket/a.pcap"] = other

    after_stage_1(monkeypatch, change)
    with pytest.raises(CaptureError, match=r"was changed while it was read|No such file or directory") as raised:
        local.tables([f"s3://bucket/a.pcap{objects.options}"], Options(USUAL), size=1 << 16)
    assert str(raised.value.path) == "s3://bucket/a.pcap"


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, taken = tmp_path / "a.pcap", traffic.packets(traffic.LIBRDKAFKA)
    whole = files.pcap(taken)
    path.write_bytes(files.pcap(taken[:300]))
    expected = exported([path])
    after_stage_1(monkeypatch, lambda: (path.write_bytes(whole), None)[1])
    tables = local.tables([path], Options(tuple(TABLES)), size=1 << 14)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, expected)


def test_files_that_can_be_read_by_address_and_files_that_cannot(tmp_path: Path) -> None:
    """Exchanges across the border of both have their bytes in either."""
    taken = traffic.packets(traffic.LIBRDKAFKA)
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap.gz", tmp_path / "c.pcap"]
    parts = (taken[:201], taken[201:402], taken[402:])
    for path, some in zip(paths, parts, strict=True):
        data = files.pcap(some)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    tables = local.tables(paths, Options(tuple(TABLES)), size=1 << 14)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, exported(paths))


def of_brokers(folder: Path) -> list[Path]:
    """Captures that overlap in time."""
    paths = [folder / f"broker{number}.pcap" for number in range(3)]
    deal(traffic.BENCH, 1, paths)
    return paths


def of_one(folder: Path) -> list[Path]:
    lengthen(traffic.BENCH, 3, folder / "a.pcap")
    return [folder / "a.pcap"]


@pytest.mark.parametrize("made", [of_one, of_brokers], ids=["one connection", "overlapping captures"])
def test_tasks_map_only_what_they_read(
    made: Callable[[Path], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, size, window = made(tmp_path), 1 << 19, 1 << 16
    monkeypatch.setattr(addressed, "WINDOW", window)
    monkeypatch.setattr(addressed, "WINDOWS", 2)
    planned = plan(paths, size)
    lengths, map_ = [], spark_files._mapped

    def noted(*given: Any) -> Any:
        found = map_(*given)
        lengths.append(0 if found is None else len(found[0]))
        return found

    monkeypatch.setattr(spark_files, "_mapped", noted)
    tables = local.of_plan(planned, Options(tuple(TABLES)), size=size)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, exported(paths))
    assert lengths.count(window) > 10
    assert max(lengths) < 3 * size < max(path.stat().st_size for path in paths)


def test_no_room_for_a_mapped_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    planned = plan([traffic.LIBRDKAFKA], 1 << 16)
    monkeypatch.setattr(spark_files, "_mapped", full)
    with pytest.raises(CaptureError, match="cannot be mapped into memory: Cannot allocate memory"):
        local.of_plan(planned, Options(USUAL), size=1 << 16)


def test_heads_of_frames() -> None:
    """A large request in two segments, two small frames in one, a response that teaches, and a segment that is lost."""
    large = struct.pack(">ihhi", 300, 0, 9, 1) + bytes(292)
    small = struct.pack(">ihhi", 10, 10, 0, 2) + bytes(2)
    asked, answer = struct.pack(">ihhi", 8, 3, 0, 77), struct.pack(">ii", 200, 77) + bytes(196)
    sent = [
        (0, large[:100], 0), (0, large[100:] + small + asked, PSH), (1, answer[:120], 0),
        (1, answer[120:], PSH), (0, bytes(50), 0), (0, large, PSH),
    ]  # fmt: skip
    lost = 4
    data = b"".join(payload for _, payload, _ in sent)
    seqs, rows, at = [1000, 5000], [], 0
    for number, (side, payload, flags) in enumerate(sent):
        if number != lost:
            rows.append((side, seqs[side], flags | ACK, at, len(payload)))
        seqs[side] += len(payload)
        at += len(payload)
    direction, seq, flag, address, stored = np.array(rows).T
    none = np.zeros(len(rows), np.int64)
    packets = Packets([b"ab", b"ba"], direction, none, seq, none, flag, address, stored, stored)
    share = Share(packets, none, none, none, 0, 0)
    flows = Flows([7], np.array([0, len(rows)]), np.array([0, 2]), share, none, address)
    found = heads(flows, Mapped(data))
    # 96 bytes of a request, whether or not they are of its segment, and all bytes of the response
    expected = [(0, 96), (304, 96), (318, 96), (330, 120), (450, 84), (584, 96)]
    assert list(zip(*(column.tolist() for column in found.columns), strict=True)) == expected
    assert found.starts.tolist() == [0, len(expected)]


class Mapped:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]


def test_blocks_are_fetched_together_and_few_are_kept(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_files, "KEPT", 20)
    monkeypatch.setattr(spark_files, "AT_ONCE", 30)
    data = random.Random(1).randbytes(60 * PAGE - 7)
    objects.held["bucket/a"] = data
    url, blocks = f"s3://bucket/a{objects.options}", Blocks()
    blocks.need(url, [(19 * PAGE, 19 * PAGE + 1), (6 * PAGE + 5, 6 * PAGE + 9), (PAGE, PAGE + 2)])
    assert [(first // PAGE, last // PAGE) for _, first, last in objects.ranges] == [(1, 6), (19, 19)]
    assert blocks.read(url, 2 * PAGE - 3, 3 * PAGE + 3) == data[2 * PAGE - 3 : 3 * PAGE + 3]
    assert len(objects.ranges) == 2
    objects.ranges.clear()
    blocks.need(url, [(20 * PAGE, 60 * PAGE)])
    assert len(objects.ranges) == 2
    for at in range(0, len(data), PAGE):
        assert blocks.read(url, at + 7, at + 10) == data[at + 7 : at + 10]
        assert blocks.kept <= 60
    assert blocks.kept <= 20
    assert blocks.read(url, len(data) - 2, len(data) + 5) == data[-2:]
    assert blocks.read(url, 5, 5) == b""
