"""Finds members of consumer groups without partitions, and groups that could use the protocol of KIP-848."""

from __future__ import annotations

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
from kproxy.captures.findings.model import Actor, Impact, Scope, Severity
from kproxy.decoders.plurals import counted

IDLE = "group.idle_members"
UPGRADE = "group.protocol_upgrade"
MEMBERS: Final = 1_000
"""Maximum number of members of a group that are remembered."""
GROUPS: Final = 5_000
BROKERS: Final = 2_000
JOINING: Final = frozenset({"join", "sync"})
NEW: Final = 68
"""API key of ConsumerGroupHeartbeat; a broker that offers it knows the protocol of KIP-848."""
FEATURE: Final = "group.version"
"""Name of the feature that the cluster must have finalized for the protocol of KIP-848."""
EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Kafka's eager assignors: with them, members give up all partitions at the beginning of a rebalance."""
MIGRATES: Final = "it has members of both, so it migrates"
"""A finding's text about a group that has members of both protocols."""
ASSIGNORS: Final = EAGER | {"cooperative-sticky"}
"""Assignors of plain consumers. Groups with others (Streams, custom, …) cannot use the newer protocol."""


class Share(NamedTuple):
    """How many partitions a member has; `at` is the exchange that assigned them."""

    at: facts.At
    partitions: int


class IdleMembers(Analyzer):
    """For one group, finds members with no or far fewer partitions than others, once an assignment has lasted."""

    __slots__ = ("_changed", "_context", "_members", "_protocol", "_shares", "_subscriptions", "_whole")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shares: dict[str, Share] = {}
        self._subscriptions: dict[str, str | None] = {}
        """Maps each member id to the member's subscription."""
        self._members: dict[str, facts.At] = {}
        """Maps each member id to the member's latest JoinGroup or SyncGroup."""
        self._protocol: str | None = None
        """The assignor that the group's leader used; None in the protocol of KIP-848."""
        self._whole = True
        """Whether facts were made for all members of the assignment (see `group_facts.MEMBERS`)."""
        self._changed = 0
        """Time (ns) of the assignment's latest change; 0 once the assignment was judged."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Member):
            self._member(fact)
        elif fact.kind == "classic":
            self._plan(fact)
        else:
            self._shares[fact.member] = Share(fact.at, fact.partitions)
            self._change(fact.at.time)
        if len(self._shares) > MEMBERS:
            del self._shares[next(iter(self._shares))]

    def _member(self, fact: facts.Member) -> None:
        if fact.error or not fact.member:
            return
        if fact.what == "leave":
            self._shares.pop(fact.member, None)
            self._members.pop(fact.member, None)
            self._change(fact.at.time)
            return
        if fact.what not in JOINING:
            return
        remember(self._members, fact.member, fact.at, MEMBERS)
        if fact.subscription is not None:
            remember(self._subscriptions, fact.member, fact.subscription, MEMBERS)
        if fact.what == "join" and fact.kind == "classic":
            self._shares.clear()  # a rebalance begins, so the old assignment is void

    def _plan(self, fact: facts.Assigned) -> None:
        """Take one member's part of the leader's assignment; the facts of all members come one after the other."""
        first = next(iter(self._shares.values()), None)
        if first is not None and first.at.exchange != fact.at.exchange:
            self._shares.clear()
        self._shares[fact.member] = Share(fact.at, fact.partitions)
        self._protocol = fact.protocol or ""
        self._whole = fact.members is None or fact.members <= MEMBERS
        self._change(fact.at.time)

    def _change(self, time: int) -> None:
        self._changed = time
        self._context.wake(time + self._lasts)

    @property
    def _lasts(self) -> int:
        return max(1, round(self._context.limit(IDLE, "lasts_ms") * MILLISECOND))

    def tick(self) -> None:
        self._look()

    def close(self) -> None:
        self._look()

    def _look(self) -> None:
        if not self._changed:
            return
        if self._context.now < self._changed + self._lasts:
            self._context.wake(self._changed + self._lasts)
            return
        self._changed = 0
        known = self._protocol is None or self._protocol in ASSIGNORS
        alive = {name: one for name, one in self._shares.items() if not self._is_gone(name)}
        total = sum(one.partitions for one in alive.values())
        if known and self._whole and total:
            self._judge(alive, total)

    def _is_gone(self, member: str) -> bool:
        """Whether the connection on which the member last joined has been closed."""
        at = self._members.get(member)
        end = None if at is None else self._context.closed(at.connection)
        return end is not None and end.by_peers

    def _judge(self, shares: dict[str, Share], total: int) -> None:
        subscriptions = {self._subscriptions.get(name) for name in shares}
        if len(subscriptions) > 1:
            return  # members with different topics cannot have equally many partitions
        numbers = sorted(one.partitions for one in shares.values())
        idle = numbers.count(0)
        if not idle and numbers[-1] - numbers[0] < self._context.limit(IDLE, "difference"):
            return
        unlike = f"from {numbers[0]} to {counted(numbers[-1], 'partition')} each"
        what = f"{idle} of {len(shares)} members have no partition" if idle else f"its members have {unlike}"
        spare = idle and total < len(shares)
        victims = [(name, self._members.get(name), one) for name, one in shares.items() if one.partitions == numbers[0]]
        busiest = max(shares.values(), key=lambda one: one.partitions)
        least = victims[0][2]
        self._context.report(
            IDLE,
            at_evidence(least.at, "trigger", f"a member is assigned {counted(numbers[0], 'partition')}"),
            at_evidence(busiest.at, "baseline", f"a member is assigned {counted(numbers[-1], 'partition')}"),
            numbers={
                "group": self._context.key, "what": what, "members": len(shares), "partitions": total,
                "assignor": self._protocol or "the broker's assignor",
            },
            impact=Impact("requests", idle),
            episode="idle" if idle else "uneven",
            actors=tuple(
                Actor("victim", at.peer, at.client_id or None, name) for name, at, _ in victims[:10] if at is not None
            ),
            cause=f"The group has {len(shares)} members, and its topics have {counted(total, 'partition')}."
            if spare else None,
        )  # fmt: skip


class Joined(NamedTuple):
    """A join of a member that was in the group already: exchange, and the assignor that the group chose."""

    at: facts.At
    protocol: str


class Upgrade(Analyzer):
    """Finds groups in the classic protocol whose broker offers the protocol of KIP-848."""

    __slots__ = ("_classic", "_context", "_joins", "_levels", "_longest", "_members", "_new", "_offered")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._offered: dict[str, bool] = {}
        """Maps each broker to whether it offers the protocol of KIP-848."""
        self._levels: dict[str, int] = {}
        """Maps each broker to the finalized level of FEATURE."""
        self._members: dict[tuple[str, str], None] = {}
        """(group, member id) of members whose SyncGroup has succeeded."""
        self._joins: dict[tuple[str, str], Joined] = {}
        """Maps (group, member id) to the member's repeated join, until its SyncGroup succeeds."""
        self._classic: dict[str, facts.At] = {}
        """Maps each group to its latest join in the classic protocol."""
        self._new: dict[str, facts.At] = {}
        """Maps each group to its latest join in the protocol of KIP-848."""
        self._longest: dict[str, tuple[int, int, int]] = {}
        """Maps each group to its stops of at least `stop_ms`: (number, sum in ns, longest in ns)."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Member):
            if not fact.error and fact.answered and fact.kind in {"classic", "consumer"}:
                self._member(fact)
        elif isinstance(fact, facts.Finalized):
            if fact.feature == FEATURE:
                remember(self._levels, fact.at.broker, fact.level, BROKERS)
        elif not fact.error:
            remember(self._offered, fact.at.broker, any(key == NEW for key, _, _ in fact.ranges), BROKERS)

    def _member(self, fact: facts.Member) -> None:
        if fact.kind == "consumer":
            if fact.what == "join":
                remember(self._new, fact.group, fact.at, GROUPS)
                self._migrating(fact)
        elif fact.what == "join":
            self._join(fact)
        elif fact.what == "sync":
            self._sync(fact)
        elif fact.what == "leave":
            self._members.pop((fact.group, fact.member), None)

    def _join(self, fact: facts.Member) -> None:
        protocol = fact.protocol
        if protocol not in ASSIGNORS:
            return
        remember(self._classic, fact.group, fact.at, GROUPS)
        self._migrating(fact)
        member = fact.group, fact.member
        if not fact.fresh and member in self._members:
            remember(self._joins, member, Joined(fact.at, protocol or ""), GROUPS)
        if self._is_offered(fact.at.broker) and fact.group not in self._longest and fact.group not in self._new:
            what = "with it a rebalance stops only members that lose partitions"
            self._report(fact.group, what, Severity.INFO, fact.at, "JoinGroup")

    def _sync(self, fact: facts.Member) -> None:
        member = fact.group, fact.member
        remember(self._members, member, None, GROUPS)
        joined = self._joins.pop(member, None)
        if joined is None or joined.protocol not in EAGER or not self._is_offered(fact.at.broker):
            return
        stopped = fact.at.time - joined.at.asked
        if stopped < self._context.limit(UPGRADE, "stop_ms") * MILLISECOND:
            return
        count, lost, longest = self._longest.get(fact.group, (0, 0, 0))
        count, lost, longest = count + 1, lost + stopped, max(longest, stopped)
        remember(self._longest, fact.group, (count, lost, longest), GROUPS)
        note = f"has no partition from here on, with assignor {joined.protocol}"
        what = (
            f"with assignor {joined.protocol} a member stood still for {longest / SECOND:.1f} s in a rebalance, all "
            f"members together for {lost / SECOND:.1f} s"
        )
        self._report(fact.group, what, Severity.NOTE, joined.at, note, fact.at, lost)

    def _migrating(self, fact: facts.Member) -> None:
        """Report a group that has members of both protocols, as during a migration."""
        other = (self._classic if fact.kind == "consumer" else self._new).get(fact.group)
        if other is None or fact.at.time - other.time > self._context.limit(UPGRADE, "migration_ms") * MILLISECOND:
            return
        if other.connection != fact.at.connection:
            self._report(fact.group, MIGRATES, Severity.INFO, other, "joins", fact.at)

    def _is_offered(self, broker: str) -> bool:
        return self._offered.get(broker, False) and self._levels.get(broker, 0) >= 1

    def _report(
        self, group: str, what: str, severity: Severity, first: facts.At, note: str,
        last: facts.At | None = None, lost: int = 0,
    ) -> None:  # fmt: skip
        evidence = [at_evidence(first, "trigger", note, weight=lost)]
        if last is not None:
            text = "is assigned its partitions" if lost else "joins over the other protocol"
            evidence.append(at_evidence(last, "symptom", text))
        self._context.report(
            UPGRADE,
            *evidence,
            numbers={"group": group, "what": what, "broker": first.broker},
            impact=Impact("ms_lost", lost / MILLISECOND) if lost else Impact("requests", 0),
            episode=what if what == MIGRATES else None,
            scope=Scope("group", group),
            severity=severity,
            actors=(Actor("victim", first.peer, first.client_id or None),),
        )


ANALYSES = (
    Analysis(
        frozenset({IDLE}),
        Key.GROUP,
        (facts.Assigned, facts.Member),
        IdleMembers,
        begins=frozenset({facts.Assigned, "join", "sync"}),
        every_heartbeat=False,
    ),
    Analysis(
        frozenset({UPGRADE}),
        Key.CLUSTER,
        (facts.Member, facts.Offered, facts.Finalized),
        Upgrade,
        every_heartbeat=False,
    ),
)
