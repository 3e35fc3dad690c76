"""Findings as stories: facts in, findings out, one line each.

    Story().at(10).join("a").at(12).heartbeat("a", error=27).tells(...)

Time is in seconds from the story's begin. A client is named by its client id; its host and connection follow from the
name unless they are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis
from kproxy.captures.findings.correlator import correlate
from kproxy.captures.findings.engine import Engine
from kproxy.captures.findings.making import SERVED, START
from kproxy.captures.findings.model import Finding
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.findings.table import RULES
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code

BEGAN = 1_700_000_000 * SECOND
BROKER = "10.0.0.1:9092"
APIS = {"Produce": 0, "Fetch": 1, "ListOffsets": 2, "Metadata": 3, "ApiVersions": 18, "ConsumerGroupHeartbeat": 68}
MEMBER_APIS = {"join": 11, "sync": 14, "heartbeat": 12, "leave": 13, "commit": 8}


def engine(analyses: Iterable[Analysis] = ANALYSES, **limits: float) -> Engine:
    return Engine(analyses, RULES, limits)


def told(found: Iterable[Finding]) -> list[str]:
    """ "SEVERITY rule scope" of each finding."""
    return [f"{one.severity.name} {one.rule} {one.scope.name}" for one in found]


@dataclass
class Story:
    """Makes facts one after the other; `found` feeds them to an engine."""

    group: str = "g"
    broker: str = BROKER
    now: float = 0
    made: list[Any] = field(default_factory=list)
    _connections: dict[str, int] = field(default_factory=dict)
    _exchanges: int = 0
    _begun: dict[int, bool] = field(default_factory=dict)

    def at(self, seconds: float) -> Story:
        self.now = seconds
        return self

    def connection(self, client: str) -> int:
        return self._connections.setdefault(client, len(self._connections) + 1)

    def where(self, client: str, *, took: float = 0, key: int = -1, version: int = 9, **more: Any) -> facts.At:
        """A place in the story: a request that ends now, and its answer `took` seconds later."""
        self._exchanges += 1
        asked = BEGAN + round(self.now * SECOND)
        return facts.At(
            more.get("time", asked + round(took * SECOND)),
            asked,
            more.get("exchange", self._exchanges),
            more.get("connection", self.connection(client)),
            more.get("peer", f"host-{client}"),
            client,
            self.broker,
            key,
            version,
        )

    # --- connections ---

    def exchange(
        self, client: str, api: str = "Metadata", status: Status = Status.OK, *, number: int = 1, **more: Any
    ) -> Story:
        for _ in range(number):
            at = self.where(client, key=APIS.get(api, -1), **more)
            self._begins(at, status)
            self.made.append(facts.Exchange(at, status, 100, 100 if status is Status.OK else 0))
        return self

    def _begins(self, at: facts.At, status: Status) -> None:
        """The fact that a connection begins, or begins to work, as the fact maker makes it."""
        work = at.key not in START
        if status in SERVED and at.key >= 0 and not self._begun.get(at.connection):
            if work or at.connection not in self._begun:
                self.made.append(facts.Beginning(at, work))
            self._begun[at.connection] = work

    def tls(self, client: str) -> Story:
        return self.exchange(client, "", Status.TLS)

    def closes(
        self,
        client: str,
        how: str = "FIN",
        *,
        opened: bool = True,
        sent: int = 100,
        got: int = 100,
        first: bytes = b"",
        lived: float = 0,
        closer: str | None = "client",
        **more: Any,
    ) -> Story:
        at = self.where(client, exchange=0, **more)._replace(client_id="")
        began = at.time - round(lived * SECOND)
        self.made.append(facts.Closed(at, how, opened, began, sent, got, first, closer))
        return self

    def trouble(self, client: str, code: Code = Code.GAP, *, side: str = "broker", **places: Any) -> Story:
        at = self.where(client, exchange=0, **places)
        self.made.append(facts.Trouble(at, code, side, 0, 10, f"{code} here"))
        return self

    def offered(self, client: str, software: str = "", **ranges: tuple[int, int]) -> Story:
        at = self.where(client, key=APIS["ApiVersions"])
        offered = tuple((APIS[name], *versions) for name, versions in ranges.items())
        self.made.append(facts.Offered(at, 0, software, offered))
        return self

    # --- data, metadata, transactions, authentication ---

    def topic(
        self, client: str, name: str, error: int = 0, topic_id: str | None = None, *, partitions: int = 1
    ) -> Story:
        at = self.where(client, key=APIS["Metadata"])
        self.made.append(facts.TopicView(at, name, error, 0 if error else partitions, True, topic_id))
        return self

    def partition(self, client: str, topic: str = "t", partition: int = 0, **said: Any) -> Story:
        """A partition in a Metadata answer: node 1 leads, 2 and 3 follow."""
        at = self.where(client, key=APIS["Metadata"])
        fact = facts.PartitionView(at, topic, partition, 0, 1, 5, (1, 2, 3), (1, 2, 3), ())
        self.made.append(fact._replace(**said))
        return self

    def coordinator(self, client: str, node: int | None = 1, error: int = 0, *, kind: str = "group") -> Story:
        """An answer of FindCoordinator."""
        name, address = "tx" if kind == "transaction" else self.group, f"10.0.0.{node}:9092"
        self.made.append(facts.Coordinator(self.where(client, key=10), kind, name, node, address, error))
        return self

    def epoch_end(self, client: str, end: int | None, **said: Any) -> Story:
        """An answer of OffsetForLeaderEpoch."""
        places = {name: said.pop(name) for name in ("peer", "connection") if name in said}
        fact = facts.EpochEnd(self.where(client, key=23, **places), "t", 0, 5, end, None, None, 0)
        self.made.append(fact._replace(**said))
        return self

    def advertises(self, client: str, host: str, port: int = 9092, *, node: int = 1, **places: Any) -> Story:
        """A Metadata response that names one broker."""
        at = self.where(client, key=APIS["Metadata"], **places)
        self.made += [facts.ClusterView(at, None, 1, 1), facts.Broker(at, node, host, port, None)]
        return self

    def cluster(self, client: str, name: str | None = None, *, brokers: int = 3, topics: int = 1) -> Story:
        """A Metadata response without its parts."""
        at = self.where(client, key=APIS["Metadata"])
        self.made.append(facts.ClusterView(at, name, brokers, topics))
        return self

    def partition_io(self, client: str, api: str = "Produce", **said: Any) -> Story:
        """A partition in a Produce or Fetch; `leader_epoch`, `offset` and the like as in the fact."""
        places = {name: said.pop(name) for name in ("took", "peer", "connection", "version") if name in said}
        at = self.where(client, key=APIS[api], **places)
        acks = -1 if api == "Produce" else None
        fact = facts.PartitionIO(at, "t", 0, 0, None, None, None, None, None, 100, None, acks)
        self.made.append(fact._replace(**said))
        return self

    def commit(
        self,
        client: str,
        offset: int | None,
        error: int = 0,
        *,
        topic: str = "t",
        partition: int = 0,
        **places: Any,
    ) -> Story:
        at = self.where(client, key=MEMBER_APIS["commit"], **places)
        self.made.append(facts.Commit(at, self.group, client, topic, partition, offset, error))
        return self

    def produce(self, client: str, offset: int | None = None, error: int = 0, **said: Any) -> Story:
        """A batch in a Produce with its answer; `producer_id`, `base_sequence` and the like as in Append."""
        places = {name: said.pop(name) for name in ("took", "peer", "connection") if name in said}
        at = self.where(client, key=APIS["Produce"], **places)
        batch = facts.Append(at, "t", 0, error, offset, -1, True, 100, 1, 77, None, None, None, False)
        batch = batch._replace(**said)
        self.made.append(
            facts.PartitionIO(
                at, batch.topic, batch.partition, error, offset, None, None, None, None, batch.size, None, batch.acks
            )
        )
        owner = batch.producer_id if batch.transactional else None
        records = batch.records if batch.transactional else 0
        self.made.append(facts.Produced(at, batch.acks, batch.size, 0, owner, records, (batch,)))
        return self

    def produced(self, client: str, **said: Any) -> Story:
        """A Produce by what it says as a whole, fields as in the fact; its batches do not matter."""
        at = self.where(client, key=APIS["Produce"])
        self.made.append(facts.Produced(at, -1, 100, 0, None, 0, ())._replace(**said))
        return self

    def volume(self, client: str, size: int = 100, partition: int = 0, **said: Any) -> Story:
        """What a client sent to a partition within a slot."""
        at = self.where(client, key=APIS["Produce"])
        self.made.append(facts.Volume(at, "t", partition, 30, 30, size, "none")._replace(**said))
        return self

    def sample(self, client: str, partition: int = 0, *, keys: Iterable[bytes] = (), **said: Any) -> Story:
        """An opened batch of 100 records of 100 bytes; fields as in the facts Sample and Content."""
        counted = tuple(Counter(keys).items())
        content = facts.Content(None, 100, 10_000, 100, 0, 0, counted, (), 100)
        inside = {name: said.pop(name) for name in facts.Content._fields if name in said}
        at = self.where(client, key=APIS["Produce"])
        newest = at.asked // 1_000_000
        fact = facts.Sample(at, "t", partition, 2, "none", 10_000, 100, 10_000, 100, newest, content)
        self.made.append(fact._replace(**said, content=content._replace(**inside)))
        return self

    def committed(
        self, client: str, offset: int | None, *, topic: str = "t", partition: int = 0, **places: Any
    ) -> Story:
        """An answer of OffsetFetch."""
        at = self.where(client, key=9, **places)
        self.made.append(facts.Committed(at, self.group, topic, partition, offset, 0))
        return self

    def looked_up(self, client: str, timestamp: int, offset: int, *, topic: str = "t", partition: int = 0) -> Story:
        """An answer of ListOffsets."""
        at = self.where(client, key=APIS["ListOffsets"])
        self.made.append(facts.OffsetLookup(at, topic, partition, timestamp, offset, 0))
        return self

    def txn(self, client: str, what: str, error: int = 0, **said: Any) -> Story:
        places = {name: said.pop(name) for name in ("peer", "connection") if name in said}
        fact = facts.Txn(self.where(client, **places), "tx", what, 1, 0, error, None, None)
        self.made.append(fact._replace(**said))
        return self

    def fetched(
        self, client: str, offset: int | None = 0, size: int = 100, *, end: int | None = None, pause: float | None = 0,
        max_bytes: int | None = None, min_bytes: int = 1, **part: Any,
    ) -> Story:  # fmt: skip
        """An answer of Fetch with records of one partition, which ends there unless `end` is given."""
        places = {name: part.pop(name) for name in ("took", "peer", "connection") if name in part}
        at = self.where(client, key=APIS["Fetch"], **places)
        high = offset if end is None else end
        one = facts.FetchedPartition("t", 0, offset, size, high, high, 1 << 20)._replace(**part)
        waited = None if pause is None else round(pause * SECOND)
        self.made.append(facts.Fetched(at, one.size, min_bytes, max_bytes, waited, (one,)))
        return self

    def fetch_session(self, client: str, granted: int = 0, error: int = 0, partitions: int = 50) -> Story:
        """An answer to a Fetch that asks for a session, or whose session is refused."""
        self.made.append(facts.FetchSession(self.where(client, key=APIS["Fetch"]), granted, error, partitions))
        return self

    def assigned(self, client: str, protocol: str | None = "range", /, **partitions: int) -> Story:
        """The assignment in the SyncGroup of a leader: the number of partitions of each member."""
        at = self.where(client, key=MEMBER_APIS["sync"])
        for member, number in partitions.items():
            self.made.append(facts.Assigned(at, self.group, "classic", member, 1, number, protocol, len(partitions)))
        return self

    def told(self, client: str, partitions: int, **places: Any) -> Story:
        """The assignment of one member in the protocol of KIP-848."""
        at = self.where(client, key=68, **places)
        self.made.append(facts.Assigned(at, self.group, "consumer", client, 1, partitions, None, None))
        return self

    def finalized(self, client: str, feature: str = "group.version", level: int = 1) -> Story:
        self.made.append(facts.Finalized(self.where(client, key=APIS["ApiVersions"]), feature, level))
        return self

    def throttle(self, client: str, ms: int, api: str = "Produce") -> Story:
        self.made.append(facts.Throttle(self.where(client, key=APIS[api]), ms))
        return self

    def auth(self, client: str, state: str, error: str | None = None, mechanism: str = "PLAIN") -> Story:
        at = self.where(client, key=36)
        self.made.append(facts.Auth(at, state, mechanism, ("SCRAM-SHA-256",), "alice", None, error))
        return self

    def secret(self, client: str, what: str = "the password of SASL/PLAIN", **places: Any) -> Story:
        self.made.append(facts.Secret(self.where(client, key=36, **places), what))
        return self

    # --- groups ---

    def member(self, what: str, client: str, **said: Any) -> Story:
        """A member's request; its member id is the client's name unless it is given."""
        places = {name: said.pop(name) for name in ("took", "peer", "connection") if name in said}
        at = self.where(client, key=MEMBER_APIS[what], **places)
        fact = facts.Member(
            at, self.group, "classic", what, client, False, None, None, 0, None, None, None, None, None, None, True
        )
        self.made.append(fact._replace(**said))
        return self

    def join(
        self, client: str, generation: int | None = 1, *, session: float = 10, poll: float = 300, **said: Any
    ) -> Story:
        given = {"generation": generation, "session_ms": round(session * 1000), "rebalance_ms": round(poll * 1000)}
        return self.member("join", client, **given | said)

    def heartbeat(self, client: str, error: int = 0, **said: Any) -> Story:
        return self.member("heartbeat", client, error=error, **said)

    def leave(self, client: str, reason: str | None = None, **said: Any) -> Story:
        return self.member("leave", client, reason=reason, **said)

    # --- what comes of it ---

    def found(self, analyses: Iterable[Analysis] = ANALYSES, **limits: float) -> list[Finding]:
        """The findings, in the order of their ranks."""
        judge = Engine(analyses, RULES, limits)
        for fact in self.made:
            judge.feed(fact)
        judge.finish()
        return correlate(judge.findings(), RULES, judge.views.whole)

    def tells(self, *lines: str, at_least: str = "NOTE") -> list[Finding]:
        """Compare the findings of this severity and worse with "SEVERITY rule scope" lines."""
        least = {"INFO": 0, "NOTE": 1, "WARN": 2, "ERROR": 3}[at_least]
        found = [one for one in self.found() if one.severity >= least]
        assert told(found) == list(lines), [
            f"{line}: {one.summary}" for line, one in zip(told(found), found, strict=True)
        ]
        return found

    def is_quiet(self) -> None:
        """Nothing is told, but for what is only an INFO."""
        self.tells()
