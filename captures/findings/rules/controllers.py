"""Finds changes of the controller in ZooKeeper mode."""

from __future__ import annotations

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
    remember,
)
from kproxy.captures.findings.model import Confidence, Impact, Scope, Severity
from kproxy.decoders.schema import api_keys

CHURN, FAILOVER = "controller.churn", "controller.failover"
STALE: Final = 11
"""Error code STALE_CONTROLLER_EPOCH."""
BROKERS: Final = 5_000
CHANGES: Final = 100
"""Maximum number of controller changes that are remembered."""
LEAVING: Final = 1_000
SCOPE: Final = Scope("cluster", "controller")


class Seen:
    """The controller in one broker's Metadata responses; `new` is another node that only the latest response named."""

    __slots__ = ("controller", "new")

    def __init__(self, controller: int) -> None:
        self.controller = controller
        self.new: int | None = None


class Controllers(Analyzer):
    """For the whole cluster, finds changes of the controller, and controllers that do not know of their successor."""

    __slots__ = (
        "_changes",
        "_context",
        "_latest",
        "_leaving",
        "_refused",
        "_reported",
        "_seen",
        "_views",
        "_zookeeper",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._latest: dict[str, facts.ControlRequest] = {}
        """Maps each broker to the first request that it got in the newest controller epoch."""
        self._reported: dict[int, None] = {}
        """Controller epochs that were reported: a new controller contacts all brokers, and counts only once."""
        self._changes: list[facts.At] = []
        """The first requests of controllers whose predecessor had no controlled shutdown."""
        self._leaving: dict[int, int] = {}
        """Maps each broker to the time (ns) when it asked for a controlled shutdown."""
        self._refused: dict[tuple[int, int], list[facts.At]] = {}
        """Maps (controller, epoch) to the requests that brokers refused because the epoch was old."""
        self._zookeeper: dict[str, None] = {}
        """Brokers in ZooKeeper mode: those whose ApiVersions response offers LeaderAndIsr."""
        self._seen: dict[str, Seen] = {}
        self._views: list[facts.At] = []
        """Metadata responses that confirmed another controller."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.ControlRequest):
            self._control(fact)
        elif isinstance(fact, facts.ClusterView):
            if fact.controller is not None and fact.at.broker in self._zookeeper:
                self._view(fact.at, fact.controller)
        elif isinstance(fact, facts.Offered):
            if any(key == api_keys.LEADER_AND_ISR for key, _, _ in fact.ranges):
                remember(self._zookeeper, fact.at.broker, None, BROKERS)
        else:
            remember(self._leaving, fact.node, fact.at.time, LEAVING)

    def _control(self, fact: facts.ControlRequest) -> None:
        if fact.error == STALE:
            self._refuse(fact)
            return
        before = self._latest.setdefault(fact.at.broker, fact)
        old, new = sorted((before, fact), key=lambda one: one.epoch)
        remember(self._latest, fact.at.broker, new, BROKERS)
        # If a connection's beginning is not in the capture, its messages may be delivered late.
        if old.epoch < new.epoch and old.at.time < new.at.time and new.epoch not in self._reported:
            remember(self._reported, new.epoch, None, CHANGES)
            self._change(old.controller, new)

    def _change(self, before: int, fact: facts.ControlRequest) -> None:
        """Report that the controller `before` was replaced; `fact` is the first request of its successor."""
        left = self._leaving.get(before, 0)
        planned = left > 0 and fact.at.time - left <= self._context.limit(CHURN, "planned_ms") * MILLISECOND
        how = f"node {before} {'is shut down' if planned else 'failed, or lost its session with ZooKeeper'}"
        what = f"node {fact.controller} is the controller since epoch {fact.epoch}; {how}"
        self._context.report(
            FAILOVER,
            at_evidence(fact.at, "trigger", f"controller {fact.controller}, epoch {fact.epoch}"),
            numbers={"what": what},
            impact=Impact("requests", 1),
            episode=fact.epoch,
            scope=SCOPE,
        )
        if not planned:
            self._changes = self._count(self._changes, fact.at, Severity.WARN, "the controller changed")

    def _refuse(self, fact: facts.ControlRequest) -> None:
        """Report a controller whose request a broker refused, because a newer controller exists."""
        key = fact.controller, fact.epoch
        refused = self._refused.get(key, [])
        refused.append(fact.at)
        remember(self._refused, key, refused[-CHANGES:], CHANGES)
        grave = len(refused) >= self._context.limit(FAILOVER, "refused")
        what = f"node {fact.controller} still acts as controller of epoch {fact.epoch}, and brokers refuse it"
        self._context.report(
            FAILOVER,
            at_evidence(fact.at, "trigger", "STALE_CONTROLLER_EPOCH", path=error_field(STALE)),
            numbers={"what": f"{what} ({len(refused)} times)"},
            impact=Impact("requests", len(refused)),
            episode=("deposed", *key),
            scope=SCOPE,
            severity=Severity.WARN if grave else Severity.NOTE,
            cause=DEPOSED,
        )

    def _view(self, at: facts.At, controller: int) -> None:
        """Take the controller in a Metadata response. A new one counts once a broker has named it twice in a row."""
        seen = self._seen.get(at.broker)
        if seen is None:
            remember(self._seen, at.broker, Seen(controller), BROKERS)
        elif controller == seen.controller:
            seen.new = None
        elif controller != seen.new:
            seen.new = controller
        else:
            seen.controller, seen.new = controller, None
            if not self._views or at.broker == self._views[-1].broker:
                # other brokers show the same changes, so only one broker's responses count
                self._views = self._count(self._views, at, Severity.NOTE, "Metadata names another controller")

    def _count(self, changes: list[facts.At], at: facts.At, severity: Severity, note: str) -> list[facts.At]:
        window = self._context.limit(CHURN, "window_ms") * MILLISECOND
        changes = [*(one for one in changes[-CHANGES:] if at.time - one.time <= window), at]
        if len(changes) >= self._context.limit(CHURN, "changes"):
            lasted = at.time - changes[0].time
            self._context.report(
                CHURN,
                *(at_evidence(one, "symptom", note) for one in changes),
                numbers={"count": len(changes), "seconds": lasted / SECOND},
                impact=Impact("requests", len(changes)),
                episode=note,
                scope=SCOPE,
                severity=severity,
                confidence=Confidence.STRONG if severity is Severity.WARN else Confidence.INFERRED,
            )
        return changes


DEPOSED = (
    "The node did not notice that another controller was elected: it stood still (garbage collection), or lost its "
    "session with ZooKeeper."
)

ANALYSES = (
    Analysis(
        frozenset({CHURN, FAILOVER}),
        Key.CLUSTER,
        (facts.ControlRequest, facts.Leaving, facts.ClusterView, facts.Offered),
        Controllers,
    ),
)
