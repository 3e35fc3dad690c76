"""Limits on the memory that is held for one connection."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on frames, requests and responses of a connection; times are in nanoseconds of capture time."""

    frame: int = 128 << 20
    """Longest frame that is accepted, in bytes; Kafka's socket.request.max.bytes is 100 MiB by default."""
    outstanding: int = 10_000
    """Maximum number of requests in flight on one connection; beyond it, the oldest is given up."""
    all_outstanding: int = 100_000
    """Maximum number of requests in flight on all connections of a reading.

    Beyond it, the busiest give up their oldest.
    """
    outstanding_time: int = 900 * SECOND
    """How long a request waits for its response; a JoinGroup takes up to max.poll.interval.ms (default 5 minutes)."""
    no_reply_time: int = SECOND
    """How long a request that wants no reply waits for one: some peers reply nevertheless."""
    early: int = 4096
    early_time: int = 30 * SECOND
    """Maximum time (`early_time`) and number (`early`) of responses that wait for their request.

    A request may be delivered after its response: a hole in the client's bytes delays the bytes after it, until no
    segment can fill the hole any more.
    """
    disorder: int = SECOND // 50
    """Maximum time by which a request may be captured later than its response."""
    unrecognised: int = 64 << 20
    """Maximum number of bytes of the broker's side that wait until the client's side shows that this is Kafka."""
