"""Finds requests that brokers refuse: unknown topics, records, commits, settings, credentials, permissions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from difflib import get_close_matches
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
    error_field,
    error_streak,
    remember,
)
from kproxy.captures.findings.model import Actor, Impact, Severity
from kproxy.decoders.schema import errors

TOPIC_MISSING = "meta.topic_missing"
REJECTED = "producer.rejected"
COMMIT = "commit.rejected"
SETTINGS = "group.config_rejected"
ASSIGNORS = "group.assignor_clash"
SASL = "auth.sasl"
DENIED = "auth.denied"
MISSING_CODES: Final = frozenset({3, 17})
CONTENT_CODES: Final = {
    2: "The batch's checksum does not fit its bytes: they changed on the way, or the records are broken.",
    10: "The batch is larger than max.message.bytes of the topic (message.max.bytes of the broker).",
    18: "The batch is larger than a segment of the topic (segment.bytes).",
    32: "A record's timestamp is outside of message.timestamp.before.max.ms or message.timestamp.after.max.ms.",
    44: "The broker's create topic or record policy refuses it.",
    76: "The topic's message format, or the broker's release, does not have this compression type.",
    87: "A record breaks a rule of the topic: a compacted topic needs a key in each record.",
}
"""Error codes of Produce that concern a batch's content, each with its cause."""
LOST_CODES: Final = frozenset({12, 22, 25, 28, 82, 110})
"""Error codes of OffsetCommit after which the member gives the commit up."""
SETTING_CODES: Final = frozenset({24, 26, 81})
ASSIGNOR_CODES: Final = frozenset({23, 112})
SASL_ERRORS: Final = frozenset({"UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED"})
_TOPIC: Final = frozenset({29})
_GROUP: Final = frozenset({30})
_TXN: Final = frozenset({53})
NAMES: Final = 1_000
"""Maximum number of topics that are remembered for a client."""


class TopicMissing(Analyzer):
    """For one client, finds topics that do not exist: Metadata responses report them as missing for some time."""

    __slots__ = ("_causes", "_context", "_found", "_missing")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._causes: dict[str, str | None] = {}
        """Maps each reported topic to the likely reason why it is missing; None if unknown."""
        self._missing: dict[str, tuple[facts.At, int]] = {}
        """Maps each missing topic to (first response with the error, number of such responses)."""
        self._found: dict[str, None] = {}

    def feed(self, fact: facts.TopicView) -> None:
        if fact.error not in MISSING_CODES:
            if not fact.error:
                self._missing.pop(fact.topic, None)
                self._causes.pop(fact.topic, None)
                remember(self._found, fact.topic, None, NAMES)
            return
        first, count = error_streak(self._missing, fact.topic, fact.at, NAMES)
        lasted = fact.at.time - first.time
        grace = self._context.limit(TOPIC_MISSING, "grace_ms") * MILLISECOND
        if count < self._context.limit(TOPIC_MISSING, "times") or lasted < grace:
            return
        error = errors.name(fact.error)
        field = error_field(fact.error)
        if fact.topic not in self._causes:  # once for each topic: comparing names takes milliseconds
            remember(self._causes, fact.topic, self._cause(fact.topic), NAMES)
        self._context.report(
            TOPIC_MISSING,
            at_evidence(first, "trigger", f"Metadata of {fact.topic}: {error}", path=field),
            at_evidence(fact.at, "symptom", f"still {error}", path=field),
            numbers={
                "client": fact.at.client, "topic": fact.topic, "count": count, "error": error,
                "seconds": lasted / SECOND,
            },
            impact=Impact("requests", count),
            episode=fact.topic,
            actors=(Actor("culprit", fact.at.peer, fact.at.client_id or None),),
            cause=self._causes[fact.topic],
        )  # fmt: skip

    def _cause(self, topic: str) -> str | None:
        if topic in self._found:
            return "The topic was there before: it was deleted."
        alike = get_close_matches(topic, self._found, n=1, cutoff=0.8)
        return f"The name may be misspelt: there is a topic {alike[0]}." if alike else None


class Rejected(Analyzer):
    """For one topic, finds batches that brokers refuse because of what they contain."""

    __slots__ = ("_context", "_counts")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[tuple[str, int], tuple[int, int, int]] = {}
        """Maps (client, error code) to refused batches: (number, bytes of the largest, bytes in all)."""

    def feed(self, fact: facts.PartitionIO) -> None:
        if fact.error not in CONTENT_CODES or fact.acks is None:
            return
        episode = fact.at.client, fact.error
        count, largest, size = self._counts.get(episode, (0, 0, 0))
        count, largest, size = count + 1, max(largest, fact.size), size + fact.size
        remember(self._counts, episode, (count, largest, size))
        error = errors.name(fact.error)
        note = f"partition {fact.partition}, {fact.size} bytes of records: {error}"
        self._context.report(
            REJECTED,
            at_evidence(fact.at, "trigger", note, path=error_field(fact.error), weight=fact.size),
            numbers={
                "client": fact.at.client, "topic": fact.topic, "count": count, "error": error, "largest_bytes": largest,
            },
            impact=Impact("records_at_risk", count),
            episode=episode,
            actors=(Actor("culprit", fact.at.peer, fact.at.client_id or None),),
            cause=CONTENT_CODES[fact.error],
        )  # fmt: skip


class CommitRejected(Analyzer):
    """For one group, finds commits that its coordinator refuses and that are not retried."""

    __slots__ = ("_committed", "_context", "_counts")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._committed: dict[tuple[str, int], int] = {}
        """Maps each partition to the group's committed offset."""
        self._counts: dict[str, tuple[int, dict[tuple[str, int], int]]] = {}
        """Maps each client to (number of refused commits, {partition: number of records that they covered})."""

    def feed(self, fact: facts.Commit) -> None:
        place = fact.topic, fact.partition
        if fact.offset is None:
            return
        if not fact.error:
            remember(self._committed, place, fact.offset, NAMES * 10)
        elif fact.error in LOST_CODES:
            before = self._committed.get(place)
            count, lost = self._counts.get(fact.at.client, (0, {}))
            if before is not None and fact.offset > before:
                remember(lost, place, fact.offset - before)
            remember(self._counts, fact.at.client, (count + 1, lost))
            self._report(fact, count + 1, sum(lost.values()))

    def _report(self, fact: facts.Commit, count: int, records: int) -> None:
        error = errors.name(fact.error)
        note = f"offset {fact.offset} of {fact.topic}-{fact.partition} refused: {error}"
        self._context.report(
            COMMIT,
            at_evidence(fact.at, "symptom", note, path=error_field(fact.error), weight=records),
            numbers={
                "client": fact.at.client, "group": fact.group, "count": count, "error": error, "records": records,
            },
            impact=Impact("records_at_risk", records),
            episode=fact.at.client,
            severity=Severity.WARN if records >= self._context.limit(COMMIT, "records") else None,
            actors=(Actor("victim", fact.at.peer, fact.at.client_id or None, fact.member or None),),
        )  # fmt: skip


class JoinRefused(Analyzer):
    """For one group, finds members whose join is refused because of their settings or assignors."""

    __slots__ = ("_context", "_counts", "_first")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counts: dict[str, int] = {}
        """Maps each client to the number of its refused joins since it last joined."""
        self._first: dict[str, tuple[str, facts.Member]] = {}
        """Maps each client whose join was refused once to (rule, join), until that is reported."""

    def feed(self, fact: facts.Member) -> None:
        if fact.what != "join" or (fact.error and fact.generation):
            return  # inconsistent: a response that refuses a join gives no generation
        rule = SETTINGS if fact.error in SETTING_CODES else ASSIGNORS if fact.error in ASSIGNOR_CODES else None
        client = fact.at.client
        if rule is None:
            if not fact.error and fact.answered:
                self._counts.pop(client, None)
                if (refused := self._first.pop(client, None)) is not None:
                    self._report(*refused, 1, Severity.NOTE)
            return
        count = self._counts.get(client, 0) + 1
        remember(self._counts, client, count)
        if count == 1:
            remember(self._first, client, (rule, fact), NAMES)
            self._context.wake(fact.at.time + self._settle(rule))
            return
        if (refused := self._first.pop(client, None)) is not None:
            self._report(*refused, 1)
        self._report(rule, fact, count)

    def tick(self) -> None:
        for client, (rule, fact) in list(self._first.items()):
            due = fact.at.time + self._settle(rule)
            if due <= self._context.now:
                del self._first[client]
                self._report(rule, fact, 1)
            else:
                self._context.wake(due)

    def close(self) -> None:
        for rule, fact in self._first.values():
            self._report(rule, fact, 1)
        self._first.clear()

    def _settle(self, rule: str) -> int:
        return round(self._context.limit(rule, "settle_ms") * MILLISECOND)

    def _report(self, rule: str, fact: facts.Member, count: int, severity: Severity | None = None) -> None:
        error = errors.name(fact.error)
        asked = f"session.timeout.ms {fact.session_ms}" if rule == SETTINGS else f"assignors {_assignors(fact)}"
        self._context.report(
            rule,
            at_evidence(fact.at, "trigger", f"{error}: asked for {asked}", path=error_field(fact.error)),
            numbers={"client": fact.at.client, "group": fact.group, "error": error, "asked": asked, "count": count},
            impact=Impact("requests", count),
            episode=(fact.at.client, fact.error),
            severity=severity,
            actors=(Actor("culprit", fact.at.peer, fact.at.client_id or None, fact.member or None),),
        )


def _assignors(fact: facts.Member) -> str:
    """The names of a member's assignors as text; "not named" if the request has none."""
    return (fact.subscription or "").rpartition(" ")[0] or fact.protocol or "not named"


class SaslFailed(Analyzer):
    """For one client, finds authentications that failed."""

    __slots__ = ("_context", "_count")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._count = 0

    def feed(self, fact: facts.Auth) -> None:
        if fact.state == "authenticated":
            self._count = 0
        if fact.state not in {"failed", "refused"} or _is_foreign(fact.error):
            return
        self._count += 1
        offered = f"; offered: {', '.join(fact.offered)}" if fact.offered else ""
        error = fact.error or "no reason given"
        self._context.report(
            SASL,
            at_evidence(
                fact.at, "trigger", f"{fact.mechanism or 'no mechanism'}: {error}{offered}", path="response.errorCode"
            ),
            numbers={
                "client": fact.at.client, "count": self._count, "mechanism": fact.mechanism or "no mechanism",
                "principal": fact.principal or "not given", "error": error,
            },
            impact=Impact("requests", self._count),
            episode=(fact.mechanism, fact.principal),
            severity=Severity.ERROR if self._count >= self._context.limit(SASL, "often") else None,
            actors=(Actor("culprit", fact.at.peer, fact.at.client_id or None),),
        )  # fmt: skip


def _is_foreign(error: str | None) -> bool:
    """Whether an error text is the name of a Kafka error that has nothing to do with SASL."""
    known = {one.name for one in errors.all_errors().values()} - SASL_ERRORS
    return error is not None and (error in known or error.startswith("UNKNOWN("))


class Denied(Analyzer):
    """For one client, finds repeated authorization errors."""

    __slots__ = ("_context", "_times")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._times: dict[tuple[str, str, int], deque[facts.At]] = {}
        """Maps (kind of resource, its name, error code) to the latest exchanges with this error."""

    def feed(self, fact: Any) -> None:
        what, codes, name_of = RESOURCES[type(fact)]
        if fact.error not in codes:
            return
        key = what, name_of(fact), fact.error
        least = max(1, int(self._context.limit(DENIED, "times")))
        times = self._times.get(key) or deque(maxlen=least)
        times.append(fact.at)
        remember(self._times, key, times)
        window = self._context.limit(DENIED, "window_s") * SECOND
        if len(times) < least or times[-1].time - times[0].time > window:
            return
        error = errors.name(fact.error)
        self._context.report(
            DENIED,
            *(at_evidence(at, "trigger", f"{error} for {what} {key[1]}", path=error_field(fact.error)) for at in times),
            numbers={"client": fact.at.client, "what": what, "name": key[1], "count": len(times), "error": error},
            impact=Impact("requests", len(times)),
            episode=key,
            actors=(Actor("culprit", fact.at.peer, fact.at.client_id or None),),
        )


RESOURCES: Final[dict[type, tuple[str, frozenset[int], Callable[[Any], str]]]] = {
    facts.TopicView: ("topic", _TOPIC, lambda fact: fact.topic),
    facts.PartitionIO: ("topic", _TOPIC, lambda fact: fact.topic),
    facts.Commit: ("topic", _TOPIC, lambda fact: fact.topic),
    facts.OffsetLookup: ("topic", _TOPIC, lambda fact: fact.topic),
    facts.Committed: ("group", _GROUP, lambda fact: fact.group),
    facts.Member: ("group", _GROUP, lambda fact: fact.group),
    facts.Coordinator: ("coordinator of", _GROUP | _TXN, lambda fact: fact.name),
    facts.Txn: ("transactional id", _TXN, lambda fact: fact.transactional_id),
}
"""Maps a type of fact to (kind of resource, error codes of denied access, function that returns its name)."""

ANALYSES = (
    Analysis(frozenset({TOPIC_MISSING}), Key.CLIENT, (facts.TopicView,), TopicMissing),
    Analysis(frozenset({REJECTED}), Key.TOPIC, (facts.PartitionIO,), Rejected, errors=frozenset(CONTENT_CODES)),
    Analysis(frozenset({COMMIT}), Key.GROUP, (facts.Commit,), CommitRejected),
    Analysis(
        frozenset({SETTINGS, ASSIGNORS}),
        Key.GROUP,
        (facts.Member,),
        JoinRefused,
        errors=frozenset({*SETTING_CODES, *ASSIGNOR_CODES}),
        every_heartbeat=False,
    ),
    Analysis(frozenset({SASL}), Key.CLIENT, (facts.Auth,), SaslFailed),
    Analysis(
        frozenset({DENIED}), Key.CLIENT, tuple(RESOURCES), Denied, errors=_TOPIC | _GROUP | _TXN, every_heartbeat=False
    ),
)
