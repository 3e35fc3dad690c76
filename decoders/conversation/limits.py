"""What one connection may hold."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are nanoseconds of capture time."""

    frame: int = 128 << 20
    """Longest frame believed; Kafka's socket.request.max.bytes is 100 MiB."""
    outstanding: int = 10_000
    """Requests without a response on one connection; the oldest is then given up."""
    all_outstanding: int = 100_000
    """Requests without a response on all connections of a reading; the oldest of the busiest are then given up."""
    outstanding_time: int = 900 * SECOND
    """How long a request waits; a JoinGroup may wait for max.poll.interval.ms, 5 minutes unless set."""
    no_reply_time: int = SECOND
    """How long a request that wants no reply waits for one all the same."""
    early: int = 4096
    early_time: int = 30 * SECOND
    """How many responses, and how long, wait for a request that is delivered after them.

    A hole in the asking side's bytes delays what follows it until it is clear that nothing fills it.
    """
    disorder: int = SECOND // 50
    """How much later than its response a request may have been captured."""
    unrecognised: int = 64 << 20
    """Bytes of the answering side held until the asking side shows that this is Kafka."""
