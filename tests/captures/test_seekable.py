"""Seekable zstd read in place: files of another implementation, any division into frames, damage."""

from __future__ import annotations

import json
import os
import random
import struct
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures import seekable, spool
from kproxy.captures.compression import CompressionError
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.opening import open_source
from kproxy.captures.reader import read
from kproxy.captures.seekable import FOOTER, HEADER, MAGIC, SKIPPED, Frames, frames
from kproxy.captures.source import SeekableSource
from kproxy.captures.spool import Spooling
from kproxy.cli.main import main
from tests.captures import traffic

DATA = traffic.KAFKA_1_1.read_bytes()
PYZSTD = traffic.KAFKA_1_1.with_name("kafka-1.1.1.seekable.pcap.zst")
"""The same capture in frames of 40,000 bytes, written by pyzstd's SeekableZstdFile."""


NO_HOSTS = ("exchange", "api", "api_version", "correlation_id", "status", "latency_ms", "error_codes", "packets")
"""Members of exchange lines that do not contain hosts."""


def packed(data: bytes, cuts: list[int], *, checksums: bool = False) -> bytes:
    """A seekable file whose frames end at the offsets in `cuts`, and at the end."""
    made, entries = b"", b""
    for start, end in pairwise([0, *cuts, len(data)]):
        frame = zstandard.ZstdCompressor().compress(data[start:end])
        made += frame
        entries += struct.pack("<II", len(frame), end - start) + (b"\0\0\0\0" if checksums else b"")
    table = entries + FOOTER.pack(len(cuts) + 1, 0x80 if checksums else 0, MAGIC)
    return made + HEADER.pack(SKIPPED, len(table)) + table


def opened(path: Path) -> Frames:
    found = frames(os.open(path, os.O_RDONLY))
    assert found is not None
    return found


def closed(found: Frames) -> None:
    os.close(found.descriptor)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6), st.booleans(), st.data())
def test_any_range_of_any_frames(data: bytes, cuts: list[int], checksums: bool, draw: st.DataObject) -> None:
    made = packed(data, sorted(min(cut, len(data)) for cut in cuts), checksums=checksums)
    descriptor = os.memfd_create("seekable")
    os.write(descriptor, made)
    found = frames(descriptor)
    assert found is not None
    start, end = draw.draw(st.tuples(st.integers(0, 310), st.integers(0, 310)))
    assert found.size == len(data)
    assert found.read(start, end) == data[start:end]
    assert b"".join(found.pieces()) == data
    os.close(descriptor)


@given(st.binary(max_size=80), st.booleans())
def test_any_other_file_is_none(data: bytes, marked: bool) -> None:
    descriptor = os.memfd_create("other")
    os.write(descriptor, data + (struct.pack("<I", MAGIC) if marked else b""))
    assert frames(descriptor) is None
    os.close(descriptor)


@given(st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4))
def test_damage_does_no_more_than_end_the_reading(changes: list[tuple[int, bytes]]) -> None:
    data = random.Random(1).randbytes(400)
    made = bytearray(packed(data, [100, 250]))
    for place, new in changes:
        at = place % len(made)
        made[at : at + len(new)] = new
    descriptor = os.memfd_create("damaged")
    os.write(descriptor, made)
    found = frames(descriptor)
    if found is not None:
        assert len(found.read(0, 1 << 30)) <= found.size
        with suppress(CompressionError):
            assert len(b"".join(found.pieces())) == found.size
    os.close(descriptor)


def test_what_a_table_may_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seekable.zst"
    whole = packed(DATA, [100_000])
    for changed in (
        whole[:-1],
        b"x" + whole,
        whole[: -FOOTER.size] + FOOTER.pack(3, 0, MAGIC),
        whole[: -FOOTER.size] + FOOTER.pack(2, 4, MAGIC),
        whole[: -FOOTER.size] + FOOTER.pack(0xFFFFFFFF, 0, MAGIC),
        whole[: -FOOTER.size] + FOOTER.pack(0, 0, MAGIC),
    ):
        path.write_bytes(changed)
        with path.open("rb") as file:
            assert frames(file.fileno()) is None
    path.write_bytes(whole)
    monkeypatch.setattr(seekable, "LARGEST_FRAME", 100_000 - 1)
    with path.open("rb") as file:
        assert frames(file.fileno()) is None, "frames of which each would take much memory"


def test_a_capture_that_pyzstd_packed_is_read_in_place(tmp_path: Path) -> None:
    reader = read(PYZSTD, spooling=Spooling(tmp_path / "spool"))
    assert isinstance(reader.source, SeekableSource)
    assert traffic.lines(reader) == traffic.exported(traffic.KAFKA_1_1)
    assert reader.source.read(0, 1 << 30) == DATA
    reader.close()
    assert not [path for path in (tmp_path / "spool").rglob("*") if path.is_file()]


def test_what_was_viewed_is_given_back_and_still_read(tmp_path: Path) -> None:
    """This holds however small the spool may be."""
    body = random.Random(7).randbytes(1 << 20)
    data = b"".join(bytes([number]) + body for number in range(40))
    path = tmp_path / "large.zst"
    path.write_bytes(packed(data, list(range(9 << 20, len(data), 9 << 20))))
    source = open_source(path, spooling=Spooling(tmp_path / "spool", most=8 << 20))
    most = 0
    while source.grow(wait=True):
        source.done_with(source.size)
        (spooled,) = (tmp_path / "spool").glob("*.spool")
        most = max(most, spooled.stat().st_blocks * 512)
    assert source.size == len(data)
    assert most <= 8 << 20
    for at in (0, 17, 5 << 20, len(data) - 100):
        assert source.read(at, at + 3_000_000) == data[at : at + 3_000_000]
    source.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_another_process_sees_what_was_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked processes read bytes that the viewing process has released."""
    monkeypatch.setattr(spool, "STEP", 1)
    monkeypatch.setattr("kproxy.captures.source.REMEMBERED", 0)
    path = tmp_path / "capture.zst"
    path.write_bytes(packed(DATA, [50_000, 100_000]))
    source = open_source(path, spooling=Spooling(tmp_path / "spool"))
    assert isinstance(source, SeekableSource)
    while source.grow(wait=True):
        pass
    waiting, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(waiting, 1)
        os._exit(0 if source.read(0, len(DATA)) == DATA else 1)
    source.done_with(len(DATA))
    assert bytes(source.parts[0].view[:100]) == bytes(100)
    os.write(go, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.read(0, len(DATA)) == DATA
    os.close(waiting)
    os.close(go)
    source.close()


def test_what_is_read_twice_is_there_the_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All hosts are learnt in a first reading, before any output is written."""
    monkeypatch.setattr(spool, "STEP", 1)
    monkeypatch.setattr("kproxy.captures.source.REMEMBERED", 0)
    monkeypatch.setattr("kproxy.captures.source.FIRST_STEP", 1)
    lines = []
    for capture in (PYZSTD, traffic.KAFKA_1_1):
        result = CliRunner().invoke(main, ["export", str(capture), "--redact", "hosts", "--spool-dir", str(tmp_path)])
        assert result.exit_code == 0, result.stderr
        lines.append([json.loads(line) for line in result.stdout.splitlines()])
    seekable_lines, plain_lines = lines
    for one, other in zip(seekable_lines, plain_lines, strict=True):
        assert [one.get(name) for name in NO_HOSTS] == [other.get(name) for name in NO_HOSTS]
    assert len(plain_lines) > 100


def test_damage_ends_the_reading_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap.zst"
    whole = bytearray(packed(DATA, [100_000, 150_000]))
    path.write_bytes(whole)
    found = opened(path)
    at = found.starts[1]
    closed(found)
    whole[at + 20 : at + 400] = bytes(380)
    path.write_bytes(whole)
    reader = read(path, spooling=Spooling(tmp_path / "spool"))
    items = [item for batch in reader.batches() for item in batch]
    assert items
    assert reader.error is not None
    assert "damaged" in reader.error.message
    assert bytes(reader.source.read(99_000, 120_000)) == DATA[99_000:100_000]
    assert bytes(reader.source.read(149_000, 160_000)) == b""
    assert bytes(reader.source.read(150_000, 160_000)) == DATA[150_000:160_000], "what is beyond the damage"
    reader.close()


def test_a_frame_that_holds_more_than_it_says(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    frame = zstandard.ZstdCompressor().compress(bytes(1 << 24))
    table = struct.pack("<II", len(frame), 10) + FOOTER.pack(1, 0, MAGIC)
    path.write_bytes(frame + HEADER.pack(SKIPPED, len(table)) + table)
    found = opened(path)
    assert found.read(0, 10) == b""
    closed(found)


def test_its_index_is_kept_and_says_where_the_bytes_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "capture.pcap.zst"
    path.write_bytes(packed(DATA, list(range(10_000, len(DATA), 10_000))))
    run([path], tmp_path / "index", keep=True)
    assert list((tmp_path / "cache" / "kproxy" / "indexes").iterdir())
    assert not [one for one in (tmp_path / "cache" / "kproxy" / "spool").rglob("*") if one.is_file()]
    with IndexReader(tmp_path / "index") as index:
        assert index.meta["bytes_total"] == index.meta["bytes_read"] == len(DATA)
        source, plain = open_source(index.meta["sources"], ordered=True), open_source(traffic.KAFKA_1_1)
        for row in index.rows(0, index.count):
            frame = index.detail(row).request
            if frame is not None:
                assert bytes(frame.data(source)) == bytes(frame.data(plain)) != b""
        source.close()


def test_frames_without_a_table_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap.zst"
    path.write_bytes(zstandard.compress(DATA[:100_000]) + zstandard.compress(DATA[100_000:]))
    source = open_source(path, spooling=Spooling(tmp_path / "spool"))
    assert not isinstance(source, SeekableSource)
    assert source.parts[0].spool is not None
    source.close()
