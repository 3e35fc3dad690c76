"""Findings of a reading of captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

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
    """Takes the batches of a reader, and says what is wrong."""

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        health: Health | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        """`health`, if present, counts undecodable frames; `limits` replaces thresholds by "rule.name"."""
        self.engine = Engine(ANALYSES, RULES, limits)
        self._maker = FactMaker(source, definitions, self.engine.wanted, health)

    def add(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> None:
        """The next batch of a reader, and `Reader.closings`. Never raises on bad bytes."""
        feed = self.engine.feed
        for fact in self._maker.make(items, closings):
            feed(fact)

    def finish(self) -> list[Finding]:
        """The capture ends; all findings, symptoms below their causes, the most costly first."""
        self.engine.finish()
        return self.result()

    def result(self) -> list[Finding]:
        """The findings so far, in the same order."""
        return correlate(self.engine.findings(), RULES, self.engine.views.whole)
