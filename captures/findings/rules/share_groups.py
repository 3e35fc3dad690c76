"""Finds records that a share group gets again and again, and what stops Streams groups."""

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
    error_field,
    remember,
)
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Severity
from kproxy.decoders.schema import errors

POISON = "share.poison"
STATUS = "streams.status"
PLACES: Final = 1_000
"""Maximum number of partitions of a group whose deliveries are remembered."""
RUNS: Final = 16
"""Maximum number of delivered runs of offsets, and of released ones, that are remembered for a partition."""


class Doomed(NamedTuple):
    """Records that a member released although they had reached the maximum number of deliveries.

    If nobody gets them again, the broker has archived them.
    """

    delivered: facts.Redelivered
    released: facts.At


class Poison(Analyzer):
    """For one share group, finds records that are delivered again and again, because no member accepts them."""

    __slots__ = ("_active", "_beyond", "_context", "_doomed", "_least", "_limit", "_released", "_seen", "_worst")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._least, self._limit = context.limit(POISON, "deliveries"), context.limit(POISON, "limit")
        self._worst: dict[tuple[str, int], facts.Redelivered] = {}
        """Maps each partition to the reported records with the most deliveries."""
        self._seen: dict[tuple[str, int], deque[facts.Redelivered]] = {}
        """Maps each partition to its latest repeated deliveries."""
        self._released: dict[tuple[str, int], deque[tuple[int, int]]] = {}
        self._doomed: dict[tuple[str, int], Doomed] = {}
        self._beyond = False
        """Whether a record was delivered more than `limit` times, so that the group's real limit must be higher."""
        self._active = 0
        """Time (ns) of the latest request of any member."""

    def feed(self, fact: Any) -> None:
        self._active = max(self._active, fact.at.asked)
        if isinstance(fact, facts.Redelivered):
            self._delivered(fact)
        elif isinstance(fact, facts.Released) and fact.how == "release" and not fact.error:
            self._gave_up(fact)

    def _delivered(self, fact: facts.Redelivered) -> None:
        place = fact.topic, fact.partition
        doomed = self._doomed.get(place)
        if doomed is not None and fact.first <= doomed.delivered.first <= fact.last:
            del self._doomed[place]
        self._beyond |= fact.deliveries > self._limit
        seen = self._seen.get(place)
        if seen is None:
            seen = deque(maxlen=RUNS)
        known = any(
            one.first <= fact.last and fact.first <= one.last and one.deliveries < fact.deliveries for one in seen
        )
        seen.append(fact)
        remember(self._seen, place, seen, PLACES)
        if fact.deliveries < self._least or not known:
            return
        before = self._worst.get(place)
        if before is None or fact.deliveries >= before.deliveries:
            remember(self._worst, place, fact, PLACES)
        self._report(fact, at_evidence(fact.at, "trigger", f"delivery {fact.deliveries}", weight=fact.deliveries))

    def _gave_up(self, fact: facts.Released) -> None:
        place = fact.topic, fact.partition
        runs = self._released.get(place)
        if runs is None:
            runs = deque(maxlen=RUNS)
        runs.append((fact.first, fact.last))
        remember(self._released, place, runs, PLACES)
        worst = self._worst.get(place)
        if worst is not None and worst.deliveries >= self._limit and fact.first <= worst.first <= fact.last:
            remember(self._doomed, place, Doomed(worst, fact.at), PLACES)
            self._context.wake(fact.at.time + self._wait)

    def tick(self) -> None:
        for place, (delivered, released) in list(self._doomed.items()):
            due = released.time + self._wait
            if self._context.now < due:
                self._context.wake(due)
                continue
            del self._doomed[place]
            if not self._beyond and self._active > released.time:
                proof = at_evidence(released, "culprit", f"released after delivery {delivered.deliveries}")
                self._report(delivered, proof, archived=True)

    def _report(self, fact: facts.Redelivered, proof: Evidence, *, archived: bool = False) -> None:
        at, (first, last) = fact.at, (fact.first, fact.last)
        runs = self._released.get((fact.topic, fact.partition), ())
        released = any(low <= last and first <= high for low, high in runs)
        self._context.report(
            POISON,
            proof,
            numbers={
                "group": fact.group, "place": f"{fact.topic}-{fact.partition}", "deliveries": fact.deliveries,
                "offsets": str(first) if first == last else f"{first} to {last}",
                "outcome": ", and nobody gets them again" if archived else "",
            },
            impact=Impact("records_at_risk", last - first + 1),
            episode=(fact.topic, fact.partition),
            severity=Severity.ERROR if archived else None,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
            cause="The program releases these records." if released else "Members take these records and do not "
            "acknowledge them: they crash while processing, or take longer than the lock lasts.",
        )  # fmt: skip

    @property
    def _wait(self) -> int:
        return round(self._context.limit(POISON, "wait_ms") * MILLISECOND)


class Kind(NamedTuple):
    """What a status of a Streams group means, and its severity.

    The severity applies once the status has lasted as long as the threshold `limit`; None: at once.
    """

    what: str
    limit: str | None
    severity: Severity = Severity.WARN


STATUSES: Final = {
    0: Kind("a member's topology is not the group's", "upgrade_ms"),
    1: Kind("source topics are missing", "lasts_ms"),
    2: Kind("topics to be joined differ in partitions", "lasts_ms"),
    3: Kind("internal topics are missing", "makes_ms"),
    4: Kind("a member asked the application to stop", None),
    5: Kind("the coordinator puts the assignment off", "makes_ms"),
    6: Kind("client tags for rack-aware standbys are missing", "lasts_ms", Severity.NOTE),
}
ERRORS: Final = {
    130: Kind("the coordinator refuses a member's topology", None, Severity.ERROR),
    131: STATUSES[0],
    132: STATUSES[0],
}
"""Maps error codes of heartbeats to the status that they mean."""
EARLY: Final = {"upgrade_ms": Severity.NOTE}
"""Maps a threshold (`Kind.limit`) to the severity of a status that has not lasted that long yet.

With a threshold that is not in this table, such a status is not reported.
"""


class StreamsStatus(Analyzer):
    """For one Streams group, finds statuses and errors that stop it, as the coordinator reports them."""

    __slots__ = ("_context", "_since")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._since: dict[str, tuple[facts.At, int]] = {}
        """Maps each status to (first response with it, time of the latest one in ns)."""

    def feed(self, fact: facts.StreamsStatus) -> None:
        kind = ERRORS.get(fact.error) if fact.status is None else STATUSES.get(fact.status)
        if kind is None:
            return
        at, latest = self._since.get(kind.what, (fact.at, fact.at.time))
        if fact.at.time - latest > self._context.limit(STATUS, "gap_ms") * MILLISECOND:
            at = fact.at
        remember(self._since, kind.what, (at, fact.at.time))
        lasted = fact.at.time - at.time
        severity: Severity | None = kind.severity
        if kind.limit is not None and lasted < self._context.limit(STATUS, kind.limit) * MILLISECOND:
            severity = EARLY.get(kind.limit)
        if severity is not None:
            self._report(fact, kind, at, lasted, severity)

    def _report(self, fact: facts.StreamsStatus, kind: Kind, first: facts.At, lasted: int, severity: Severity) -> None:
        at, detail = fact.at, fact.detail or (errors.name(fact.error) if fact.error else "no detail")
        path = error_field(fact.error) if fact.status is None else f"response.statusCode={fact.status}"
        self._context.report(
            STATUS,
            at_evidence(first, "trigger", kind.what, path=path),
            at_evidence(at, "symptom", detail, path=path),
            numbers={"group": fact.group, "what": kind.what, "detail": detail, "lasted_s": lasted / SECOND},
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=kind.what,
            severity=severity,
            confidence=Confidence.PROVEN,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )


ANALYSES = (
    Analysis(
        frozenset({POISON}),
        Key.GROUP,
        (facts.Redelivered, facts.Released, facts.Member),
        Poison,
        begins=frozenset({facts.Redelivered, facts.Released}),
    ),
    Analysis(frozenset({STATUS}), Key.GROUP, (facts.StreamsStatus,), StreamsStatus),
)
