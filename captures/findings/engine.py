"""Deals facts to analyzers by key, wakes them by capture time, bounds what they keep, and collects their findings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple

from kproxy.captures.findings.analyzer import Analysis, Analyzer
from kproxy.captures.findings.facts import Closed, Fact, Trouble
from kproxy.captures.findings.model import (
    Actor,
    Confidence,
    Evidence,
    Finding,
    Impact,
    Number,
    Scope,
    Severity,
    finding_id,
)
from kproxy.captures.findings.rule import Rule
from kproxy.decoders.problems import Code

FINDINGS: Final = 10_000
"""Most findings; later ones are only counted."""
CONNECTIONS: Final = 20_000
"""Most connections whose end, or damage, is remembered."""
DAMAGE: Final = frozenset(
    {Code.GAP, Code.RESYNC, Code.CUT_BY_SNAPLEN, Code.ONE_SIDED, Code.LATE, Code.OVERLAP, Code.EVICTED, Code.TRUNCATED}
)
"""Problems after which something of a connection is missing."""
LEARNT: Final = frozenset({Closed, Trouble})
"""The facts that `Views` learns from."""
_NEVER: Final = 1 << 63


class Views:
    """What analyzers may ask of connections that are not their own."""

    def __init__(self) -> None:
        self._closed: OrderedDict[int, Closed] = OrderedDict()
        self._damaged: OrderedDict[int, None] = OrderedDict()

    def learn(self, fact: Fact) -> None:
        if isinstance(fact, Closed) and fact.at.connection:
            _keep(self._closed, fact.at.connection, fact)
        elif isinstance(fact, Trouble) and fact.code in DAMAGE:
            _keep(self._damaged, fact.at.connection, None)

    def closed(self, connection: int) -> Closed | None:
        return self._closed.get(connection)

    def whole(self, connection: int) -> bool:
        return connection not in self._damaged


def _keep(kept: OrderedDict[int, Any], key: int, value: Any) -> None:
    kept[key] = value
    if len(kept) > CONNECTIONS:
        kept.popitem(last=False)


class Cell:
    """An analyzer's state for one key, and its `Context`."""

    __slots__ = ("_analysis", "_engine", "alarm", "analyzer", "closed", "key", "whole")

    def __init__(self, engine: Engine, analysis: Analysis, key: Hashable) -> None:
        self.key = key
        self.alarm = _NEVER
        self.closed = engine.views.closed
        self.whole = engine.views.whole
        self._engine = engine
        self._analysis = analysis
        self.analyzer: Analyzer = analysis.new(self)

    @property
    def now(self) -> int:
        return self._engine.now

    def limit(self, rule: str, name: str) -> float:
        return self._engine.limits[f"{rule}.{name}"]

    def wake(self, time: int) -> None:
        self._engine.wake(self, time)

    def report(
        self,
        rule: str,
        *evidence: Evidence,
        numbers: dict[str, Number],
        impact: Impact,
        episode: Hashable = None,
        scope: Scope | None = None,
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        actors: tuple[Actor, ...] = (),
        cause: str | None = None,
    ) -> Finding | None:
        scope = scope or self._analysis.key.scope(self.key)
        finding = self._engine.finding(rule, scope, episode, evidence)
        if finding is None:
            return None
        row = self._engine.rules[rule]
        confidence = row.confidence if confidence is None else confidence
        severity = row.severity if severity is None else severity
        if finding.occurrences:
            confidence, severity = max(confidence, finding.confidence), max(severity, finding.severity)
        finding.confidence, finding.severity = confidence, severity
        if finding.confidence is Confidence.INFERRED:
            finding.severity = min(finding.severity, Severity.WARN)
        finding.occurrences += 1
        finding.numbers = numbers
        finding.impact = impact
        finding.actors = actors or finding.actors
        finding.cause = cause or row.cause
        finding.summary = row.text.format_map(numbers)
        return finding


class Route(NamedTuple):
    """Where facts of a kind go: to which analysis, its cells by key, and how a fact gives the key."""

    analysis: Analysis
    cells: OrderedDict[Hashable, Cell]
    key_of: Callable[[Any], Hashable]


class Engine:
    """Findings of one stream of facts. Time is the capture's; nothing raises, in whatever order facts come."""

    def __init__(
        self, analyses: Iterable[Analysis], rules: Mapping[str, Rule], limits: Mapping[str, float] | None = None
    ) -> None:
        """`limits` replaces defaults of thresholds, by "rule.name"."""
        self.rules = rules
        self.limits = {f"{rule.id}.{one.name}": one.default for rule in rules.values() for one in rule.thresholds}
        self.limits |= limits or {}
        self.views = Views()
        self.now = 0
        self.evicted: dict[str, int] = {}
        """Number of keys whose state was dropped, by the kind of key: findings about them may be missing."""
        self.uncounted = 0
        """Number of findings beyond the maximum."""
        self._cells: list[OrderedDict[Hashable, Cell]] = []
        self._routes: dict[type[Fact], list[Route]] = {}
        for analysis in analyses:
            cells: OrderedDict[Hashable, Cell] = OrderedDict()
            self._cells.append(cells)
            for kind in analysis.facts:
                self._routes.setdefault(kind, []).append(Route(analysis, cells, analysis.key.getter))
        self._findings: dict[tuple[str, Scope, Hashable], Finding] = {}
        self._alarms: list[tuple[int, int, Cell]] = []
        self._turn = count()

    @property
    def wanted(self) -> frozenset[type[Fact]]:
        """The kinds of facts that some analyzer takes."""
        return frozenset(self._routes) | LEARNT

    def feed(self, fact: Fact) -> None:
        time = fact.at.time
        if time > self.now:
            self.now = time
            if self._alarms and self._alarms[0][0] <= time:
                self._ring()
        kind = type(fact)
        if kind in LEARNT:
            self.views.learn(fact)
        for analysis, cells, key_of in self._routes.get(kind, ()):
            key = key_of(fact)
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = Cell(self, analysis, key)
                if len(cells) > analysis.key.most:
                    self._evict(analysis, cells)
            else:
                cells.move_to_end(key)
            cell.analyzer.feed(fact)

    def finish(self) -> None:
        """The capture ends: analyzers report what they still hold."""
        for cells in self._cells:
            for cell in cells.values():
                cell.analyzer.close()
            cells.clear()
        self._alarms.clear()

    def findings(self) -> list[Finding]:
        """The findings so far, in the order in which they were opened."""
        return list(self._findings.values())

    def finding(self, rule: str, scope: Scope, episode: Hashable, evidence: tuple[Evidence, ...]) -> Finding | None:
        """The finding of an episode, opened if it is new, with more evidence; None beyond the maximum."""
        finding = self._findings.get((rule, scope, episode))
        if finding is None:
            if len(self._findings) >= FINDINGS:
                self.uncounted += 1
                return None
            row = self.rules[rule]
            first = min((one.time for one in evidence), default=self.now)
            finding = self._findings[rule, scope, episode] = Finding(
                id=finding_id(rule, scope, episode, first),
                rule=rule,
                scope=scope,
                severity=row.severity,
                confidence=row.confidence,
                title=row.title,
                summary="",
                first_time=first,
                last_time=first,
                cause=row.cause,
                verify=row.verify,
                fixes=row.fixes,
                unknown=row.unknown,
                limits={one.name: self.limits[f"{rule}.{one.name}"] for one in row.thresholds},
            )
        for one in evidence:
            finding.prove(one)
            finding.last_time = max(finding.last_time, one.time)
        return finding

    def wake(self, cell: Cell, time: int) -> None:
        """Ring a cell at a time, soon if it has passed; only the earliest time that it asked for counts."""
        time = max(time, self.now + 1)
        if time < cell.alarm:
            cell.alarm = time
            heappush(self._alarms, (time, next(self._turn), cell))

    def _ring(self) -> None:
        while self._alarms and self._alarms[0][0] <= self.now:
            time, _, cell = heappop(self._alarms)
            if cell.alarm == time:
                cell.alarm = _NEVER
                cell.analyzer.tick()

    def _evict(self, analysis: Analysis, cells: OrderedDict[Hashable, Cell]) -> None:
        _, cell = cells.popitem(last=False)
        cell.alarm = _NEVER
        cell.analyzer.close()
        kind = analysis.key.value[0]
        self.evicted[kind] = self.evicted.get(kind, 0) + 1
