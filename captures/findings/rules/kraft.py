"""Finds elections of KRaft controllers, and brokers that the active controller fences."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
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
    error_field,
    error_streak,
    remember,
)
from kproxy.captures.findings.model import Confidence, Evidence, Impact, Scope, Severity
from kproxy.decoders.schema import errors

ELECTIONS, FENCED, FAILOVER = "kraft.elections", "kraft.broker_fenced", "controller.failover"
CLUSTERS: Final = 100
NODES: Final = 5_000
MOVES: Final = 100
"""Maximum number of elections that are remembered for a cluster."""
NAMED: Final = 10
"""Maximum number of candidates that a finding's text names."""
BEATS: Final = 64
"""Number of the latest seconds with answered heartbeats that are remembered."""
TWINS: Final = frozenset({77, 101, 102})
"""STALE_BROKER_EPOCH, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED: signs of two processes with one id."""


class Quorum:
    """What is known of the controllers of one cluster."""

    __slots__ = (
        "before", "candidates", "ended", "epoch", "heard", "leader", "moved", "moves", "planned", "served", "since",
        "warned",
    )  # fmt: skip

    def __init__(self) -> None:
        self.epoch = -1
        """Epoch of the latest leader; -1 before the first leader was seen."""
        self.leader: int | None = None
        self.before: int | None = None
        """The leader of the previous epoch, if known."""
        self.moved = self.planned = False
        """Whether the leader changed in this capture; `planned`: the previous leader stepped down by itself."""
        self.ended = -1
        """The latest epoch whose leader stepped down by itself (EndQuorumEpoch)."""
        self.moves: list[facts.At] = []
        """The latest elections whose previous leader did not step down by itself."""
        self.since: facts.At | None = None
        """The first request for votes since the last sign of a leader; None while there is a leader."""
        self.candidates: dict[int, None] = {}
        """The nodes that have asked for votes since `since`."""
        self.served = 0
        """Time (ns) of the latest request that a leader answered."""
        self.heard = False
        """Whether the capture has an answered Fetch of a follower: otherwise, it cannot show that a leader works."""
        self.warned = False


class Elections(Analyzer):
    """For the whole cluster, finds elections of the active controller."""

    __slots__ = ("_context", "_quorums")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._quorums: dict[str, Quorum] = {}

    def feed(self, fact: facts.QuorumStep) -> None:
        quorum = self._quorums.get(fact.cluster)
        if quorum is None:
            quorum = Quorum()
            remember(self._quorums, fact.cluster, quorum, CLUSTERS)
        if fact.what == "fetch":
            if fact.answered and not fact.error:
                quorum.heard = True
                self._leads(fact, quorum, None)
        elif fact.what == "begin":
            if not fact.error:
                self._leads(fact, quorum, fact.node)
        elif fact.what == "end":
            if fact.epoch >= quorum.epoch:
                quorum.ended = fact.epoch
        elif quorum.epoch >= 0 and fact.epoch >= quorum.epoch:
            self._asks(fact, quorum)

    def _asks(self, fact: facts.QuorumStep, quorum: Quorum) -> None:
        """Take a request for votes: the node that sends it knows no leader."""
        if fact.at.time < quorum.served:
            return  # a late fact: the reader delivers exchanges of doubtful connections only when the capture ends
        if quorum.since is None:
            quorum.since = fact.at
            quorum.candidates.clear()
            self._context.wake(fact.at.time + self._limit("without_ms"))
        if len(quorum.candidates) < NAMED:
            quorum.candidates[fact.node] = None

    def _leads(self, fact: facts.QuorumStep, quorum: Quorum, leader: int | None) -> None:
        """Take a message that shows that the epoch has a leader; `leader` is its node id, None if unknown."""
        if fact.epoch < quorum.epoch:
            return
        quorum.served = max(quorum.served, fact.at.asked)
        since = quorum.since
        if since is not None and (fact.epoch > quorum.epoch or fact.at.asked > since.time):
            quorum.since, quorum.warned = None, False
        if fact.epoch > quorum.epoch:
            seen, quorum.before, quorum.leader = quorum.epoch >= 0, quorum.leader, leader
            if seen:
                self._elected(fact, quorum, since)
            quorum.epoch = fact.epoch
        if leader is not None and quorum.leader is None:
            quorum.leader = leader
            if quorum.moved:
                self._tell(fact, quorum)

    def _elected(self, fact: facts.QuorumStep, quorum: Quorum, since: facts.At | None) -> None:
        """Report the change of the leader, and frequent elections; `since` is the first request for votes."""
        quorum.moved, quorum.planned = True, quorum.ended == quorum.epoch
        vote = [] if since is None else [at_evidence(since, "trigger", "the first request for a vote")]
        self._tell(fact, quorum, *vote)
        if quorum.planned:
            return
        window = self._limit("window_ms")
        quorum.moves = [one for one in quorum.moves[-MOVES:] if fact.at.time - one.time <= window]
        quorum.moves.append(fact.at)
        if len(quorum.moves) < self._context.limit(ELECTIONS, "elections"):
            return
        lasted = fact.at.time - quorum.moves[0].time
        self._context.report(
            ELECTIONS,
            *(at_evidence(one, "symptom", "an election") for one in quorum.moves),
            numbers={
                "what": f"{len(quorum.moves)} elections in {lasted / SECOND:.0f} s, the latest of epoch {fact.epoch}"
            },
            impact=Impact("requests", len(quorum.moves)),
            episode="elections",
            scope=_cluster(fact.cluster),
        )

    def _tell(self, fact: facts.QuorumStep, quorum: Quorum, *evidence: Evidence) -> None:
        """Report that the leader changed, or that the new leader's id is known.

        Often a Fetch shows the new epoch before any message names its leader. The second report adds the id to the
        finding.
        """
        name = "another node" if quorum.leader is None else f"node {quorum.leader}"
        before = "the one before" if quorum.before is None else f"node {quorum.before}"
        how = "stepped down" if quorum.planned else "did not step down: it failed, or was cut off"
        self._context.report(
            FAILOVER,
            *evidence,
            at_evidence(fact.at, "symptom", f"{name} leads in epoch {fact.epoch}"),
            numbers={"what": f"{name} is the active controller since epoch {fact.epoch}; {before} {how}"},
            impact=Impact("requests", 1),
            episode=fact.epoch,
            scope=_cluster(fact.cluster),
        )

    def tick(self) -> None:
        for cluster, quorum in self._quorums.items():
            since = quorum.since
            if since is None or not quorum.heard:
                continue
            lasted = self._context.now - since.time
            limit = self._limit("error_ms" if quorum.warned else "without_ms")
            if lasted < limit:
                self._context.wake(since.time + limit)
            elif self._context.whole(since.connection):
                self._report_without(cluster, quorum, since, lasted)

    def _report_without(self, cluster: str, quorum: Quorum, since: facts.At, lasted: int) -> None:
        # a single candidate may be cut off from a quorum that works
        several = len(quorum.candidates) > 1
        if not quorum.warned:
            self._context.wake(since.time + self._limit("error_ms"))
        severity = Severity.ERROR if quorum.warned and several else Severity.WARN
        quorum.warned = True
        who = ", ".join(map(str, sorted(quorum.candidates)))
        self._context.report(
            ELECTIONS,
            at_evidence(since, "trigger", "the first request for a vote"),
            numbers={
                "what": f"no leader for {lasted / SECOND:.0f} s since epoch {quorum.epoch}; votes asked for by {who}"
            },
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=("without", since.time),
            scope=_cluster(cluster),
            severity=severity,
            confidence=Confidence.STRONG if several else Confidence.INFERRED,
        )

    def _limit(self, name: str) -> int:
        return int(self._context.limit(ELECTIONS, name)) * MILLISECOND


class Node:
    """The state of a broker, from its heartbeats and from records of the metadata log."""

    __slots__ = ("behind", "dirs", "epoch", "fenced", "lag", "last", "leaving")

    def __init__(self, epoch: int | None) -> None:
        self.epoch = epoch
        self.last: facts.At | None = None
        """The broker's latest heartbeat."""
        self.fenced: bool | None = None
        self.leaving = False
        """Whether the broker has asked for a controlled shutdown."""
        self.behind: facts.At | None = None
        """The first of the consecutive heartbeats that show a lag behind the metadata log; None without lag."""
        self.lag = 0
        self.dirs = 0
        """Number of consecutive heartbeats with offline log directories."""


class Brokers(Analyzer):
    """For the whole cluster, finds brokers that the active controller fences, refuses, or is likely to fence soon."""

    __slots__ = ("_beats", "_begun", "_context", "_newest", "_nodes", "_streaks")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._nodes: dict[int, Node] = {}
        self._beats: deque[int] = deque(maxlen=BEATS)
        """The latest seconds (since the epoch) in which the controller answered a heartbeat within 1 s."""
        self._newest: dict[str, int] = {}
        """Maps each controller to the highest offset of the metadata log in a heartbeat of any broker."""
        self._streaks: dict[str, tuple[facts.At, int]] = {}
        self._begun = 0
        """Time (ns) of the first fact."""

    def feed(self, fact: Any) -> None:
        self._begun = self._begun or fact.at.time
        if isinstance(fact, facts.BrokerRegistration):
            self._count_error(fact)
        elif isinstance(fact, facts.BrokerState):
            self._learn(fact)
        elif fact.answered:
            self._beat(fact)

    def _node(self, node: int, epoch: int | None) -> Node:
        """The state of a broker; a new state if the broker has registered again, as its new epoch shows."""
        state = self._nodes.get(node)
        if state is None or (None not in {epoch, state.epoch} and state.epoch != epoch):
            state = Node(epoch)
            remember(self._nodes, node, state, NODES)
        elif state.epoch is None:
            state.epoch = epoch
        return state

    def _beat(self, fact: facts.BrokerHeartbeat) -> None:
        self._count_error(fact)
        state = self._node(fact.node, fact.broker_epoch)
        state.leaving = state.leaving or fact.wants_shutdown
        silence = 0 if state.last is None else fact.at.asked - state.last.time
        if silence >= self._limit("session_ms") and not state.leaving and state.last is not None:
            # The controller worked if it answered other brokers meanwhile.
            begin, end = state.last.time // SECOND + 1, fact.at.asked // SECOND - 1
            others = sum(begin < second < end for second in self._beats)
            whole = self._context.whole(state.last.connection) and self._context.whole(fact.at.connection)
            if whole and others >= self._context.limit(FENCED, "others"):
                note = f"its next heartbeat, after {silence / SECOND:.1f} s"
                what = f"sent no heartbeat for {silence / SECOND:.0f} s"
                self._report(
                    fact.node, what, silence, state.last.time, Confidence.STRONG,
                    at_evidence(state.last, "trigger", "its last heartbeat before the silence"),
                    at_evidence(fact.at, "symptom", note, weight=silence),
                )  # fmt: skip
        wanted = fact.wants_fence or state.leaving
        if fact.fenced and state.fenced is False and not wanted:
            evidence = at_evidence(fact.at, "trigger", "answered: fenced", path="response.isFenced")
            self._report(fact.node, "is fenced", 0, fact.at.time, Confidence.PROVEN, evidence)
        if fact.fenced is not None:
            state.fenced = fact.fenced
            self._measure(fact, state)
        self._look_at_disks(fact, state)
        second = fact.at.time // SECOND
        if fact.at.latency < SECOND and second not in self._beats:
            self._beats.append(second)
        state.last = fact.at

    def _look_at_disks(self, fact: facts.BrokerHeartbeat, state: Node) -> None:
        """Report a broker after a number of consecutive heartbeats with offline log directories."""
        if fact.offline_dirs and not fact.error:
            state.dirs += 1
            if state.dirs == self._context.limit(FENCED, "disks"):
                text = f"has {fact.offline_dirs} log directories offline"
                evidence = at_evidence(fact.at, "trigger", text, path="request.offlineLogDirs")
                self._report(fact.node, text, 0, "directories", Confidence.PROVEN, evidence, cause=DISK)
        else:
            state.dirs = 0

    def _learn(self, fact: facts.BrokerState) -> None:
        """Take a record of the metadata log about a broker; report the broker if it was fenced unexpectedly."""
        known = fact.node in self._nodes
        state = self._node(fact.node, fact.broker_epoch)
        if fact.leaving is not None:
            state.leaving = state.leaving or fact.leaving
        fenced, before, state.fenced = fact.fenced, state.fenced, state.fenced if fact.fenced is None else fact.fenced
        if not fenced or fact.registered or fact.past or state.leaving or before is True:
            return
        if not known and fact.at.time - self._begun < self._limit("followed_ms"):
            return  # the broker may have asked for a controlled shutdown before the capture began
        since = fact.at if state.last is None else state.last
        evidence = [at_evidence(fact.at, "symptom", "the metadata log says that it is fenced")]
        if state.last is not None:
            evidence.insert(0, at_evidence(state.last, "trigger", "its last heartbeat before"))
        silence = fact.at.time - since.time
        text = "is fenced" + (f", after {silence / SECOND:.0f} s without heartbeat" if state.last is not None else "")
        self._report(fact.node, text, silence, since.time, Confidence.PROVEN, *evidence)

    def _measure(self, fact: facts.BrokerHeartbeat, state: Node) -> None:
        """Report a broker that stays behind the metadata log."""
        if fact.offset is None:
            return
        newest = max(self._newest.get(fact.at.broker, 0), fact.offset)
        remember(self._newest, fact.at.broker, newest, NODES)
        lag = newest - fact.offset
        if lag < self._context.limit(FENCED, "offsets") or fact.fenced:
            state.behind = None
        elif state.behind is None:
            state.behind, state.lag = fact.at, lag
        elif fact.at.time - state.behind.time >= self._limit("lasts_ms") and lag >= state.lag:
            lasted = fact.at.time - state.behind.time
            text = f"lacks {lag} records of the metadata log, for {lasted / SECOND:.0f} s"
            self._report(
                fact.node, text, lasted, ("lag", state.behind.time), Confidence.STRONG,
                at_evidence(state.behind, "trigger", f"lacks {state.lag} records"),
                at_evidence(fact.at, "symptom", f"lacks {lag} records", weight=lag),
                cause=BEHIND,
            )  # fmt: skip

    def _count_error(self, fact: Any) -> None:
        """Report a broker whose heartbeats or registrations fail with an error of TWINS for some time."""
        kind = f"{type(fact).__name__} {fact.node}"
        if fact.error not in TWINS:
            if not fact.error:
                self._streaks.pop(kind, None)
            return
        first, count = error_streak(self._streaks, kind, fact.at, NODES)
        lasted = fact.at.time - first.time
        if lasted < self._limit("refused_ms") or count < self._context.limit(FENCED, "refused"):
            return
        name = errors.name(fact.error)
        text = f"is refused with {name} for {lasted / SECOND:.0f} s ({count} times)"
        self._report(
            fact.node, text, lasted, (kind, first.time), Confidence.STRONG,
            at_evidence(first, "trigger", name, path=error_field(fact.error)),
            at_evidence(fact.at, "symptom", name, path=error_field(fact.error)),
            cause=TWIN,
        )  # fmt: skip

    def _report(
        self, node: int, what: str, lasted: int, episode: Hashable, confidence: Confidence, *evidence: Evidence,
        cause: str | None = None,
    ) -> None:  # fmt: skip
        self._context.report(
            FENCED,
            *evidence,
            numbers={"node": node, "what": what},
            impact=Impact("ms_lost", lasted / MILLISECOND),
            episode=(node, episode),
            scope=Scope("broker", f"node {node}"),
            confidence=confidence,
            cause=cause,
        )

    def _limit(self, name: str) -> int:
        return int(self._context.limit(FENCED, name)) * MILLISECOND


def _cluster(name: str) -> Scope:
    return Scope("cluster", name or "controllers")


DISK = "A log directory failed: its disk is full, read-only or broken."
BEHIND = "The broker reads the metadata log too slowly, or cannot apply a record: its log says which."
TWIN = "Two processes have the same node.id, or the broker was unregistered while it runs."

ANALYSES = (
    Analysis(frozenset({ELECTIONS, FAILOVER}), Key.CLUSTER, (facts.QuorumStep,), Elections),
    Analysis(
        frozenset({FENCED}),
        Key.CLUSTER,
        (facts.BrokerHeartbeat, facts.BrokerRegistration, facts.BrokerState),
        Brokers,
    ),
)
