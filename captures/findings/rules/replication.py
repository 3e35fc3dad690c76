"""Finds followers that stop fetching, or do not catch up with their leader."""

from __future__ import annotations

from typing import Final, TypeAlias

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
from kproxy.captures.findings.model import Evidence, Impact, Scope

LAG = "replica.lag"
FOLLOWERS: Final = 1_000
"""Maximum number of followers' connections that are remembered for a leader."""
PARTITIONS: Final = 20_000
"""Maximum number of partitions behind the high watermark that are remembered for a leader."""
Place: TypeAlias = tuple[int, str, int]
"""(follower's node id, topic, partition)."""


class Follower:
    """A connection on which a follower fetches from the leader."""

    __slots__ = ("last", "replica", "told")

    def __init__(self, replica: int, at: facts.At) -> None:
        self.replica = replica
        self.last = at
        """The latest answered Fetch on the connection."""
        self.told = False
        """Whether the follower's silence since `last` was reported."""


class Behind:
    """A partition in which a follower is behind the high watermark, so that it is not in sync."""

    __slots__ = ("compared", "first", "lag", "seen")

    def __init__(self, at: facts.At, lag: int) -> None:
        self.first = at
        self.seen = at.time
        self.compared = at.time
        """Time (ns) of the latest comparison of the lag; at first, that of the first Fetch that is behind."""
        self.lag = lag
        """The lag at the time `compared`, in offsets."""


class Followers(Analyzer):
    """For one leader, finds followers that fall silent, or do not catch up."""

    __slots__ = ("_alive", "_behind", "_context", "_episodes", "_followers", "_lagging", "_silent")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._silent = int(context.limit(LAG, "silent_ms")) * MILLISECOND
        self._followers: dict[int, Follower] = {}
        """Maps each connection to its follower; the connection with the latest Fetch comes last."""
        self._behind: dict[Place, Behind] = {}
        self._lagging: dict[int, dict[Place, None]] = {}
        """Maps each follower's node id to the partitions that were reported as lagging."""
        self._episodes: dict[int, int] = {}
        """Maps each follower's node id to the time (ns) when its present episode of lag began."""
        self._alive = 0
        """Time (ns) of the leader's latest response to any follower."""

    def feed(self, fact: facts.ReplicaFetch) -> None:
        at = fact.at
        self._alive = max(self._alive, at.time)
        follower = self._followers.get(at.connection)
        if follower is None:
            follower = Follower(fact.replica, at)
        elif at.asked - follower.last.time >= self._silent:
            self._report_silence(follower, at.asked, at_evidence(at, "symptom", "its next Fetch"))
        follower.last, follower.told = at, False
        remember(self._followers, at.connection, follower, FOLLOWERS)
        if len(self._followers) == 1:
            self._context.wake(at.time + self._silent)
        for topic, partition, lag in fact.behind:
            self._measure((fact.replica, topic, partition), at, lag)

    def tick(self) -> None:
        """Report followers that have been silent for some time while the leader answered other followers."""
        now = self._context.now
        for connection, follower in list(self._followers.items()):
            if now - follower.last.time < self._silent:
                self._context.wake(follower.last.time + self._silent)
                break
            if self._context.closed(connection) is not None or self._is_elsewhere(follower):
                del self._followers[connection]
            elif not follower.told and self._alive - follower.last.time >= self._silent - SECOND:
                self._report_silence(follower, now)
            elif not follower.told:
                self._context.wake(now + SECOND)
        if self._followers:
            self._context.wake(now + self._silent)

    def _is_elsewhere(self, follower: Follower) -> bool:
        """Whether the follower now fetches on another connection: the capture lacks the end of this one."""
        return any(
            one.replica == follower.replica and one.last.time > follower.last.time + SECOND
            for one in self._followers.values()
        )

    def _report_silence(self, follower: Follower, until: int, *evidence: Evidence) -> None:
        if not self._context.whole(follower.last.connection):
            return
        follower.told = True
        lasted = until - follower.last.time
        self._context.report(
            LAG,
            at_evidence(follower.last, "trigger", "its last Fetch before the silence"),
            *evidence,
            numbers={
                "node": follower.replica,
                "what": f"sent no Fetch to {follower.last.broker} for {lasted / SECOND:.0f} s, and kept the connection",
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=("silent", follower.last.time),
            scope=Scope("broker", f"node {follower.replica}"),
            cause=STOPPED,
        )

    def _measure(self, place: Place, at: facts.At, lag: int) -> None:
        limit = self._context.limit
        state = self._behind.get(place)
        if state is None or at.time - state.seen > limit(LAG, "gap_ms") * MILLISECOND:
            remember(self._behind, place, Behind(at, lag), PARTITIONS)
            self._lagging.get(place[0], {}).pop(place, None)
            return
        state.seen = at.time
        if at.time - state.compared < limit(LAG, "lasts_ms") * MILLISECOND:
            return
        stuck = lag >= limit(LAG, "offsets") and lag >= state.lag * (1 - limit(LAG, "falls"))
        before, state.compared, state.lag = state.lag, at.time, lag
        if stuck:
            self._report_lag(place, state, at, before, lag)

    def _report_lag(self, place: Place, state: Behind, at: facts.At, before: int, lag: int) -> None:
        replica, topic, partition = place
        lagging = self._lagging.setdefault(replica, {})
        if not lagging:
            self._episodes[replica] = state.first.time
        remember(lagging, place, None, PARTITIONS)
        lasted = at.time - state.first.time
        note = f"{topic}-{partition}: {lag} offsets behind, {before} before"
        what = f"lags behind {at.broker} for {lasted / SECOND:.0f} s (partitions: {len(lagging)}; {note})"
        self._context.report(
            LAG,
            at_evidence(state.first, "trigger", f"{topic}-{partition}: behind the high watermark"),
            at_evidence(at, "symptom", note, weight=lag),
            numbers={"node": replica, "what": what},
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=("behind", self._episodes[replica]),
            scope=Scope("broker", f"node {replica}"),
            cause=SLOW,
        )


STOPPED = "The broker stands still: garbage collection, a blocked disk, a stopped process or virtual machine."
SLOW = (
    "The follower copies no faster than producers write: its disk or network is full, or a replication quota "
    "(follower.replication.throttled.rate) is too low."
)

ANALYSES = (Analysis(frozenset({LAG}), Key.BROKER, (facts.ReplicaFetch,), Followers),)
