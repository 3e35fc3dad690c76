"""Makes the rows of the table "findings", with columns for the client, broker, group, topic … concerned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kproxy.captures.findings.model import Actor, Finding
from kproxy.captures.findings.reading import Findings
from kproxy.captures.findings.text import fix_text
from kproxy.captures.tables.rows import Row
from kproxy.captures.tables.schema import FINDINGS

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing, Item
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source

NO_CLIENT_ID: Final = ("", "(no client id)")
"""Texts in an actor or scope that mean: no client id (see `facts.client_name`)."""
_SCOPES: Final = {"broker": "broker", "group": "group_id", "transaction": "txn_id", "topic": "topic"}
"""Maps a kind of scope to the column for the scope's name."""
_NUMBERS: Final = {"broker": "broker", "group": "group_id", "topic": "topic"}
"""Maps a name in `Finding.numbers` to its column. If the scope fills the same column, the scope's name is used."""


class FindingsTable:
    """Makes the table "findings" of one reading (implements `captures.tables.export.MakesRows`)."""

    def __init__(self, source: Source, definitions: Definitions) -> None:
        self._findings = Findings(source, definitions)

    def add(self, items: Iterable[Item], closings: Iterable[Closing]) -> None:
        self._findings.add(items, closings)

    def rows(self, reading: str) -> Iterator[Row]:
        return finding_rows(reading, self._findings.finish())


def finding_rows(reading: str, findings: Iterable[Finding]) -> Iterator[Row]:
    """The rows of findings in the order of `correlate`; `reading` is the id of their reading."""
    names = [column.name for column in FINDINGS.given]
    for rank, one in enumerate(findings, 1):
        values = _values(one) | {"source_id": reading, "rank": rank}
        yield [values.get(name) for name in names]


def _values(one: Finding) -> dict[str, Any]:
    """The values of a row, by column name; a missing name means NULL."""
    return {
        **_concerned(one),
        "finding_id": one.id,
        "rule": one.rule,
        "family": one.rule.partition(".")[0],
        "severity": one.severity.name.lower(),
        "confidence": one.confidence.name.lower(),
        "scope_kind": one.scope.kind,
        "scope": one.scope.name,
        "summary": one.summary,
        "cause": one.cause,
        "occurrences": one.occurrences,
        "first_ts_ns": one.first_time,
        "last_ts_ns": one.last_time,
        "impact_unit": one.impact.unit,
        "impact": float(one.impact.value),
        "numbers": [(name, str(value)) for name, value in one.numbers.items()],
        "limits": [(name, float(value)) for name, value in one.limits.items()],
        "coverage": list(one.coverage.items()),
        "parent_id": one.parent,
        "actors": [actor._asdict() for actor in one.actors],
        "evidence": [
            {
                "exchange": proof.exchange or None,
                "ts_ns": proof.time,
                "connection": proof.connection or None,
                "role": proof.role,
                "note": proof.note,
                "path": proof.path,
            }
            for proof in sorted(one.evidence, key=lambda proof: (proof.time, proof.exchange))
        ],
        "fixes": [f"{fix.side}: {fix_text(fix._asdict())}" for fix in one.fixes],
        "verify": one.verify,
        "unknown": list(one.unknown),
    }


def _concerned(one: Finding) -> Mapping[str, Any]:
    """The columns for client, broker, group …: from the scope, otherwise from actors, numbers and evidence."""
    kind, name = one.scope
    found: dict[str, Any] = {}
    for number, column in _NUMBERS.items():
        if isinstance(one.numbers.get(number), str):
            found[column] = one.numbers[number]
    found |= _partition(one.numbers.get("partition"))
    actor = next((each for each in one.actors if each.role == "culprit"), next(iter(one.actors), None))
    connections = {proof.connection for proof in one.evidence if proof.connection}
    if len(connections) == 1:
        found["connection"] = connections.pop()
    if kind == "client":
        client_id, _, peer = name.rpartition("@")
        actor = Actor("", peer, client_id)
    elif kind == "partition":
        found |= _partition(name)
    elif kind == "connection" and name.isdecimal():
        found["connection"] = int(name)
    elif kind in _SCOPES:
        found[_SCOPES[kind]] = name
    if actor is not None:
        found["client_id"] = None if actor.client_id in NO_CLIENT_ID else actor.client_id
        found["client_ip"] = actor.peer.removeprefix("[").removesuffix("]")
    elif kind == "address":
        found["client_ip"] = name.removeprefix("[").removesuffix("]")
    return found


def _partition(said: Any) -> dict[str, Any]:
    """The columns topic and partition, from a partition number or the text "topic-number"."""
    if isinstance(said, int):
        return {"partition": said}
    topic, _, number = said.rpartition("-") if isinstance(said, str) else ("", "", "")
    return {"topic": topic, "partition": int(number)} if topic and number.isdecimal() else {}
