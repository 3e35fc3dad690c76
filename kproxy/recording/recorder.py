"""The recorder: appends the relay's traffic to pcapng files and never delays the traffic.

While a peer waits, the relay only queues the bytes and their time. Later many queued items become packets at once,
which is also faster, and packets are gathered in batches, each written with one call. A batch is written at BATCH_BYTES
or after DELAY_SECONDS: to shared memory in the same thread, to a disk by another thread. If that thread falls behind by
more than `queue_bytes`, packets are dropped and counted in pcapng's isb_ifdrop. If the disk is full, packets are
dropped until there is room again; after any other error, recording ends. Both are reported
(`kproxy.recording.writing`), and traffic goes on.

A `Selection` may leave out parts of a connection (`kproxy.core.selection`); a sink receives the batches
(`kproxy.recording.sinks`).
"""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from kproxy.captures.formats.compiled import COMPILED
from kproxy.captures.formats.pcapng_writer import ACK, FIN, MAX_PAYLOAD, PSH, RST, SYN, Direction
from kproxy.core.compiled import Notes, Packets, Pair
from kproxy.core.passing import UNACKNOWLEDGED
from kproxy.core.selection import Choice, Selection
from kproxy.recording.sinks import Batch, Buffers, Sink
from kproxy.recording.writing import Writer
from kproxy.relay.timer import Schedule

BATCH_BYTES = 1 << 20
DELAY_SECONDS = 0.05
NOTED_BYTES = 1 << 16
"""Number of queued bytes at which they are made into packets; a long read alone reaches this number."""
JOINED_BYTES = 4096
"""Packets up to this size in bytes are joined into one buffer: writing many small buffers delays traffic."""
LEAST_QUEUE_BYTES, MOST_QUEUE_BYTES = 64 << 20, 1 << 30
GATHERED_BATCHES = 8
"""Maximum number of batches that the thread joins into one write when it has fallen behind."""

Address = tuple[str, int]


def queue_bytes() -> int:
    """Number of bytes that may wait for a slow disk: a quarter of the free memory, within bounds."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 0
    return max(LEAST_QUEUE_BYTES, min(free // 4, MOST_QUEUE_BYTES))


class Recorder:
    """Turns traffic into packets and writes them; all methods are called from one thread (the event loop's).

    With `threaded`, another thread writes, because a disk may be slow. Without it, batches are written in the calling
    thread: writing a mebibyte to shared memory takes a third of a millisecond, less than switching between two threads
    costs.
    """

    def __init__(
        self,
        sink: Sink,
        schedule: Schedule,
        on_failure: Callable[[str], None],
        *,
        on_resumed: Callable[[int], None] = lambda _: None,
        choice: Choice | None = None,
        threaded: bool = True,
        queue_max: int | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """`schedule(seconds, callback)` calls `callback` after that time.

        `on_failure(reason)` is called when recording stops, `on_resumed(number of missing packets)` when it goes on;
        both may be called from the writer's thread.

        `choice` selects the bytes that are recorded (None: all). At most `queue_max` bytes wait for the thread (None:
        `queue_bytes()`). A write has up to `batch_bytes` bytes (with `threaded` eight times as many), plus the bytes of
        one read.
        """
        self._batch_bytes = batch_bytes
        self._schedule = schedule
        self._writer = Writer(sink, on_failure, on_resumed)
        self._choice = choice
        self.notes = Notes(NOTED_BYTES, self._start, self._make_some)
        """Queued traffic, in order, that was not made into packets yet."""
        self.packets = Packets(batch_bytes, self._pass_on)
        """Packets that wait to be written."""
        self._due = False
        """Whether the timer that writes waiting packets is set."""
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._queue_max = queue_bytes() if queue_max is None else queue_max
        self._queued = 0
        self._done = 0
        self._open: set[tuple[Address, Address]] = set()
        """(client, broker) of each open connection: the addresses that the recording shows."""
        self.counters = self._writer.counters
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._write_batches, name="recorder", daemon=True)
            self._thread.start()

    def connection(
        self, client: Address, broker: Address, *, accepted: bool | None = True, facts: Sequence[str] = ()
    ) -> Flow | SelectedFlow:
        """Begins a connection in the recording; returns the object that takes its bytes.

        `accepted` True records a full TCP handshake, False a refused attempt (SYN, RST), None a SYN without an answer.
        `facts` are lines for the comment of the SYN packet. Raises ValueError if a host is not an IP address.
        """
        self._make()  # marks connections as ended whose FIN is still queued
        recorded = self._distinct(client, broker)
        if recorded != client:
            reason = f"another connection from {client[1]} to this broker is open"
            facts = [*facts, f"recorded with client port {recorded[1]}: {reason}"]
        flow = Flow(self, recorded, broker, accepted=accepted, facts=facts)
        return flow if self._choice is None else SelectedFlow(self, flow, Selection(self._choice, client, broker))

    def _distinct(self, client: Address, broker: Address) -> Address:
        """The client's address for the recording; it has another port if `client` and `broker` have an open connection.

        One client port may be connected to several listeners of kproxy that lead to one broker. The recording does not
        contain the addresses of listeners, so such connections would look like one.
        """
        host, first = client
        for port in chain(range(first, 1 << 16), range(1, first)):
            if ((host, port), broker) not in self._open:
                return host, port
        return client

    def opened(self, client: Address, broker: Address) -> None:
        """Marks the connection between these addresses as open, until `ended` is called."""
        self._open.add((client, broker))

    def ended(self, client: Address, broker: Address) -> None:
        self._open.discard((client, broker))

    def status(self) -> dict[str, Any]:
        """The counters of the recording, including all traffic queued so far."""
        self._make()
        return asdict(self.counters)

    def _start(self) -> None:
        if not self._due:
            self._due = True
            self._schedule(DELAY_SECONDS, self._tick)

    def _make(self) -> None:
        """Makes packets of all queued traffic."""
        for call, arguments in self.notes.take():
            try:
                call(*arguments)
            except Exception as error:  # noqa: BLE001 (a bug in the recorder must not end the connection)
                self._writer.fail(f"internal error: {error!r}")

    def _make_some(self) -> None:
        self._make()
        if self.packets.count:
            self._start()

    def _tick(self) -> None:
        self._due = False
        self.flush()

    def flush(self) -> None:
        """Passes all waiting packets to the writer, or counts them as dropped."""
        self._make()
        if self.packets.count:
            self._pass_on()

    def _pass_on(self) -> None:
        # Takes the packets first: at the end another thread calls this, while the event loop's timer may call it too.
        buffers, size, packets = self.packets.take()
        batch = Batch(buffers, size, packets)
        if self._queued - self._done > self._queue_max:
            self.counters.dropped += packets
        elif self._writer.take(batch):
            self._hand_over(batch)

    def _hand_over(self, batch: Batch) -> None:
        if self._thread is None:
            self._writer.write(batch)
        else:
            self._queued += batch.size
            self._queue.put(batch)

    def close(self) -> None:
        """Writes waiting packets and the closing statistics; waits up to 10 seconds for the writer's thread."""
        self.flush()
        if self._thread is None:
            self._writer.close()
            return
        self._queue.put(None)
        self._thread.join(10)

    def _write_batches(self) -> None:
        """Runs in the writer's thread: joins waiting batches into one write, so that it needs the CPU less often."""
        most = self._batch_bytes * GATHERED_BATCHES
        batch = self._queue.get()
        while batch is not None:
            following: Batch | None = batch
            # One write fails as a whole, so joining stops before it could exceed the room that is left on the disk.
            limit = min(most, self._writer.room() - 2 * self._batch_bytes)
            while batch.size < limit and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    break
                batch.join(following)
            self._writer.write(batch)
            self._done += batch.size
            batch = None if following is None else self._queue.get()
        self._writer.close()


class Flow(Pair):
    """A connection in the recording, with the packets that client and broker would have exchanged without kproxy."""

    __slots__ = ("_between", "_recorder")

    def __init__(
        self, recorder: Recorder, client: Address, broker: Address, *, accepted: bool | None, facts: Sequence[str] = ()
    ) -> None:
        self._recorder = recorder
        self._between = client, broker
        start = random.getrandbits(32)
        directions = Direction(client, broker, start), Direction(broker, client, start ^ 0x5A5A5A5A)
        super().__init__(recorder.packets, directions, JOINED_BYTES if COMPILED else 0)
        if accepted:
            recorder.opened(client, broker)
        self._recorder.notes.add(0, self._begin, (time.time_ns(), accepted, "\n".join(facts) or None))

    def _begin(self, now: int, accepted: bool | None, facts: str | None) -> None:
        up, down = self.directions
        self._add(*up.packet(now, b"", 0, SYN, facts))
        if accepted:
            self._add(*down.packet(now, b"", up.sequence, SYN | ACK))
            self._add(*up.packet(now, b"", down.sequence, ACK))
        else:
            if accepted is not None:
                self._add(*down.packet(now, b"", up.sequence, RST | ACK))
            self.ended = [True, True]

    def _add(self, before: bytes, after: bytes) -> None:
        self.packets.add([before + after], len(before) + len(after), 1)

    def data(self, side: int, data: bytes | memoryview, comment: str | None = None) -> None:
        """Queues bytes that `side` (0 the client, 1 the broker) has sent; their last packet gets the comment."""
        self._recorder.notes.add(len(data), self.add_data, (time.time_ns(), side, data, comment))

    def end(self, side: int) -> None:
        """Queues the FIN of `side` (0 the client, 1 the broker)."""
        self._recorder.notes.add(0, self.add_end, (time.time_ns(), side))

    def reset(self, side: int) -> None:
        """Queues the RST of `side` (0 the client, 1 the broker), which ends the connection."""
        self._recorder.notes.add(0, self.add_reset, (time.time_ns(), side))

    def add_unlike(self, now: int, side: int, data: bytes | memoryview, comment: str | None, beyond: int) -> None:
        """Makes packets of bytes that do not fit into one plain packet; the arguments are those of `add_data`."""
        size = len(data) + beyond
        this, other = self.directions[side], self.directions[1 - side]
        if size <= MAX_PAYLOAD:
            before, after = this.packet(now, data, other.sequence, PSH | ACK, comment, beyond)
            buffers = [before, data, after] if len(data) > JOINED_BYTES else [b"".join((before, data, after))]
            self.packets.add(buffers, len(before) + len(data) + len(after), 1)
        else:
            self._long(this, other, now, memoryview(data), comment, size)
        if self.unacknowledged > UNACKNOWLEDGED:
            self.unacknowledged = 0
            self._add(*other.packet(now, b"", this.sequence, ACK))

    def _long(
        self, this: Direction, other: Direction, now: int, view: memoryview, comment: str | None, size: int
    ) -> None:
        """Makes several packets for `size` bytes of the connection.

        `view` holds the first of these bytes; the rest is not recorded.
        """
        buffers: Buffers = []
        total = packets = 0
        for start in range(0, size, MAX_PAYLOAD):
            end = min(start + MAX_PAYLOAD, size)
            piece = view[start:end]
            before, after = this.packet(
                now, piece, other.sequence, PSH | ACK, comment if end == size else None, end - start - len(piece)
            )
            buffers += (before, piece, after)
            total += len(before) + len(piece) + len(after)
            packets += 1
        self.packets.add(buffers, total, packets)

    def add_end(self, now: int, side: int) -> None:
        """Makes the packets for the FIN of `side`, sent at time `now` (ns)."""
        if not self.ended[side]:
            self.ended[side] = True
            this, other = self.directions[side], self.directions[1 - side]
            self._add(*this.packet(now, b"", other.sequence, FIN | ACK))
            if self.ended[1 - side]:
                self._add(*other.packet(now, b"", this.sequence, ACK))
                self._recorder.ended(*self._between)

    def add_reset(self, now: int, side: int) -> None:
        """Makes the packets for the RST of `side`, sent at time `now` (ns)."""
        if not all(self.ended):
            this, other = self.directions[side], self.directions[1 - side]
            self._add(*this.packet(now, b"", other.sequence, RST | ACK))
            self._recorder.ended(*self._between)
        self.ended = [True, True]


class SelectedFlow:
    """A connection in the recording of which only the bytes that `selection` keeps are recorded.

    Has the methods of `Flow`.
    """

    __slots__ = ("_flow", "_recorder", "_selection")

    def __init__(self, recorder: Recorder, flow: Flow, selection: Selection) -> None:
        self._recorder = recorder
        self._flow = flow
        self._selection = selection

    def data(self, side: int, data: bytes | memoryview, comment: str | None = None) -> None:
        """Queues bytes that `side` has sent.

        The comment goes to the last recorded piece, and is lost if there is none.
        """
        self._recorder.notes.add(len(data), self.add_data, (time.time_ns(), side, data, comment))

    def end(self, side: int) -> None:
        """Queues the FIN of `side` (0 the client, 1 the broker)."""
        self._recorder.notes.add(0, self._add_end, (time.time_ns(), side))

    def reset(self, side: int) -> None:
        """Queues the RST of `side` (0 the client, 1 the broker), which ends the connection."""
        self._recorder.notes.add(0, self._add_reset, (time.time_ns(), side))

    def add_data(self, now: int, side: int, data: bytes | memoryview, comment: str | None = None) -> None:
        """Makes packets of the selected bytes of `data`, which `side` sent at time `now` (ns)."""
        pieces = self._selection.feed(side, data)
        self._recorder.counters.excluded += self._selection.take_excluded()
        last = len(pieces) - 1
        for i, (piece, beyond) in enumerate(pieces):
            self._flow.add_data(now, side, piece, comment if i == last else None, beyond)

    def _add_end(self, now: int, side: int) -> None:
        self._flow.add_data(now, side, self._selection.rest(side))
        self._flow.add_end(now, side)

    def _add_reset(self, now: int, side: int) -> None:
        for each in (0, 1):
            self._flow.add_data(now, each, self._selection.rest(each))
        self._flow.add_reset(now, side)
