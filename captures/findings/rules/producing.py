"""Finds acks=0 requests that brokers refuse, and transactions with one or two records."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    at_evidence,
    remember,
)
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Scope, Severity
from kproxy.decoders.exchange import Status

TINY = "txn.tiny"
DROPPED = "producer.acks0_dropped"
WINDOW: Final = 10 * SECOND
PRODUCERS: Final = 1_000
CONNECTIONS: Final = 5_000
CLOSES: Final = 256
"""Maximum number of closed connections that are remembered for a broker, and of those that still have to be judged."""


class TinyTransactions(Analyzer):
    """For one client, finds frequent transactions with very few records."""

    __slots__ = ("_began", "_context", "_open", "_overhead", "_produces", "_records", "_tiny", "_total")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[int, int] = {}
        """Maps each producer id to the number of records in its open transaction."""
        self._restart(0)

    def _restart(self, time: int) -> None:
        self._began = time
        self._produces = self._overhead = 0
        """Number of transactional Produce requests; `_overhead` counts the other requests of transactions."""
        self._total = self._tiny = self._records = 0

    def feed(self, fact: Any) -> None:
        produced = isinstance(fact, facts.Produced)
        if produced and fact.producer_id is None:
            return
        at = fact.at
        if at.time - self._began >= WINDOW:
            self._judge(at)
            self._restart(at.time)
        if produced:
            self._produces += 1
            records = self._open.get(fact.producer_id, 0) + fact.records
            remember(self._open, fact.producer_id, records, PRODUCERS)
        elif fact.what != "init" and not fact.error:
            self._overhead += 1
            if fact.what == "end" and fact.producer_id is not None:
                self._ended(self._open.pop(fact.producer_id, 0))

    def _ended(self, records: int) -> None:
        if records:
            self._total += 1
            self._records += records
            self._tiny += records <= self._context.limit(TINY, "records")

    def _judge(self, at: facts.At) -> None:
        rate = self._total * SECOND / WINDOW
        if rate < self._context.limit(TINY, "rate") or 2 * self._tiny < self._total:
            return
        share = self._overhead / max(1, self._overhead + self._produces)
        mean = self._records / self._total
        self._context.report(
            TINY,
            at_evidence(at, "trigger", f"{rate:.0f} transactions a second, of {mean:.1f} records", weight=rate),
            numbers={
                "client": at.client, "rate": rate, "records": mean, "share": share, "count": self._total,
            },
            impact=Impact("requests", self._overhead),
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


class Suspect(NamedTuple):
    """A connection that the broker closed soon after a Produce with acks=0."""

    closed: facts.Closed
    produce: facts.Unacknowledged


class Dropped(Analyzer):
    """For one broker, finds connections that it closed because it refused a Produce with acks=0.

    Such a request has no response, so closing the connection is the broker's only way to refuse it.
    """

    __slots__ = ("_alive", "_closes", "_context", "_counts", "_open", "_pending", "_sent", "_suspects")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sent: dict[int, facts.Unacknowledged] = {}
        """Maps each connection to its latest Produce with acks=0."""
        self._pending: dict[int, None] = {}
        """Connections with an unanswered request, which may be why the broker closed them."""
        self._closes: deque[facts.At] = deque(maxlen=CLOSES)
        """The latest connections that the broker closed, as `At` with the time of the close."""
        self._alive: deque[int] = deque(maxlen=CLOSES)
        """Times (ns) at which connections to the broker began, or first worked."""
        self._open: dict[int, int] = {}
        """Maps each open connection to the time (ns) of its first response."""
        self._suspects: deque[Suspect] = deque(maxlen=CLOSES)
        self._counts: dict[str, int] = {}

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Unacknowledged):
            remember(self._sent, fact.at.connection, fact, CONNECTIONS)
        elif isinstance(fact, facts.Closed):
            self._closed(fact)
        elif isinstance(fact, facts.Exchange):
            remember(self._pending, fact.at.connection, None, CONNECTIONS)
        else:
            self._alive.append(fact.at.time)
            self._open.setdefault(fact.at.connection, fact.at.time)
            if len(self._open) > CONNECTIONS:
                del self._open[next(iter(self._open))]

    def _closed(self, fact: facts.Closed) -> None:
        connection = fact.at.connection
        produce = self._sent.pop(connection, None)
        pending = connection in self._pending
        self._pending.pop(connection, None)
        if fact.by_peers:
            self._open.pop(connection, None)
        if fact.closer != "broker" or not fact.by_peers:
            return
        self._closes.append(fact.at)
        if produce is None or pending or not self._context.whole(connection):
            return
        if 0 <= fact.at.time - produce.at.time <= self._context.limit(DROPPED, "close_ms") * MILLISECOND:
            self._suspects.append(Suspect(fact, produce))
            self._context.wake(fact.at.time + self._grace)

    @property
    def _grace(self) -> int:
        return round(self._context.limit(DROPPED, "grace_ms") * MILLISECOND)

    def tick(self) -> None:
        self._judge(self._context.now)

    def close(self) -> None:
        self._judge(None)

    def _judge(self, now: int | None) -> None:
        """Report suspects, unless the broker closed all its connections, as when it stops.

        Suspects are judged once the grace period has passed at the time `now` (ns); without `now`, all are.
        """
        waiting, self._suspects = self._suspects, deque(maxlen=CLOSES)
        for one in waiting:
            due = one.closed.at.time + self._grace
            if now is not None and due > now:
                self._suspects.append(one)
                self._context.wake(due)
                continue
            closed = one.closed.at.time
            others = any(
                at.connection != one.closed.at.connection and abs(at.time - closed) <= self._grace
                for at in self._closes
            )
            alive = any(closed < time <= due for time in self._alive) or any(
                time < closed for time in self._open.values()
            )
            if alive or not others:
                self._report(one, alive=alive)

    def _report(self, one: Suspect, *, alive: bool) -> None:
        produce, end = one.produce.at, one.closed.at
        count = self._counts.get(produce.client, 0) + 1
        remember(self._counts, produce.client, count, CONNECTIONS)
        after = (end.time - produce.time) / MILLISECOND
        closed = f"{end.broker} closed the connection {after:.1f} ms later"
        self._context.report(
            DROPPED,
            at_evidence(produce, "trigger", f"Produce with acks=0, {one.produce.size} bytes", path="request.acks"),
            Evidence(0, end.time, end.connection, "symptom", closed),
            numbers={
                "client": produce.client, "broker": end.broker, "after_ms": after, "count": count,
                "bytes": one.produce.size,
            },
            impact=Impact("records_at_risk", count),
            episode=produce.client,
            scope=Scope("client", produce.client),
            severity=Severity.ERROR if alive else Severity.NOTE,
            confidence=Confidence.STRONG if alive else Confidence.INFERRED,
            actors=(Actor("culprit", produce.peer, produce.client_id or None),),
            cause=None if alive else PERHAPS,
        )  # fmt: skip


PERHAPS: Final = (
    "The broker refuses the batch, or shuts down: what was sent without acknowledgement in its last moments is lost in "
    "either case."
)

ANALYSES = (
    Analysis(frozenset({TINY}), Key.CLIENT, (facts.Produced, facts.Txn), TinyTransactions),
    Analysis(
        frozenset({DROPPED}),
        Key.BROKER,
        (facts.Unacknowledged, facts.Closed, facts.Beginning, facts.Exchange),
        Dropped,
        status=Status.NO_RESPONSE,
    ),
)
