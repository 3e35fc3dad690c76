"""Log segments: recognition, their end, and withheld values. System tests read segments of real brokers."""

from __future__ import annotations

import io
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.opening import open_source
from kproxy.captures.segments import Segment, SegmentReader, StoredBatch, holds_segments, partition_files
from kproxy.captures.source import SpoolSource
from kproxy.captures.spool import Spooling
from kproxy.cli.main import main
from kproxy.decoders.problems import MOST
from kproxy.decoders.schema import definitions
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.captures import files, traffic
from tests.captures.memory import MemorySource
from tests.decoders.batches.support import batch, message, record

CONTROL = 0x20
"""The attribute of a control batch."""
NAME = "00000000000000000042.log"
MODERN = b"".join(
    batch(b"".join(record(i, b"key", b"%d" % (offset + i)) for i in range(3)), 3, offset=offset)
    for offset in (42, 45, 60)
)
LEGACY = b"".join(message(1, offset, None, b"value") for offset in range(5))
CREDENTIAL = definitions().record("__cluster_metadata", "metadata", 11, 0)
assert CREDENTIAL is not None
SECRET = b"\x01\x0b\x00" + write(
    CREDENTIAL,
    0,
    {"name": "ann", "mechanism": 1, "salt": b"s", "storedKey": b"stored", "serverKey": b"k", "iterations": 4096},
)
"""A record's value in the topic of cluster metadata."""


def stored(directory: Path, data: bytes, topic: str = "orders-7", name: str = NAME) -> Path:
    (directory / topic).mkdir(exist_ok=True)
    return files.write(directory / topic / name, data)


def read(*paths: Path) -> tuple[list[StoredBatch | Segment], str]:
    source = open_source(list(paths))
    assert holds_segments(source)
    reader = SegmentReader(source, View())
    return list(reader), str(reader.error or "")


def export(*arguments: object) -> tuple[list[dict[str, Any]], Result]:
    result = CliRunner().invoke(main, ["export", *map(str, arguments)])
    return [json.loads(line) for line in result.stdout.splitlines()], result


def test_where_its_batches_are(tmp_path: Path) -> None:
    items, error = read(stored(tmp_path, MODERN))
    assert not error
    *batches, end = items
    size = len(MODERN) // 3
    assert [item.position for item in batches if isinstance(item, StoredBatch)] == [0, size, 2 * size]
    assert isinstance(end, Segment)
    assert (end.topic, end.partition, end.batches, end.records, end.first, end.last) == ("orders", 7, 3, 9, 42, 62)
    assert (end.times, end.compression, end.tail) == ((1000, 2000), {"none": 3}, 0)


@pytest.mark.parametrize(
    ("directory", "topic", "partition"),
    [
        ("a.b_c-d-12", "a.b_c-d", 12),
        ("orders-3.0123456789abcdef0123456789abcdef-delete", "orders", 3),
        ("orders-3.0123456789abcdef0123456789abcdef-future", "orders", 3),
        ("orders", None, None),
        ("orders-x", None, None),
    ],
)
def test_the_directory_names_the_partition(
    directory: str, topic: str | None, partition: int | None, tmp_path: Path
) -> None:
    (*_, end), _ = read(stored(tmp_path, LEGACY, directory))
    assert isinstance(end, Segment)
    assert (end.topic, end.partition) == (topic, partition)


def test_a_relative_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stored(tmp_path, LEGACY).parent)
    (*_, end), _ = read(Path(NAME))
    assert isinstance(end, Segment)
    assert (end.topic, end.file) == ("orders", NAME)


@pytest.mark.parametrize("data", [MODERN, LEGACY])
def test_a_cut_tail_keeps_what_is_before(data: bytes, tmp_path: Path) -> None:
    whole, _ = read(stored(tmp_path, data))
    ends = [item.position + item.form["sizeInBytes"] for item in whole if isinstance(item, StoredBatch)]
    for length in range(1, len(data)):
        items, error = read(stored(tmp_path, data[:length]))
        kept = [end for end in ends if end <= length]
        *batches, end = items
        assert len(batches) == len(kept)
        assert isinstance(end, Segment)
        left = data[kept[-1] if kept else 0 : length]
        assert end.tail == (len(left) if any(left) else 0)
        assert bool(error) == bool(end.tail)


def test_zeros_written_in_advance_are_no_tail(tmp_path: Path) -> None:
    for zeros in (1, 16, 17, 3 << 20):
        (*_, end), error = read(stored(tmp_path, MODERN + bytes(zeros)))
        assert isinstance(end, Segment)
        assert (end.batches, end.tail, error) == (3, 0, "")
    (*_, end), error = read(stored(tmp_path, MODERN + bytes(3 << 20) + b"x"))
    assert isinstance(end, Segment)
    assert (end.batches, end.tail) == (3, (3 << 20) + 1)
    assert error


def test_an_empty_one(tmp_path: Path) -> None:
    (end,), error = read(stored(tmp_path, b""))
    assert isinstance(end, Segment)
    assert (end.batches, end.first, error) == (0, None, "")


def test_damage_is_named_where_it_is(tmp_path: Path) -> None:
    size = len(MODERN) // 3
    damaged = bytearray(MODERN)
    damaged[size + 70] ^= 1
    lines, result = export(stored(tmp_path, bytes(damaged)))
    assert [line["crcValid"] for line in lines[:3]] == [True, False, True]
    assert [(problem["code"], problem["offset"]) for problem in lines[1]["problems"]] == [("crc_mismatch", size)]
    assert result.exit_code == 0

    damaged = bytearray(MODERN)
    damaged[size + 16] = 9
    lines, result = export(stored(tmp_path, bytes(damaged)))
    assert [line["schema"] for line in lines] == ["kproxy.batch/1", "kproxy.segment/1"]
    assert lines[-1]["truncatedTail"] == 2 * size
    assert [problem["offset"] for problem in lines[-1]["problems"]] == [size]
    assert result.exit_code == 3
    assert f"byte {size}: no record batch has magic 9" in result.stderr


@pytest.mark.parametrize("data", [MODERN, LEGACY])
def test_content_tells_a_segment_without_its_name(data: bytes, tmp_path: Path) -> None:
    path = files.write(tmp_path / "copied", data)
    assert holds_segments(open_source(path))
    with path.open("rb") as stream:
        source = SpoolSource(stream, spooling=Spooling(tmp_path))
        assert holds_segments(source)
        batches = [item for item in SegmentReader(source, View()) if isinstance(item, StoredBatch)]
        assert len(batches) == (3 if data is MODERN else 5)
        source.close()


@pytest.mark.parametrize("content", [b"", b"text", bytes(100), traffic.KAFKA_1_1.read_bytes(), MODERN[:90]])
def test_what_is_none(content: bytes, tmp_path: Path) -> None:
    assert not holds_segments(open_source(files.write(tmp_path / "some.log", content)))


def test_a_capture_with_the_name_of_a_segment(tmp_path: Path) -> None:
    assert not holds_segments(open_source(files.write(tmp_path / NAME, traffic.KAFKA_1_1.read_bytes())))


def test_a_pipe_that_ends_early_is_no_segment(tmp_path: Path) -> None:
    ends = os.pipe()
    os.write(ends[1], MODERN[:20])
    os.close(ends[1])
    with os.fdopen(ends[0], "rb") as stream:
        source = SpoolSource(stream, spooling=Spooling(tmp_path))
        assert not holds_segments(source)
        source.close()


def test_a_directory_is_its_segments(tmp_path: Path) -> None:
    second = stored(tmp_path, batch(record(0, None, b"later"), 1, offset=100), name="00000000000000000100.log")
    first = stored(tmp_path, MODERN)
    for name in ("00000000000000000042.index", "leader-epoch-checkpoint", "server.log"):
        stored(tmp_path, b"something else", name=name)
    assert partition_files([first.parent]) == [first, second]
    lines, result = export(first.parent, "--format", "records")
    assert result.exit_code == 0
    assert [line["offset"] for line in lines] == [42, 43, 44, 45, 46, 47, 60, 61, 62, 100]
    assert {(line["topic"], line["partition"]) for line in lines} == {("orders", 7)}
    assert [line["position"] for line in lines[::3]] == [0, len(MODERN) // 3, 2 * len(MODERN) // 3, 0]


@pytest.mark.parametrize("directory", ["__cluster_metadata-0", "copied"])
def test_secrets_are_withheld_whatever_the_file_is_called(directory: str, tmp_path: Path) -> None:
    path = stored(tmp_path, batch(record(0, None, SECRET), 1), directory)
    for form in ("jsonl", "records"):
        _, result = export(path, "--format", form)
        assert result.exit_code == 0
        assert "UserScramCredentialRecord" in result.stdout
        assert "redacted" in result.stdout
        for secret in ("c3RvcmVk", 'stored"'):
            assert secret not in result.stdout
        assert "c3RvcmVk" in export(path, "--format", form, "--show-secrets")[1].stdout


@pytest.mark.parametrize("arguments", [["--format", "csv"], ["-Y", "api == Fetch"], ["-c", "1"], ["--port", "9092"]])
def test_options_that_mean_nothing_here(arguments: list[str], tmp_path: Path) -> None:
    assert export(stored(tmp_path, MODERN), *arguments)[1].exit_code == 2


def test_there_is_nothing_to_replay(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["replay", "--headless", str(stored(tmp_path, MODERN))])
    assert result.exit_code == 2
    assert "kproxy export" in result.stderr


def test_stats(tmp_path: Path) -> None:
    path = stored(tmp_path, MODERN)
    result = CliRunner().invoke(main, ["stats", str(path)])
    assert result.stdout.splitlines()[1].split()[:5] == ["orders", "7", "42-62", "3", "9"]
    (line,) = CliRunner().invoke(main, ["stats", "--json", str(path)]).stdout.splitlines()
    assert json.loads(line) == export(path)[0][-1]


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_any_bytes(noise: bytes, at: int, kind: int) -> None:
    """Every byte belongs to a batch, to zeros or to the tail, and reading never raises."""
    data = bytearray((MODERN, LEGACY, b"", zlib.compress(MODERN))[kind])
    data[at:at] = noise
    source = MemorySource(bytes(data))
    holds_segments(source)
    items = list(SegmentReader(source, View()))
    position = 0
    for item in items[:-1]:
        assert isinstance(item, StoredBatch)
        assert item.position == position
        position += item.form["sizeInBytes"]
    end = items[-1]
    assert isinstance(end, Segment)
    assert position + end.tail == len(data) or not any(data[position:])


def test_more_problems_than_are_kept(tmp_path: Path) -> None:
    count = MOST + 7
    control = batch(b"".join(record(i, None, b"") for i in range(count)), count, attributes=CONTROL)
    path = stored(tmp_path, control)
    (line, _), _ = export(path)
    assert len(line["problems"]) == MOST + 1
    assert line["problems"][-1]["message"] == "7 further problems are left out"
    lines, result = export(path, "--format", "records")
    assert len(lines) == count
    assert f"{count} problems" in result.stderr


def test_compressed(tmp_path: Path) -> None:
    import gzip

    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        file.write(MODERN)
    path = stored(tmp_path, out.getvalue(), name=NAME + ".gz")
    (*_, end), error = read(path)
    assert isinstance(end, Segment)
    assert (end.topic, end.batches, error) == ("orders", 3, "")
