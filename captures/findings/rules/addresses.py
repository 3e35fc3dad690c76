"""Finds advertised addresses that clients cannot use, addresses whose cluster changes, and dropped idle connections."""

from __future__ import annotations

from collections import deque
from ipaddress import IPv4Address, IPv6Address, ip_address
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
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Severity
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import api_keys

LEAK = "addr.leak"
NO_BROKERS = "meta.no_brokers"
SWITCHED = "cluster.switched"
IDLE_DROP = "conn.idle_drop"
OK, UNANSWERED = Status.OK, Status.NO_RESPONSE
SERVED: Final = frozenset({OK, Status.NO_REPLY_EXPECTED})
INTERNAL: Final = (".svc", ".svc.cluster.local", ".cluster.local")
"""Suffixes of host names that can be resolved only inside a Kubernetes cluster."""
ADDRESSES: Final = 64
"""Maximum number of unusable addresses that are remembered for a client."""
CLUSTERS: Final = 8
"""Maximum number of cluster ids that are remembered for an address."""
LATELY: Final = 16
"""Maximum number of Metadata responses that are remembered for a client that cannot use its addresses."""
CONNECTIONS: Final = 5_000
"""Maximum number of connections to a broker whose last exchange is remembered."""
APART: Final = 5 * SECOND
"""Two connections that end within this time (ns) of each other count as one drop: one restart may have ended both."""
TIMERS: Final = {240: "an Azure load balancer", 350: "an AWS network load balancer", 600: "connections.max.idle.ms"}
"""Common idle timeouts in seconds, with the device or service that has it as default."""

Ip = IPv4Address | IPv6Address


def _ip(text: str) -> Ip | None:
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


def misfit(host: str, peer: str, broker: str) -> str | None:
    """Why a client cannot use the advertised `host`, as a clause ("is private, and …"); None if no reason is visible.

    `peer` is the client's host, `broker` the host under which the client has reached the broker.
    """
    client, name = _ip(peer), host.lower().rstrip(".")
    if client is None:
        return None
    address = _ip(name)
    if name == "localhost" or (address is not None and (address.is_loopback or address.is_unspecified)):
        if client.is_loopback or client == _ip(broker):
            return None
        return "means the client's own host"
    if not client.is_global:
        return None
    if address is not None and address.is_private:
        return "is private, and the client's address is public"
    return "is a name within Kubernetes, and the client's address is public" if name.endswith(INTERNAL) else None


class Leak(Analyzer):
    """For one client, finds advertised addresses that it cannot use; stops once the client does more than bootstrap."""

    __slots__ = ("_bad", "_context", "_due", "_first", "_lately")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._bad: dict[str, str] = {}
        """Maps each unusable address ("host:port") to the reason."""
        self._first: facts.At | None = None
        """The exchange whose response advertised the first unusable address."""
        self._lately: list[facts.At] = []
        """Exchanges of the latest Metadata requests after `_first`."""
        self._due = False

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Beginning):
            if fact.work:
                self._context.rest()
        elif isinstance(fact, facts.Broker):
            self._learn(fact.at, fact.host, fact.port)
        elif isinstance(fact, facts.Coordinator):
            host, _, port = fact.address.rpartition(":")
            if not fact.error and host:
                self._learn(fact.at, host, port)
        elif self._bad and fact.brokers:
            append(self._lately, fact.at, LATELY)
            if self._due:
                self._report()

    def tick(self) -> None:
        if self._bad:
            self._due = True
            self._report()

    def _learn(self, at: facts.At, host: str, port: object) -> None:
        why = misfit(host, at.peer, at.broker.rpartition(":")[0])
        if why is None or (f"{host}:{port}" not in self._bad and len(self._bad) >= ADDRESSES):
            return
        self._bad[f"{host}:{port}"] = why
        if self._first is None:
            self._first = at
            self._context.wake(at.time + round(self._context.limit(LEAK, "grace_ms") * MILLISECOND))

    def _report(self) -> None:
        first = self._first
        if first is None:
            return
        repeats, since = int(self._context.limit(LEAK, "repeats")), self._context.now - 60 * SECOND
        lately = [one for one in self._lately if one.time >= since]
        proven = len(lately) >= repeats
        address, why = next(iter(self._bad.items()))
        others = len(self._bad) - 1
        more = f" (and {others} more addresses like it)" if others else ""
        then = f"it asked for Metadata {len(lately)} times more within a minute, and for nothing else"
        then = then if lately else "it has asked for nothing since"
        self._context.report(
            LEAK,
            at_evidence(first, "trigger", f"{address} {why}"),
            *(at_evidence(one, "symptom", "asks for Metadata again") for one in lately[-1:] if proven),
            numbers={
                "client": first.client, "peer": first.peer, "broker": first.broker, "address": address,
                "addresses": len(self._bad), "repeats": len(lately),
                "text": f"{first.broker} told {first.client} to connect to {address}{more}, which {why}; {then}",
            },
            impact=Impact("requests", len(lately)),
            severity=Severity.ERROR if proven else Severity.WARN,
            confidence=Confidence.PROVEN if proven else Confidence.STRONG,
            actors=(Actor("victim", first.peer, first.client_id or None),),
        )  # fmt: skip


class Passed(Analyzer):
    """For one client, finds responses that name a broker's own address, with which the client would bypass kproxy."""

    __slots__ = ("_context", "_count")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._count = 0

    def feed(self, fact: facts.Trouble) -> None:
        if fact.code != Code.ADDRESS_LEAKED:
            return
        at = fact.at
        self._count += 1
        self._context.report(
            LEAK,
            at_evidence(at, "trigger", fact.text),
            numbers={
                "client": at.client, "peer": at.peer, "broker": at.broker, "count": self._count,
                "text": f"{self._count} responses to {at.client} held a broker's own address that kproxy let pass",
            },
            impact=Impact("requests", self._count),
            episode="passed",
            confidence=Confidence.PROVEN,
            actors=(Actor("victim", at.peer, at.client_id or None),),
            cause="kproxy does not know this address as one of the cluster's, so it could not rewrite it.",
        )  # fmt: skip


class NoBrokers(Analyzer):
    """For one client, finds Metadata responses that name topics but no broker.

    A response that the capture lacks or cuts may name brokers, so the search begins again behind it.
    """

    UNKNOWN: Final = frozenset({Status.CUT, Status.NO_RESPONSE, Status.UNDECODABLE})

    __slots__ = ("_context", "_count", "_first", "_late", "_latest")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._first: facts.At | None = None
        """The first response without brokers since the last response with brokers."""
        self._latest: facts.At | None = None
        self._count = 0
        self._late = False

    def feed(self, fact: facts.ClusterView | facts.Exchange) -> None:
        if isinstance(fact, facts.Exchange):
            if fact.at.key == api_keys.METADATA and fact.status in self.UNKNOWN:
                self._first, self._late = None, False
        elif fact.brokers:
            self._first, self._late = None, False
        elif fact.topics:
            if self._first is None:
                self._first, self._count = fact.at, 0
                self._context.wake(fact.at.time + self._grace)
            self._latest = fact.at
            self._count += 1
            if self._late:
                self._report(self._first)

    def tick(self) -> None:
        if self._first is None:
            return
        if self._context.now >= self._first.time + self._grace:
            self._late = True
            self._report(self._first)
        else:
            self._context.wake(self._first.time + self._grace)

    @property
    def _grace(self) -> int:
        return round(self._context.limit(NO_BROKERS, "grace_ms") * MILLISECOND)

    def _report(self, first: facts.At) -> None:
        latest = self._latest or first
        evidence = [at_evidence(first, "trigger", "topics, and no broker", path="response.brokers")]
        if latest is not first:
            evidence.append(at_evidence(latest, "symptom", "still no broker", path="response.brokers"))
        self._context.report(
            NO_BROKERS,
            *evidence,
            numbers={"client": first.client, "broker": first.broker, "count": self._count},
            impact=Impact("requests", self._count),
            episode=first.time,
            severity=Severity.WARN if self._count == 1 else None,
            actors=(Actor("victim", first.peer, first.client_id or None),),
        )


class Switched(Analyzer):
    """For one broker address, finds that responses come from another cluster than before."""

    __slots__ = ("_context", "_seen")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen: dict[str, tuple[int, facts.At]] = {}
        """Maps each cluster id to the number of its responses and to the latest of them."""

    def feed(self, fact: facts.ClusterView) -> None:
        if not fact.cluster:
            return
        count, _ = self._seen.get(fact.cluster, (0, fact.at))
        remember(self._seen, fact.cluster, (count + 1, fact.at), CLUSTERS)
        least = self._context.limit(SWITCHED, "answers")
        sure = {name: one for name, one in self._seen.items() if one[0] >= least}
        if len(sure) < 2 or fact.cluster not in sure:
            return
        *_, (old, (_, before)), (new, (times, _)) = sure.items()
        at = fact.at
        self._context.report(
            SWITCHED,
            at_evidence(before, "baseline", f"cluster {old}", path="response.clusterId"),
            at_evidence(at, "trigger", f"cluster {new}, {times} responses by now",
                        path="response.clusterId"),
            numbers={
                "broker": at.broker, "old": old, "new": new, "clusters": len(sure),
            },
            impact=Impact("requests", times),
            actors=(Actor("victim", at.peer, at.client_id or None),),
        )  # fmt: skip


class Drop(NamedTuple):
    """The end of a connection that was idle for `idle` nanoseconds.

    `asked`: whether the client sent a request after the idle time, which remained unanswered.
    """

    at: facts.At
    idle: int
    asked: bool


class IdleDrop(Analyzer):
    """For one broker address, finds connections that are dropped because they were idle."""

    __slots__ = ("_active", "_asked", "_context", "_drops", "_survived")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._active: dict[int, facts.At] = {}
        """Maps each connection to its latest answered exchange."""
        self._asked: dict[int, Drop] = {}
        """Maps each connection to its first request after an idle time, if that request is unanswered."""
        self._drops: deque[Drop] = deque(maxlen=64)
        self._survived = 0
        """The longest idle time in nanoseconds after which a connection still worked."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Closed):
            self._closed(fact)
            return
        at, status = fact.at, fact.status
        number = at.connection
        last = self._active.get(number)
        idle = 0 if last is None else at.asked - last.time
        if status in SERVED:
            if last is None and len(self._active) >= CONNECTIONS:
                del self._active[next(iter(self._active))]
            self._active[number] = at
            if idle > self._survived and status is OK:
                self._survived = idle
        elif status is UNANSWERED and idle >= self._least and number not in self._asked:
            remember(self._asked, number, Drop(at, idle, True), CONNECTIONS)

    @property
    def _least(self) -> int:
        return round(self._context.limit(IDLE_DROP, "idle_s") * SECOND)

    def _closed(self, fact: facts.Closed) -> None:
        number = fact.at.connection
        last, drop = self._active.pop(number, None), self._asked.pop(number, None)
        if last is None or not fact.by_peers or not self._context.whole(number):
            return
        idle = fact.at.time - last.time
        if drop is None and fact.how == "RST" and idle >= self._least:
            drop = Drop(last._replace(time=fact.at.time, exchange=0), idle, False)
        if drop is None or (self._drops and abs(fact.at.time - self._drops[-1].at.time) < APART):
            return
        drop = drop._replace(at=drop.at._replace(time=fact.at.time))
        self._drops.append(drop)
        near = self._context.limit(IDLE_DROP, "near")
        alike = [one for one in self._drops if abs(one.idle - drop.idle) <= near * drop.idle]
        longest = max(one.idle for one in alike)
        if len(alike) >= self._context.limit(IDLE_DROP, "drops") and self._survived <= longest * (1 + near):
            self._report(alike)

    def _report(self, alike: list[Drop]) -> None:
        at, idle = alike[-1].at, min(one.idle for one in alike) / SECOND
        timer = next((name for seconds, name in TIMERS.items() if abs(idle - seconds) <= 0.05 * seconds), None)
        unanswered = sum(one.asked for one in alike)
        self._context.report(
            IDLE_DROP,
            *(_evidence(one) for one in alike),
            numbers={
                "broker": at.broker, "client": at.client, "count": len(alike), "idle_s": idle, "unanswered": unanswered,
            },
            impact=Impact("requests", unanswered),
            severity=Severity.WARN if unanswered or timer else Severity.NOTE,
            actors=(Actor("victim", at.peer, at.client_id or None),),
            cause=timer and f"Something drops idle connections; {idle:.0f} s is the default of {timer}.",
        )  # fmt: skip


def _evidence(drop: Drop) -> Evidence:
    what = "no response to the first request" if drop.asked else "reset"
    return at_evidence(drop.at, "trigger", f"{what} after {drop.idle / SECOND:.1f} s without traffic")


ANALYSES = (
    Analysis(
        frozenset({LEAK}), Key.CLIENT, (facts.Beginning, facts.Broker, facts.Coordinator, facts.ClusterView), Leak
    ),
    Analysis(frozenset({LEAK}), Key.CLIENT, (facts.Trouble,), Passed),
    Analysis(
        frozenset({NO_BROKERS}),
        Key.CLIENT,
        (facts.ClusterView, facts.Exchange),
        NoBrokers,
    ),
    Analysis(frozenset({SWITCHED}), Key.BROKER, (facts.ClusterView,), Switched),
    Analysis(frozenset({IDLE_DROP}), Key.BROKER, (facts.Exchange, facts.Closed), IdleDrop),
)
