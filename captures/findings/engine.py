"""Deals facts to analyzers by key, wakes them by capture time, bounds what they keep, and collects their findings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.captures.findings.analyzer import Analysis, Analyzer, Key
from kproxy.captures.findings.facts import Closed, End, Exchange, Fact, Member, PartitionIO, Trouble
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
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import api_keys

FINDINGS: Final = 10_000
"""Maximum number of findings; later ones are only counted."""
CONNECTIONS: Final = 20_000
"""Maximum number of connections whose end is remembered, and of connections whose damage is."""
DAMAGE: Final = frozenset(
    {Code.GAP, Code.RESYNC, Code.CUT_BY_SNAPLEN, Code.ONE_SIDED, Code.LATE, Code.OVERLAP, Code.EVICTED, Code.TRUNCATED}
)
"""Codes of problems that show that bytes of a connection are missing."""
DATA: Final = (api_keys.PRODUCE, api_keys.FETCH)
"""The APIs for which PartitionIO facts are made."""
LEARNT: Final = frozenset({Closed, Trouble})
"""The kinds of facts from which `Views` learns."""
SORTED: Final = LEARNT | {PartitionIO, Member}
"""The kinds of facts, beside Exchange, whose sort (see `_sorts`) depends on more than their type."""
HEARTBEAT: Final = "heartbeat"
WHATS: Final = ("join", "sync", HEARTBEAT, "leave", "commit")
"""The values of `Member.what`."""
NONE: Final[frozenset[int]] = frozenset()
_NEVER: Final = 1 << 63


class Views:
    """Answers analyzers' questions about connections: whether one ended, and whether the capture has all of it."""

    def __init__(self) -> None:
        self._closed: dict[int, End] = {}
        self._damaged: dict[int, None] = {}

    def learn(self, fact: Fact) -> None:
        if isinstance(fact, Closed) and fact.at.connection:
            _keep(self._closed, fact.at.connection, fact.end)
        elif isinstance(fact, Trouble) and fact.code in DAMAGE:
            _keep(self._damaged, fact.at.connection, None)

    def closed(self, connection: int) -> End | None:
        return self._closed.get(connection)

    def whole(self, connection: int) -> bool:
        return connection not in self._damaged


def _keep(kept: dict[int, Any], key: int, value: Any) -> None:
    kept[key] = value
    if len(kept) > CONNECTIONS:
        del kept[next(iter(kept))]


class Cell:
    """An analyzer's state for one key, and its `Context`."""

    __slots__ = ("_analysis", "_engine", "alarm", "analyzer", "key")

    def __init__(self, engine: Engine, analysis: Analysis, key: Hashable) -> None:
        self.key = key
        self.alarm = _NEVER
        self._engine = engine
        self._analysis = analysis
        self.analyzer: Analyzer = analysis.new(self)

    @property
    def now(self) -> int:
        return self._engine.now

    def closed(self, connection: int) -> End | None:
        return self._engine.views.closed(connection)

    def whole(self, connection: int) -> bool:
        return self._engine.views.whole(connection)

    def limit(self, rule: str, name: str) -> float:
        return self._engine.limits[f"{rule}.{name}"]

    def wake(self, time: int) -> None:
        self._engine.wake(self, time)

    def rest(self) -> None:
        self.drop()
        self._engine.rest(self._analysis, self.key)

    def drop(self) -> None:
        """Release the analyzer and so break its reference cycle with this cell: garbage collection is rare."""
        self.alarm = _NEVER
        self.analyzer = IDLE

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
    """An analysis that takes facts of a sort, and its index among the analyses with the same kind of key.

    Facts of this sort make an analyzer for a new key only with one of `errors`; None: all of them do.
    """

    place: int
    analysis: Analysis
    errors: frozenset[int] | None


class Resting:
    """Takes the place of every cell whose analyzer needs no further facts."""

    __slots__ = ("analyzer",)

    def __init__(self) -> None:
        self.analyzer = IDLE

    def drop(self) -> None:
        """Do nothing: there is no analyzer to release."""


IDLE: Final = Analyzer()
"""Does nothing; takes the place of every analyzer that was dropped."""
RESTING: Final = Resting()


class Keyed:
    """The analyses with one kind of key; for each key, the cells of the analyses that received one of its facts."""

    __slots__ = ("analyses", "half", "kind", "rows")

    def __init__(self, kind: Key) -> None:
        self.kind = kind
        self.half = kind.most // 2
        """Up to this number of keys, their order is not maintained, because eviction is still far off."""
        self.analyses: list[Analysis] = []
        self.rows: OrderedDict[Hashable, list[Cell | Resting | None]] = OrderedDict()
        """The cells of each key. With more than `half` keys, they are in the order of their latest facts."""

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "half": self.half, "rows": self.rows}


Plan: TypeAlias = tuple[tuple[Keyed, Callable[[Any], Hashable], tuple[Route, ...]], ...]
"""The takers of facts of one sort: for each kind of key, the function that returns a fact's key, and the analyses."""


class Engine:
    """Finds what is wrong from one stream of facts, in any order. Time is capture time. No method raises."""

    def __init__(
        self, analyses: Iterable[Analysis], rules: Mapping[str, Rule], limits: Mapping[str, float] | None = None
    ) -> None:
        """`limits` maps "rule.name" to the values that replace the defaults of thresholds."""
        self.views = Views()
        self.now = 0
        self.evicted: dict[str, int] = {}
        """By kind of key, the number of keys whose state was dropped; findings about these may be missing."""
        self.uncounted = 0
        """Number of findings beyond the maximum."""
        self._keyed = {kind: Keyed(kind) for kind in Key}
        self._connections = self._keyed[Key.CONNECTION]
        """The cells of connections, which are dropped when their connection ends."""
        self._beats: dict[int, tuple[str, str, int | None]] = {}
        """By connection whose latest Member fact is a heartbeat without error: (group, member, generation)."""
        self._findings: dict[tuple[str, Scope, Hashable], Finding] = {}
        self._touched: dict[str, Finding] = {}
        self._alarms: list[tuple[int, int, Cell]] = []
        self._turn = 0
        """Number of alarms so far: alarms with the same time ring in this order."""
        self.prepare(analyses, rules, limits)
        self._busy = {
            api: sum(
                route.errors is None for _, _, routes in self._plans.get((PartitionIO, api), ()) for route in routes
            )
            for api in DATA
        }
        """By API, number of takers of PartitionIO facts: analyses without `errors`, and cells of all other analyses."""

    def prepare(
        self, analyses: Iterable[Analysis], rules: Mapping[str, Rule], limits: Mapping[str, float] | None = None
    ) -> None:
        """Set the attributes that do not depend on facts, which a stored state therefore lacks."""
        self.rules = rules
        self.limits = {f"{rule.id}.{one.name}": one.default for rule in rules.values() for one in rule.thresholds}
        self.limits |= limits or {}
        taken: dict[Hashable, list[tuple[Key, Route]]] = {}
        for keyed in self._keyed.values():
            keyed.analyses = []
        for analysis in analyses:
            keyed = self._keyed[analysis.key]
            place = len(keyed.analyses)
            keyed.analyses.append(analysis)
            for kind in analysis.facts:
                for sort in _sorts(analysis, kind):
                    errors = analysis.errors if _begins(analysis, kind, sort) else NONE
                    taken.setdefault(sort, []).append((analysis.key, Route(place, analysis, errors)))
        self._plans: dict[Hashable, Plan] = {sort: self._plan(routes) for sort, routes in taken.items()}
        """By sort of facts (see `_sorts`), the takers of these facts."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"rules", "limits", "_plans"}}

    def _plan(self, routes: list[tuple[Key, Route]]) -> Plan:
        return tuple(
            (self._keyed[kind], kind.getter, tuple(route for one, route in routes if one is kind))
            for kind in dict.fromkeys(kind for kind, _ in routes)
        )

    @property
    def wanted(self) -> frozenset[type[Fact]]:
        """The kinds of facts that some analyzer takes."""
        return (
            frozenset(fact for keyed in self._keyed.values() for one in keyed.analyses for fact in one.facts) | LEARNT
        )

    def is_idle(self, api: int) -> bool:
        """Whether no analyzer currently takes PartitionIO facts without error of this API (Produce or Fetch)."""
        return not self._busy[api]

    def feed(self, fact: Any) -> None:
        """Deal the next fact."""
        self.feed_all((fact,))

    def feed_all(self, made: Iterable[Any]) -> None:
        """Deal the next facts, in order."""
        plans, alarms = self._plans, self._alarms
        for fact in made:
            time = fact.at.time
            if time > self.now:
                self.now = time
                if alarms and alarms[0][0] <= time:
                    self._ring()
            kind: Any = type(fact)
            sort: Any = fact.status if kind is Exchange else self._sort(kind, fact) if kind in SORTED else kind
            for keyed, key_of, routes in plans.get(sort, ()):
                key = key_of(fact)
                row = keyed.rows.get(key)
                if row is None:
                    if all(one.errors is not None and fact.error not in one.errors for one in routes):
                        continue
                    row = self._row(keyed, key)
                elif len(keyed.rows) > keyed.half:
                    keyed.rows.move_to_end(key)
                for place, analysis, errors in routes:
                    cell = row[place]
                    if cell is None:
                        if errors is not None and fact.error not in errors:
                            continue
                        cell = row[place] = Cell(self, analysis, key)
                        self._count(analysis, 1)
                    cell.analyzer.feed(fact)
            if kind is Closed:
                self._drop(self._connections, self._connections.rows.pop(fact.at.connection, ()))

    def _sort(self, kind: Any, fact: Any) -> Any:
        """The sort (see `_sorts`) of a fact whose kind is in SORTED; `Views` learns from the fact."""
        if kind is PartitionIO:
            return kind, fact.at.key
        if kind is Member:
            return kind, fact.what, self._is_repeated(fact)
        self.views.learn(fact)
        if kind is Closed:
            self._beats.pop(fact.at.connection, None)
        return kind

    def _row(self, keyed: Keyed, key: Hashable) -> list[Cell | Resting | None]:
        """Make a row of cells for a new key; with too many keys, evict the key with the least recent fact."""
        if len(keyed.rows) >= keyed.kind.most:
            self._evict(keyed)
        row = keyed.rows[key] = [None] * len(keyed.analyses)
        return row

    def _count(self, analysis: Analysis, more: int) -> None:
        """Update the number of cells of an analysis of PartitionIO that takes only errors until it has a cell."""
        if analysis.errors is None or PartitionIO not in analysis.facts:
            return
        for api in self._busy if analysis.partition_api is None else (analysis.partition_api,):
            self._busy[api] += more

    def _is_repeated(self, fact: Member) -> bool:
        """Whether a heartbeat has the same content as the latest Member fact of its connection."""
        number, beat = fact.at.connection, (fact.group, fact.member, fact.generation)
        before = self._beats.get(number)
        if fact.what != HEARTBEAT or fact.error or not fact.answered:
            if before is not None:
                del self._beats[number]
            return False
        if before == beat:
            return True
        _keep(self._beats, number, beat)
        return False

    def finish(self) -> None:
        """End the capture: analyzers report the findings for which they were waiting."""
        for keyed in self._keyed.values():
            for row in keyed.rows.values():
                for cell in row:
                    if cell is not None:
                        cell.analyzer.close()
            keyed.rows.clear()
        self._alarms.clear()

    def findings(self) -> list[Finding]:
        """The findings so far, in the order in which they were opened."""
        return list(self._findings.values())

    def take_touched(self) -> list[Finding]:
        """The findings that were opened or got evidence since the last call."""
        touched = list(self._touched.values())
        self._touched.clear()
        return touched

    def forget(self, ids: Iterable[str]) -> None:
        """Drop findings, so that others have room; further evidence opens them again under other ids."""
        gone = set(ids)
        self._findings = {key: one for key, one in self._findings.items() if one.id not in gone}

    def finding(self, rule: str, scope: Scope, episode: Hashable, evidence: tuple[Evidence, ...]) -> Finding | None:
        """The finding of an episode with further evidence, opened if it is new; None beyond the maximum number."""
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
        self._touched[finding.id] = finding
        return finding

    def wake(self, cell: Cell, time: int) -> None:
        """Call the analyzer's `tick` at a time, or soon if that time has passed; the earliest time counts."""
        time = max(time, self.now + 1)
        if time < cell.alarm:
            cell.alarm = time
            self._turn += 1
            heappush(self._alarms, (time, self._turn, cell))

    def _ring(self) -> None:
        while self._alarms and self._alarms[0][0] <= self.now:
            time, _, cell = heappop(self._alarms)
            if cell.alarm == time:
                cell.alarm = _NEVER
                cell.analyzer.tick()

    def rest(self, analysis: Analysis, key: Hashable) -> None:
        """Drop the analyzer of a cell, because it needs no further fact."""
        keyed = self._keyed[analysis.key]
        row = keyed.rows.get(key)
        if row is not None:
            row[keyed.analyses.index(analysis)] = RESTING

    def _evict(self, keyed: Keyed) -> None:
        """Drop the state of the key with the least recent fact."""
        _, row = keyed.rows.popitem(last=False)
        self._drop(keyed, row)
        kind = keyed.kind.value[0]
        self.evicted[kind] = self.evicted.get(kind, 0) + 1

    def _drop(self, keyed: Keyed, row: Iterable[Cell | Resting | None]) -> None:
        """Drop the cells of a key."""
        for place, cell in enumerate(row):
            if cell is not None:
                cell.analyzer.close()
                cell.drop()
                self._count(keyed.analyses[place], -1)


def _sorts(analysis: Analysis, kind: type[Fact]) -> Iterator[Any]:
    """The sorts of facts of one kind that an analysis takes. The sort of most facts is their type.

    The sort of an Exchange is its status; the sort of a PartitionIO adds its API; the sort of a Member adds its `what`,
    and whether it repeats a heartbeat.
    """
    if kind is Exchange:
        yield from Status if analysis.status is None else (analysis.status,)
    elif kind is PartitionIO:
        api = analysis.partition_api
        yield from ((kind, one) for one in (DATA if api is None else (api,)))
    elif kind is Member:
        yield from ((kind, what, False) for what in WHATS)
        if analysis.every_heartbeat:
            yield kind, HEARTBEAT, True
    else:
        yield kind


def _begins(analysis: Analysis, kind: type[Fact], sort: Any) -> bool:
    """Whether facts of a sort make an analyzer for a new key."""
    begins = analysis.begins
    return begins is None or kind in begins or (kind is Member and sort[1] in begins)
