"""Finds clients that use connections, commits, acknowledgements, batches or member ids wastefully."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

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
    remember,
)
from kproxy.captures.findings.model import Actor, Impact, Scope, Severity

LEAK = "client.leak"
POOL = "client.conn_pool"
STORM = "consumer.commit_storm"
WEAK = "producer.weak_acks"
TINY = "producer.tiny_batches"
ID_RETRY = "join.id_retry"
LOST_ID = "group.abandoned_member_id"
MINUTE: Final = 60 * SECOND
TOGETHER: Final = 2 * SECOND
"""Connections that a client opens within this time (ns) after its first one belong to the same start of the client."""
SHARE: Final = 3
"""Maximum number of connections to one broker in one start of a client: for bootstrap, data and coordinator."""
ENDED: Final = 1_000
"""Maximum number of short-lived clients with one name that are counted within a minute."""
CONNECTIONS: Final = 20_000
NAMES: Final = 5_000
"""Maximum number of client names that are remembered."""
WEAK_ACKS: Final = frozenset({0, 1})
EVERY: Final = 100
"""A finding is reported again only after this number of requests, because reports cost time."""
COMMITTERS: Final = 500
"""Maximum number of members of a group whose commits are counted."""
PARTITIONS: Final = 1_000
"""Maximum number of partitions of a member whose last commit is remembered."""
ISSUED: Final = 500
"""Maximum number of issued but unused member ids, and of connections, that are remembered for a group."""
MEMBER_ID_REQUIRED: Final = 79
_DIGITS: Final = re.compile(r"[0-9a-fA-F]{8,}|\d+")
_COMMON: Final = re.compile(
    r"|rdkafka|sarama|kgo|kafkajs|kafka-go.*|kafka-python.*|console-.*|(adminclient|producer)-\d+|consumer-.*-\d+"
)
"""Client ids that libraries use by default, so that several programs of a host may have the same one."""


class Instance:
    """One life of a producer, consumer or admin client: from its first connection until all are closed."""

    __slots__ = ("began", "brokers", "connections", "first", "name", "partial", "work")

    def __init__(self, name: tuple[str, str], first: facts.At) -> None:
        self.name = name
        self.first = first
        self.began = first.asked
        self.connections = 0
        """Number of connections that are open."""
        self.brokers: dict[str, int] = {}
        """Maps each broker to the number of connections that were opened to it."""
        self.work = False
        self.partial = False
        """Whether the capture lacks bytes, the beginning or the end of one of the connections."""


class Ended(NamedTuple):
    time: int
    life: int
    connections: int


class Instances(Analyzer):
    """For all clients, counts short-lived instances, and the connections that a client uses at the same time."""

    __slots__ = ("_busy", "_connections", "_context", "_ended", "_newest", "_working")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._connections: dict[int, Instance] = {}
        self._newest: dict[tuple[str, str], Instance] = {}
        """Maps (client id with digits replaced, host) to the newest instance."""
        self._ended: dict[tuple[str, str], list[Ended]] = {}
        self._working: dict[int, tuple[str, str, str]] = {}
        """Maps each open connection that has done work to (client id, host, broker)."""
        self._busy: dict[tuple[str, str, str], int] = {}
        """Maps (client id, host, broker) to the number of its connections in `_working`."""

    def feed(self, fact: Any) -> None:
        at = fact.at
        if isinstance(fact, facts.Closed):
            self._closed(fact)
            return
        instance = self._connections.get(at.connection)
        if instance is None:
            instance = self._opened(at)
        if fact.work:
            instance.work = True
            if at.connection not in self._working:
                self._works(at)

    def _opened(self, at: facts.At) -> Instance:
        name = _DIGITS.sub("#", at.client_id), at.peer
        instance = self._newest.get(name)
        if instance is None or at.asked - instance.began >= TOGETHER or instance.brokers.get(at.broker, 0) >= SHARE:
            instance = Instance(name, at)
            remember(self._newest, name, instance, NAMES)
        instance.brokers[at.broker] = instance.brokers.get(at.broker, 0) + 1
        instance.connections += 1
        remember(self._connections, at.connection, instance, CONNECTIONS)
        return instance

    def _closed(self, fact: facts.Closed) -> None:
        number = fact.at.connection
        pool = self._working.pop(number, None)
        if pool is not None:
            self._busy[pool] = self._busy.get(pool, 1) - 1
            if self._busy[pool] <= 0:
                del self._busy[pool]
        instance = self._connections.pop(number, None)
        if instance is None:
            return
        instance.connections -= 1
        instance.partial |= not fact.opened or not fact.by_peers or not self._context.whole(number)
        if instance.connections > 0 or instance.partial or not instance.work:
            return
        if self._newest.get(instance.name) is instance:
            del self._newest[instance.name]
        self._end(instance, fact.at.time)

    def _end(self, instance: Instance, time: int) -> None:
        ended = [one for one in self._ended.get(instance.name, ()) if one.time >= time - MINUTE]
        append(ended, Ended(time, time - instance.began, sum(instance.brokers.values())), ENDED)
        remember(self._ended, instance.name, ended, NAMES)
        if len(ended) < self._context.limit(LEAK, "instances"):
            return
        life = sorted(one.life for one in ended)[len(ended) // 2]
        if life >= self._context.limit(LEAK, "life_s") * SECOND:
            return
        at, last, connections = instance.first, ended[-1], sum(one.connections for one in ended)
        name = facts.client_name(instance.name[0], at.peer)
        self._context.report(
            LEAK,
            at_evidence(at, "trigger", f"a client that lived {last.life / SECOND:.1f} s"),
            numbers={
                "client": name, "broker": at.broker, "count": len(ended), "life_s": life / SECOND,
                "connections": connections,
            },
            impact=Impact("requests", connections),
            scope=Scope("client", name),
            severity=Severity.ERROR if len(ended) >= self._context.limit(LEAK, "many") else None,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip

    def _works(self, at: facts.At) -> None:
        pool = at.client_id, at.peer, at.broker
        if len(self._working) >= CONNECTIONS:
            return
        self._working[at.connection] = pool
        self._busy[pool] = count = self._busy.get(pool, 0) + 1
        if count < self._context.limit(POOL, "connections") or _COMMON.fullmatch(at.client_id):
            return
        self._context.report(
            POOL,
            at_evidence(at, "trigger", f"with connection {at.connection}, {count} are open at the same time"),
            numbers={"client": at.client, "broker": at.broker, "count": count},
            impact=Impact("requests", count),
            episode=at.broker,
            scope=Key.CLIENT.scope((at.client_id, at.peer)),
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


class Committing:
    """The commits of one member within the present minute."""

    __slots__ = ("_offset", "_offsets", "_place", "advance", "began", "count", "exchange")

    def __init__(self) -> None:
        self.began = 0
        self.count = 0
        self.advance = 0
        self.exchange = 0
        self._place: tuple[str, int] | None = None
        """The first partition to which the member committed."""
        self._offset = 0
        """The latest offset that it committed to this partition."""
        self._offsets: dict[tuple[str, int], int] | None = None
        """The latest offsets in its other partitions; None if it has none: most members read one, and a dict is large.
        """

    def restart(self, time: int) -> None:
        self.began, self.count, self.advance = time, 0, 0

    def commit(self, place: tuple[str, int], offset: int) -> None:
        """Take the offset that the member committed to a partition."""
        if self._place is None:
            self._place, self._offset = place, offset
        elif self._place == place:
            self.advance += max(0, offset - self._offset)
            self._offset = offset
        else:
            if self._offsets is None:
                self._offsets = {}
            self.advance += max(0, offset - self._offsets.get(place, offset))
            remember(self._offsets, place, offset, PARTITIONS)


class CommitStorm(Analyzer):
    """For one group, finds members that commit after almost every record."""

    __slots__ = ("_context", "_members")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._members: dict[str, Committing] = {}
        """The key is the member id, or the client's name if the client commits without joining."""

    def feed(self, fact: facts.Commit) -> None:
        at = fact.at
        name = fact.member or at.client
        member = self._members.get(name)
        if member is None:
            member = Committing()
            member.restart(at.time)
            remember(self._members, name, member, COMMITTERS)
        if at.exchange != member.exchange:
            if at.time - member.began >= MINUTE:
                self._judge(fact, member)
                member.restart(at.time)
            member.exchange = at.exchange
            member.count += 1
        if fact.offset is not None and not fact.error:
            member.commit((fact.topic, fact.partition), fact.offset)

    def _judge(self, fact: facts.Commit, member: Committing) -> None:
        at = fact.at
        rate = member.count * SECOND / (at.time - member.began)
        advance = member.advance / max(1, member.count)
        if rate < self._context.limit(STORM, "rate") or advance > self._context.limit(STORM, "advance"):
            return
        self._context.report(
            STORM,
            at_evidence(at, "trigger", f"{member.count} commits in a minute, {member.advance} offsets", weight=rate),
            numbers={
                "group": fact.group, "client": at.client, "rate": rate, "advance": advance, "count": member.count,
            },
            impact=Impact("requests", member.count),
            episode=at.client,
            severity=Severity.WARN if rate >= self._context.limit(STORM, "much") else None,
            actors=(Actor("culprit", at.peer, at.client_id or None, fact.member or None),),
        )  # fmt: skip


class Weak:
    """Produce requests of a client with one value of acks: their number, their bytes, and the latest of them."""

    __slots__ = ("at", "count", "size")

    def __init__(self, at: facts.At) -> None:
        self.at = at
        self.count = self.size = 0


class WeakAcks(Analyzer):
    """For one client, counts Produce requests with acks=0 or acks=1, which do not wait for all in-sync replicas."""

    __slots__ = ("_at_once", "_context", "_first", "_many", "_weak")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._first, self._many = context.limit(WEAK, "requests"), context.limit(WEAK, "many")
        self._at_once = frozenset({self._first, self._many})
        """Numbers of requests at which the finding is reported at once: the two thresholds."""
        self._weak: dict[int, Weak] = {}
        """Maps the value of acks to the requests with this value."""

    def feed(self, fact: facts.Produced) -> None:
        acks = fact.acks
        if acks is None or acks not in WEAK_ACKS:
            return
        weak = self._weak.get(acks)
        if weak is None:
            weak = self._weak[acks] = Weak(fact.at)
        weak.at = fact.at
        weak.count = count = weak.count + 1
        weak.size += fact.size
        if count >= self._first and (count in self._at_once or count % EVERY == 0):
            self._report(acks, weak)

    def close(self) -> None:
        for acks, weak in self._weak.items():
            if weak.count >= self._first:
                self._report(acks, weak)

    def _report(self, acks: int, weak: Weak) -> None:
        at, count, size = weak.at, weak.count, weak.size
        what = "no acknowledgement" if acks == 0 else "the leader's acknowledgement alone"
        self._context.report(
            WEAK,
            at_evidence(at, "trigger", f"acks={acks}", path="request.acks"),
            numbers={"client": at.client, "acks": acks, "what": what, "count": count, "bytes": size},
            impact=Impact("requests", count),
            episode=acks,
            severity=Severity.WARN if acks == 0 and count >= self._many else None,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


class TinyBatches(Analyzer):
    """For one client, finds Produce requests that are frequent, and have only one or two small records."""

    __slots__ = ("_began", "_context", "_count", "_records", "_size")

    WINDOW: Final = 10 * SECOND

    def __init__(self, context: Context) -> None:
        self._context = context
        self._restart(0)

    def _restart(self, time: int) -> None:
        self._began = time
        self._count = self._records = self._size = 0

    def feed(self, fact: facts.Produced) -> None:
        if not fact.tiny:
            return
        at = fact.at
        if at.time - self._began >= self.WINDOW:
            self._judge(at)
            self._restart(at.time)
        self._count += 1
        self._records += fact.tiny
        self._size += fact.size

    def _judge(self, at: facts.At) -> None:
        rate = self._count * SECOND / max(1, at.time - self._began)
        if self._count < self._context.limit(TINY, "least") or rate < self._context.limit(TINY, "rate"):
            return
        records = self._records / self._count
        self._context.report(
            TINY,
            at_evidence(at, "trigger", f"{rate:.0f} such requests a second, of {records:.1f} records", weight=rate),
            numbers={"client": at.client, "rate": rate, "records": records, "bytes": self._size // self._count},
            impact=Impact("requests", self._count),
            severity=Severity.WARN if rate >= self._context.limit(TINY, "much") else None,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


class MemberIds(Analyzer):
    """For one group, checks whether clients join with the member ids that the coordinator issued to them (KIP-394)."""

    __slots__ = ("_asks", "_context", "_issued", "_joined")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asks: dict[int, tuple[int, facts.At]] = {}
        """Maps each connection to (number, first exchange) of its consecutive joins without the issued member id."""
        self._issued: dict[str, facts.At] = {}
        """Maps each issued member id that is not used yet to the exchange that issued it."""
        self._joined: dict[int, tuple[facts.At, str]] = {}
        """Maps each connection to its latest successful join: exchange and member id."""

    def feed(self, fact: facts.Member) -> None:
        at = fact.at
        if fact.what != "join" or not fact.fresh:
            self._issued.pop(fact.member, None)
        if fact.what != "join" or fact.kind != "classic" or not fact.answered:
            return
        if fact.error == MEMBER_ID_REQUIRED:
            if fact.fresh and fact.member:
                self._member_id_issued(fact)
            return
        self._asks.pop(at.connection, None)
        if not fact.error:
            remember(self._joined, at.connection, (at, fact.member), ISSUED)
            if self._issued:
                self._context.wake(at.time + self._grace)

    def tick(self) -> None:
        now, due = self._context.now, self._grace
        for member, at in list(self._issued.items()):
            joined, other = self._joined.get(at.connection, (None, ""))
            if joined is None or joined.time < at.time:
                continue
            if now < joined.time + due:
                self._context.wake(joined.time + due)
                continue
            del self._issued[member]
            if self._context.closed(at.connection) is not None or not self._context.whole(at.connection):
                continue  # the client disconnected, or the capture may lack the request that used the id
            self._context.report(
                LOST_ID,
                at_evidence(at, "trigger", f"MEMBER_ID_REQUIRED with the id {member}"),
                at_evidence(joined, "symptom", f"joined as {other} instead"),
                numbers={"group": self._context.key, "client": at.client, "member": member, "other": other},
                impact=Impact("requests", 1),
                episode=member,
                actors=(Actor("culprit", at.peer, at.client_id or None, other),),
            )

    @property
    def _grace(self) -> int:
        return round(self._context.limit(LOST_ID, "grace_ms") * MILLISECOND)

    def _member_id_issued(self, fact: facts.Member) -> None:
        at = fact.at
        remember(self._issued, fact.member, at, ISSUED)
        count, first = self._asks.get(at.connection, (0, at))
        count += 1
        remember(self._asks, at.connection, (count, first), ISSUED)
        if count < self._context.limit(ID_RETRY, "joins"):
            return
        self._context.report(
            ID_RETRY,
            at_evidence(first, "baseline", "JoinGroup without a member id, as in a first join"),
            at_evidence(at, "trigger", f"JoinGroup without a member id, {count} times in a row"),
            numbers={"group": fact.group, "client": at.client, "count": count},
            impact=Impact("requests", count),
            episode=at.connection,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


ANALYSES = (
    Analysis(frozenset({LEAK, POOL}), Key.CLUSTER, (facts.Beginning, facts.Closed), Instances),
    Analysis(frozenset({STORM}), Key.GROUP, (facts.Commit,), CommitStorm),
    Analysis(frozenset({WEAK}), Key.CLIENT, (facts.Produced,), WeakAcks),
    Analysis(frozenset({TINY}), Key.CLIENT, (facts.Produced,), TinyBatches),
    Analysis(
        frozenset({ID_RETRY, LOST_ID}),
        Key.GROUP,
        (facts.Member,),
        MemberIds,
        begins=frozenset({"join"}),
        every_heartbeat=False,
    ),
)
