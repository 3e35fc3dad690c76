"""The recorder: appends what passes to pcapng files, and never stands in the traffic's way.

The relay hands over bytes as they are; a packet header is put before them, packets are gathered and written, one call a
batch. A batch is written when it has BATCH_BYTES or is DELAY_SECONDS old: to shared memory in place, to a disk by a
thread. Where that thread is further behind than memory allows (`queue_bytes`), packets are dropped and counted, as
pcapng's isb_ifdrop; where the disk refuses, recording ends and says so, and traffic goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from captures.formats.pcapng_writer import ACK, FIN, MAX_PAYLOAD, PSH, RST, SYN, Direction, file_header, statistics

BATCH_BYTES = 1 << 20
DELAY_SECONDS = 0.01
LEAST_QUEUE_BYTES, MOST_QUEUE_BYTES = 64 << 20, 1 << 30
GATHERED_BATCHES = 8
"""What the thread writes at once, when it has fallen behind."""
IOV_MAX = 1000
UNACKNOWLEDGED = 1 << 28
"""Bytes in one direction after which the other side acknowledges, so that no window ever looks full."""

Address = tuple[str, int]
Schedule = Callable[[float, Callable[[], None]], Any]
Buffers = list[bytes | memoryview]


class Sink(Protocol):
    """Where batches of whole blocks go; called by the writer thread alone. Raises OSError when it cannot."""

    def write(self, buffers: Buffers, size: int) -> None: ...

    def close(self) -> None: ...


class File:
    """One pcapng file, created 0600; nothing is written after a failure."""

    def __init__(self, path: Path, header: bytes) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self._regular = os.path.isfile(path)  # noqa: PTH113 (a pipe or /dev/stdout cannot be truncated)
        self.size = 0
        self._broken = False
        self.write([header], len(header))

    def write(self, buffers: Buffers, size: int) -> None:
        try:
            written = os.writev(self._descriptor, buffers) if len(buffers) <= IOV_MAX else 0
            if written < size:  # many small buffers, or a write that was cut short
                rest = memoryview(b"".join(buffers))[written:]
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            self._broken = True
            raise
        self.size += size

    def close(self) -> None:
        """Takes a half-written batch away, so that the file ends with a whole block (a follower waits for its end)."""
        with contextlib.suppress(OSError):
            if self._broken and self._regular:
                os.ftruncate(self._descriptor, self.size)
            os.close(self._descriptor)


class Ring:
    """Segment files seg-000001.pcapng, … in a directory of their own; the oldest is deleted first.

    `keep` segments of `segment_bytes` each; a segment ends with a whole block. `ring.json` says where each begins in
    the address space of the whole recording: {"bases": {"seg-000007.pcapng": 100663296}}.
    """

    def __init__(self, directory: Path, header: bytes, segment_bytes: int, keep: int) -> None:
        self._directory = directory
        self._header = header
        self._segment_bytes = segment_bytes
        self._keep = keep
        self._number = 0
        self._bases: dict[str, int] = {}
        self._file = self._next(0)

    def _next(self, base: int) -> File:
        self._number += 1
        name = _segment(self._number)
        self._bases[name] = base
        gone = _segment(self._number - self._keep)
        self._bases.pop(gone, None)
        beside = self._directory / "ring.json.new"
        beside.write_text(json.dumps({"bases": self._bases}))
        beside.replace(self._directory / "ring.json")
        (self._directory / gone).unlink(missing_ok=True)
        return File(self._directory / name, self._header)

    def write(self, buffers: Buffers, size: int) -> None:
        if self._file.size + size > self._segment_bytes and self._file.size > len(self._header):
            following = self._next(self._bases[_segment(self._number)] + self._file.size)
            self._file.close()
            self._file = following
        self._file.write(buffers, size)

    def close(self) -> None:
        self._file.close()


def _segment(number: int) -> str:
    return f"seg-{number:06}.pcapng"


def queue_bytes() -> int:
    """What may wait for a slow disk: a quarter of the memory that is free now, within bounds."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 0
    return max(LEAST_QUEUE_BYTES, min(free // 4, MOST_QUEUE_BYTES))


@dataclass(slots=True)
class Counters:
    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    failed: str | None = None
    """Why recording has stopped, where it has."""


class Recorder:
    """Gathers packets and writes them, or has them written; used from one thread (the event loop's).

    With `threaded` a thread of its own writes, for a disk that may take its time. Without it writing happens in place:
    a mebibyte into shared memory takes a third of a millisecond, less than two threads lose to each other.
    """

    def __init__(
        self,
        sink: Sink,
        schedule: Schedule,
        on_failure: Callable[[str], None],
        *,
        threaded: bool = True,
        queue_max: int | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """`schedule(seconds, callback)` runs a callback later; `on_failure` may be called from the writer's thread.

        What is written at once is at most one read longer than `batch_bytes`, or than eight of them with `threaded`.
        """
        self._batch_bytes = batch_bytes
        self._sink = sink
        self._schedule = schedule
        self._on_failure = on_failure
        self._pending: Buffers = []
        self._pending_bytes = 0
        self._pending_packets = 0
        self._timer: Any = None
        self._queue: queue.SimpleQueue[tuple[Buffers, int, int] | None] = queue.SimpleQueue()
        self._queue_max = queue_bytes() if queue_max is None else queue_max
        self._queued = 0
        self._done = 0
        self._statistics_due = False
        self.counters = Counters()
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._write_batches, name="recorder", daemon=True)
            self._thread.start()

    def connection(self, client: Address, broker: Address, *, accepted: bool = True) -> Flow:
        """Begins a connection: the handshake, or, where the broker did not accept, the attempt."""
        return Flow(self, client, broker, accepted=accepted)

    def add(self, buffers: Buffers, size: int, packets: int) -> None:
        self._pending += buffers
        self._pending_bytes += size
        self._pending_packets += packets
        if self._pending_bytes >= self._batch_bytes:
            self.flush()
        elif self._timer is None:
            self._timer = self._schedule(DELAY_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.flush()

    def flush(self) -> None:
        """Hands what was gathered to the writer, or counts it as dropped."""
        packets, size = self._pending_packets, self._pending_bytes
        if not packets:
            return
        counters = self.counters
        if counters.failed is not None or self._queued - self._done > self._queue_max:
            counters.dropped += packets
            self._statistics_due = True
        else:
            counters.packets += packets
            counters.bytes += size
            if self._statistics_due:
                self._statistics_due = False
                block = self._statistics()
                self._pending.append(block)
                size += len(block)
            if self._thread is None:
                self._write(self._pending, size, packets)
            else:
                self._queued += size
                self._queue.put((self._pending, size, packets))
        self._pending = []
        self._pending_bytes = 0
        self._pending_packets = 0

    def _statistics(self) -> bytes:
        counters = self.counters
        return statistics(time.time_ns(), counters.packets + counters.dropped, counters.dropped)

    def close(self) -> None:
        """Writes what is left and the closing statistics; waits for the writer (a few seconds at most)."""
        self.flush()
        block = self._statistics()
        if self._thread is None:
            self._write([block], len(block), 0)
            self._sink.close()
            return
        self._queue.put(([block], len(block), 0))
        self._queue.put(None)
        self._thread.join(10)

    def _write(self, buffers: Buffers, size: int, packets: int) -> None:
        counters = self.counters
        if counters.failed is None:
            try:
                self._sink.write(buffers, size)
            except OSError as error:
                counters.failed = error.strerror or str(error)
                self._on_failure(counters.failed)
        if counters.failed is not None:
            counters.packets -= packets
            counters.dropped += packets

    def _write_batches(self) -> None:
        """The thread: everything that waits is written at once, so that it need not ask for the processor too often."""
        ended = False
        while not ended:
            batch = self._queue.get()
            buffers: Buffers = []
            size = packets = 0
            while True:
                if batch is None:
                    ended = True
                    break
                buffers += batch[0]
                size += batch[1]
                packets += batch[2]
                if size >= self._batch_bytes * GATHERED_BATCHES or self._queue.empty():
                    break
                batch = self._queue.get()
            if buffers:
                self._write(buffers, size, packets)
            self._done += size
        self._sink.close()


class Flow:
    """One connection in the recording, as client and broker would have seen it without the proxy."""

    __slots__ = ("_ended", "_recorder", "_sides", "_unacknowledged")

    def __init__(self, recorder: Recorder, client: Address, broker: Address, *, accepted: bool) -> None:
        self._recorder = recorder
        start = random.getrandbits(32)
        up, down = Direction(client, broker, start), Direction(broker, client, start ^ 0x5A5A5A5A)
        self._sides = (up, down)
        self._unacknowledged = [0, 0]
        self._ended = [False, False]
        now = time.time_ns()
        self._add(*up.packet(now, b"", 0, SYN))
        if accepted:
            self._add(*down.packet(now, b"", up.sequence, SYN | ACK))
            self._add(*up.packet(now, b"", down.sequence, ACK))
        else:
            self._add(*down.packet(now, b"", up.sequence, RST | ACK))
            self._ended = [True, True]

    def _add(self, before: bytes, after: bytes) -> None:
        self._recorder.add([before, after], len(before) + len(after), 1)

    def data(self, side: int, data: bytes | memoryview, comment: str | None = None) -> None:
        """Bytes that `side` (0 the client, 1 the broker) sent; the comment goes to the last packet of them."""
        size = len(data)
        if not size or self._ended[side]:
            return
        this, other = self._sides[side], self._sides[1 - side]
        now = time.time_ns()
        if size <= MAX_PAYLOAD:
            before, after = this.packet(now, data, other.sequence, PSH | ACK, comment)
            self._recorder.add([before, data, after], len(before) + size + len(after), 1)
        else:
            self._long(this, other, now, memoryview(data), comment)
        unacknowledged = self._unacknowledged
        unacknowledged[1 - side] = 0
        unacknowledged[side] += size
        if unacknowledged[side] > UNACKNOWLEDGED:
            unacknowledged[side] = 0
            self._add(*other.packet(now, b"", this.sequence, ACK))

    def _long(self, this: Direction, other: Direction, now: int, view: memoryview, comment: str | None) -> None:
        buffers: Buffers = []
        total = packets = 0
        size = len(view)
        for start in range(0, size, MAX_PAYLOAD):
            piece = view[start : start + MAX_PAYLOAD]
            last = start + MAX_PAYLOAD >= size
            before, after = this.packet(now, piece, other.sequence, PSH | ACK, comment if last else None)
            buffers += (before, piece, after)
            total += len(before) + len(piece) + len(after)
            packets += 1
        self._recorder.add(buffers, total, packets)

    def end(self, side: int) -> None:
        """FIN of one side."""
        if not self._ended[side]:
            self._ended[side] = True
            this, other = self._sides[side], self._sides[1 - side]
            self._add(*this.packet(time.time_ns(), b"", other.sequence, FIN | ACK))
            if self._ended[1 - side]:
                self._add(*other.packet(time.time_ns(), b"", this.sequence, ACK))

    def reset(self, side: int) -> None:
        """RST of one side; nothing follows it."""
        if not all(self._ended):
            this, other = self._sides[side], self._sides[1 - side]
            self._add(*this.packet(time.time_ns(), b"", other.sequence, RST | ACK))
        self._ended = [True, True]


def pcapng_header(listener: str) -> bytes:
    """What every file of a recording starts with."""
    return file_header("kproxy", listener)
