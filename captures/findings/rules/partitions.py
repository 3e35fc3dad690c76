"""Finds partitions that lack in-sync replicas or a leader."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

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
from kproxy.captures.findings.model import Impact, Scope, Severity
from kproxy.decoders.schema import api_keys, errors

SHRUNK = "isr.shrunk"
REFUSED: Final = frozenset({19, 20})
"""Error codes NOT_ENOUGH_REPLICAS and NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
ALL: Final = -1
"""The value of acks for "all in-sync replicas"; only with this value brokers refuse for lack of replicas."""
LEADERLESS: Final = frozenset({0, 5, 9})
"""Error codes with which Metadata reports a partition without leader; with other errors the partition has a leader."""
PLACES: Final = 20_000
"""Maximum number of partitions that are remembered."""
OUTAGES: Final = 1_000
Place: TypeAlias = tuple[str, int]


class Outage:
    """A broker or topic with partitions that lack replicas or a leader."""

    __slots__ = ("begun", "exchange", "now", "places")

    def __init__(self, begun: facts.At) -> None:
        self.begun = begun
        self.places: dict[Place, None] = {}
        """All partitions that were affected since the outage began."""
        self.now: dict[Place, None] = {}
        """The partitions that are affected now."""
        self.exchange = 0
        """The number of the latest exchange in evidence; an exchange needs only one report for all its partitions."""


class Outages:
    """The outages that have not ended, and their reports."""

    __slots__ = ("_context", "_outages")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._outages: dict[tuple[str, str], Outage] = {}
        """Maps (kind of outage, name of broker or topic) to the outage."""

    def unusable(self, lasted: int) -> Severity | None:
        """The severity if a partition cannot be used for `lasted` nanoseconds; None if that is too short to report."""
        if lasted < self._context.limit(SHRUNK, "unusable_ms") * MILLISECOND:
            return None
        return Severity.ERROR if lasted >= self._context.limit(SHRUNK, "error_ms") * MILLISECOND else Severity.WARN

    def recover(self, kind: str, name: str, place: Place) -> None:
        """Remove a partition that works again from the outage of its broker or topic."""
        outage = self._outages.get((kind, name))
        if outage is not None:
            outage.now.pop(place, None)
            if not outage.now:
                del self._outages[kind, name]

    def report(
        self, kind: str, name: str, place: Place, since: facts.At, at: facts.At, severity: Severity, what: str,
        note: str,
    ) -> None:  # fmt: skip
        """Add a partition to the outage of a broker or topic, and report the outage."""
        outage = self._outages.get((kind, name)) or Outage(since)
        remember(self._outages, (kind, name), outage, OUTAGES)
        if place in outage.now and outage.exchange == at.exchange:
            return
        outage.exchange = at.exchange
        remember(outage.places, place, None, PLACES)
        remember(outage.now, place, None, PLACES)
        lasted = at.time - outage.begun.time
        self._context.report(
            SHRUNK,
            at_evidence(since, "trigger", f"{place[0]}-{place[1]}: the first of such responses"),
            at_evidence(at, "symptom", note, weight=lasted),
            numbers={
                "what": what, "seconds": lasted / SECOND, "partitions": len(outage.places), "example": note,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=(kind, outage.begun.time),
            scope=Scope("broker" if kind == "short" else "topic", name),
            severity=severity,
            cause=CAUSES.get(kind),
        )  # fmt: skip


class Replicas(Analyzer):
    """For the whole cluster, finds partitions that lack in-sync replicas or a leader.

    Metadata responses repeat a partition's state. The controller's messages tell the loss of a leader, and the new
    leader, only once each, so a timer checks whether the partition still has none.
    """

    __slots__ = ("_context", "_in_sync", "_leaderless", "_outages", "_short", "_without_leader")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._short: dict[Place, dict[int, facts.At]] = {}
        """Maps each partition to {node outside of the ISR: exchange that first showed this}."""
        self._in_sync: dict[Place, tuple[int, ...]] = {}
        """Maps each partition to its latest ISR that had all replicas."""
        self._leaderless: dict[Place, facts.At] = {}
        self._without_leader: dict[Place, facts.PartitionState] = {}
        """Partitions that the controller left without leader, with its message; the oldest loss comes first."""
        self._outages = Outages(context)

    def feed(self, fact: Any) -> None:
        place = fact.topic, fact.partition
        if isinstance(fact, facts.PartitionState):
            self._state_from_controller(place, fact)
            return
        self._look_for_leader(place, fact)
        self._look_at_replicas(place, fact)

    def _look_at_replicas(self, place: Place, fact: facts.PartitionView) -> None:
        before = self._short.get(place) if self._short else None
        if before is None and len(fact.isr) >= len(fact.replicas):
            if self._in_sync.get(place) != fact.isr:
                remember(self._in_sync, place, fact.isr, PLACES)
            return
        missing = {node: (before or {}).get(node, fact.at) for node in fact.replicas if node not in fact.isr}
        for node in before or {}:
            if node not in missing:
                self._outages.recover("short", f"node {node}", place)
        if not missing:
            self._short.pop(place, None)
            return
        remember(self._short, place, missing, PLACES)
        for node, since in missing.items():
            lasted = fact.at.time - since.time
            if lasted < self._context.limit(SHRUNK, "short_ms") * MILLISECOND:
                continue
            severity = Severity.INFO
            if lasted >= self._context.limit(SHRUNK, "long_ms") * MILLISECOND:
                lost = node in fact.offline or node in self._in_sync.get(place, ())
                severity = Severity.WARN if lost else Severity.NOTE
            note = f"{place[0]}-{place[1]}: replicas {_nodes(fact.replicas)}, ISR {_nodes(fact.isr)}"
            what = f"node {node} is missing in ISRs"
            self._outages.report("short", f"node {node}", place, since, fact.at, severity, what, note)

    def _look_for_leader(self, place: Place, fact: facts.PartitionView) -> None:
        if fact.leader is not None or fact.error not in LEADERLESS:
            self._lead(place)
            return
        since = self._leaderless.get(place, fact.at)
        remember(self._leaderless, place, since, PLACES)
        severity = self._outages.unusable(fact.at.time - since.time)
        if severity is not None:
            note = f"{place[0]}-{place[1]}: no leader, ISR {_nodes(fact.isr)}, offline {_nodes(fact.offline)}"
            what = f"topic {fact.topic} has partitions without leader"
            self._outages.report("leaderless", fact.topic, place, since, fact.at, severity, what, note)

    def _lead(self, place: Place) -> None:
        """Note that a partition has a leader, which ends its outage."""
        if self._leaderless and self._leaderless.pop(place, None) is not None:
            self._outages.recover("leaderless", place[0], place)

    def _state_from_controller(self, place: Place, fact: facts.PartitionState) -> None:
        """Take a partition's state from a message of the controller."""
        if fact.leaderless and not fact.past:
            if place not in self._without_leader:
                remember(self._without_leader, place, fact, PLACES)
                self._leaderless.setdefault(place, fact.at)
                self._context.wake(fact.at.time + self._limit("unusable_ms"))
        elif fact.leader is not None or fact.deleting or fact.leaderless:
            self._without_leader.pop(place, None)
            self._lead(place)

    def tick(self) -> None:
        """Report partitions that the controller left without leader and that have none yet."""
        now = self._context.now
        for place, state in list(self._without_leader.items()):
            since = self._leaderless.get(place)
            if since is None or not self._context.whole(state.at.connection):
                del self._without_leader[place]
                continue
            lasted = now - state.at.time
            if lasted < self._limit("unusable_ms"):
                self._context.wake(state.at.time + self._limit("unusable_ms"))
                break
            if lasted < self._limit("error_ms"):
                self._context.wake(state.at.time + self._limit("error_ms"))
            else:
                del self._without_leader[place]
            severity = self._outages.unusable(now - since.time)
            if severity is not None:
                isr = "" if state.isr is None else f", ISR {_nodes(state.isr)}"
                note = f"{place[0]}-{place[1]}: the controller finds no leader{isr}"
                still = state.at._replace(time=now, exchange=0)
                what = f"topic {place[0]} has partitions without leader"
                self._outages.report("leaderless", place[0], place, since, still, severity, what, note)

    def _limit(self, name: str) -> int:
        return int(self._context.limit(SHRUNK, name)) * MILLISECOND


class Refused(Analyzer):
    """For one topic, finds partitions that refuse records with acks=all, because they lack in-sync replicas."""

    __slots__ = ("_context", "_outages", "_refused")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._outages = Outages(context)
        self._refused: dict[int, tuple[facts.At, int]] = {}
        """Maps each partition to its errors since the last success: (first response, number of responses)."""

    def feed(self, fact: facts.PartitionIO) -> None:
        place = fact.topic, fact.partition
        if fact.error not in REFUSED:
            if fact.acks == ALL and not fact.error and self._refused.pop(fact.partition, None) is not None:
                self._outages.recover("refused", fact.topic, place)
            return
        since, count = self._refused.get(fact.partition, (fact.at, 0))
        remember(self._refused, fact.partition, (since, count + 1), PLACES)
        severity = self._outages.unusable(fact.at.time - since.time)
        if severity is not None and count + 1 >= self._context.limit(SHRUNK, "refused"):
            error = errors.name(fact.error)
            note = f"{place[0]}-{place[1]}: {error} for {fact.at.client}"
            what = f"topic {fact.topic} refuses records with {error}"
            self._outages.report("refused", fact.topic, place, since, fact.at, severity, what, note)


def _nodes(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes)) or "none"


CAUSES: Final = {
    "leaderless": "All replicas in the ISR are down, and no other may lead (unclean.leader.election.enable is false).",
    "refused": "Fewer replicas are in sync than min.insync.replicas: brokers are down or slow.",
}
"""The cause of each kind of outage. Other kinds have the cause in the rule's row."""


ANALYSES = (
    Analysis(frozenset({SHRUNK}), Key.CLUSTER, (facts.PartitionView, facts.PartitionState), Replicas),
    Analysis(
        frozenset({SHRUNK}),
        Key.TOPIC,
        (facts.PartitionIO,),
        Refused,
        errors=REFUSED,
        partition_api=api_keys.PRODUCE,
    ),
)
