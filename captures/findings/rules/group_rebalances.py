"""Finds the causes of rebalances, and members that delayed a rebalance."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    append,
    at_evidence,
    error_field,
    remember,
)
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Severity

CAUSE = "group.rebalance_cause"
SLOW = "group.slow_rejoin"
MEMBERS: Final = 1_000
"""Maximum number of members of a group that are remembered."""
EVENTS: Final = 64
"""Maximum number of possible causes that are remembered for one rebalance."""
SETTLED: Final = 2 * SECOND
"""The responses to all JoinGroup requests of a generation come within this time (ns) of the first."""
RECENT: Final = 300 * SECOND


class Event(NamedTuple):
    """A possible cause of a rebalance; `planned` is True if a deployment of the application would explain it."""

    time: int
    text: str
    planned: bool
    evidence: Evidence


class Rebalances(Analyzer):
    """For one group, counts its rebalances by cause."""

    __slots__ = ("_causes", "_context", "_events", "_generation", "_known", "_longest", "_settling", "_unplanned")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._generation: int | None = None
        self._known: dict[str, str | None] = {}
        """Maps each member id to the member's latest subscription."""
        self._events: list[Event] = []
        self._settling: facts.Member | None = None
        """The first response of a new generation; None once the cause of the generation was determined."""
        self._longest = 0
        self._causes: Counter[str] = Counter()
        self._unplanned: list[int] = []

    def feed(self, fact: facts.Member) -> None:
        if fact.what == "leave":
            self._leave(fact)
        elif fact.what == "join":
            self._join(fact)
        if fact.generation is None or fact.generation < 1 or fact.error or fact.what not in {"join", "heartbeat"}:
            return
        if self._generation is None or fact.generation > self._generation:
            first, self._generation = self._generation is None, fact.generation
            if first:
                self._events.clear()
            elif self._settling is None:
                self._settling = fact
                self._context.wake(fact.at.time + SETTLED)

    def tick(self) -> None:
        self._judge()

    def close(self) -> None:
        self._judge()

    def _leave(self, fact: facts.Member) -> None:
        self._known.pop(fact.member, None)
        if fact.reason == "static" or fact.error:
            return
        reason = fact.reason or "left"
        planned = "poll timeout" not in reason
        text = f"{fact.at.client} left" + (f" ({reason})" if fact.reason else "")
        self._event(fact, text, planned=planned)

    def _join(self, fact: facts.Member) -> None:
        if fact.error or not fact.member:
            return
        before = self._known.get(fact.member)
        if (text := self._news(fact, before)) is not None:
            self._event(fact, f"{fact.at.client} {text}", planned=True)
        if fact.kind == "classic" and fact.answered and self._generation is not None:
            self._longest = max(self._longest, fact.at.latency)
        remember(self._known, fact.member, fact.subscription or before)

    def _news(self, fact: facts.Member, before: str | None) -> str | None:
        """Why a JoinGroup starts a rebalance ("joined", …); None if it does not start one, or gives no reason."""
        if fact.generation == self._generation and self._settling is None:
            return None
        if fact.member not in self._known:
            return "joined"
        if fact.subscription is not None and before is not None and before != fact.subscription:
            return "changed its subscription"
        if fact.reason and "rejoin" not in fact.reason.lower():
            return f"rejoined ({fact.reason})"
        return None

    def _event(self, fact: facts.Member, text: str, *, planned: bool) -> None:
        event = Event(fact.at.asked, text, planned, at_evidence(fact.at, "trigger", text))
        append(self._events, event, EVENTS)

    def _judge(self) -> None:
        """Report the cause of the generation that began SETTLED ago: the first unplanned event, else the first."""
        began, self._settling = self._settling, None
        if began is None:
            return
        events = [one for one in self._events if one.time <= began.at.time]
        del self._events[: len(events)]
        first = min(events, default=None, key=lambda one: (one.planned, one.time))
        kind = "unknown" if first is None else first.text
        if kind not in self._causes and len(self._causes) >= EVENTS:
            kind = "others"
        self._causes[kind] += 1
        if first is not None and not first.planned:
            append(self._unplanned, began.at.time, EVENTS)
        note = f"generation {began.generation}: " + (first.text if first else "its cause is outside the capture")
        lately = sum(1 for time in self._unplanned if time >= began.at.time - RECENT)
        many = lately >= self._context.limit(CAUSE, "often")
        long = self._longest >= self._context.limit(CAUSE, "long_ms") * MILLISECOND
        self._context.report(
            CAUSE,
            *([] if first is None else [first.evidence]),
            at_evidence(began.at, "symptom", note),
            numbers={
                "group": began.group,
                "rebalances": self._causes.total(),
                "longest_s": self._longest / SECOND,
                "causes": ", ".join(f"{text} ({number}x)" for text, number in self._causes.most_common(5)),
            },
            impact=Impact("ms_lost", self._longest / MILLISECOND),
            severity=Severity.WARN if many or long else Severity.INFO,
            confidence=Confidence.INFERRED if first is None else None,
        )


class SlowRejoin(Analyzer):
    """For one group in the classic protocol, finds the member for which the others waited in a rebalance."""

    __slots__ = ("_context", "_informed", "_members", "_round")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._members: dict[str, tuple[str, str]] = {}
        """Maps the member ids of the last generation to (client id, host)."""
        self._informed: dict[str, facts.At] = {}
        """Maps each member id to the response that told the member of the rebalance, until the rebalance ends."""
        self._round: list[facts.Member] = []
        """The JoinGroup requests of the present rebalance that were answered."""

    def feed(self, fact: facts.Member) -> None:
        if fact.kind != "classic" or not fact.member:
            return
        if fact.what == "leave":
            self._members.pop(fact.member, None)
        elif fact.error == 27 and fact.what != "join":
            self._informed.setdefault(fact.member, fact.at)
            if len(self._informed) > MEMBERS:
                del self._informed[next(iter(self._informed))]
        elif fact.what == "join" and fact.answered and not fact.error:
            if len(self._round) < MEMBERS:
                self._round.append(fact)
            self._context.wake(fact.at.time + SETTLED)
        elif not fact.error and fact.what != "join" and fact.member not in self._members:
            remember(self._members, fact.member, (fact.at.client_id, fact.at.peer), MEMBERS)

    def tick(self) -> None:
        self._judge()

    def close(self) -> None:
        self._judge()

    def _judge(self) -> None:
        joins, self._round = self._round, []
        if not joins:
            return
        longest = max(joins, key=lambda one: one.at.latency)
        waited = longest.at.latency
        if waited >= self._context.limit(SLOW, "warn_ms") * MILLISECOND and (longest.generation or 0) > 1:
            self._report(joins, longest)
        self._informed.clear()
        self._members = {one.member: (one.at.client_id, one.at.peer) for one in joins[-MEMBERS:]}

    def _report(self, joins: list[facts.Member], longest: facts.Member) -> None:
        """Report the member that the others waited for: the last to join, if it was in the previous generation.

        Otherwise, report a member of the previous generation that did not rejoin, or else a member outside the capture.
        """
        last = max(joins, key=lambda one: one.at.asked)
        late = last.member in self._members and last.at.latency < longest.at.latency / 10
        absent = self._members.keys() - {one.member for one in joins}
        waiters = [one for one in joins if one.at.latency >= 2 * SECOND and one is not last]
        lost = sum(one.at.latency for one in waiters) / MILLISECOND
        if late:
            culprit, actor = last.at.client, (last.at.client_id, last.at.peer)
        elif absent:
            actor = self._members[min(absent)]
            culprit = f"{facts.client_name(*actor)}, which did not rejoin in time"
        else:
            culprit, actor = "a member outside the capture", None
        evidence = [
            at_evidence(one.at, "symptom", f"JoinGroup waited {one.at.latency / SECOND:.1f} s", weight=one.at.latency)
            for one in waiters[:6]
        ]
        if late:
            evidence.append(at_evidence(last.at, "culprit", f"{culprit} joins last"))
            if (told := self._informed.get(last.member)) is not None:
                evidence.append(
                    at_evidence(told, "culprit", f"{culprit} learned of the rebalance here", path=error_field(27))
                )
        much = longest.at.latency >= self._context.limit(SLOW, "error_ms") * MILLISECOND
        self._context.report(
            SLOW,
            *evidence,
            numbers={
                "waiters": max(len(waiters), 1), "group": longest.group, "longest_s": longest.at.latency / SECOND,
                "culprit": culprit, "waited_ms": lost,
            },
            impact=Impact("ms_lost", lost),
            episode=longest.generation,
            severity=Severity.NOTE if actor is None else Severity.ERROR if much else None,
            confidence=Confidence.PROVEN if late and last.member in self._informed
            else Confidence.INFERRED if actor is None else None,
            actors=() if actor is None else (Actor("culprit", actor[1], actor[0] or None),),
        )  # fmt: skip


_FACTS: Final = (facts.Member,)
ANALYSES = (
    Analysis(frozenset({CAUSE}), Key.GROUP, _FACTS, Rebalances, every_heartbeat=False),
    Analysis(frozenset({SLOW}), Key.GROUP, _FACTS, SlowRejoin, every_heartbeat=False),
)
