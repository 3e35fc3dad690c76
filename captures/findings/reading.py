"""Findings of a reading of captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kproxy.captures.findings.correlator import correlate
from kproxy.captures.findings.engine import Engine
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.model import Finding
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.findings.table import RULES
from kproxy.decoders.exchange import Health
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing, Item


class Findings:
    """Draws findings from the batches of a reader."""

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        health: Health | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        """`health`, if present, counts undecodable frames; `limits` replaces thresholds by "rule.name"."""
        self.engine = Engine(ANALYSES, RULES, limits)
        self._maker = FactMaker(source, definitions, self.engine.wanted, health, self.engine.is_idle)

    def resume(self, source: Source, definitions: Definitions) -> None:
        """Continue from a stored state, with this source and these definitions, and with default limits."""
        self.engine.prepare(ANALYSES, RULES)
        self._maker.prepare(source, definitions, self.engine.wanted, self.engine.is_idle)

    def add(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> None:
        """Take the next batch of a reader, and `Reader.closings`. Never raises on bad bytes."""
        self.engine.feed_all(self._maker.make(items, closings))

    def add_one(self, one: Item | Closing, time: int) -> None:
        """Take an item or end of a connection, in the order of `FactMaker.make`; `time` is that of `making.when`."""
        for fact in self._maker.of(one, time):
            self.engine.feed(fact)

    def finish(self) -> list[Finding]:
        """End the capture; returns all findings, symptoms below their causes, the most costly first."""
        self.end()
        return self.result()

    def end(self) -> None:
        """End the capture: make the facts and findings that waited for its end."""
        self.engine.feed_all(self._maker.finish())
        self.engine.finish()

    def result(self) -> list[Finding]:
        """The findings so far, in the order of `finish`."""
        return correlate(self.engine.findings(), RULES, self.engine.views.whole)


def by_exchange(findings: Iterable[Finding]) -> dict[int, list[dict[str, Any]]]:
    """By exchange number, references to the findings that it is evidence of: id, rule, severity, role, path."""
    found: dict[int, list[dict[str, Any]]] = {}
    for one in findings:
        for proof in one.evidence:
            if proof.exchange:
                found.setdefault(proof.exchange, []).append({
                    "id": one.id,
                    "rule": one.rule,
                    "severity": one.severity.name.lower(),
                    "role": proof.role,
                    "path": proof.path,
                })  # fmt: skip
    return found


def named(findings: Iterable[Finding], name: str) -> list[Finding]:
    """The findings of the rule `name`, or those whose id begins with it."""
    return [one for one in findings if one.rule == name or one.id.startswith(name)]
