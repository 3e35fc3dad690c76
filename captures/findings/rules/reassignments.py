"""Follows reassignments of partitions: when they begin, end, or make no progress."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import (
    MILLISECOND,
    SECOND,
    Analysis,
    Analyzer,
    Context,
    Key,
    at_evidence,
    remember,
)
from kproxy.captures.findings.model import Actor, Confidence, Impact, Scope, Severity
from kproxy.decoders.schema import api_keys

MOVED = "partition.reassign"
MOVES: Final = 20_000
"""Maximum number of partitions in reassignment that are remembered."""
KNOWN: Final = 100_000
"""Maximum number of partitions whose replicas are remembered."""
TOPICS: Final = 5_000
FETCHERS: Final = 1_000
LISTED: Final = 46
"""API key of ListPartitionReassignments."""
Place: TypeAlias = tuple[str, int]
CONTROLLED: Final = frozenset({api_keys.LEADER_AND_ISR, api_keys.UPDATE_METADATA})


class Move:
    """The reassignment of one partition."""

    __slots__ = ("adding", "begun", "lags", "missing", "progress", "replicas", "told", "watched")

    def __init__(self, at: facts.At, adding: frozenset[int], replicas: frozenset[int]) -> None:
        self.begun = at
        self.replicas = replicas
        """All replicas, the new and the old ones."""
        self.adding = adding
        self.missing = adding
        """The new replicas that are not in the ISR yet."""
        self.lags: dict[int, int] = {}
        """Maps each new replica to the smallest lag that was seen, in offsets."""
        self.progress = at.time
        self.watched = False
        """Whether the capture has the controller's messages, so that it would show the end of the reassignment."""
        self.told = False


class Topic:
    """The reassignments of one topic's partitions."""

    __slots__ = ("begun", "done", "first", "who")

    def __init__(self, first: facts.At) -> None:
        self.first = first
        self.begun = 0
        self.done = 0
        self.who: facts.At | None = None
        """The request that asked for the reassignments, if it is in the capture."""


class Reassignments(Analyzer):
    """For the whole cluster, follows reassignments of partitions."""

    __slots__ = ("_context", "_fetchers", "_moves", "_replicas", "_topics", "_versions", "_who")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._replicas: dict[Place, frozenset[int]] = {}
        self._versions: dict[Place, int] = {}
        """Maps each partition to its newest version (see `PartitionState`); messages with an older one are late."""
        self._moves: dict[Place, Move] = {}
        self._topics: dict[str, Topic] = {}
        self._fetchers: dict[int, int] = {}
        """Maps each follower to the time (ns) of its latest Fetch."""
        self._who: dict[Place, facts.At] = {}
        """Maps each partition to the request for a reassignment that has not begun yet."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.ReplicaFetch):
            if self._moves:
                self._copy(fact)
        elif isinstance(fact, facts.Reassignment):
            if not fact.error and fact.replicas is not None:
                self._ask(fact)
        else:
            self._state(fact)

    def _state(self, fact: facts.PartitionState) -> None:
        place = fact.topic, fact.partition
        if fact.version is not None:
            if 0 < fact.version < self._versions.get(place, 0):
                return
            remember(self._versions, place, fact.version, KNOWN)
        replicas = None if fact.replicas is None else frozenset(fact.replicas)
        before = self._replicas.get(place)
        if replicas is not None:
            remember(self._replicas, place, replicas, KNOWN)
        move = self._moves.get(place)
        moving = self._moving(fact, replicas, before, move)
        if moving is not None:
            if move is None or move.adding != moving:
                move = self._begin(place, fact, moving)
            move.watched = move.watched or fact.at.key != LISTED
            if fact.isr is not None:
                self._join(move, fact)
        elif move is not None and self._ends(fact, replicas, move):
            self._end(place, fact)
        elif move is not None and fact.isr is not None:
            self._join(move, fact)

    def _moving(
        self, fact: facts.PartitionState, replicas: frozenset[int] | None, before: frozenset[int] | None,
        move: Move | None,
    ) -> frozenset[int] | None:  # fmt: skip
        """The replicas that a reassignment adds; None if the state shows no reassignment."""
        if fact.adding or fact.removing:
            return frozenset(fact.adding or ())
        if fact.adding is not None or fact.at.key not in CONTROLLED or None in {replicas, before}:
            return None
        if move is None and replicas is not None and before is not None and replicas > before:
            # Before Kafka 2.4 no field marks the new replicas: a reassignment adds them to the list of replicas.
            return replicas - before
        return None

    def _ends(self, fact: facts.PartitionState, replicas: frozenset[int] | None, move: Move) -> bool:
        """Whether a state shows that the reassignment is over."""
        if fact.adding is not None and fact.removing is not None:
            return True
        return fact.at.key in CONTROLLED and replicas is not None and replicas < move.replicas

    def _begin(self, place: Place, fact: facts.PartitionState, adding: frozenset[int]) -> Move:
        move = Move(fact.at, adding, frozenset(fact.replicas or ()))
        remember(self._moves, place, move, MOVES)
        if fact.past:
            return move
        topic = self._topic(place[0], fact.at)
        topic.begun += 1
        topic.who = self._who.pop(place, topic.who)
        text = f"{place[1]}: replicas {_nodes(fact.replicas)}; adds {_nodes(fact.adding or tuple(sorted(adding)))}"
        if fact.removing:
            text += f", removes {_nodes(fact.removing)}"
        self._report(place[0], topic, fact.at, "trigger", f"{place[0]}-{text}")
        self._context.wake(fact.at.time + self._stuck)
        return move

    def _end(self, place: Place, fact: facts.PartitionState) -> None:
        move = self._moves.pop(place)
        topic = self._topic(place[0], move.begun)
        topic.done += 1
        lasted = (fact.at.time - move.begun.time) / SECOND
        note = f"{place[0]}-{place[1]} is moved, after {lasted:.1f} s"
        self._report(place[0], topic, fact.at, "symptom", note)

    def _ask(self, fact: facts.Reassignment) -> None:
        move = self._moves.get((fact.topic, fact.partition))
        if move is None:
            remember(self._who, (fact.topic, fact.partition), fact.at, MOVES)
        topic = self._topic(fact.topic, fact.at)
        topic.who = fact.at
        note = f"{fact.at.client} asks to move {fact.topic}-{fact.partition} to {_nodes(fact.replicas)}"
        self._report(fact.topic, topic, fact.at, "culprit", note)

    def _topic(self, name: str, at: facts.At) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = Topic(at)
            remember(self._topics, name, topic, TOPICS)
        return topic

    def _report(self, name: str, topic: Topic, at: facts.At, role: str, note: str) -> None:
        who = topic.who
        self._context.report(
            MOVED,
            at_evidence(at, role, note),
            numbers={"topic": name, "what": f"partitions begun: {topic.begun}, done: {topic.done}; {note}"},
            impact=Impact("requests", topic.begun),
            scope=Scope("topic", name),
            actors=() if who is None else (Actor("culprit", who.peer, who.client_id or None),),
        )

    # --- progress ---

    def _join(self, move: Move, fact: facts.PartitionState) -> None:
        missing = move.adding - frozenset(fact.isr or ())
        if len(missing) < len(move.missing):
            move.progress = fact.at.time
        move.missing = missing

    def _copy(self, fact: facts.ReplicaFetch) -> None:
        remember(self._fetchers, fact.replica, fact.at.time, FETCHERS)
        for topic, partition, lag in fact.behind:
            move = self._moves.get((topic, partition))
            if move is not None and fact.replica in move.adding and lag < move.lags.get(fact.replica, lag + 1):
                move.lags[fact.replica] = lag
                move.progress = fact.at.time

    @property
    def _stuck(self) -> int:
        return int(self._context.limit(MOVED, "stuck_ms")) * MILLISECOND

    def tick(self) -> None:
        now, again = self._context.now, 0
        for place, move in self._moves.items():
            lasted = now - move.progress
            if lasted < self._stuck:
                again = min(again or move.progress + self._stuck, move.progress + self._stuck)
            elif move.watched and not move.told and move.missing and self._context.whole(move.begun.connection):
                self._report_stuck(place, move, lasted)
        if again:
            self._context.wake(again)

    def _report_stuck(self, place: Place, move: Move, lasted: int) -> None:
        move.told = True
        # Copying a large partition takes hours: only Fetch requests in the capture can show that it makes no progress.
        seen = any(self._context.now - self._fetchers.get(node, 0) < self._stuck for node in move.missing)
        name = f"{place[0]}-{place[1]}"
        missing = _nodes(tuple(sorted(move.missing)))
        self._context.report(
            MOVED,
            at_evidence(move.begun, "trigger", f"{name}: adds {missing}"),
            numbers={
                "topic": place[0],
                "what": f"{name} makes no progress for {lasted / SECOND:.0f} s, not in sync yet: {missing}",
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode="stuck",
            scope=Scope("topic", place[0]),
            severity=Severity.WARN if seen else Severity.NOTE,
            confidence=Confidence.STRONG if seen else Confidence.INFERRED,
            cause=STUCK,
        )


def _nodes(nodes: tuple[int, ...] | None) -> str:
    return ", ".join(map(str, nodes or ())) or "none"


STUCK = (
    "The new replica does not fetch: its broker is down, a replication quota is too low, or producers write faster "
    "than it copies."
)

ANALYSES = (
    Analysis(
        frozenset({MOVED}), Key.CLUSTER, (facts.PartitionState, facts.Reassignment, facts.ReplicaFetch), Reassignments
    ),
)
