"""Finds coordinators of groups and transactions that move, load slowly, or are unavailable."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    append,
    at_evidence,
    remember,
)
from kproxy.captures.findings.model import Impact, Scope, Severity
from kproxy.captures.findings.restarts import Stops
from kproxy.decoders.plurals import counted

MOVED = "coord.moved"
OUTAGES: Final = 1_000
LOADING: Final = 14
NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
SAME_MOVE: Final = 60 * SECOND
"""Maximum time (ns) from NOT_COORDINATOR to a FindCoordinator response with another node that is the same move.

Also the maximum time between the events of two coordinators in one Migration.
"""
MOVES: Final = 64
"""Maximum number of moves that are remembered for a coordinator."""
WINDOW: Final = 600 * SECOND
BEFORE: Final = 30 * SECOND
"""A broker's connections may end up to this time (ns) after its coordinators moved, if it was stopped."""
AFTER: Final = 15 * SECOND
"""Clients may learn of a move up to this time (ns) after the old coordinator's connections ended."""
NAMES: Final = 10_000
"""Maximum number of groups and transactional ids that are remembered."""
Subject: TypeAlias = tuple[str, str]
"""(kind of coordinator: "group", "transaction" or "share"; group id or transactional id)."""


class Move(NamedTuple):
    """A coordinator's move away from a broker.

    `left` are the addresses of that broker; `planned` is the one at which the broker was stopped at about that time,
    None if it was not stopped.
    """

    at: facts.At
    left: frozenset[str]
    note: str
    planned: str | None = None


class CoordinatorState:
    """What is known of the coordinator of one group or transactional id."""

    __slots__ = ("address", "broker", "loading", "missing", "moved", "moves", "node", "since")

    def __init__(self) -> None:
        self.broker = ""
        """The broker that answered as the coordinator last; `since` is the time (ns) of its first such answer."""
        self.since = 0
        self.node: int | None = None
        """The coordinator's node id in the latest FindCoordinator response."""
        self.address = ""
        self.moved: int | None = None
        """Time (ns) of a NOT_COORDINATOR that showed a move; None again after FindCoordinator names the new node."""
        self.moves: list[Move] = []
        self.loading: facts.At | None = None
        self.missing: facts.At | None = None
        """The first response with COORDINATOR_NOT_AVAILABLE since the coordinator last worked."""


class Migration:
    """The coordinators that left one broker, or that load there, at about the same time."""

    __slots__ = ("begun", "last", "names")

    def __init__(self, begun: facts.At) -> None:
        self.begun = begun
        self.last = begun.time
        self.names: dict[Subject, None] = {}


class Coordinators(Analyzer):
    """For the whole cluster, finds coordinators that move, load slowly, or are unavailable."""

    __slots__ = ("_context", "_due", "_migrations", "_states", "_stops")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stops = Stops()
        self._due: dict[Subject, int] = {}
        """Maps coordinators that moved often to the time (ns) at which they are judged.

        Only then is it known whether the brokers that they left were stopped.
        """
        self._states: dict[Subject, CoordinatorState] = {}
        self._migrations: dict[tuple[str, str], Migration] = {}
        """Maps ("moved" or "loading", broker's address) to the coordinators concerned."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Coordinator):
            if fact.name:
                self._found((fact.kind, fact.name), fact)
        elif isinstance(fact, facts.Member):
            if fact.group and (fact.answered or fact.error):
                self._answered(("group", fact.group), fact.at, fact.error)
        elif isinstance(fact, facts.Closed | facts.Unanswered):
            self._stops.take(fact)
        else:
            self._answered(("transaction", fact.transactional_id), fact.at, fact.error)

    def _state(self, subject: Subject) -> CoordinatorState:
        state = self._states.get(subject) or CoordinatorState()
        remember(self._states, subject, state, NAMES)
        return state

    def _found(self, subject: Subject, fact: facts.Coordinator) -> None:
        state = self._state(subject)
        if fact.error == NOT_AVAILABLE:
            self._miss(subject, state, fact.at)
        if fact.error or fact.node is None:
            return
        state.missing = None
        if state.node is not None and state.node != fact.node:
            told = state.moved is not None and fact.at.time - state.moved < SAME_MOVE
            if not told:
                self._move(subject, state, fact.at, state.address, f"FindCoordinator answers {fact.address}")
            state.moved = None
        state.node, state.address = fact.node, fact.address

    def _answered(self, subject: Subject, at: facts.At, error: int) -> None:
        state = self._state(subject)
        if error == LOADING:
            self._load(subject, state, at)
        elif error == NOT_AVAILABLE:
            self._miss(subject, state, at)
        elif error == NOT_COORDINATOR:
            stable = self._context.limit(MOVED, "stable_ms") * MILLISECOND
            if state.broker == at.broker and at.time - state.since >= stable:
                self._move(subject, state, at, state.address or at.broker, f"NOT_COORDINATOR from {at.broker}")
                state.moved = at.time
            if state.broker == at.broker:
                state.broker = ""
        else:
            state.loading = state.missing = None
            if state.broker != at.broker:
                state.broker, state.since = at.broker, at.time

    def _move(self, subject: Subject, state: CoordinatorState, at: facts.At, left: str, note: str) -> None:
        note = f"{_named(subject)}: {note}"
        self._settle(state)
        append(state.moves, Move(at, frozenset({left, state.broker, at.broker} - {""}), note), MOVES)
        migration = self._migration("moved", left, subject, at)
        what = f"{counted(len(migration.names), 'coordinator')} moved away from {left}"
        self._report("moved", at, note, Scope("broker", left), migration.begun.time, Severity.INFO, what, migration)
        if len(state.moves) >= self._context.limit(MOVED, "often"):
            remember(self._due, subject, at.time + AFTER, NAMES)
            self._context.wake(at.time + AFTER)

    def tick(self) -> None:
        now = self._context.now
        for subject, due in list(self._due.items()):
            if due <= now:
                del self._due[subject]
                self._judge(subject)
            else:
                self._context.wake(due)

    def close(self) -> None:
        for subject in self._due:
            self._judge(subject)
        self._due.clear()

    def _settle(self, state: CoordinatorState) -> None:
        """Set `planned` in the moves whose old broker was stopped at about that time."""
        for place, move in enumerate(state.moves):
            if move.planned is not None:
                continue
            for broker in move.left:
                stopped = self._stops.latest.get(broker)
                if stopped is not None and -AFTER <= stopped - move.at.time <= BEFORE:
                    state.moves[place] = move._replace(planned=broker)

    def _judge(self, subject: Subject) -> None:
        """Report a coordinator if it moved often. One move from each stopped broker (an upgrade) does not count."""
        state = self._state(subject)
        self._settle(state)
        if not state.moves:
            return
        last = state.moves[-1]
        lately = [one for one in state.moves if one.at.time >= last.at.time - WINDOW]
        planned = {one.planned for one in lately if one.planned is not None}
        if len(lately) - len(planned) < self._context.limit(MOVED, "often"):
            return
        what = f"the coordinator of {_named(subject)} moved {len(lately)} times within 10 minutes"
        scope = Scope(_SCOPES.get(subject[0], "group"), subject[1])
        self._report("often", last.at, last.note, scope, "often", Severity.WARN, what, None)

    def _load(self, subject: Subject, state: CoordinatorState, at: facts.At) -> None:
        state.loading = state.loading or at
        if at.time - state.loading.time < self._context.limit(MOVED, "loading_ms") * MILLISECOND:
            return
        migration = self._migration("loading", at.broker, subject, state.loading)
        seconds = (at.time - migration.begun.time) / SECOND
        what = f"{at.broker} has been loading for {seconds:.0f} s (groups and ids: {len(migration.names)})"
        scope, note = Scope("broker", at.broker), f"{_named(subject)}: COORDINATOR_LOAD_IN_PROGRESS"
        self._report("loading", at, note, scope, ("loading", migration.begun.time), Severity.WARN, what, migration)

    def _miss(self, subject: Subject, state: CoordinatorState, at: facts.At) -> None:
        state.missing = state.missing or at
        lasted = at.time - state.missing.time
        if lasted >= self._context.limit(MOVED, "missing_ms") * MILLISECOND:
            what = f"{_named(subject)} has had no coordinator for {lasted / SECOND:.0f} s"
            scope = Scope(_SCOPES.get(subject[0], "group"), subject[1])
            note = f"{_named(subject)}: COORDINATOR_NOT_AVAILABLE"
            self._report("missing", at, note, scope, ("missing", state.missing.time), Severity.WARN, what, None)

    def _migration(self, kind: str, broker: str, subject: Subject, at: facts.At) -> Migration:
        migration = self._migrations.get((kind, broker))
        if migration is None or at.time - migration.last > SAME_MOVE:
            migration = Migration(at)
        remember(self._migrations, (kind, broker), migration, OUTAGES)
        migration.last = max(migration.last, at.time)
        remember(migration.names, subject, None, NAMES)
        return migration

    def _report(
        self, kind: str, at: facts.At, note: str, scope: Scope, episode: Hashable, severity: Severity, what: str,
        migration: Migration | None,
    ) -> None:  # fmt: skip
        begun = at if migration is None else migration.begun
        count = 1 if migration is None else len(migration.names)
        self._context.report(
            MOVED,
            at_evidence(at, "trigger", note),
            numbers={"what": what, "count": count, "example": note},
            impact=Impact("ms_lost", (at.time - begun.time) / MILLISECOND),
            episode=episode,
            scope=scope,
            severity=severity,
            cause=COORDINATOR_CAUSES.get(kind),
        )


def _named(subject: Subject) -> str:
    return f"{'transactional id' if subject[0] == 'transaction' else 'group'} {subject[1]}"


_SCOPES: Final = {"transaction": "transaction"}
COORDINATOR_CAUSES: Final = {
    "loading": "The new coordinator reads its partition of __consumer_offsets or __transaction_state, which is large "
    "or on a slow disk.",
    "missing": "The partition of __consumer_offsets or __transaction_state has no leader, or the topic cannot be "
    "created (offsets.topic.replication.factor above the number of brokers).",
}
"""The cause of each kind of event. Other kinds have the cause in the rule's row."""


ANALYSES = (
    Analysis(
        frozenset({MOVED}),
        Key.CLUSTER,
        (facts.Coordinator, facts.Member, facts.Txn, facts.Closed, facts.Unanswered),
        Coordinators,
        every_heartbeat=False,
    ),
)
