"""Batches of a recording, written as long as the disk takes them, and the count of what is not written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kproxy.recording.sinks import FULL, Batch, Sink

RETRY_SECONDS = 1.0
"""Between tries to write to a disk that is full."""


@dataclass(slots=True)
class Counters:
    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    excluded: int = 0
    """Exchanges left out because the recording is not to hold them."""
    failed: str | None = None
    """Why recording has stopped, where it has; with a full disk until there is room."""


class Writer:
    """Writes batches to a sink. With a full disk it drops packets until there is room; another error ends it.

    `write` may be called from another thread than the rest.
    """

    def __init__(self, sink: Sink, on_failure: Callable[[str], None], on_resumed: Callable[[int], None]) -> None:
        """`on_failure` is given why writing stopped, `on_resumed` how many packets are missing when it goes on."""
        self.counters = Counters()
        self._sink = sink
        self._on_failure = on_failure
        self._on_resumed = on_resumed
        self._retry_at: float | None = None
        """When a full disk is tried again, by the monotonic clock."""
        self._dropped_before = 0
        """Packets dropped before the disk was full."""
        self._told = Batch()
        """How many packets dropped and exchanges excluded the sink knows of."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written."""
        return self.counters.failed is not None and self._retry_at is None

    @property
    def stopped(self) -> bool:
        """Whether writing would fail; a full disk is worth another try from time to time."""
        if self.counters.failed is None:
            return False
        return self._retry_at is None or time.monotonic() < self._retry_at

    def take(self, batch: Batch) -> bool:
        """Whether a batch is to be written: then it counts as written, else its packets are dropped."""
        if self.stopped:
            self.counters.dropped += batch.packets
            return False
        self.counters.packets += batch.packets
        self.counters.bytes += batch.size
        self._tell(batch)
        return True

    def _tell(self, batch: Batch) -> None:
        """Puts into a batch what was dropped and excluded since the one before."""
        counters, told = self.counters, self._told
        batch.dropped, told.dropped = counters.dropped - told.dropped, counters.dropped
        batch.excluded, told.excluded = counters.excluded - told.excluded, counters.excluded

    def write(self, batch: Batch) -> None:
        """Writes a batch that was taken; where that fails its packets count as dropped."""
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
                self._told.dropped += batch.packets  # the sink has counted them
                self.fail(error.strerror or str(error))
            else:
                if counters.failed is not None:
                    counters.failed = self._retry_at = None
                    self._on_resumed(counters.dropped - self._dropped_before)
                return
        counters.packets -= batch.packets
        counters.dropped += batch.packets

    def fail(self, why: str) -> None:
        """Nothing more is written, or nothing until a full disk has room."""
        if self.counters.failed is None:
            self.counters.failed = why
            self._on_failure(why)

    def close(self) -> None:
        """Tells the sink what it does not know yet, which tries a full disk once more, and closes it."""
        last = Batch()
        self._tell(last)
        self.write(last)
        self._sink.close()
