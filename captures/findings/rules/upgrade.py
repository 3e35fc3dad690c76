"""Clients whose requests a Kafka 4 broker does not answer, or would not (KIP-896)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import MILLISECOND, Analysis, Analyzer, Context, Key, at_evidence
from kproxy.captures.findings.model import Actor, Confidence, Evidence, Impact, Scope, Severity
from kproxy.decoders.exchange import Status
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import api_keys, store
from kproxy.decoders.schema.apis import all_apis

CUTOFF = "upgrade.cutoff"
REFUSED = "upgrade.refused"
WAITING: Final = 64
"""Most unanswered requests that wait for the broker's versions."""
_BETWEEN_BROKERS: Final = frozenset({4, 5, 6, 7, 27, 56})
_BROKER_ID: Final = re.compile(r"broker-\d+-|ReplicaFetcher|raft-client-|\d+$")
"""Client ids of brokers: of their followers' fetchers, and of a controller (its node id)."""


@cache
def floors(release: str | None = None) -> Mapping[int, int]:
    """The lowest version of each API that a release answers, by API key; the newest release unless one is named."""
    release = release or store.releases()[0]
    return {
        one.api_key: one.versions.low
        for kept in store.definitions().values()
        for one in kept
        if one.kind == "request" and one.api_key is not None and one.release == release and one.because is None
    }


def _api(key: int) -> str:
    api = all_apis(store.releases()[0]).get(key)
    return f"key {key}" if api is None else api.name


class _Use:
    """An API of which a client used too old a version only."""

    __slots__ = ("count", "first", "last", "version")

    def __init__(self, fact: facts.Exchange) -> None:
        self.first = self.last = fact.at
        self.version = fact.at.version
        self.count = 0

    def add(self, fact: facts.Exchange) -> None:
        self.count += 1
        self.last = fact.at
        self.version = max(self.version, fact.at.version)


class Cutoff(Analyzer):
    """One client: the highest version that it used of each API, and what it was offered."""

    __slots__ = ("_among_brokers", "_asked", "_context", "_offered", "_software", "_used")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._used: dict[int, _Use] = {}
        self._offered: dict[int, int] = {}
        self._asked = False
        self._software = ""
        self._among_brokers = bool(_BROKER_ID.match(context.key[0]))

    def feed(self, fact: Any) -> None:
        key = fact.at.key
        if isinstance(fact, facts.Offered):
            self._asked = True
            self._software = fact.software or self._software
            self._offered |= {api: high for api, _, high in fact.ranges if high > self._offered.get(api, -1)}
            return
        if key in _BETWEEN_BROKERS:
            self._among_brokers = True
        if key in floors():
            use = self._used.get(key)
            if use is None:
                use = self._used[key] = _Use(fact)
            use.add(fact)

    def close(self) -> None:
        if self._among_brokers:
            return
        low = {key: use for key, use in self._used.items() if 0 <= use.version < floors()[key]}
        # Who was offered no newer version than it used may know newer ones.
        low = {key: use for key, use in low.items() if not self._asked or self._offered.get(key, -1) >= floors()[key]}
        if not low:
            return
        (client_id, peer), uses = self._context.key, sorted(low.items())
        requests = sum(use.count for use in low.values())
        ends = [self._context.closed(use.first.connection) for use in low.values()]
        sure = self._asked or all(end is not None and end.opened for end in ends)
        self._context.report(
            CUTOFF,
            *(self._proof(key, use) for key, use in uses),
            numbers={
                "client": f"{client_id or '(no client id)'}@{peer}",
                "software": self._software or "software unknown",
                "worst": ", ".join(f"{_api(key)} v{use.version}" for key, use in uses),
                "needed": ", ".join(f"{_api(key)} v{floors()[key]}" for key, _ in uses),
                "target": store.releases()[0],
                "requests": requests,
            },
            impact=Impact("requests", requests),
            severity=Severity.NOTE if requests < self._context.limit(CUTOFF, "probes") else None,
            confidence=Confidence.PROVEN if sure else Confidence.INFERRED,
            actors=(Actor("culprit", peer, client_id or None),),
        )

    @staticmethod
    def _proof(key: int, use: _Use) -> Evidence:
        note = f"{_api(key)} v{use.version}, {counted(use.count, 'request')} up to exchange {use.last.exchange}"
        return at_evidence(use.first, "trigger", note, weight=use.count)


class Refused(Analyzer):
    """One broker: requests of versions that it does not have, which it left unanswered."""

    __slots__ = ("_context", "_ranges", "_waiting")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ranges: dict[int, tuple[int, int]] = {}
        self._waiting: list[facts.Exchange] = []

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Offered):
            if fact.ranges and not self._ranges:
                self._ranges = {key: (low, high) for key, low, high in fact.ranges}
                if self._ranges.get(api_keys.FETCH, (0, 0))[0] >= floors()[api_keys.FETCH]:
                    # A Kafka 4 broker offers Produce v0 for the sake of old librdkafka, and refuses it (KAFKA-18659).
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
            at_evidence(at, "trigger", f"{_api(at.key)} v{at.version}, closed without an answer"),
            numbers={
                "client": at.client, "api": _api(at.key), "version": at.version, "broker": at.broker, "low": low,
                "high": high, "closed_ms": closed_ms,
            },
            impact=Impact("requests", 1),
            scope=Scope("client", f"{at.client_id}@{at.peer}"),
            episode=(at.broker, at.key),
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


ANALYSES = (
    Analysis(frozenset({CUTOFF}), Key.CLIENT, (facts.Exchange, facts.Offered), Cutoff),
    Analysis(frozenset({REFUSED}), Key.BROKER, (facts.Exchange, facts.Offered), Refused),
)
