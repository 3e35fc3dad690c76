"""Finds group members that stopped polling, vanished, or use the same instance id as another member."""

from __future__ import annotations

from typing import Final

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
from kproxy.captures.findings.model import Actor, Confidence, Impact, Severity
from kproxy.decoders.schema import errors

POLL_GAP = "group.poll_gap"
VANISHED = "group.member_vanished"
CLASH = "group.static_clash"
JAVA_REASON: Final = "consumer poll timeout has expired"
"""The reason for leaving that the Java client sends in LeaveGroup when max.poll.interval.ms is over (KIP-800)."""
REBALANCING: Final = frozenset({27})
FENCED: Final = frozenset({82, 111})
ILLEGAL: Final = frozenset({22, 25, 82, 110, 111, 113})
"""Error codes after which the client is no longer a member under this member id and generation."""


class PollGap(Analyzer):
    """For one group, finds members that left because they did not poll in time.

    The sign is the reason in LeaveGroup, or a later join over the same connection: a client that was closed never joins
    again.
    """

    __slots__ = ("_committed", "_context", "_counts", "_interval", "_joined", "_left", "_polled")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._polled: dict[str, int] = {}
        """Maps each member id to the time (ns) of its last JoinGroup, SyncGroup or OffsetCommit."""
        self._joined: dict[str, int] = {}
        """Maps each member id to the time (ns) of its last JoinGroup or SyncGroup: only poll() sends these."""
        self._committed: dict[str, int] = {}
        """Maps each member id to the time (ns) of its last commit, automatic commits included."""
        self._interval: dict[str, int] = {}
        self._left: dict[int, facts.Member] = {}
        """Maps each connection to the LeaveGroup of its member, unless the reason is JAVA_REASON."""
        self._counts: dict[str, tuple[int, int]] = {}
        """Maps each client to (number of times that it left, total time outside its group in ns)."""

    def feed(self, fact: facts.Member) -> None:
        member, at = fact.member, fact.at
        match fact.what:
            case "leave" if JAVA_REASON in (fact.reason or ""):
                self._report(fact, at.asked, Confidence.PROVEN)
            case "leave" if fact.kind != "share" and fact.instance is None:
                remember(self._left, at.connection, fact)
            case "join":
                left = self._left.pop(at.connection, None)
                if left is not None and (fact.fresh or fact.kind != "classic"):
                    self._came_back(left, at)
                remember(self._polled, member, at.time)
                remember(self._joined, member, at.time)
            case "sync":
                remember(self._polled, member, max(at.time, self._polled.get(member, 0)))
                remember(self._joined, member, max(at.time, self._joined.get(member, 0)))
            case "commit":
                remember(self._polled, member, max(at.time, self._polled.get(member, 0)))
                remember(self._committed, member, at.time)
        if fact.rebalance_ms is not None:
            remember(self._interval, member, fact.rebalance_ms)

    def _came_back(self, left: facts.Member, joined: facts.At) -> None:
        """Report a member that joins again over the same connection, if it left because its poll interval was over."""
        end = self._context.closed(left.at.connection)
        close = self._context.limit(POLL_GAP, "close_ms") * MILLISECOND
        interval, polled = self._interval.get(left.member), self._polled.get(left.member)
        if interval is None or polled is None or joined.asked - left.at.asked < close:
            return
        if end is not None and end.time <= left.at.asked + close:
            return
        # A client that does not poll leaves when the interval is over; unsubscribe() may come at any time.
        patience = interval * MILLISECOND * 95 // 100
        if left.at.asked >= polled + patience:
            self._report(left, joined.asked, Confidence.STRONG, joined)
        elif (
            left.at.asked >= self._joined.get(left.member, left.at.asked) + patience
            and left.at.asked - self._committed.get(left.member, left.at.asked) >= close
        ):
            # the commits may be automatic, without polls; unsubscribe() would have committed just before leaving
            self._report(left, joined.asked, Confidence.INFERRED, joined)

    def _report(self, left: facts.Member, until: int, sure: Confidence, joined: facts.At | None = None) -> None:
        at, client = left.at, left.at.client
        times, away = self._counts.get(client, (0, 0))
        times, away = times + 1, away + max(until - at.asked, 0)
        remember(self._counts, client, (times, away))
        interval = self._interval.get(left.member)
        polled = self._polled.get(left.member)
        stalled = max(until - polled if polled is not None else 0, (interval or 0) * MILLISECOND)
        evidence = [
            at_evidence(at, "trigger", f"leaves the group: {left.reason or 'no reason given'}", path="request.reason")
        ]
        if joined is not None:
            evidence.append(at_evidence(joined, "symptom", "joins again on the same connection, so it was not closed"))
        often = times >= self._context.limit(POLL_GAP, "repeats")
        self._context.report(
            POLL_GAP,
            *evidence,
            numbers={
                "client": client, "group": left.group, "stalled_s": stalled / SECOND, "times": times,
                "interval_ms": "not in the capture" if interval is None else interval,
            },
            impact=Impact("ms_lost", away / MILLISECOND),
            episode=client,
            severity=Severity.NOTE if sure is Confidence.INFERRED and times == 1 else Severity.ERROR if often else None,
            confidence=sure,
            actors=(Actor("culprit", at.peer, at.client_id or None, left.member),),
        )  # fmt: skip


class _Heard:
    """A member of the present generation, and when the coordinator last heard from it."""

    __slots__ = ("at", "instance", "session_ms", "time")

    def __init__(self, at: facts.At, session_ms: int, instance: str | None) -> None:
        self.at = at
        self.time = at.asked
        """Time (ns) at which the coordinator last heard from the member: its session ends `session_ms` later."""
        self.session_ms = session_ms
        self.instance = instance


class Vanished(Analyzer):
    """For one group in the classic protocol, finds members whose session timeout caused a rebalance."""

    __slots__ = ("_context", "_members", "_rebalancing")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._members: dict[str, _Heard] = {}
        self._rebalancing = False
        """Whether a member was told of a rebalance, and no member has joined since.

        Sessions are judged when the first member is told. Later a silence proves nothing, because members that wait for
        the response to JoinGroup send no heartbeats.
        """

    def feed(self, fact: facts.Member) -> None:
        if fact.kind != "classic" or not fact.member:
            return
        if fact.what == "leave" or fact.error in ILLEGAL:
            self._members.pop(fact.member, None)
            return
        if fact.error in REBALANCING and fact.what != "sync" and not self._rebalancing:
            self._rebalancing = True
            self._judge(fact)
        if fact.what == "join" and fact.session_ms is not None and fact.answered and not fact.error:
            self._rebalancing = False
            heard = _Heard(fact.at, fact.session_ms, fact.instance)
            heard.time = fact.at.time
            if fact.instance is not None:
                self._members = {name: one for name, one in self._members.items() if one.instance != fact.instance}
            remember(self._members, fact.member, heard)
        elif (one := self._members.get(fact.member)) is not None:
            one.at, one.time = fact.at, max(one.time, fact.at.asked)

    def _judge(self, told: facts.Member) -> None:
        """Report each member whose session timed out just before another member was told of a rebalance (`told`)."""
        slack = self._context.limit(VANISHED, "slack_ms") * MILLISECOND
        for name, one in list(self._members.items()):
            due = one.time + one.session_ms * MILLISECOND
            if name == told.member or due > told.at.time:
                continue
            del self._members[name]
            if told.at.time <= due + slack and self._context.whole(one.at.connection):
                self._report(name, one, told)

    def _report(self, name: str, one: _Heard, told: facts.Member) -> None:
        at, group = one.at, told.group
        end = self._context.closed(at.connection)
        gone = end is not None and end.by_peers and end.time <= told.at.time
        how = "its connection had ended, so it crashed or was killed" if gone else "its connection is open and silent"
        silent = told.at.time - one.time
        self._context.report(
            VANISHED,
            at_evidence(at, "culprit", f"last heard of {at.client}"),
            at_evidence(told.at, "symptom", f"{told.at.client} learns that the group rebalances", path=error_field(27)),
            numbers={
                "client": at.client, "group": group, "silent_s": silent / SECOND, "session_ms": one.session_ms,
                "how": how,
            },
            impact=Impact("ms_lost", silent / MILLISECOND),
            episode=name,
            confidence=Confidence.PROVEN if gone else None,
            actors=(Actor("culprit", at.peer, at.client_id or None, name),),
            cause="The member's process ended without close()." if gone else "The member's process was stopped or "
            "starved (GC, CPU limits, SIGSTOP), or its network failed.",
        )  # fmt: skip


class StaticClash(Analyzer):
    """For one group, finds members that were fenced because another member uses their instance id."""

    __slots__ = ("_context", "_owners")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owners: dict[str, dict[str, facts.At]] = {}
        """Maps each instance id to {member id: latest request of the member}."""

    def feed(self, fact: facts.Member) -> None:
        if not fact.instance:
            return
        owners = self._owners.get(fact.instance, {})
        if fact.error in FENCED:
            self._report(fact, owners)
        elif fact.answered and not fact.error and fact.member:
            owners.pop(fact.member, None)
            owners[fact.member] = fact.at
            if len(owners) > 4:
                del owners[next(iter(owners))]
            remember(self._owners, fact.instance, owners)

    def _report(self, fact: facts.Member, owners: dict[str, facts.At]) -> None:
        at = fact.at
        others = [one for one in owners.values() if (one.peer, one.connection) != (at.peer, at.connection)]
        other = others[-1] if others else None
        end = None if other is None else self._context.closed(other.connection)
        restart = other is not None and other.peer == at.peer and end is not None
        evidence = [
            at_evidence(
                at,
                "symptom",
                f"{errors.name(fact.error)} for instance id {fact.instance}",
                path=error_field(fact.error),
            )
        ]
        if other is not None:
            evidence.append(
                at_evidence(
                    other, "culprit", f"{other.client} uses the same instance id", path="request.groupInstanceId"
                )
            )
        self._context.report(
            CLASH,
            *evidence,
            numbers={
                "victim": at.client, "error": errors.name(fact.error), "instance": fact.instance or "",
                "group": fact.group, "other": "a member outside the capture" if other is None else other.client,
            },
            impact=Impact("requests", 1),
            episode=fact.instance,
            severity=Severity.INFO if restart else Severity.WARN if other is None else None,
            confidence=Confidence.STRONG if other is None else Confidence.PROVEN,
            actors=tuple(Actor("culprit", one.peer, one.client_id or None) for one in (at, other) if one is not None),
        )  # fmt: skip


_FACTS: Final = (facts.Member,)
ANALYSES = (
    Analysis(frozenset({POLL_GAP}), Key.GROUP, _FACTS, PollGap, every_heartbeat=False),
    Analysis(frozenset({VANISHED}), Key.GROUP, _FACTS, Vanished, begins=frozenset({"join"})),
    Analysis(frozenset({CLASH}), Key.GROUP, _FACTS, StaticClash, every_heartbeat=False),
)
