"""Finds groups whose commits stop, repeat an offset or fall behind, and what limits their consumers."""

from __future__ import annotations

from heapq import heappop, heappush
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
from kproxy.captures.findings.limiters import (
    CLIENTS,
    Client,
    Limiter,
    Partition,
    Readers,
    Reading,
    Shares,
    Trend,
    Verdict,
)
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Number, Scope, Severity
from kproxy.captures.lag import LATEST, WINDOW, Lag, PartitionLag, State
from kproxy.decoders.schema import api_keys

LAG = "group.lag_state"
CAUSE = "consumer.lag_cause"
PLACES: Final = 100_000
"""Maximum number of pairs of group and partition whose latest commit is remembered."""
TRENDS: Final = 20_000
"""Maximum number of pairs of group and partition whose lag is measured over time."""
GROUPS: Final = 5_000
MEMBERS: Final = 1_000
"""Maximum number of clients of a group, groups of a partition, or partitions of a finding that are remembered."""
GROUPS_OF_CLIENT: Final = 16
"""Maximum number of groups that are remembered for a client."""
WORDS: Final = {
    State.STOPPED: "no longer commits, although records are waiting",
    State.STALLED: "commits the same offset again and again, although records are waiting",
    State.GROWING: "falls behind further with each commit",
    State.REWOUND: "commits a lower offset than before",
}
"""How a finding's text describes each state that is reported."""
SEVERITIES: Final = {State.STOPPED: Severity.WARN, State.STALLED: Severity.WARN}
"""The severity of each state; NOTE for others."""


class Place(NamedTuple):
    group: str
    topic: str
    partition: int


class Behind(Analyzer):
    """For all groups, finds commits that stop, repeat or fall behind the ends of partitions."""

    __slots__ = ("_alive", "_causes", "_context", "_due", "_lag", "_last", "_worst")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._causes = Causes(context)
        self._lag = Lag()
        self._last: dict[Place, facts.At] = {}
        """Maps (group, topic, partition) to the latest commit."""
        self._alive: dict[str, int] = {}
        """Maps each group to the time (ns) of the last successful request of a member, other than one to leave."""
        self._due: list[tuple[int, Place]] = []
        """A heap of (time in ns, place): when to check next whether the commits of the place have stopped."""
        self._worst: dict[tuple[str, State], dict[Place, int]] = {}
        """Maps (group, state), which identifies a finding, to the largest lag seen in each partition."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Produced):
            if self._causes.owners:
                self._produced(fact)
        elif isinstance(fact, facts.PartitionIO):
            self._ends(fact, fact.high_watermark)
        elif isinstance(fact, facts.Fetched):
            self._causes.fetched(fact)
        elif isinstance(fact, facts.Throttle):
            self._causes.throttle(fact)
        elif isinstance(fact, facts.Commit):
            self._commit(fact)
        elif isinstance(fact, facts.Member):
            if fact.what != "leave" and not fact.error:
                remember(self._alive, fact.group, fact.at.time, GROUPS)
                self._causes.member(fact)
        elif fact.timestamp == LATEST:
            self._ends(fact, fact.offset)

    def _produced(self, fact: facts.Produced) -> None:
        known = self._causes.owners
        for one in fact.batches:
            if one.offset is not None and (one.topic, one.partition) in known:
                self._ends(one, one.offset + one.records)

    def _ends(self, fact: facts.PartitionIO | facts.OffsetLookup | facts.Append, end: int | None) -> None:
        if end is not None and not fact.error:
            self._lag.end(fact.topic, fact.partition, end, fact.at.time)

    def _commit(self, fact: facts.Commit) -> None:
        if fact.error or fact.offset is None:
            return
        place = Place(fact.group, fact.topic, fact.partition)
        self._lag.commit(*place, fact.offset, fact.at.time)
        known = place in self._last
        remember(self._last, place, fact.at, PLACES)
        if not known:
            self._look_at(fact.at.time + self._stop, place)
        window = self._lag.window(*place)
        self._causes.committed(place, fact.at, fact.offset, window[-1].end if window else None)
        lasted = fact.at.time - window[0].time if window else 0
        if len(window) < WINDOW or lasted < self._limit("lasts_ms") * MILLISECOND:
            return
        now = self._state(place)
        if now is not None and now.state in {State.STALLED, State.GROWING, State.REWOUND}:
            self._report(place, now)

    def tick(self) -> None:
        """Check partitions to which the group may have stopped committing."""
        now = self._context.now
        self._lag.now = max(self._lag.now, now)
        while self._due and self._due[0][0] <= now:
            _, place = heappop(self._due)
            last = self._last.get(place)
            if last is None:
                continue
            idle = now - last.time
            if idle >= self._stop and self._alive.get(place.group, 0) >= last.time + self._stop // 2:
                state = self._state(place)
                if state is not None and state.state is State.STOPPED:
                    self._report(place, state)
                    self._causes.stopped(place, last, state)
            # the time between checks of a place grows, so that long captures do not cost more and more
            self._look_at(now + max(self._stop, idle), place)
        if self._due:
            self._context.wake(self._due[0][0])

    def _look_at(self, time: int, place: Place) -> None:
        if len(self._due) < PLACES:
            heappush(self._due, (time, place))
            self._context.wake(time)

    def _limit(self, name: str) -> float:
        return self._context.limit(LAG, name)

    @property
    def _stop(self) -> int:
        return max(1, round(self._limit("stop_ms") * MILLISECOND))

    def _state(self, place: Place) -> PartitionLag | None:
        found = self._lag.partition(*place, allowed=round(self._limit("records")))
        enough = found is not None and (found.records or 0) > self._limit("records")
        return found if enough else None

    def _report(self, place: Place, now: PartitionLag) -> None:
        state, last = now.state, self._last.get(place)
        if state is None or last is None or now.records is None:
            return
        worst = self._worst.setdefault((place.group, state), {})
        if place not in worst and len(worst) >= PLACES // 100:
            return
        worst[place] = max(worst.get(place, 0), now.records)
        if len(self._worst) > GROUPS:
            del self._worst[next(iter(self._worst))]
        largest = max(worst, key=lambda one: (worst[one], one))
        note = (
            f"commits {now.committed} of {place.topic}-{place.partition}, which ends at {now.end}: {state}, "
            f"{now.records} records behind"
        )
        self._context.report(
            LAG,
            at_evidence(last, "symptom", note, path="request.committedOffset", weight=now.records),
            numbers={
                "group": place.group, "state": WORDS[state], "partitions": len(worst), "records": sum(worst.values()),
                "partition": f"{largest.topic}-{largest.partition}", "most": worst[largest],
                "seconds": now.seconds or 0.0,
            },
            impact=Impact("records_at_risk", sum(worst.values())),
            episode=state.value,
            scope=Scope("group", place.group),
            severity=SEVERITIES.get(state, Severity.NOTE),
            confidence=Confidence.STRONG,
        )  # fmt: skip


class Causes:
    """For all consumers with growing lag, finds what limits their speed."""

    __slots__ = ("_behind", "_clients", "_context", "_groups", "_readers", "_trends", "owners")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._readers = Readers()
        self._trends: dict[Place, Trend] = {}
        """Maps (group, topic, partition) to the lag of the group's commits."""
        self.owners: dict[Partition, dict[str, Client]] = {}
        """Maps each partition to {group: client of the group's last commit}."""
        self._groups: dict[Client, tuple[str, ...]] = {}
        """Maps each client to the groups of which it is a member."""
        self._clients: dict[str, dict[Client, None]] = {}
        """Maps each group to its clients."""
        self._behind: dict[tuple[Scope, Limiter], dict[Partition, int]] = {}
        """Maps (scope, limiter), which identifies a finding, to the lag of each partition."""

    def member(self, fact: facts.Member) -> None:
        client = fact.at.client_id, fact.at.peer
        groups = self._groups.get(client, ())
        if fact.group in groups or self._readers.active(client) is None:
            return  # a client that reads nothing yet is added by a later heartbeat, which gives the same fact
        remember(self._groups, client, (*groups[1 - GROUPS_OF_CLIENT :], fact.group), CLIENTS)
        clients = self._clients.get(fact.group) or {}
        remember(clients, client, None, MEMBERS)
        remember(self._clients, fact.group, clients, GROUPS)

    def throttle(self, fact: facts.Throttle) -> None:
        if fact.at.key == api_keys.FETCH:
            self._readers.throttle(fact)

    def fetched(self, fact: facts.Fetched) -> None:
        for part, reading in self._readers.add(fact):
            if self._is_behind(reading.trend):
                place = part.topic, part.partition
                self._judge(place, reading, reading.trend, self._group_of(place, reading.client))

    def committed(self, place: Place, at: facts.At, offset: int, end: int | None) -> None:
        """Take a group's commit of `offset` to a partition that ends at offset `end` (None if unknown)."""
        partition, client = (place.topic, place.partition), (at.client_id, at.peer)
        owners = self.owners.get(partition)
        if owners is None:
            owners = {}
            remember(self.owners, partition, owners, PLACES)
        if place.group in owners or len(owners) < MEMBERS:
            owners[place.group] = client
        if end is None:
            return
        trend = self._trends.get(place)
        if trend is None:
            trend = Trend()
            remember(self._trends, place, trend, TRENDS)
        if trend.add(at.time, max(0, end - offset), end) and self._is_behind(trend):
            reading = self._readers.of(partition, client)
            if reading is not None:
                self._judge(partition, reading, trend, place.group)

    def stopped(self, place: Place, last: facts.At, lag: PartitionLag) -> None:
        """Report a partition without commits of a live group, if no member of the group fetches it."""
        partition, members = (place.topic, place.partition), self._clients.get(place.group, {})
        if not members or not self._much(lag.records or 0, lag.seconds or 0.0):
            return
        grace = last.time + SECOND * self._limit("grace_s")
        if any((at.client_id, at.peer) in members and at.time > last.time for at in self._readers.latest(partition)):
            return
        active = [at for one in members if (at := self._readers.active(one)) is not None and at.time > grace]
        if not active or not all(self._context.whole(one.connection) for one in (last, *active[:MEMBERS])):
            return
        newest = max(active, key=lambda one: one.time)
        evidence = (
            at_evidence(last, "trigger", f"the last commit to {place.topic}-{place.partition}: {lag.committed}"),
            at_evidence(newest, "baseline", f"{newest.client} reads other partitions"),
        )
        numbers: dict[str, Number] = {
            "reader": f"group {place.group}",
            "seconds": (self._context.now - last.time) / SECOND,
        }
        verdict = Verdict(Limiter.NOBODY, False, 0, 0, 1, 0)
        self._report(Scope("group", place.group), partition, lag.records or 0, verdict, numbers, evidence, None)

    def _limit(self, name: str) -> float:
        return self._context.limit(CAUSE, name)

    def _is_behind(self, trend: Trend) -> bool:
        if not trend.grows(self._limit("grows")):
            return False
        return self._much(trend.lag, trend.lag / max(0.001, trend.inflow()))

    def _much(self, records: int, seconds: float) -> bool:
        """Whether a lag is worth a finding; producers took `seconds` to write its `records`."""
        if records >= self._limit("records"):
            return True
        return records >= self._limit("least") and seconds >= self._limit("inflow_s")

    def _group_of(self, place: Partition, client: Client) -> str | None:
        """The group for which a client reads a partition; None if no group or more than one is possible."""
        owned = [group for group, owner in self.owners.get(place, {}).items() if owner == client]
        found = owned or self._groups.get(client, ())
        return found[0] if len(found) == 1 else None

    def _judge(self, place: Partition, reading: Reading, trend: Trend, group: str | None) -> None:
        if not self._context.whole(reading.at.connection):
            return
        now = max(self._context.now, reading.at.time)
        shares = Shares(*(self._limit(name) for name in ("throttled", "held", "paused", "full")))
        verdict = self._readers.judge(reading, trend.began, now, shares)
        if trend is not reading.trend and reading.lag is not None and reading.lag < self._limit("fetched") * trend.lag:
            verdict = verdict._replace(limiter=Limiter.PROCESSING, sure=True)
        client = facts.client_name(*reading.client)
        scope = Key.CLIENT.scope(reading.client) if group is None else Scope("group", group)
        evidence = (
            at_evidence(reading.first, "baseline", f"begins to read {place[0]}-{place[1]}"),
            at_evidence(reading.at, "symptom", f"{trend.lag} offsets behind: {verdict.limiter}", weight=trend.lag),
        )
        numbers: dict[str, Number] = {
            "reader": client if group is None else f"{client} of group {group}",
            "seconds": (now - trend.began) / SECOND, "inflow": trend.inflow(), "drain": trend.drain(),
        }  # fmt: skip
        actor = Actor("victim", reading.at.peer, reading.at.client_id or None)
        self._report(scope, place, trend.lag, verdict, numbers, evidence, actor)

    def _report(
        self, scope: Scope, place: Partition, lag: int, verdict: Verdict, numbers: dict[str, Number],
        evidence: tuple[Evidence, ...], actor: Actor | None,
    ) -> None:  # fmt: skip
        behind = self._behind.get((scope, verdict.limiter))
        if behind is None:
            behind = {}
            remember(self._behind, (scope, verdict.limiter), behind, GROUPS)
        remember(behind, place, lag, MEMBERS)
        total = sum(behind.values())
        worst = max(behind, key=lambda one: (behind[one], one))
        if verdict.limiter is Limiter.NOBODY:
            how = f"no member was seen to fetch it for {numbers['seconds']:.0f} s"
        else:
            how = (
                f"{numbers['inflow']:.0f} offsets a second come in, {numbers['drain']:.0f} are read; of "
                f"{numbers['seconds']:.0f} s it waited for answers {verdict.waited:.0%}, was throttled "
                f"{verdict.throttled:.0%}, asked for nothing {verdict.paused:.0%}; {verdict.full:.0%} of the answers "
                "were full"
            )
        self._context.report(
            CAUSE,
            *evidence,
            numbers=numbers | {
                "limiter": str(verdict.limiter), "how": how, "lag": total, "partitions": len(behind),
                "partition": f"{worst[0]}-{worst[1]}", "throttled": verdict.throttled, "waited": verdict.waited,
                "paused": verdict.paused, "full": verdict.full,
            },
            impact=Impact("records_at_risk", total),
            episode=verdict.limiter.value,
            scope=scope,
            confidence=Confidence.STRONG if verdict.sure else Confidence.INFERRED,
            actors=() if actor is None else (actor,),
            cause=CAUSES[verdict.limiter],
        )  # fmt: skip


CAUSES: Final = {
    Limiter.QUOTA: "A quota delays the consumer's requests: see `latency.throttled`.",
    Limiter.TRANSACTION: "The consumer reads committed records only, and an open transaction holds back those behind "
    "it: see `txn.lso_stall`.",
    Limiter.PROCESSING: "The consumer asks for records more slowly than they come in: processing them takes its time, "
    "it is paused, or its queue is full.",
    Limiter.FETCH_SIZE: "Each response is as large as the consumer allows, and there is one in each round trip: see "
    "`fetch.size_bound`.",
    Limiter.BROKER: "The consumer waits for responses most of the time, and they are not full: the broker or the "
    "network is slow, see `latency.broker_slow`.",
    Limiter.NOBODY: "No member of the group fetches the partition, although members fetch others: it is assigned to "
    "none of them, to one that hangs, or is paused.",
}
"""The cause of a growing lag, by what limits the consumer."""

ANALYSES = (
    Analysis(
        frozenset({LAG, CAUSE}),
        Key.CLUSTER,
        (
            facts.Commit,
            facts.Member,
            facts.PartitionIO,
            facts.OffsetLookup,
            facts.Produced,
            facts.Fetched,
            facts.Throttle,
        ),
        Behind,
        partition_api=api_keys.FETCH,
    ),
)
