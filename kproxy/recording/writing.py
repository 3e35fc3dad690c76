"""Writes the batches of a recording while the disk accepts them, and counts the packets that are dropped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kproxy.decoders.plurals import are, counted
from kproxy.recording.sinks import FULL, UNBOUNDED, Batch, Sink

RETRY_SECONDS = 1.0
"""Seconds between attempts to write to a full disk."""


@dataclass(slots=True)
class Counters:
    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    excluded: int = 0
    """Number of exchanges that the recording's filter left out."""
    failed: str | None = None
    """Why recording has stopped; None while it goes on, and again once a full disk has room."""


class Writer:
    """Writes batches to a sink. On a full disk it drops packets until there is room; after any other error it ends.

    `write` may be called from another thread than the other methods.
    """

    def __init__(self, sink: Sink, on_failure: Callable[[str], None], on_resumed: Callable[[int], None]) -> None:
        """`on_failure(reason)` is called when writing stops, `on_resumed(number of lost packets)` when it goes on."""
        self.counters = Counters()
        self._sink = sink
        self._on_failure = on_failure
        self._on_resumed = on_resumed
        self._retry_at: float | None = None
        """Monotonic time in seconds at which a full disk is tried again; None if no further try is planned."""
        self._dropped_before = 0
        """Number of packets that were dropped before the disk was full."""
        self._noted = Batch()
        """The counts of dropped packets and excluded exchanges that the sink has got so far."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written, because of an error other than a full disk."""
        return self.counters.failed is not None and self._retry_at is None

    @property
    def stopped(self) -> bool:
        """Whether batches are dropped at present: writing has ended, or it is too early to try a full disk again."""
        if self.counters.failed is None:
            return False
        return self._retry_at is None or time.monotonic() < self._retry_at

    def room(self) -> int:
        """Number of free bytes on the disk, `kproxy.recording.sinks.UNBOUNDED` if unknown or if writing has ended."""
        try:
            return UNBOUNDED if self.ended else self._sink.room()
        except OSError:
            return UNBOUNDED

    def take(self, batch: Batch) -> bool:
        """Counts a batch as written and returns True; while writing is stopped, drops its packets and returns False."""
        if self.stopped:
            self.counters.dropped += batch.packets
            return False
        self.counters.packets += batch.packets
        self.counters.bytes += batch.size
        self._tell(batch)
        return True

    def _tell(self, batch: Batch) -> None:
        """Adds the numbers of packets dropped and exchanges excluded since the previous batch to this batch."""
        counters, noted = self.counters, self._noted
        batch.dropped, noted.dropped = counters.dropped - noted.dropped, counters.dropped
        batch.excluded, noted.excluded = counters.excluded - noted.excluded, counters.excluded

    def write(self, batch: Batch) -> None:
        """Writes a batch that `take` has accepted; if that fails, its packets count as dropped."""
        counters = self.counters
        if not self.ended:
            try:
                self._sink.write(batch)
            except OSError as error:
                if error.errno in FULL:
                    if counters.failed is None:
                        self._dropped_before = counters.dropped
                    self._retry_at = time.monotonic() + RETRY_SECONDS
                else:
                    self._retry_at = None
                    self._sink.close()
                self._noted.dropped += batch.packets  # the sink has added these packets to its own count
                self.fail(error.strerror or str(error))
            else:
                if counters.failed is not None:
                    counters.failed = self._retry_at = None
                    self._on_resumed(counters.dropped - self._dropped_before)
                return
        counters.packets -= batch.packets
        counters.dropped += batch.packets

    def fail(self, why: str) -> None:
        """Marks writing as failed and calls `on_failure`; does nothing if writing has failed already."""
        if self.counters.failed is None:
            self.counters.failed = why
            self._on_failure(why)

    def close(self) -> None:
        """Writes the final counts, for which a full disk is tried once more, and closes the sink."""
        last = Batch()
        self._tell(last)
        self.write(last)
        self._sink.close()


def resumed(recording: object, missing: int) -> str:
    """The message that recording to `recording` has resumed and that `missing` packets were not recorded."""
    lost = f"{counted(missing, 'packet')} {are(missing)} missing"
    return f"recording to {recording} has resumed: there is room again; {lost}"
