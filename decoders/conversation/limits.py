"""Bounds of what is held for one connection."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are nanoseconds of capture time."""

    frame: int = 128 << 20
    """Longest frame that is accepted, in bytes; Kafka's socket.request.max.bytes is 100 MiB by default."""
    outstanding: int = 10_000
    """Most requests in flight on one connection; beyond it, the oldest is given up."""
    all_outstanding: int = 100_000
    """Most requests in flight on all connections of a reading; beyond it, the busiest give up their oldest."""
    outstanding_time: int = 900 * SECOND
    """How long a request waits for its response; a JoinGroup takes up to max.poll.interval.ms (default 5 minutes)."""
    no_reply_time: int = SECOND
    """How long a request that wants no reply still waits for one."""
    early: int = 4096
    early_time: int = 30 * SECOND
    """How many responses wait for a request that is delivered after them, and how long.

    A hole in the asking side's bytes delays the bytes after it until no segment can fill it any more.
    """
    disorder: int = SECOND // 50
    """How much later than its response a request may be captured."""
    unrecognised: int = 64 << 20
    """Bytes of the answering side held until the asking side shows that this is Kafka."""
