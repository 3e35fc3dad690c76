"""Finds what is wrong in captures: feeds the facts of a reading to the engine, and returns its findings."""

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
    """Produces findings from the batches of a reader."""

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        health: Health | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        """`health`, if given, counts undecodable frames; `limits` maps "rule.threshold" to another value."""
        self.engine = Engine(ANALYSES, RULES, limits)
        self._maker = FactMaker(source, definitions, self.engine.wanted, health, self.engine.is_idle)

    def resume(self, source: Source, definitions: Definitions) -> None:
        """Set what a stored state lacks: the source, the definitions, and the thresholds' default values."""
        self.engine.prepare(ANALYSES, RULES)
        self._maker.prepare(source, definitions, self.engine.wanted, self.engine.is_idle)

    def add(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> None:
        """Add the next batch of a reader with its `Reader.closings`. Never raises on bad bytes."""
        self.engine.feed_all(self._maker.make(items, closings))

    def add_one(self, one: Item | Closing, time: int) -> None:
        """Add one item or connection's end, in the order of `FactMaker.make`; `time` is that of `making.when`."""
        for fact in self._maker.of(one, time):
            self.engine.feed(fact)

    def finish(self) -> list[Finding]:
        """End the capture; returns all findings, the most severe first, symptoms after their causes."""
        self.end()
        return self.result()

    def end(self) -> None:
        """End the capture: make the facts and findings that were held back until then."""
        self.engine.feed_all(self._maker.finish())
        self.engine.finish()

    def result(self) -> list[Finding]:
        """The findings that are open now, in the order of `finish`."""
        return correlate(self.engine.findings(), RULES, self.engine.views.whole)


def by_exchange(findings: Iterable[Finding]) -> dict[int, list[dict[str, Any]]]:
    """Maps exchange numbers to references to the findings that they prove: id, rule, severity, role, field path."""
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
    """The findings whose rule is `name`, or whose id begins with it."""
    return [one for one in findings if one.rule == name or one.id.startswith(name)]
