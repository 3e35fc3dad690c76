"""Passes facts to analyzers by key, calls analyzers at capture times, bounds their number, collects their findings."""

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
from kproxy.captures.findings.summaries import summary
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import api_keys

FINDINGS: Final = 10_000
"""Maximum number of findings; further ones are only counted."""
CONNECTIONS: Final = 20_000
"""Maximum number of ended connections, and of connections with missing bytes, that are remembered."""
DAMAGE: Final = frozenset(
    {Code.GAP, Code.RESYNC, Code.CUT_BY_SNAPLEN, Code.ONE_SIDED, Code.LATE, Code.OVERLAP, Code.EVICTED, Code.TRUNCATED}
)
"""Codes of problems that show that bytes of a connection are missing."""
DATA: Final = (api_keys.PRODUCE, api_keys.FETCH)
"""The APIs for which PartitionIO facts are made."""
LEARNT: Final = frozenset({Closed, Trouble})
"""The types of facts that `Views.learn` reads."""
SORTED: Final = LEARNT | {PartitionIO, Member}
"""The types of facts that `_sort` takes: LEARNT, and those, except Exchange, that have several sorts (see `_sorts`)."""
HEARTBEAT: Final = "heartbeat"
WHATS: Final = ("join", "sync", HEARTBEAT, "leave", "commit")
"""The values of `Member.what`."""
NONE: Final[frozenset[int]] = frozenset()
_NEVER: Final = 1 << 63


class Views:
    """Answers the analyzers' questions about connections: whether one ended, and whether bytes of it are missing."""

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
    """Holds the analyzer of one analysis for one key, and is its `Context`."""

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
        """Release the analyzer, which refers to this cell: garbage collection runs too rarely to free the cycle."""
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
        finding.summary = summary(row.text, numbers)
        return finding


class Route(NamedTuple):
    """An analysis that receives facts of a sort (see `_sorts`), and its index `place` in `Keyed.analyses`.

    `errors`: a fact of this sort makes an analyzer for a new key only if it has one of these errors; None: always.
    """

    place: int
    analysis: Analysis
    errors: frozenset[int] | None


class Resting:
    """Shared stand-in for a cell whose analyzer asked for no further facts."""

    __slots__ = ("analyzer",)

    def __init__(self) -> None:
        self.analyzer = IDLE

    def drop(self) -> None:
        """Do nothing: there is no analyzer to release."""


IDLE: Final = Analyzer()
"""An analyzer that does nothing; replaces each analyzer that was dropped."""
RESTING: Final = Resting()


class Keyed:
    """All analyses with one kind of key, and for each key a row of their cells."""

    __slots__ = ("analyses", "half", "kind", "rows")

    def __init__(self, kind: Key) -> None:
        self.kind = kind
        self.half = kind.most // 2
        """Up to this number of keys, `rows` is not kept in order of use, because eviction is still far off."""
        self.analyses: list[Analysis] = []
        self.rows: OrderedDict[Hashable, list[Cell | Resting | None]] = OrderedDict()
        """Maps each key to a list: for each analysis a cell, or None until a fact makes one.

        With more than `half` keys, the most recently used key is last.
        """

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "half": self.half, "rows": self.rows}


Plan: TypeAlias = tuple[tuple[Keyed, Callable[[Any], Hashable], tuple[Route, ...]], ...]
"""The receivers of facts of one sort: for each kind of key, a function that returns a fact's key, and the analyses."""


class Engine:
    """Produces findings from one stream of facts, in any order. Time is capture time. No method raises."""

    def __init__(
        self, analyses: Iterable[Analysis], rules: Mapping[str, Rule], limits: Mapping[str, float] | None = None
    ) -> None:
        """`limits` maps "rule.threshold" to a value that replaces the threshold's default."""
        self.views = Views()
        self.now = 0
        self.evicted: dict[str, int] = {}
        """Number of keys, by kind, whose state was dropped to make room; findings about these keys may be missing."""
        self.uncounted = 0
        """Number of findings that were not kept because there were FINDINGS already."""
        self._keyed = {kind: Keyed(kind) for kind in Key}
        self._connections = self._keyed[Key.CONNECTION]
        """The rows of connections, each of which is dropped when its connection ends."""
        self._beats: dict[int, tuple[str, str, int | None]] = {}
        """Maps a connection whose latest Member fact is a successful heartbeat to its (group, member, generation)."""
        self._findings: dict[tuple[str, Scope, Hashable], Finding] = {}
        self._touched: dict[str, Finding] = {}
        self._alarms: list[tuple[int, int, Cell]] = []
        self._turn = 0
        """Number of alarms that were set; orders alarms with the same time."""
        self.prepare(analyses, rules, limits)
        self._busy = {
            api: sum(
                route.errors is None for _, _, routes in self._plans.get((PartitionIO, api), ()) for route in routes
            )
            for api in DATA
        }
        """Maps each API of DATA to the number of receivers of its error-free PartitionIO facts.

        These are the analyses without `errors`, and the existing cells of the other analyses.
        """

    def prepare(
        self, analyses: Iterable[Analysis], rules: Mapping[str, Rule], limits: Mapping[str, float] | None = None
    ) -> None:
        """Set the attributes that come from the rules. A stored engine lacks them, so loading it calls this again."""
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
        """The receivers of facts, by sort of the fact (see `_sorts`)."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"rules", "limits", "_plans"}}

    def _plan(self, routes: list[tuple[Key, Route]]) -> Plan:
        return tuple(
            (self._keyed[kind], kind.getter, tuple(route for one, route in routes if one is kind))
            for kind in dict.fromkeys(kind for kind, _ in routes)
        )

    @property
    def wanted(self) -> frozenset[type[Fact]]:
        """The types of facts that some analyzer, or `Views`, uses."""
        return (
            frozenset(fact for keyed in self._keyed.values() for one in keyed.analyses for fact in one.facts) | LEARNT
        )

    def is_idle(self, api: int) -> bool:
        """Whether no analyzer uses error-free PartitionIO facts of this API (Produce or Fetch): none need be made."""
        return not self._busy[api]

    def feed(self, fact: Any) -> None:
        """Pass the next fact to its analyzers."""
        self.feed_all((fact,))

    def feed_all(self, made: Iterable[Any]) -> None:
        """Pass the next facts to their analyzers, in order."""
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
        """The sort (see `_sorts`) of a fact whose type is in SORTED; also lets `Views` learn from the fact."""
        if kind is PartitionIO:
            return kind, fact.at.key
        if kind is Member:
            return kind, fact.what, self._is_repeated(fact)
        self.views.learn(fact)
        if kind is Closed:
            self._beats.pop(fact.at.connection, None)
        return kind

    def _row(self, keyed: Keyed, key: Hashable) -> list[Cell | Resting | None]:
        """Make an empty row for a new key; at the maximum number of keys, first evict the least recently used key."""
        if len(keyed.rows) >= keyed.kind.most:
            self._evict(keyed)
        row = keyed.rows[key] = [None] * len(keyed.analyses)
        return row

    def _count(self, analysis: Analysis, more: int) -> None:
        """Add `more` to `_busy` if the analysis receives error-free PartitionIO facts only while it has a cell."""
        if analysis.errors is None or PartitionIO not in analysis.facts:
            return
        for api in self._busy if analysis.partition_api is None else (analysis.partition_api,):
            self._busy[api] += more

    def _is_repeated(self, fact: Member) -> bool:
        """Whether a heartbeat succeeded and repeats the latest Member fact of its connection."""
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
        """End the capture: analyzers report the findings that they held back until then."""
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
        """The findings that were opened or got evidence since the last call of this method."""
        touched = list(self._touched.values())
        self._touched.clear()
        return touched

    def forget(self, ids: Iterable[str]) -> None:
        """Drop the findings with these ids to make room. Further evidence opens them again under other ids."""
        gone = set(ids)
        self._findings = {key: one for key, one in self._findings.items() if one.id not in gone}

    def finding(self, rule: str, scope: Scope, episode: Hashable, evidence: tuple[Evidence, ...]) -> Finding | None:
        """Add evidence to the finding of an episode, opened if it is new; returns it, or None beyond FINDINGS."""
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
        """Set the time (ns) of the next call of a cell's `tick`, unless an earlier time is set already.

        If the time has passed, the next fact with a later time causes the call.
        """
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
        """Replace the cell of an analysis and key by RESTING, so that it receives no further facts."""
        keyed = self._keyed[analysis.key]
        row = keyed.rows.get(key)
        if row is not None:
            row[keyed.analyses.index(analysis)] = RESTING

    def _evict(self, keyed: Keyed) -> None:
        """Drop the state of the least recently used key."""
        _, row = keyed.rows.popitem(last=False)
        self._drop(keyed, row)
        kind = keyed.kind.value[0]
        self.evicted[kind] = self.evicted.get(kind, 0) + 1

    def _drop(self, keyed: Keyed, row: Iterable[Cell | Resting | None]) -> None:
        """Close and drop the cells of one row."""
        for place, cell in enumerate(row):
            if cell is not None:
                cell.analyzer.close()
                cell.drop()
                self._count(keyed.analyses[place], -1)


def _sorts(analysis: Analysis, kind: type[Fact]) -> Iterator[Any]:
    """Yields the sorts of facts of the type `kind` that an analysis receives. Facts are routed by their sort.

    The sort of most facts is their type. The sort of an Exchange is its status; that of a PartitionIO is (type, API
    key); that of a Member is (type, `what`, whether it is a repeated heartbeat).
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
    """Whether a fact of this sort makes an analyzer for a new key (see `Analysis.begins`)."""
    begins = analysis.begins
    return begins is None or kind in begins or (kind is Member and sort[1] in begins)
