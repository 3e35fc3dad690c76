"""Findings of a growing capture, reported when they open, become worse, or are resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from kproxy.captures.findings.analyzer import SECOND
from kproxy.captures.findings.correlator import correlate
from kproxy.captures.findings.engine import FINDINGS, Engine
from kproxy.captures.findings.model import Finding, Severity
from kproxy.captures.findings.reading import Findings
from kproxy.captures.findings.table import RULES
from kproxy.decoders.exchange import Health
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing, Item

QUIET_SECONDS: Final = 300
"""A finding is resolved after this time without new evidence, in seconds of the capture."""
KEPT: Final = FINDINGS // 2
"""Maximum number of open and resolved findings that are kept; beyond it, the oldest resolved ones are dropped."""


class Change(StrEnum):
    """How a finding changed. New evidence of a resolved finding opens it again."""

    OPENED = "opened"
    WORSE = "worse"
    """The finding's severity rose."""
    RESOLVED = "resolved"


class News(NamedTuple):
    """A change of a finding; `finding` is its state after the change."""

    change: Change
    finding: Finding


class LiveFindings:
    """Findings of a capture that grows. Rules, ids and numbers are the same as those of `kproxy findings`."""

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        health: Health | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        """The arguments are those of `Findings`."""
        self._findings = Findings(source, definitions, health, limits)
        self.ledger = Ledger(self._findings.engine)

    def add(self, items: Iterable[Item], closings: Iterable[Closing] = ()) -> list[News]:
        """Add the reader's next batch and `Reader.closings`; returns the changes. Never raises on bad bytes."""
        self._findings.add(items, closings)
        return self.ledger.news()

    def finish(self) -> list[News]:
        """End the capture; returns the last changes. Open findings stay open."""
        self._findings.end()
        return self.ledger.news()

    def result(self) -> list[Finding]:
        """The open and the resolved findings that are still kept, in the order of `Findings.result`."""
        return self._findings.result()


class Ledger:
    """Tells which findings of an engine changed, and drops those that were resolved long ago."""

    def __init__(self, engine: Engine) -> None:
        self.open: dict[str, Finding] = {}
        """The open findings by id."""
        self._engine = engine
        self._severities: dict[str, Severity] = {}
        """The severity of each open finding, by id, when its last change was reported."""
        self._resolved: dict[str, None] = {}
        """Ids of resolved findings that the engine still keeps, the oldest first."""
        self._next_look = 0
        """Capture time (ns) before which no open finding can become resolved."""

    def news(self) -> list[News]:
        """The changes since the last call: first findings that opened or became worse, then resolved ones."""
        engine = self._engine
        changes: dict[str, Change] = {}
        for one in engine.take_touched():
            before = self._severities.get(one.id)
            if before is None:
                changes[one.id] = Change.OPENED
                self._resolved.pop(one.id, None)
            elif one.severity > before:
                changes[one.id] = Change.WORSE
            self.open[one.id] = one
            self._severities[one.id] = one.severity
        news = []
        if changes:
            # only with all findings can the correlator tell which one is the cause of a new one
            found = correlate(engine.findings(), RULES, engine.views.whole)
            news = [News(changes[one.id], one) for one in found if one.id in changes]
        if engine.now >= self._next_look:
            news += self._quiet(engine.now - QUIET_SECONDS * SECOND)
        return news

    def _quiet(self, before: int) -> list[News]:
        """Resolve open findings without evidence since `before` (ns); beyond KEPT, drop the oldest resolved ones."""
        over = [one for one in self.open.values() if one.last_time < before]
        for one in over:
            del self.open[one.id], self._severities[one.id]
            self._resolved[one.id] = None
        oldest = min((one.last_time for one in self.open.values()), default=before)
        self._next_look = oldest + QUIET_SECONDS * SECOND
        extra = list(self._resolved)[: max(0, len(self.open) + len(self._resolved) - KEPT)]
        if extra:
            self._engine.forget(extra)
            for name in extra:
                del self._resolved[name]
        return [News(Change.RESOLVED, replace(one, state="resolved")) for one in over]
