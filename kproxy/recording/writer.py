"""Writes batches to a sink and keeps count; a full disk is tried again, any other failure ends the recording."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kproxy.recording.sinks import FULL, Batch, Sink

RETRY_SECONDS = 1.0
"""Between two tries to write to a full disk."""


@dataclass(slots=True)
class Counters:
    """What has been recorded; `packets` and `bytes` include what waits to be written."""

    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    excluded: int = 0
    """Exchanges left out because the recording is not to hold them."""
    failed: str | None = None
    """Why recording has stopped, where it has; with a full disk until there is room."""


class Writer:
    """Writes to a sink. `on_failure` is given why recording stopped, `on_resumed` how many packets are missing then.

    `write` and `close` may be called from another thread than the rest; both callbacks come from that thread.
    """

    def __init__(self, sink: Sink, on_failure: Callable[[str], None], on_resumed: Callable[[int], None]) -> None:
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
    def stopped(self) -> bool:
        """Whether writing would fail: nothing more is recorded, or the next try of a full disk is not due."""
        if self.counters.failed is None:
            return False
        return self._retry_at is None or time.monotonic() < self._retry_at

    @property
    def over(self) -> bool:
        """Whether nothing more can be recorded."""
        return self.counters.failed is not None and self._retry_at is None

    def tell(self, batch: Batch) -> Batch:
        """The batch, with the packets dropped and exchanges excluded since the one before."""
        counters, told = self.counters, self._told
        batch.dropped, told.dropped = counters.dropped - told.dropped, counters.dropped
        batch.excluded, told.excluded = counters.excluded - told.excluded, counters.excluded
        return batch

    def write(self, batch: Batch) -> None:
        """Write a batch that is counted; its packets are counted as dropped where that fails."""
        counters = self.counters
        if counters.failed is None or self._retry_at is not None:
            try:
                self._sink.write(batch)
            except OSError as error:
                self._failed(error, batch)
            else:
                if counters.failed is not None:
                    counters.failed = self._retry_at = None
                    self._on_resumed(counters.dropped - self._dropped_before)
                return
        counters.packets -= batch.packets
        counters.dropped += batch.packets

    def close(self) -> None:
        self._sink.close()

    def _failed(self, error: OSError, batch: Batch) -> None:
        counters = self.counters
        if error.errno in FULL:
            if counters.failed is None:
                self._dropped_before = counters.dropped
            self._retry_at = time.monotonic() + RETRY_SECONDS
        else:
            self._retry_at = None
            self._sink.close()
        self._told.dropped += batch.packets  # the sink has counted them
        self.fail(error.strerror or str(error))

    def fail(self, why: str) -> None:
        """Nothing more is recorded, or nothing until a full disk has room."""
        if self.counters.failed is None:
            self.counters.failed = why
            self._on_failure(why)
