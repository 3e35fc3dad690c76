"""Finds needless traffic: fetches from another rack, and large or frequent Metadata."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Actor, Confidence, Impact

RACK = "cost.cross_rack"
HEAVY = "meta.heavy"
MEBIBYTE: Final = 1 << 20
KIBIBYTE: Final = 1 << 10
MINUTE: Final = 60 * SECOND
CLIENTS: Final = 5_000
PARTITIONS: Final = 100_000
NODES: Final = 10_000
CONNECTIONS: Final = 1_000
FIRST_RACK: Final = 11
"""First version of Fetch with a field for the client's rack."""


class Fetching:
    """The bytes that a client fetched."""

    __slots__ = ("across", "at", "next", "preferred", "racks", "size")

    def __init__(self, at: facts.At, first: float) -> None:
        self.at = at
        self.size = self.across = 0
        """Bytes in all; `across` are those from another rack although the client's own rack has a replica."""
        self.racks: set[str] = set()
        self.preferred = False
        self.next = first
        """The next report is due when the client's bytes reach this number."""


class CrossRack(Analyzer):
    """For all consumers, finds those that fetch many bytes from another rack."""

    __slots__ = ("_addresses", "_clients", "_context", "_least", "_racks", "_replicas")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._least = context.limit(RACK, "mebibytes") * MEBIBYTE
        self._racks: dict[int, str] = {}
        """Maps each node id to its rack, if it has one."""
        self._addresses: dict[str, int] = {}
        self._replicas: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
        """Maps each partition to (leader, in-sync replicas)."""
        self._clients: dict[tuple[str, str, str], Fetching] = {}
        """Maps (client id, host, rack) to what that client fetched."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.FetchedFrom):
            if len(self._racks) > 1:
                self._fetched(fact)
        elif isinstance(fact, facts.PartitionView):
            if self._racks and fact.leader is not None:
                remember(self._replicas, (fact.topic, fact.partition), (fact.leader, fact.isr), PARTITIONS)
        elif fact.rack:
            remember(self._racks, fact.node, fact.rack, NODES)
            remember(self._addresses, f"{fact.host}:{fact.port}", fact.node, NODES)

    def _fetched(self, fact: facts.FetchedFrom) -> None:
        at = fact.at
        name = at.client_id, at.peer, fact.rack
        client = self._clients.get(name)
        if client is None:
            client = Fetching(at, self._least)
            remember(self._clients, name, client, CLIENTS)
        client.preferred |= fact.preferred
        here = self._addresses.get(at.broker)
        for topic, partition, size in fact.sizes:
            leader, isr = self._replicas.get((topic, partition), (None, ()))
            # A follower serves only clients that name their rack; other clients fetch from the leader.
            node = leader if here is None and not fact.rack else here
            rack = None if node is None else self._racks.get(node)
            if rack is None:
                continue
            client.size += size
            client.racks.add(rack)
            if fact.rack and rack != fact.rack and any(self._racks.get(one) == fact.rack for one in isr):
                client.across += size
        if (client.across if fact.rack else client.size) >= client.next and self._report(client, fact):
            client.next *= 2

    def _report(self, client: Fetching, fact: facts.FetchedFrom) -> bool:
        """Report a client that fetches across racks; returns False if it does not."""
        at = fact.at
        if client.preferred or (fact.rack and client.across < self._context.limit(RACK, "share") * client.size):
            return False
        if not fact.rack and len(client.racks) < 2:
            return False
        if fact.rack:
            why = f"it names its rack {fact.rack}, which has replicas of {client.across // MEBIBYTE} MiB of these"
        elif at.version < FIRST_RACK:
            why = f"Fetch v{at.version} of its library cannot name a rack"
        else:
            why = "it names no rack"
        self._context.report(
            RACK,
            at_evidence(client.at, "trigger", f"Fetch from {client.at.broker}", path="request.rackId"),
            at_evidence(at, "symptom", f"Fetch from {at.broker}", path="request.rackId"),
            numbers={
                "client": at.client, "mebibytes": client.size / MEBIBYTE, "racks": len(client.racks), "why": why,
                "rack": fact.rack,
            },
            impact=Impact("bytes_wasted", client.across or client.size * (len(client.racks) - 1) // len(client.racks)),
            scope=Key.CLIENT.scope((at.client_id, at.peer)),
            episode=fact.rack,
            confidence=None if fact.rack else Confidence.INFERRED,
            actors=(Actor("victim", at.peer, at.client_id or None),),
            cause="The brokers choose no replica by rack: replica.selector.class is not set." if fact.rack else None,
        )  # fmt: skip
        return True


class HeavyMetadata(Analyzer):
    """For one client, finds that it reads too much metadata, or too often."""

    __slots__ = ("_began", "_bytes", "_context", "_counts", "_kibibytes", "_large", "_mebibytes", "_rate", "_times")

    QUARTER: Final = 15 * MINUTE

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mebibytes = context.limit(HEAVY, "mebibytes")
        self._kibibytes = context.limit(HEAVY, "large_kib")
        self._times = max(1, int(context.limit(HEAVY, "times")))
        self._rate = context.limit(HEAVY, "rate")
        self._began = 0
        self._bytes = 0
        """Bytes of the responses to requests for all topics, since `_began`."""
        self._large: deque[int] = deque(maxlen=self._times)
        """Times (ns) of the latest large responses."""
        self._counts: dict[int, tuple[int, int]] = {}
        """Maps each connection to (start of its present minute in ns, number of requests since)."""

    def feed(self, fact: facts.MetadataRead) -> None:
        at = fact.at
        if fact.every:
            if at.time - self._began >= MINUTE:
                self._began, self._bytes = at.time, 0
            self._bytes += fact.size
            if self._bytes >= self._mebibytes * MEBIBYTE:
                what = f"read {self._bytes / MEBIBYTE:.0f} MiB of metadata about all topics within a minute"
                self._report(at, "bytes", what, Impact("bytes_wasted", self._bytes))
            if fact.size >= self._kibibytes * KIBIBYTE:
                self._large.append(at.time)
                if len(self._large) == self._times and at.time - self._large[0] < self.QUARTER:
                    what = f"asked {self._times} times within 15 minutes for {fact.topics} topics, {fact.size} bytes"
                    self._report(at, "large", what, Impact("bytes_wasted", self._times * fact.size))
        if not fact.failed:
            self._count(at)

    def _count(self, at: facts.At) -> None:
        began, count = self._counts.get(at.connection, (at.time, 0))
        if at.time - began >= MINUTE:
            if count >= self._rate and at.time - began < 2 * MINUTE:
                what = f"asked for metadata {count} times within a minute on one connection"
                self._report(at, "rate", what, Impact("requests", count))
            began, count = at.time, 0
        remember(self._counts, at.connection, (began, count + 1), CONNECTIONS)

    def _report(self, at: facts.At, episode: str, what: str, impact: Impact) -> None:
        self._context.report(
            HEAVY,
            at_evidence(at, "trigger", what, path="request.topics", weight=impact.value),
            numbers={"client": at.client, "what": what},
            impact=impact,
            episode=episode,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )


ANALYSES = (
    Analysis(frozenset({RACK}), Key.CLUSTER, (facts.FetchedFrom, facts.Broker, facts.PartitionView), CrossRack),
    Analysis(frozenset({HEAVY}), Key.CLIENT, (facts.MetadataRead,), HeavyMetadata),
)
