"""The data of a finding: what is wrong, who is affected, since when, and the exchanges that prove it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.decoders.exchange_json import timestamp

Number: TypeAlias = int | float | str
EVIDENCE: Final = 12
"""Maximum number of pieces of evidence of a finding: the first 4, the last 4, and the heaviest of the others."""
_ENDS: Final = 4


class Severity(IntEnum):
    """How bad a finding is. ERROR means that data is lost or duplicated, or that the client cannot work."""

    INFO = 0
    NOTE = 1
    WARN = 2
    ERROR = 3


class Confidence(IntEnum):
    """How certain a finding is. The severity of an INFERRED finding is WARN at most."""

    INFERRED = 0
    STRONG = 1
    PROVEN = 2


class Scope(NamedTuple):
    """The thing that a finding is about: ("group", "orders"), ("connection", "17"), ("client", "app@10.0.0.7")."""

    kind: str
    name: str


class Evidence(NamedTuple):
    """An exchange that proves a finding; `role` is trigger, culprit, symptom or baseline.

    `exchange` is 0 if the proof is a silence or the end of a connection. `path` is the field to look at: side and name,
    with the value if several fields have that name ("request.reason", "response.errorCode=25"). If a finding has too
    much evidence, the pieces of lowest `weight` are dropped.
    """

    exchange: int
    time: int
    connection: int
    role: str
    note: str
    path: str | None = None
    weight: float = 0


class Actor(NamedTuple):
    """A participant in a finding; `role` is culprit or victim."""

    role: str
    peer: str
    client_id: str | None
    member: str | None = None


class Fix(NamedTuple):
    """A change that ends the problem, for the Java client and for librdkafka; `side` is client or broker."""

    side: str
    java: str | None
    librdkafka: str | None
    why: str


class Impact(NamedTuple):
    """What a finding costs; `unit` is ms_lost, records_at_risk, requests or bytes_wasted."""

    unit: str
    value: float


@dataclass(slots=True, eq=False)
class Finding:
    """One finding; later occurrences in the same episode are added to it."""

    id: str
    rule: str
    scope: Scope
    severity: Severity
    confidence: Confidence
    title: str
    summary: str
    first_time: int
    last_time: int
    cause: str
    verify: str
    fixes: tuple[Fix, ...]
    unknown: tuple[str, ...]
    """Questions that the capture cannot answer, each with the place where the answer can be found."""
    impact: Impact = field(default_factory=lambda: Impact("requests", 0))
    occurrences: int = 0
    state: str = "open"
    numbers: dict[str, Number] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    """The values of the rule's thresholds."""
    evidence: list[Evidence] = field(default_factory=list)
    actors: tuple[Actor, ...] = ()
    parent: str | None = None
    coverage: dict[str, int] = field(default_factory=dict)
    """What the capture lacks of the traffic behind this finding, and how many: "connections with missing bytes", 3."""

    def prove(self, evidence: Evidence) -> None:
        """Add evidence, unless the finding has a piece with the same exchange and role.

        Beyond EVIDENCE pieces, drop the one of lowest weight; the first 4 and the last 4 are kept.
        """
        if evidence.exchange and any(
            one.exchange == evidence.exchange and one.role == evidence.role for one in self.evidence
        ):
            return
        self.evidence.append(evidence)
        if len(self.evidence) > EVIDENCE:
            middle = self.evidence[_ENDS:-_ENDS]
            self.evidence.remove(min(middle, key=lambda one: one.weight))


def finding_id(rule: str, scope: Scope, episode: Hashable, first_time: int) -> str:
    """The id of a finding, 16 hexadecimal digits; the same for every way of reading the capture."""
    text = "\0".join((rule, *scope, "" if episode is None else str(episode), str(first_time)))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def finding_json(finding: Finding, precision: int = 9) -> dict[str, Any]:
    """The JSON object of schema "kproxy.finding/1"; `precision` is the number of decimals of its times."""
    return {
        "schema": "kproxy.finding/1",
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity.name.lower(),
        "confidence": finding.confidence.name.lower(),
        "scope": {"kind": finding.scope.kind, "name": finding.scope.name},
        "state": finding.state,
        "title": finding.title,
        "summary": finding.summary,
        "first_time": timestamp(finding.first_time, precision),
        "last_time": timestamp(finding.last_time, precision),
        "occurrences": finding.occurrences,
        "impact": {"unit": finding.impact.unit, "value": finding.impact.value},
        "numbers": finding.numbers,
        "limits": finding.limits,
        "evidence": [
            {
                "exchange": one.exchange or None,
                "time": timestamp(one.time, precision),
                "connection": one.connection or None,
                "role": one.role,
                "note": one.note,
                "path": one.path,
            }
            for one in sorted(finding.evidence, key=lambda one: (one.time, one.exchange))
        ],
        "actors": [one._asdict() for one in finding.actors],
        "cause": finding.cause,
        "fixes": [one._asdict() for one in finding.fixes],
        "verify": finding.verify,
        "unknown": list(finding.unknown),
        "parent": finding.parent,
        "coverage": finding.coverage,
    }
