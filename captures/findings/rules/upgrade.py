"""Finds clients that Kafka 4 will refuse or that are old (KIP-896), and clusters that are not completely upgraded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

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
    remember,
)
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Scope, Severity
from kproxy.decoders.exchange import Status
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import api_keys, store

CUTOFF = "upgrade.cutoff"
REFUSED = "upgrade.refused"
OUTDATED = "client.outdated"
DEPRECATED = "deprecated.use"
CLUSTER = "upgrade.cluster"
VERSION: Final = "request.requestApiVersion"
"""The field path of a request's version, as `Evidence.path`."""
NONE: Final[frozenset[int]] = frozenset()
WAITING: Final = 64
"""Maximum number of unanswered requests that are kept until the broker's versions are known."""
CONNECTIONS: Final = 64
"""Maximum number of connections without ApiVersions that are remembered for a client."""
BROKERS: Final = 2_000
ALTER_CONFIGS: Final = 33
ZOOKEEPER: Final = frozenset({4, 5, 6, 7})
"""The control requests of ZooKeeper mode, which Kafka 4 lacks."""
LIBRARIES: Final = {
    "java": re.compile(r"apache-kafka-java (\d{1,4})\.(\d{1,2})"),
    "librdkafka": re.compile(r"rdkafka[- ]v?(\d{1,4})\.(\d{1,2})"),
}
"""Patterns of clients' software names, with groups for major and minor version; the key names the rule's threshold."""
FEATURES: Final = frozenset({"metadata.version", "transaction.version", "group.version"})
"""Features whose level should be raised after an upgrade; other features are the administrator's choice."""
_BETWEEN_BROKERS: Final = frozenset({4, 5, 6, 7, 27, 56})
_BROKER_ID: Final = re.compile(r"broker-\d+-|ReplicaFetcher|raft-client-|\d+$")
"""Pattern of client ids of brokers: a replica fetcher's, or a controller's node id."""


@cache
def floors(release: str | None = None) -> Mapping[int, int]:
    """Maps each API key to the lowest version that a release serves; the default is the newest release."""
    release = release or store.releases()[0]
    return {
        one.api_key: one.versions.low
        for kept in store.definitions().values()
        for one in kept
        if one.kind == "request" and one.api_key is not None and one.release == release and one.because is None
    }


@lru_cache(maxsize=64)
def highest(ranges: tuple[tuple[int, int, int], ...]) -> Mapping[int, int]:
    """Maps each API key to the highest version that an ApiVersions response offers; clients share the mapping."""
    return {api: high for api, _, high in ranges}


NOTHING: Final[Mapping[int, int]] = {}


class _Use:
    """A client's requests of one API whose versions are too old: number, first, last, highest version."""

    __slots__ = ("count", "first", "last", "version")

    def __init__(self, fact: facts.Exchange | facts.Replaced) -> None:
        self.first = self.last = fact.at
        self.version = fact.at.version
        self.count = 0

    def add(self, fact: facts.Exchange | facts.Replaced) -> None:
        self.count += 1
        self.last = fact.at
        self.version = max(self.version, fact.at.version)


@lru_cache(maxsize=1024)
def _with(apis: frozenset[int], key: int) -> frozenset[int]:
    """The set `apis` with `key` added; cached, so that all clients share equal sets."""
    return apis | {key}


class Cutoff(Analyzer):
    """For one client, finds APIs that it uses only in versions that the newest release does not serve."""

    __slots__ = ("_among_brokers", "_asked", "_context", "_fit", "_offered", "_software", "_used")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._fit: frozenset[int] = NONE
        """APIs that the client used in a version that the newest release serves."""
        self._used: dict[int, _Use] | None = None
        """The other APIs that the client used, by API key; None if it used none: most clients do not."""
        self._offered: Mapping[int, int] = NOTHING
        self._asked = False
        self._software = ""
        self._among_brokers = bool(_BROKER_ID.match(context.key[0]))

    def feed(self, fact: Any) -> None:
        at = fact.at
        key = at.key
        if key in self._fit and isinstance(fact, facts.Exchange):
            return
        if isinstance(fact, facts.Offered):
            self._asked = True
            self._software = fact.software or self._software
            offered = highest(fact.ranges)
            if not self._offered:
                self._offered = offered
            elif offered != self._offered:
                both = offered.keys() | self._offered.keys()
                self._offered = {api: max(offered.get(api, -1), self._offered.get(api, -1)) for api in both}
            return
        if key in _BETWEEN_BROKERS:
            self._among_brokers = True
        lowest = floors().get(key)
        if lowest is None:
            return
        if at.version >= lowest:
            if self._used is not None:
                self._used.pop(key, None)
            self._fit = _with(self._fit, key)
            return
        if self._used is None:
            self._used = {}
        use = self._used.get(key)
        if use is None:
            use = self._used[key] = _Use(fact)
        use.add(fact)

    def close(self) -> None:
        if self._among_brokers:
            return
        low = {key: use for key, use in (self._used or {}).items() if use.version >= 0}
        # If brokers offer no newer version than the client used, the client may support a newer one.
        low = {key: use for key, use in low.items() if not self._asked or self._offered.get(key, -1) >= floors()[key]}
        if not low:
            return
        (client_id, peer), uses = self._context.key, sorted(low.items())
        if not client_id and not all(self._context.whole(use.first.connection) for use in low.values()):
            return  # the capture may lack the client id, and it may be a broker's
        requests = sum(use.count for use in low.values())
        ends = [self._context.closed(use.first.connection) for use in low.values()]
        sure = self._asked or all(end is not None and end.opened for end in ends)
        self._context.report(
            CUTOFF,
            *(self.proof(key, use) for key, use in uses),
            numbers={
                "client": facts.client_name(client_id, peer),
                "software": self._software or "software unknown",
                "worst": ", ".join(f"{api_name(key)} v{use.version}" for key, use in uses),
                "needed": ", ".join(f"{api_name(key)} v{floors()[key]}" for key, _ in uses),
                "target": store.releases()[0],
                "requests": requests,
            },
            impact=Impact("requests", requests),
            severity=Severity.NOTE if requests < self._context.limit(CUTOFF, "probes") else None,
            confidence=Confidence.PROVEN if sure else Confidence.INFERRED,
            actors=(Actor("culprit", peer, client_id or None),),
        )

    @staticmethod
    def proof(key: int, use: _Use) -> Evidence:
        note = f"{api_name(key)} v{use.version}, {counted(use.count, 'request')} up to exchange {use.last.exchange}"
        return at_evidence(use.first, "trigger", note, path=VERSION, weight=use.count)


class Refused(Analyzer):
    """For one broker, finds requests that it did not answer because it does not support their version."""

    __slots__ = ("_context", "_ranges", "_waiting")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ranges: dict[int, tuple[int, int]] = {}
        self._waiting: list[facts.Exchange] = []

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Offered):
            if fact.ranges and not fact.error and not self._ranges:
                self._ranges = {key: (low, high) for key, low, high in fact.ranges}
                if self._ranges.get(api_keys.FETCH, (0, 0))[0] >= floors()[api_keys.FETCH]:
                    # Kafka 4 offers Produce v0 only for old librdkafka, and refuses such requests (KAFKA-18659).
                    produce = self._ranges.get(api_keys.PRODUCE, (0, -1))
                    self._ranges[api_keys.PRODUCE] = floors()[api_keys.PRODUCE], produce[1]
                for one in self._waiting:
                    self._judge(one)
                self._waiting.clear()
        elif fact.status is Status.NO_RESPONSE and fact.at.key >= 0 and fact.at.key != api_keys.API_VERSIONS:
            if self._ranges:
                self._judge(fact)
            elif len(self._waiting) < WAITING:
                self._waiting.append(fact)

    def _judge(self, fact: facts.Exchange) -> None:
        at = fact.at
        low, high = self._ranges.get(at.key, (0, -1))
        end = self._context.closed(at.connection)
        closed_ms = at.latency / MILLISECOND
        if low <= at.version <= high or closed_ms > self._context.limit(REFUSED, "close_ms"):
            return
        if (end is not None and not end.by_peers) or not self._context.whole(at.connection):
            return
        self._context.report(
            REFUSED,
            at_evidence(at, "trigger", f"{api_name(at.key)} v{at.version}, closed without a response", path=VERSION),
            numbers={
                "client": at.client, "api": api_name(at.key), "version": at.version, "broker": at.broker, "low": low,
                "high": high, "closed_ms": closed_ms,
                "answers": f"answers v{low} to v{high}" if high >= 0 else "does not have this API",
            },
            impact=Impact("requests", 1),
            scope=Scope("client", f"{at.client_id}@{at.peer}"),
            episode=(at.broker, at.key),
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


class Outdated(Analyzer):
    """For one client, finds that its library is old, or that it works without asking for versions."""

    __slots__ = ("_context", "_first", "_silent")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._first: facts.At | None = None
        """The first exchange in which the client did work."""
        self._silent: tuple[int, ...] | None = None if _BROKER_ID.match(context.key[0]) else ()
        """Connections on which the client did work; None once it has asked for versions, or if it is a broker."""

    def feed(self, fact: Any) -> None:
        at = fact.at
        if isinstance(fact, facts.Offered) or at.key == api_keys.API_VERSIONS:
            self._silent = self._first = None
            if isinstance(fact, facts.Offered) and any(self._is_old(name, fact.software) for name in LIBRARIES):
                self._report(at, f"uses {fact.software}", "request.clientSoftwareVersion")
        elif at.key in _BETWEEN_BROKERS:
            self._silent = self._first = None
        elif self._silent is not None and fact.work and len(self._silent) < CONNECTIONS:
            self._first = self._first or at
            if at.connection not in self._silent:
                self._silent = (*self._silent, at.connection)

    def _is_old(self, name: str, software: str) -> bool:
        found = LIBRARIES[name].search(software)
        return found is not None and int(found[1]) + int(found[2]) / 100 < self._context.limit(OUTDATED, name)

    def close(self) -> None:
        if self._first is None or not self._silent:
            return
        ends = {one: self._context.closed(one) for one in self._silent}
        if all(end is not None and end.opened and self._context.whole(one) for one, end in ends.items()):
            what = f"works over {counted(len(ends), 'connection')} and never asked for versions"
            self._report(self._first, what, None, Severity.INFO, Confidence.INFERRED)

    def _report(
        self, at: facts.At, what: str, path: str | None, severity: Severity | None = None,
        confidence: Confidence | None = None,
    ) -> None:  # fmt: skip
        self._context.report(
            OUTDATED,
            at_evidence(at, "trigger", what, path=path),
            numbers={"client": at.client, "what": what},
            impact=Impact("requests", 1),
            severity=severity,
            confidence=confidence,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


class Deprecated(Analyzer):
    """For one client, counts requests that newer Kafka replaces by another API or version."""

    __slots__ = ("_context", "_used")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._used: dict[int, _Use] = {}
        """The client's uses, by API key; fewer than ten, because few APIs are replaced."""

    def feed(self, fact: facts.Replaced) -> None:
        at = fact.at
        use = self._used.get(at.key)
        if use is None:
            if at.key not in ZOOKEEPER and _BROKER_ID.match(at.client_id):
                return
            use = self._used[at.key] = _Use(fact)
            use.add(fact)
            self._report()
        else:
            use.add(fact)

    def close(self) -> None:
        if self._used:
            self._report()

    def _report(self) -> None:
        client_id, peer = self._context.key
        count = sum(use.count for use in self._used.values())
        if count < self._context.limit(DEPRECATED, "requests"):
            return
        what = [f"{api_name(key)} v{use.version}" for key, use in self._used.items() if key not in ZOOKEEPER]
        commands = ", ".join(api_name(key) for key in self._used if key in ZOOKEEPER)
        if commands:
            what.append(f"{commands} (of ZooKeeper mode, which Kafka 4 lacks)")
        self._context.report(
            DEPRECATED,
            *(Cutoff.proof(key, use) for key, use in self._used.items()),
            numbers={"client": facts.client_name(client_id, peer), "what": ", ".join(what), "count": count},
            impact=Impact("requests", count),
            severity=None if commands or ALTER_CONFIGS in self._used else Severity.INFO,
            actors=(Actor("culprit", peer, client_id or None),),
        )


class _Broker(NamedTuple):
    """A broker's latest ApiVersions response: the exchange, and the versions that the broker offers."""

    at: facts.At
    ranges: tuple[tuple[int, int, int], ...]


class Cluster(Analyzer):
    """For all brokers, finds that they run different releases, or that features are not finalized."""

    __slots__ = ("_brokers", "_context", "_ids", "_mixed")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._brokers: dict[str, _Broker] = {}
        self._ids: set[str] = set()
        """The cluster ids in the capture; two are enough to know that there are several clusters."""
        self._mixed: tuple[facts.At, int] | None = None
        """(first response, time in ns of the latest) of the latest period in which brokers differ; None without one."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.ClusterView):
            if fact.cluster and len(self._ids) < 2:
                self._ids.add(fact.cluster)
        elif len(self._ids) > 1 or fact.at.key != api_keys.API_VERSIONS:
            return
        elif isinstance(fact, facts.Features):
            self._features(fact)
        elif not fact.error and any(key == api_keys.PRODUCE for key, _, _ in fact.ranges):
            self._offers(fact)

    def _offers(self, fact: facts.Offered) -> None:
        at, fresh = fact.at, self._context.limit(CLUSTER, "fresh_ms") * MILLISECOND
        same = self._brokers.get(at.broker)
        ranges = same.ranges if same is not None and same.ranges == fact.ranges else fact.ranges
        remember(self._brokers, at.broker, _Broker(at, ranges), BROKERS)
        others = (one for one in self._brokers.values() if one.ranges is not ranges and at.time - one.at.time <= fresh)
        found = next(((one, apis) for one in others if (apis := _differing(one.ranges, ranges))), None)
        if found is None:
            return
        other, apis = found
        first, latest = self._mixed or (at, at.time)
        if at.time - latest > fresh:
            first = at
        self._mixed = first, at.time
        self._mix(at, other.at, apis, first)

    def _mix(self, at: facts.At, other: facts.At, apis: dict[int, tuple[int, int]], first: facts.At) -> None:
        lasted = at.time - first.time
        key, (theirs, ours) = next(iter(apis.items()))
        old, new = (at.broker, other.broker) if ours < theirs else (other.broker, at.broker)
        severity = Severity.INFO
        if lasted >= self._context.limit(CLUSTER, "mixed_ms") * MILLISECOND:
            severity = Severity.NOTE
        if lasted >= self._context.limit(CLUSTER, "stuck_ms") * MILLISECOND:
            severity = Severity.WARN
        what = (
            f"{old} answers {api_name(key)} up to v{min(theirs, ours)}, {new} up to v{max(theirs, ours)}: "
            f"they differ in {counted(len(apis), 'API')}, for {lasted / SECOND:.0f} s"
        )
        self._context.report(
            CLUSTER,
            at_evidence(other, "baseline", f"{api_name(key)} up to v{theirs}", path="response.maxVersion"),
            at_evidence(at, "trigger", f"{api_name(key)} up to v{ours}", path="response.maxVersion"),
            numbers={"what": what, "old": old, "new": new, "apis": len(apis), "lasted_s": lasted / SECOND},
            impact=Impact("requests", len(apis)),
            episode="brokers",
            severity=severity,
        )

    def _features(self, fact: facts.Features) -> None:
        behind = [
            f"{name} is finalized at {finalized}, and the broker supports {high}"
            for name, high, finalized in fact.levels
            if name in FEATURES and 0 <= finalized < high
        ]
        # Without finalized features, the broker is a controller or in ZooKeeper mode.
        if behind and any(finalized > 0 for _, _, finalized in fact.levels):
            self._context.report(
                CLUSTER,
                at_evidence(fact.at, "trigger", "; ".join(behind), path="response.finalizedFeatures"),
                numbers={"what": "; ".join(behind), "broker": fact.at.broker},
                impact=Impact("requests", len(behind)),
                episode="features",
                severity=Severity.INFO if self._mixed else None,
                confidence=Confidence.PROVEN,
            )


def _differing(theirs: tuple[tuple[int, int, int], ...], ours: tuple[tuple[int, int, int], ...]) -> dict[int, Any]:
    """Maps each API that both brokers offer up to different versions to (highest of `theirs`, highest of `ours`)."""
    highs = {key: high for key, _, high in ours}
    return {key: (high, highs[key]) for key, _, high in theirs if highs.get(key, high) != high}


ANALYSES = (
    Analysis(frozenset({OUTDATED}), Key.CLIENT, (facts.Offered, facts.Beginning), Outdated),
    Analysis(frozenset({DEPRECATED}), Key.CLIENT, (facts.Replaced,), Deprecated),
    Analysis(frozenset({CLUSTER}), Key.CLUSTER, (facts.Offered, facts.Features, facts.ClusterView), Cluster),
    Analysis(frozenset({CUTOFF}), Key.CLIENT, (facts.Exchange, facts.Offered), Cutoff),
    Analysis(frozenset({REFUSED}), Key.BROKER, (facts.Exchange, facts.Offered), Refused, status=Status.NO_RESPONSE),
)
