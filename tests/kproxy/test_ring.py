"""A recording in several files: how they follow each other, are compressed, and are read while that happens."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.captures import packed
from kproxy.captures.errors import CaptureError
from kproxy.captures.reader import Reader, read
from kproxy.captures.ring import number_of
from kproxy.captures.source import RingSource
from kproxy.decoders.exchange import Exchange, Health
from kproxy.recording.compressing import Compressor, compress
from kproxy.recording.recorder import Flow, Recorder, SelectedFlow
from kproxy.recording.sinks import Ring, pcapng_header
from tests.kproxy.core.frames import request, response
from tests.kproxy.support import places

HEADER = pcapng_header("127.0.0.1:19092")
CLIENT, BROKER = ("10.0.0.1", 51234), ("10.0.0.2", 9092)
SEGMENT = 100_000


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    places(monkeypatch, tmp_path_factory.mktemp("home"))


class Recording:
    """A ring with one connection; an exchange of 5 kB at a time."""

    def __init__(
        self,
        directory: Path,
        keep: int = 4,
        closed: Callable[[Path], None] | None = None,
        seconds: float | None = None,
    ) -> None:
        ring = Ring(directory, HEADER, SEGMENT, keep, seconds=seconds, closed=closed)
        self.recorder = Recorder(ring, lambda *_: None, pytest.fail, threaded=False)
        self.flow: Flow | SelectedFlow = self.recorder.connection(CLIENT, BROKER)
        self.number = 0

    def exchanges(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.flow.data(0, request(12, 0, self.number, os.urandom(2_500) + bytes(2_500)))
            self.flow.data(1, response(12, 0, self.number, {}))
            self.recorder.flush()

    def close(self) -> None:
        self.flow.end(0)
        self.flow.end(1)
        self.recorder.close()


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if number_of(path.name))


def ids(reader: Reader) -> list[int | None]:
    try:
        return [item.correlation_id for item in reader if isinstance(item, Exchange)]
    finally:
        reader.close()


def test_names_tell_the_order_and_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_795_286_198.7)
    recording = Recording(tmp_path)
    recording.exchanges(30)
    recording.close()
    assert segments(tmp_path) == [f"seg-0000000{number}-20261121T183638Z.pcapng" for number in (1, 2)]


def test_a_file_of_a_certain_age_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "time", lambda: 3_000_000.0 - now)  # somebody sets the clock back
    recording = Recording(tmp_path, seconds=60)
    for now in (1_000_000.0, 1_000_059.0, 1_000_060.0, 1_000_119.0, 1_000_120.0):  # noqa: B007 (the clock reads it)
        recording.exchanges(1)
    recording.close()
    assert len(segments(tmp_path)) == 3


def test_every_file_counts_its_own_drops(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    dropped = []
    for part in range(3):
        recording.recorder.counters.dropped += part
        recording.exchanges(18)
    recording.close()
    for name in segments(tmp_path):
        (health,) = (item for item in read(tmp_path / name) if isinstance(item, Health))
        dropped.append(health.recorder_dropped)
    assert len(dropped) == 3
    assert sum(dropped) == 3
    (health,) = (item for item in read(tmp_path) if isinstance(item, Health))
    assert health.recorder_dropped == 3


def test_a_ring_goes_on_where_an_earlier_run_left_it(tmp_path: Path) -> None:
    first = Recording(tmp_path, closed=compress)
    first.exchanges(40)
    first.close()
    size = RingSource(tmp_path).size
    (tmp_path / "seg-00000003-20261121T183638Z.pcapng.zst.new").write_bytes(b"left by a killed process")
    second = Recording(tmp_path, closed=compress)
    second.exchanges(1)
    reader = read(tmp_path, follow=True)
    assert [part.path.name[:12] for part in reader.source.parts] == ["seg-00000004"], "a follower sees its own run"
    assert reader.source.parts[0].base == size
    reader.close()
    second.exchanges(30)
    second.close()
    assert [name[:12] for name in segments(tmp_path)] == [f"seg-0000000{number}" for number in (2, 3, 4, 5)]
    assert not list(tmp_path.glob("*.new"))
    assert ids(read(tmp_path))[-31:] == list(range(1, 32))


def test_two_processes_do_not_write_one_ring(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    with pytest.raises(FileExistsError, match="another kproxy records there"):
        Ring(tmp_path, HEADER, SEGMENT, 4)
    recording.close()
    Ring(tmp_path, HEADER, SEGMENT, 4).close()


def test_compressed_files_are_read_again(tmp_path: Path) -> None:
    recording = Recording(tmp_path, keep=10, closed=compress)
    recording.exchanges(120)
    recording.close()
    assert len(segments(tmp_path)) > packed.MOST_OPEN + 1
    assert all(name.endswith(".pcapng.zst") for name in segments(tmp_path))
    reader = read(tmp_path)
    found = [item for item in reader if isinstance(item, Exchange)]
    assert [one.correlation_id for one in found] == list(range(1, 121))
    for one in (found[0], found[-1], found[60]):
        assert one.request is not None
        head = request(12, 0, one.correlation_id or 0)[4:]
        assert bytes(one.request.data(reader.source))[4:].startswith(head)
    reader.close()


def test_a_follower_reads_on_while_files_are_compressed(tmp_path: Path) -> None:
    """What it has seen it can still open, from whichever file holds it now."""
    recording = Recording(tmp_path, keep=10)
    recording.exchanges(1)
    reader = read(tmp_path, follow=True)
    found: list[Exchange] = []
    for _ in range(60):
        recording.exchanges(1)
        done = [tmp_path / name for name in segments(tmp_path) if name.endswith(".pcapng")][:-1]
        for path in done:
            compress(path)
        while True:
            found += (item for item in reader.poll() if isinstance(item, Exchange))
            if reader.idle:
                break
    recording.close()
    found += (item for item in reader.finish() if isinstance(item, Exchange))
    assert [one.correlation_id for one in found] == list(range(1, 62))
    assert [part.packed for part in reader.source.parts][:2] == [True, True]
    for one in found:
        assert one.request is not None
        assert len(one.request.data(reader.source)) == one.request.size + 4
    reader.close()


def test_a_follower_that_comes_late_opens_what_is_compressed(tmp_path: Path) -> None:
    recording = Recording(tmp_path, closed=compress)
    recording.exchanges(40)
    reader = read(tmp_path, follow=True)
    found = 0
    while not reader.idle:
        found += sum(isinstance(item, Exchange) for item in reader.poll())
    assert found == 40
    reader.close()
    recording.close()


def test_a_damaged_compressed_file_is_told_and_the_rest_read(tmp_path: Path) -> None:
    recording = Recording(tmp_path, closed=compress)
    recording.exchanges(50)
    recording.close()
    victim = tmp_path / segments(tmp_path)[1]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(data)
    reader = read(tmp_path)
    found = []
    with pytest.raises(CaptureError, match="cannot be decompressed"):
        found += list(reader)
    assert reader.health.packets > 60
    reader.close()


@pytest.mark.parametrize("content", [b"", b"no zstd", b"\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00"])
def test_a_file_that_only_looks_compressed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "seg-00000001-20261121T183638Z.pcapng.zst").write_bytes(content)
    with pytest.raises(CaptureError, match="zstd"):
        read(tmp_path)


def test_the_process_compresses_what_it_is_told_and_skips_the_rest(tmp_path: Path) -> None:
    compressor = Compressor()
    recording = Recording(tmp_path, keep=10, closed=compressor)
    compressor(tmp_path / "not there")
    recording.exchanges(60)
    recording.close()
    compressor.close()
    compressor.wait(60)
    assert all(name.endswith(".zst") for name in segments(tmp_path))
    assert ids(read(tmp_path)) == list(range(1, 61))


def test_a_compressor_that_is_gone_hinders_nobody(tmp_path: Path) -> None:
    compressor = Compressor()
    compressor.close()
    compressor.wait(60)
    recording = Recording(tmp_path, closed=compressor)
    recording.exchanges(60)
    recording.close()
    assert len(ids(read(tmp_path))) >= 45


def test_a_file_that_the_ring_has_removed_is_not_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seg-00000001-20261121T183638Z.pcapng"
    path.write_bytes(bytes(1000))
    real = os.fstat

    def removed(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "fstat", removed)
    with pytest.raises(FileNotFoundError):
        compress(path)
    assert list(tmp_path.iterdir()) == []


def test_ring_json_says_where_what_is_left_begins(tmp_path: Path) -> None:
    recording = Recording(tmp_path, keep=2)
    recording.exchanges(100)
    recording.close()
    held = json.loads((tmp_path / "ring.json").read_bytes())
    assert held["began"] == 1
    assert list(held["bases"]) == segments(tmp_path)
    source = RingSource(tmp_path)
    assert [part.base for part in source.parts] == list(held["bases"].values())
    assert source.parts[0].base > 0
    source.close()


def held_open(directory: Path) -> int:
    """How many deleted segments this process maps."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return len({line.split()[5] for line in maps if str(directory) in line and line.endswith("(deleted)")})


def test_a_reader_that_fell_behind_lets_go_of_what_was_deleted(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.exchanges(50)
    reader = read(tmp_path, follow=True)
    reader._batch_limit = reader._batch = 2
    reader.poll()
    assert not held_open(tmp_path)
    recording.exchanges(100)
    assert held_open(tmp_path) == 3, "all that it had found"
    reader.poll()
    assert not held_open(tmp_path)
    recording.flow = recording.recorder.connection(("10.0.0.1", 51235), BROKER)
    recording.exchanges(1)
    recording.close()
    found = []
    while not reader.idle:
        found += [item.correlation_id for item in reader.poll() if isinstance(item, Exchange)]
    assert found[-1] == 151, "it goes on with what is there"
    reader.close()


@pytest.mark.parametrize("keep", [2, 4])
def test_deleted_segments_that_a_stopped_reader_holds_count_as_space_in_use(tmp_path: Path, keep: int) -> None:
    recording = Recording(tmp_path, keep=keep)
    recording.exchanges(20 * keep)
    stopped = RingSource(tmp_path)
    assert len(stopped.parts) == keep
    for _ in range(4 * keep):
        recording.exchanges(10)
        assert held_open(tmp_path) + len(segments(tmp_path)) <= keep + 1
    stopped.drop_deleted()
    assert not held_open(tmp_path)
    recording.exchanges(20 * keep)
    assert len(segments(tmp_path)) == keep, "the ring is as long as before"
    recording.close()
    stopped.close()


def test_a_ring_goes_on_with_a_new_segment_once_a_full_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.recording.writing.RETRY_SECONDS", 0)
    recording = Recording(tmp_path)
    failed: list[str] = []
    recording.recorder._writer._on_failure = failed.append
    real = os.writev

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    recording.exchanges(10)
    monkeypatch.setattr(os, "writev", full)
    recording.exchanges(30)
    assert failed == ["No space left on device"]
    monkeypatch.setattr(os, "writev", real)
    recording.flow = recording.recorder.connection(("10.0.0.1", 51235), BROKER)
    recording.exchanges(30)
    recording.close()
    assert recording.recorder.counters.failed is None
    (health,) = (item for item in read(tmp_path) if isinstance(item, Health))
    assert health.recorder_dropped == recording.recorder.counters.dropped == 60
    assert ids(read(tmp_path)) == [*range(1, 11), *range(41, 71)]
