"""Finds network trouble from TCP counts: peers that do not read, lost segments, brokers that accept no connections."""

from __future__ import annotations

from typing import Any, Final

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
from kproxy.captures.findings.model import Confidence, Impact, Scope, Severity
from kproxy.decoders.plurals import counted

PRESSURE = "tcp.pressure"
PAIRS: Final = 5_000
"""Maximum number of pairs of client host and broker that are counted."""
BROKERS: Final = 10_000
WINDOW: Final = 300 * SECOND
"""Two failed connections to a broker belong to one series if at most this time (ns) is between them."""


class Pressure(Analyzer):
    """For all connections, adds up TCP counts by client host and broker."""

    __slots__ = ("_brokers", "_closed", "_context", "_failures", "_sent")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._brokers: dict[str, int] = {}
        """Maps each known broker's address to the time (ns) when a connection last worked; 0: only advertised."""
        self._sent: dict[tuple[str, str], tuple[int, int]] = {}
        """Maps (client host, broker) to (data segments, retransmitted ones), of connections with retransmissions."""
        self._closed: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        """Maps (client host, broker, side) to its closed receive windows: (number, ms in all, longest in ms)."""
        self._failures: dict[tuple[str, str], tuple[facts.At, int, int]] = {}
        """Maps (client host, broker) to the latest series of failures: (first, time of the latest, number)."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Pressure):
            self._pressed(fact)
        elif isinstance(fact, facts.Unanswered):
            self._knocked(fact)
        elif isinstance(fact, facts.Broker):
            self._brokers.setdefault(f"{fact.host}:{fact.port}", 0)
            if len(self._brokers) > BROKERS:
                del self._brokers[next(iter(self._brokers))]
        else:
            remember(self._brokers, fact.at.broker, fact.at.time, BROKERS)

    def _pressed(self, fact: facts.Pressure) -> None:
        at = fact.at
        if not self._context.whole(at.connection) or not self._brokers.get(at.broker):
            return  # perhaps the capture lacks one direction, which the reader has not reported yet
        for side, window in (("client", fact.client), ("broker", fact.broker)):
            self._shut(at, side, window)
        pair = at.peer, at.broker
        segments, again = self._sent.get(pair, (0, 0))
        segments, again = segments + fact.segments, again + fact.retransmitted
        remember(self._sent, pair, (segments, again), PAIRS)
        least = max(self._context.limit(PRESSURE, "segments"), self._context.limit(PRESSURE, "share") * segments)
        if fact.retransmitted and again >= least:
            what = f"{again} of {segments} segments were sent again ({again / max(1, segments):.1%})"
            self._report(at, "retransmissions", what, Impact("requests", again), "the network loses packets")

    def _shut(self, at: facts.At, side: str, window: tuple[int, int, int]) -> None:
        times, total, longest = window
        if longest < self._context.limit(PRESSURE, "closed_ms") or total < self._context.limit(PRESSURE, "total_ms"):
            return
        place = at.peer, at.broker, side
        before = self._closed.get(place, (0, 0, 0))
        times, total, longest = times + before[0], total + before[1], max(longest, before[2])
        remember(self._closed, place, (times, total, longest), PAIRS)
        what = f"the {side}'s receive window was closed {counted(times, 'time')}, {total} ms in all, {longest} at once"
        self._report(
            at, side, what, Impact("ms_lost", total), f"the {side} does not read what it is sent",
            Severity.NOTE if side == "client" else None,
        )  # fmt: skip

    def _knocked(self, fact: facts.Unanswered) -> None:
        at, pair = fact.at, (fact.at.peer, fact.at.broker)
        if at.broker not in self._brokers or (fact.times < 2 and not fact.refused):
            return
        first, latest, count = self._failures.get(pair, (at, at.time, 0))
        if at.time - latest >= WINDOW or first.time < self._brokers[at.broker]:
            first, latest, count = at, at.time, 0
        # facts come when attempts end, so an earlier attempt may come after a later one
        first, latest, count = min(first, at), max(latest, at.time), count + 1
        remember(self._failures, pair, (first, latest, count), PAIRS)
        how, lasted = "refused" if fact.refused else "left unanswered", latest - first.time
        few = count < self._context.limit(PRESSURE, "knocks")
        few |= lasted < self._context.limit(PRESSURE, "down_ms") * MILLISECOND
        what = (
            f"{counted(count, 'connection')} in a row {'was' if count == 1 else 'were'} {how}, "
            f"over {lasted / SECOND:.0f} s"
        )
        self._report(
            at, how, what, Impact("requests", count),
            "the broker's process is down" if fact.refused else "the broker's host is down, or a firewall drops SYNs",
            Severity.INFO if few else None,
        )  # fmt: skip

    def _report(
        self, at: facts.At, kind: str, what: str, impact: Impact, cause: str, severity: Severity | None = None
    ) -> None:
        self._context.report(
            PRESSURE,
            at_evidence(at, "trigger", what, weight=impact.value),
            numbers={"client": at.peer, "broker": at.broker, "what": what},
            impact=impact,
            scope=Scope("client", at.peer),
            episode=(at.broker, kind),
            severity=severity,
            confidence=Confidence.STRONG,
            cause=f"{cause[0].upper()}{cause[1:]}.",
        )


ANALYSES = (
    Analysis(
        frozenset({PRESSURE}),
        Key.CLUSTER,
        (facts.Pressure, facts.Unanswered, facts.Beginning, facts.Broker),
        Pressure,
    ),
)
