"""Finds topics that are created or deleted, and accepted deletions that are not carried out."""

from __future__ import annotations

import re
from typing import Any, Final

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

LIFE = "topic.lifecycle"
TOPICS: Final = 100
"""Maximum number of topics with a finding each; one more finding counts the changes of all other topics."""
KNOWN: Final = 20_000
"""Maximum number of topics whose state is remembered."""
PENDING: Final = 1_000
CONTROLLED: Final = frozenset({api_keys.LEADER_AND_ISR, api_keys.UPDATE_METADATA})
LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Pattern of valid topic names."""
FIRST: Final = 0
"""The version of a new partition's znode, and a new partition's leader epoch."""


class Topics(Analyzer):
    """For the whole cluster, follows the creation and deletion of topics."""

    __slots__ = (
        "_alive",
        "_context",
        "_controllers",
        "_deleting",
        "_more",
        "_named",
        "_replicas",
        "_state",
        "_stopped",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._state: dict[str, bool] = {}
        """Maps each topic to whether its latest change created it (True) or deleted it."""
        self._named: dict[str, None] = {}
        """The topics that have findings of their own."""
        self._more = 0
        self._deleting: dict[str, facts.Administration] = {}
        """Maps each topic to the accepted request to delete it, until the deletion is seen."""
        self._replicas: dict[str, frozenset[int]] = {}
        """Maps each topic to the nodes with replicas of it (ZooKeeper mode)."""
        self._stopped: dict[str, set[str]] = {}
        """Maps each topic to the brokers that were told to delete their replicas, until all were told."""
        self._alive: facts.At | None = None
        """The controller's latest request to a broker (ZooKeeper mode)."""
        self._controllers: dict[str, tuple[int, int]] = {}
        """Maps each broker to (controller epoch, time in ns of the first request of that epoch)."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.TopicChange):
            if fact.created or fact.at.key != api_keys.STOP_REPLICA or self._is_gone(fact):
                self._deleting.pop(fact.topic, None)
                self._change(fact.at, fact.topic, fact.created, fact.past)
        elif isinstance(fact, facts.PartitionState):
            if fact.replicas is not None and fact.at.key in CONTROLLED:
                known = self._replicas.get(fact.topic, frozenset())
                if not known.issuperset(fact.replicas):
                    remember(self._replicas, fact.topic, known.union(fact.replicas), KNOWN)
            if self._is_new(fact):
                self._change(fact.at, fact.topic, True, False)
        elif isinstance(fact, facts.ControlRequest):
            self._alive = fact.at
            if self._controllers.get(fact.at.broker, (-1, 0))[0] != fact.epoch:
                remember(self._controllers, fact.at.broker, (fact.epoch, fact.at.time))
        elif fact.at.key == api_keys.DELETE_TOPICS and not fact.error:
            self._delete(fact)

    def _is_gone(self, fact: facts.TopicChange) -> bool:
        """Note that a broker was told to delete its replicas of a topic; returns whether all brokers were told."""
        told = self._stopped.setdefault(fact.topic, set())
        told.add(fact.at.broker)
        remember(self._stopped, fact.topic, told, PENDING)
        if len(told) < len(self._replicas.get(fact.topic, ())):
            return False
        del self._stopped[fact.topic]
        self._replicas.pop(fact.topic, None)
        return True

    def _is_new(self, fact: facts.PartitionState) -> bool:
        if fact.at.key != api_keys.LEADER_AND_ISR or fact.leader_epoch != FIRST:
            return False
        if fact.at.version >= 1:
            return fact.new
        # A new controller first sends each broker all its partitions; a partition in a later request is really new.
        _, since = self._controllers.get(fact.at.broker, (-1, fact.at.time))
        settled = fact.at.time - since >= self._context.limit(LIFE, "settled_ms") * MILLISECOND
        return settled and fact.version == FIRST and fact.isr == fact.replicas

    def _change(self, at: facts.At, topic: str, created: bool, past: bool) -> None:
        if not LEGAL.fullmatch(topic) or self._state.get(topic) is created:
            return
        remember(self._state, topic, created, KNOWN)
        if past:
            return
        own = topic in self._named or len(self._named) < TOPICS
        if own:
            self._named[topic] = None
        else:
            self._more += 1
        what = "created" if created else "deleted"
        self._context.report(
            LIFE,
            at_evidence(at, "trigger", f"{topic} {what}"),
            numbers={"what": f"{topic} was {what}" if own else f"{self._more} further changes, such as {topic} {what}"},
            impact=Impact("requests", 1 if own else self._more),
            episode=(what, at.time) if own else None,
            scope=Scope("topic", topic) if own else Scope("cluster", "more topics"),
        )

    def _delete(self, fact: facts.Administration) -> None:
        for name in fact.names:
            remember(self._deleting, name, fact, PENDING)
        self._context.wake(fact.at.time + int(self._context.limit(LIFE, "stuck_ms")) * MILLISECOND)

    def tick(self) -> None:
        stuck = int(self._context.limit(LIFE, "stuck_ms")) * MILLISECOND
        for name, fact in list(self._deleting.items()):
            lasted = self._context.now - fact.at.time
            if lasted < stuck:
                self._context.wake(fact.at.time + stuck)
                break
            del self._deleting[name]
            alive = self._alive
            if alive is None or alive.time < fact.at.time or not self._context.whole(alive.connection):
                continue
            self._context.report(
                LIFE,
                at_evidence(fact.at, "trigger", f"{name}: its deletion was accepted"),
                at_evidence(
                    alive, "symptom", "the controller sends requests to brokers, but has not stopped all replicas of it"
                ),
                numbers={"what": f"{name} was marked for deletion {lasted / SECOND:.0f} s ago and still exists"},
                impact=Impact("ms_lost", lasted / MILLISECOND),
                episode=("stuck", fact.at.time),
                scope=Scope("topic", name),
                severity=Severity.WARN,
                confidence=Confidence.STRONG,
                actors=(Actor("victim", fact.at.peer, fact.at.client_id or None),),
                cause=STUCK,
            )


STUCK = (
    "Until a broker that has a replica of it is back, or a reassignment of it is over, the controller does not delete "
    "the topic; or delete.topic.enable is false."
)

ANALYSES = (
    Analysis(
        frozenset({LIFE}),
        Key.CLUSTER,
        (facts.TopicChange, facts.PartitionState, facts.ControlRequest, facts.Administration),
        Topics,
    ),
)
