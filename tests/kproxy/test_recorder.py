"""The recorder without sockets: what it writes, what it drops, how it fails."""

from __future__ import annotations

import errno
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.export.oneline import OneLine
from kproxy.captures.formats.pcapng_writer import MAX_PAYLOAD
from kproxy.captures.reader import read
from kproxy.core.commands import Changed
from kproxy.core.rewrite import Change
from kproxy.decoders.exchange import Exchange, Health
from kproxy.recording import recorder as recording
from kproxy.recording.recorder import Recorder
from kproxy.recording.sinks import UNBOUNDED, Batch, Buffers, File, Ring, pcapng_header
from tests.kproxy.core.frames import request, response

CLIENT, BROKER = ("10.0.0.1", 51234), ("10.0.0.2", 9092)
HEADER = pcapng_header("127.0.0.1:19092")


class Schedule:
    """Timers that go off when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, seconds: float, callback: Callable[[], None]) -> Any:
        assert seconds <= 0.05
        self.waiting.append(callback)
        return callback

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


def fail(why: str) -> None:
    raise AssertionError(why)


def recorder(sink: Any, schedule: Schedule | None = None, *, threaded: bool = False) -> Recorder:
    return Recorder(sink, schedule or Schedule(), fail, threaded=threaded)


def items(path: Path) -> tuple[list[Exchange], Health]:
    reader = read(path)
    try:
        found = list(reader)
    finally:
        reader.close()
    assert isinstance(found[-1], Health)
    return [item for item in found if isinstance(item, Exchange)], found[-1]


@pytest.mark.parametrize("threaded", [True, False])
def test_what_is_recorded_is_read_again(tmp_path: Path, threaded: bool) -> None:
    path = tmp_path / "r.pcapng"
    recorder_ = recorder(File(path, HEADER), threaded=threaded)
    for number, (client, broker) in enumerate([(CLIENT, BROKER), (("::1", 7), ("fe80::2%eth0", 9092))]):
        flow = recorder_.connection(client, broker)
        for size in (0, 1, 100, MAX_PAYLOAD, MAX_PAYLOAD * 3 + 7):
            flow.data(0, request(12, 0, size, bytes(size)))
            flow.data(1, response(12, 0, size, {}), "a comment — with ünicode" if not number else None)
        flow.end(0)
        flow.end(1)
    recorder_.connection(CLIENT, BROKER, accepted=False)
    recorder_.close()
    exchanges, health = items(path)
    assert len(exchanges) == 10
    assert (health.gaps, health.lost, health.cut, health.recorder_dropped) == (0, 0, 0, 0)
    assert [len(one.response.comments) for one in exchanges if one.response] == [1] * 5 + [0] * 5
    assert exchanges[9].connection.client == "[::1]:7"


@pytest.mark.timeout(60)
def test_pipes_and_devices_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o640)
    terminals = os.openpty()
    try:
        for path in (pipe, Path(os.ttyname(terminals[1]))):
            mode = path.stat().st_mode
            with pytest.raises(OSError, match="a pipe or a device"):
                File(path, HEADER)  # opening a pipe that nobody reads would wait for ever
            assert path.stat().st_mode == mode
    finally:
        for one in terminals:
            os.close(one)


def test_a_disk_without_room_for_the_beginning_gets_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _buffers: Buffers) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("kproxy.recording.sinks.os.writev", full)
    with pytest.raises(OSError, match="No space left on device"):
        File(tmp_path / "r.pcapng", HEADER)
    assert not list(tmp_path.iterdir())


def test_one_line_says_that_an_answer_was_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    recorder_ = recorder(File(path, HEADER))
    flow = recorder_.connection(CLIENT, BROKER)
    for number, comment in enumerate((None, Changed(0, 0, (Change("port", 9092, 19093),)).comment, "a user's")):
        flow.data(0, request(12, 0, number))
        flow.data(1, response(12, 0, number, {}), comment)
    recorder_.close()
    reader = read(path)
    line = OneLine(reader).line
    lines = [line(item) for item in reader if isinstance(item, Exchange)]
    reader.close()
    assert ["(rewritten)" in text for text in lines] == [False, True, False], lines


def test_a_client_by_ipv6_and_a_broker_by_ipv4_are_both_named(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    recorder_ = recorder(File(path, HEADER))
    flow = recorder_.connection(("::1", 7), BROKER)
    flow.data(0, request(12, 0, 1))
    flow.data(1, response(12, 0, 1, {}))
    recorder_.close()
    (exchange,), _ = items(path)
    assert (exchange.connection.client, exchange.connection.broker) == ("[::1]:7", "10.0.0.2:9092")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 200_000), st.booleans()), max_size=12))
def test_any_sizes_make_continuous_streams(tmp_path_factory: pytest.TempPathFactory, pieces: Any) -> None:
    path = tmp_path_factory.mktemp("r") / "r.pcapng"
    recorder_ = recorder(File(path, HEADER))
    flow = recorder_.connection(CLIENT, BROKER)
    sent = [0, 0]
    for side, size, commented in pieces:
        flow.data(side, bytes(size), "x" * 70_000 if commented else None)
        sent[side] += size
    flow.reset(1)
    recorder_.close()
    _, health = items(path)
    assert (health.gaps, health.lost) == (0, 0)


def test_packets_wait_for_the_timer_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    schedule = Schedule()
    recorder_ = recorder(File(path, HEADER), schedule)
    flow = recorder_.connection(CLIENT, BROKER)
    flow.data(0, request(12, 0, 1))
    assert path.stat().st_size == len(HEADER)
    assert len(schedule.waiting) == 1
    schedule.run()
    assert path.stat().st_size > len(HEADER)
    flow.data(0, bytes(recording.BATCH_BYTES))
    assert path.stat().st_size > recording.BATCH_BYTES
    recorder_.close()


@pytest.mark.parametrize("threaded", [True, False])
def test_a_small_ring_keeps_its_size(tmp_path: Path, threaded: bool) -> None:
    segment = 1 << 20
    ring = Ring(tmp_path, HEADER, segment, 4)
    recorder_ = Recorder(ring, Schedule(), fail, threaded=threaded, batch_bytes=segment // 16)
    flow = recorder_.connection(CLIENT, BROKER)
    for _ in range(40):
        flow.data(0, bytes(256 << 10))
    recorder_.close()
    sizes = [path.stat().st_size for path in tmp_path.glob("*.pcapng")]
    assert len(sizes) == 4
    assert max(sizes) <= segment


class Disk:
    """A sink that cannot tell how much room it has."""

    def room(self) -> int:
        return UNBOUNDED

    def close(self) -> None:
        pass


class Failing(Disk):
    """A disk that is full after the first batch."""

    def __init__(self) -> None:
        self.wrote = threading.Event()

    def write(self, batch: Batch) -> None:
        assert sum(map(len, batch.buffers)) == batch.size
        if self.wrote.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        self.wrote.set()


@pytest.mark.parametrize("threaded", [True, False])
def test_a_full_disk_ends_the_recording_and_nothing_else(threaded: bool) -> None:
    failures: list[str] = []
    failed = threading.Event()

    def on_failure(why: str) -> None:
        failures.append(why)
        failed.set()

    sink = Failing()
    recorder_ = Recorder(sink, Schedule(), on_failure, threaded=threaded)
    flow = recorder_.connection(CLIENT, BROKER)
    recorder_.flush()
    assert sink.wrote.wait(10)
    flow.data(0, b"lost")
    recorder_.flush()
    assert failed.wait(10)
    flow.data(0, b"lost too")
    recorder_.close()
    assert failures == ["No space left on device"]
    assert recorder_.counters.failed == "No space left on device"
    assert recorder_.counters.dropped == 2
    assert recorder_.counters.packets == 3


@pytest.mark.parametrize("room", [True, False])
def test_a_write_that_was_cut_leaves_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool) -> None:
    """Where there is room for it, the file ends with what was dropped and why recording stopped."""
    path = tmp_path / "r.pcapng"
    failures: list[str] = []
    recorder_ = Recorder(File(path, HEADER), Schedule(), failures.append, threaded=False)
    flow = recorder_.connection(CLIENT, BROKER)
    flow.data(0, request(12, 0, 1))
    recorder_.flush()
    whole = path.stat().st_size
    real = os.writev
    calls = 0

    def half(descriptor: int, buffers: Buffers) -> int:
        nonlocal calls
        calls += 1
        if room and calls > 1:
            return real(descriptor, buffers)
        real(descriptor, [b"".join(buffers)[:50]])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", half)
    flow.data(0, request(12, 0, 2))
    recorder_.flush()
    assert failures == ["No space left on device"]
    end = path.read_bytes()[whole:]
    assert (b"recording stopped here: No space left on device" in end) is room
    flow.data(0, request(12, 0, 3))
    recorder_.close()
    assert path.read_bytes()[whole:].startswith(end)
    exchanges, health = items(path)
    assert len(exchanges) == 1
    assert health.recorder_dropped == (2 if room else 0)
    assert recorder_.counters.dropped == 2


def test_a_recording_that_somebody_removes_stops(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    failures: list[str] = []
    recorder_ = Recorder(File(path, HEADER), Schedule(), failures.append, threaded=False)
    flow = recorder_.connection(CLIENT, BROKER)
    path.unlink()
    flow.data(0, request(12, 0, 1))
    recorder_.flush()
    recorder_.close()
    assert failures == ["the file has been removed"]


class Stuck(Disk):
    """A disk that takes its time."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.sizes: list[int] = []

    def write(self, batch: Batch) -> None:
        assert self.go_on.wait(30)
        self.sizes.append(batch.size)


def test_what_the_disk_cannot_take_is_dropped_and_counted() -> None:
    sink = Stuck()
    recorder_ = Recorder(sink, Schedule(), fail, threaded=True, queue_max=4 << 20)
    flow = recorder_.connection(CLIENT, BROKER)
    for _ in range(20):
        flow.data(0, bytes(recording.BATCH_BYTES))
    assert recorder_.counters.dropped > 0
    sink.go_on.set()
    recorder_.close()
    assert sum(sink.sizes) < 8 << 20


class Small(Stuck):
    """A slow disk of 4 MiB."""

    SIZE = 4 << 20

    def write(self, batch: Batch) -> None:
        assert self.go_on.wait(30)
        if batch.size > self.room():
            raise OSError(errno.ENOSPC, "No space left on device")
        self.sizes.append(batch.size)

    def room(self) -> int:
        return self.SIZE - sum(self.sizes)


def test_batches_that_wait_for_a_disk_fill_it_to_the_last_that_fits() -> None:
    sink = Small()
    recorder_ = Recorder(sink, Schedule(), lambda _: None, threaded=True, queue_max=64 << 20)
    flow = recorder_.connection(CLIENT, BROKER)
    for _ in range(20):
        flow.data(0, bytes(recording.BATCH_BYTES))
    sink.go_on.set()
    recorder_.close()
    assert sink.room() < 2 * recording.BATCH_BYTES


def test_drops_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    recorder_ = recorder(File(path, HEADER))
    flow = recorder_.connection(CLIENT, BROKER)
    flow.data(0, request(12, 0, 1))
    recorder_.counters.dropped += 17
    recorder_.close()
    assert items(path)[1].recorder_dropped == 17


def test_the_ring_keeps_the_newest_segments(tmp_path: Path) -> None:
    ring = Ring(tmp_path, HEADER, segment_bytes=200_000, keep=4)
    recorder_ = recorder(ring)
    flow = recorder_.connection(CLIENT, BROKER)
    for number in range(100):
        flow.data(0, request(12, 0, number, bytes(20_000)))
        flow.data(1, response(12, 0, number, {}))
        recorder_.flush()
    recorder_.close()
    segments = sorted(tmp_path.glob("seg-*.pcapng"))
    assert len(segments) == 4
    assert all(segment.stat().st_size <= 200_000 for segment in segments)
    exchanges, _ = items(tmp_path)
    numbers = [exchange.correlation_id for exchange in exchanges if exchange.correlation_id is not None]
    assert numbers[-1] == 99
    assert len(numbers) >= 25


def test_connections_from_one_port_by_way_of_two_listeners_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    recorder_ = recorder(File(path, HEADER))
    first = recorder_.connection(CLIENT, BROKER)
    first.data(0, request(12, 0, 1))
    second = recorder_.connection(CLIENT, BROKER)
    second.data(0, request(12, 0, 2))
    first.data(1, response(12, 0, 1, {}))
    recorder_.connection(CLIENT, BROKER, accepted=False)
    second.data(1, response(12, 0, 2, {}))
    for flow in (first, second):
        flow.reset(0)
    third = recorder_.connection(CLIENT, BROKER)
    third.data(0, request(12, 0, 3))
    third.data(1, response(12, 0, 3, {}))
    recorder_.close()
    exchanges, health = items(path)
    assert [(one.correlation_id, one.status, one.problems) for one in exchanges] == [(n, "ok", []) for n in (1, 2, 3)]
    assert [one.connection.client for one in exchanges] == ["10.0.0.1:51234", "10.0.0.1:51235", "10.0.0.1:51234"]
    assert (health.gaps, health.lost, health.cut) == (0, 0, 0)
    assert b"recorded with client port 51235" in path.read_bytes()


def test_a_timer_that_comes_while_the_last_batch_is_written_writes_nothing_again() -> None:
    schedule = Schedule()

    class Slow(Disk):
        """A file whose write lets the timer go off."""

        def __init__(self) -> None:
            self.packets = 0

        def write(self, batch: Batch) -> None:
            self.packets += batch.packets
            schedule.run()

    sink = Slow()
    recorder_ = recorder(sink, schedule)
    flow = recorder_.connection(CLIENT, BROKER)
    flow.data(0, request(12, 0, 1))
    recorder_.close()
    assert sink.packets == recorder_.counters.packets == 4


@pytest.mark.parametrize("threaded", [True, False])
def test_a_recording_goes_on_once_a_full_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threaded: bool
) -> None:
    """What is missing is counted once, and the connection has a gap where it is missing."""
    monkeypatch.setattr("kproxy.recording.writing.RETRY_SECONDS", 0)
    path = tmp_path / "r.pcapng"
    said: queue.SimpleQueue[str | int] = queue.SimpleQueue()
    recorder_ = Recorder(File(path, HEADER), Schedule(), said.put, on_resumed=said.put, threaded=threaded)
    flow = recorder_.connection(CLIENT, BROKER)
    real = os.writev

    def exchange(number: int) -> None:
        flow.data(0, request(12, 0, number))
        flow.data(1, response(12, 0, number, {}))
        recorder_.flush()

    def full(descriptor: int, buffers: Buffers) -> int:
        real(descriptor, [b"".join(buffers)[:50]])
        raise OSError(errno.ENOSPC, "No space left on device")

    exchange(1)
    while threaded and recorder_._done < recorder_._queued:
        time.sleep(0.001)
    monkeypatch.setattr(os, "writev", full)
    exchange(2)
    assert said.get(timeout=10) == "No space left on device"
    while threaded and recorder_._done < recorder_._queued:
        time.sleep(0.001)
    monkeypatch.setattr(os, "writev", real)
    exchange(3)
    flow = recorder_.connection(("10.0.0.1", 51235), BROKER)
    exchange(4)
    recorder_.close()
    assert said.get(timeout=10) == 2
    assert recorder_.counters.failed is None
    assert recorder_.counters.dropped == 2
    assert b"packets are missing before this: No space left on device" in path.read_bytes()
    exchanges, health = items(path)
    assert [one.correlation_id for one in exchanges] == [1, 4]
    assert health.recorder_dropped == 2
    assert health.gaps


def test_what_cannot_be_made_a_packet_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    said: list[str] = []
    recorder_ = Recorder(File(tmp_path / "r.pcapng", HEADER), Schedule(), said.append, threaded=False)
    first, second = recorder_.connection(CLIENT, BROKER), recorder_.connection(CLIENT, ("10.0.0.3", 9092))

    def broken() -> None:
        raise ZeroDivisionError

    for _ in range(2):
        recorder_.notes.add(0, broken, ())
    first.data(0, request(12, 0, 1))
    second.data(0, request(12, 0, 2))
    recorder_.close()
    assert said == ["internal error: ZeroDivisionError()"]
    assert recorder_.counters.failed == said[0]
    assert recorder_.counters.dropped == 8
