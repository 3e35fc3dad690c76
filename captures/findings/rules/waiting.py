"""Finds clients that lose time: to quotas, missing responses, moved leaders, or other producers that fence them."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    api_name,
    at_evidence,
    error_field,
    lasting_errors,
    remember,
)
from kproxy.captures.findings.model import Actor, Impact, Severity
from kproxy.decoders.exchange import Status
from kproxy.decoders.schema import api_keys, errors

THROTTLED = "latency.throttled"
STALE = "leader.stale"
ABANDONED = "conn.abandoned"
FENCED = "txn.fenced"
MINUTE: Final = 60 * SECOND
LONGEST_MS: Final = 600_000
"""Throttle times (ms) above this are ignored: a quota throttles at most for its window, 11 s by default."""
QUOTAS: Final = {api_keys.PRODUCE: "producer_byte_rate", api_keys.FETCH: "consumer_byte_rate"}
"""The quota that throttles each API; other APIs are throttled by request_percentage or controller_mutation_rate."""
NOT_LEADER: Final = frozenset({6, 74, 75})
LONG_POLLS: Final = frozenset({api_keys.FETCH, api_keys.JOIN_GROUP, api_keys.SYNC_GROUP, 78})
FENCED_CODES: Final = frozenset({47, 90})
FENCES: Final = 5 * MINUTE
"""Fencings of a transactional id within this time (ns) are counted together."""
METADATA_LOG: Final = "__cluster_metadata"
"""KRaft's topic, which is ignored: controllers fetch it from each other while they elect a leader."""
PENDING: Final = 256
"""Maximum number of unanswered requests that are remembered for a connection."""


class Throttled(Analyzer):
    """For one client, adds up the time that it loses to quotas."""

    __slots__ = ("_context", "_lately", "_totals")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._totals: dict[tuple[str, str], tuple[int, int, int]] = {}
        """Maps (broker, quota) to its throttlings: (number, sum in ns, longest in ms)."""
        self._lately: dict[int, deque[facts.Throttle]] = {}
        """Maps each connection to its throttlings of the last minute."""

    def feed(self, fact: facts.Throttle) -> None:
        at = fact.at
        if fact.ms > LONGEST_MS:
            return
        quota = QUOTAS.get(at.key, "request_percentage")
        episode = at.broker, quota
        count, lost, longest = self._totals.get(episode, (0, 0, 0))
        count, lost, longest = count + 1, lost + fact.ms * MILLISECOND, max(longest, fact.ms)
        remember(self._totals, episode, (count, lost, longest))
        self._context.report(
            THROTTLED,
            at_evidence(at, "trigger", f"throttle_time_ms {fact.ms}", path="response.throttleTimeMs", weight=fact.ms),
            numbers={
                "client": at.client, "broker": at.broker, "quota": quota, "count": count, "lost_s": lost / SECOND,
                "longest_ms": longest,
            },
            impact=Impact("ms_lost", lost / MILLISECOND),
            episode=episode,
            severity=self._severity(fact),
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip

    def _severity(self, fact: facts.Throttle) -> Severity | None:
        lately = self._lately.get(fact.at.connection) or deque(maxlen=1_000)
        lately.append(fact)
        remember(self._lately, fact.at.connection, lately, 100)
        while lately[0].at.time < fact.at.time - MINUTE:
            lately.popleft()
        share = sum(one.ms for one in lately) * MILLISECOND / MINUTE
        if share >= self._context.limit(THROTTLED, "much"):
            return Severity.ERROR
        long = fact.ms >= self._context.limit(THROTTLED, "single_ms")
        return Severity.WARN if long or share >= self._context.limit(THROTTLED, "share") else None


class StaleLeader(Analyzer):
    """For one partition, finds clients that keep sending requests to a broker that does not lead it."""

    __slots__ = ("_context", "_streaks")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._streaks: dict[str, tuple[facts.At, int]] = {}
        """Maps each client to its errors since the last success: (first response, number of responses)."""

    def feed(self, fact: facts.PartitionIO) -> None:
        at = fact.at
        if fact.topic == METADATA_LOG:
            return
        if fact.error not in NOT_LEADER:
            if self._streaks and not fact.error:
                self._streaks.pop(at.client, None)
            return
        lasting = lasting_errors(self._context, STALE, self._streaks, at.client, at)
        if lasting is None:
            return
        first, count, lasted = lasting
        error, field = errors.name(fact.error), error_field(fact.error)
        self._context.report(
            STALE,
            at_evidence(first, "trigger", f"{error} from {first.broker}", path=field),
            at_evidence(at, "symptom", f"{error} from {at.broker}, {count} times by now", path=field),
            numbers={
                "client": at.client, "partition": f"{fact.topic}-{fact.partition}", "broker": at.broker, "count": count,
                "error": error, "seconds": lasted / SECOND,
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=(at.client, first.time),
            severity=Severity.ERROR if lasted >= self._context.limit(STALE, "long_ms") * MILLISECOND else None,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip


class Abandoned(Analyzer):
    """For one connection, finds requests that were still unanswered when it closed."""

    __slots__ = ("_context", "_pending")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: list[facts.At] = []

    def feed(self, fact: facts.Exchange) -> None:
        at = fact.at
        old = at.time - at.asked >= self._context.limit(ABANDONED, "age_ms") * MILLISECOND
        if not old or at.key in LONG_POLLS:
            return
        end = self._context.closed(at.connection)
        if end is None or not end.by_peers or not self._context.whole(at.connection):
            return
        if len(self._pending) < PENDING:
            self._pending.append(at)
        pending = self._pending
        apis = Counter(api_name(one.key) for one in pending)
        grave = apis["Produce"] or len(pending) >= self._context.limit(ABANDONED, "several")
        oldest = max(one.time - one.asked for one in pending)
        self._context.report(
            ABANDONED,
            at_evidence(at, "trigger", f"unanswered for {at.latency / SECOND:.1f} s when the connection ended"),
            numbers={
                "client": at.client, "broker": at.broker, "connection": at.connection, "count": len(pending),
                "apis": ", ".join(f"{number} {name}" for name, number in apis.most_common(5)),
                "oldest_s": oldest / SECOND,
            },
            impact=Impact("requests", len(pending)),
            severity=Severity.WARN if grave else Severity.NOTE,
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip


class Fenced(Analyzer):
    """For one transactional id, finds producers that are fenced, and by whom."""

    __slots__ = ("_begun", "_context", "_count", "_fences", "_owners", "_timeouts")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owners: dict[int, facts.At] = {}
        """Maps each connection that initialised the id to that exchange, the latest last."""
        self._begun: dict[int, int] = {}
        """Maps each connection to the time (ns) of its transaction's first request, which shows when it began."""
        self._timeouts: dict[int, int] = {}
        self._fences: deque[int] = deque(maxlen=64)
        self._count = 0

    def feed(self, fact: facts.Txn) -> None:
        at = fact.at
        if fact.error in FENCED_CODES:
            if at.connection in self._owners or fact.what != "init":
                self._fence(fact)
        elif fact.error:
            return
        elif fact.what == "init":
            remember(self._owners, at.connection, at, 64)
            self._begun.pop(at.connection, None)
            if fact.timeout_ms is not None:
                remember(self._timeouts, at.connection, fact.timeout_ms, 64)
        elif fact.what == "end":
            self._begun.pop(at.connection, None)
        else:
            self._begun.setdefault(at.connection, at.asked)
            remember(self._begun, at.connection, self._begun[at.connection], 64)

    def _fence(self, fact: facts.Txn) -> None:
        at = fact.at
        self._count += 1
        self._fences.append(at.time)
        while self._fences[0] < at.time - FENCES:
            self._fences.popleft()
        evidence = [
            at_evidence(at, "symptom", f"{errors.name(fact.error)} for {at.client}", path=error_field(fact.error))
        ]
        other = next((one for one in reversed(self._owners.values()) if one.connection != at.connection), None)
        begun, timeout = self._begun.get(at.connection), self._timeouts.get(at.connection)
        mine = self._owners.get(at.connection)
        actors = [Actor("victim", at.peer, at.client_id or None)]
        if other is not None and (mine is None or other.time >= mine.time):
            by = f"{other.client} took the id over"
            evidence.insert(
                0, at_evidence(other, "culprit", f"InitProducerId of {other.client}", path="request.transactionalId")
            )
            actors.insert(0, Actor("culprit", other.peer, other.client_id or None))
        elif begun is not None and timeout is not None and at.asked - begun >= timeout * MILLISECOND:
            by = (
                f"its transaction was open for {(at.asked - begun) / SECOND:.1f} s, transaction.timeout.ms is {timeout}"
            )
        else:
            by = "who took the id over is not in this capture"
        often = len(self._fences)
        severity = Severity.ERROR if often >= self._context.limit(FENCED, "fight") else None
        if severity is None and often >= self._context.limit(FENCED, "often"):
            severity = Severity.WARN
        self._context.report(
            FENCED,
            *evidence,
            numbers={
                "txn": fact.transactional_id, "client": at.client, "error": errors.name(fact.error), "by": by,
                "count": self._count,
            },
            impact=Impact("requests", self._count),
            severity=severity,
            actors=tuple(actors),
        )  # fmt: skip
        self._owners.pop(at.connection, None)
        self._begun.pop(at.connection, None)


ANALYSES = (
    Analysis(frozenset({THROTTLED}), Key.CLIENT, (facts.Throttle,), Throttled),
    Analysis(frozenset({STALE}), Key.PARTITION, (facts.PartitionIO,), StaleLeader, errors=NOT_LEADER),
    Analysis(frozenset({ABANDONED}), Key.CONNECTION, (facts.Exchange,), Abandoned, status=Status.NO_RESPONSE),
    Analysis(frozenset({FENCED}), Key.TRANSACTION, (facts.Txn,), Fenced),
)
