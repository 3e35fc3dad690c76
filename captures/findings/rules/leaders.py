"""Finds partitions that elected a leader from outside the ISR, so that records may be lost."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Confidence, Evidence, Impact, Scope, Severity
from kproxy.decoders.schema import api_keys

UNCLEAN = "leader.unclean"
PLACES: Final = 20_000
"""Maximum number of leaderless partitions that are remembered."""
Place: TypeAlias = tuple[str, int]
CONTROLLED: Final = frozenset({api_keys.LEADER_AND_ISR, api_keys.UPDATE_METADATA})


class Elections(Analyzer):
    """For one partition, checks whether each new leader was in the ISR; reads the controller's decisions."""

    __slots__ = ("_context", "_epoch", "_isr", "_recovering", "_state", "_version")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._epoch = -1
        self._version = -1
        self._isr: tuple[int, ...] = ()
        """The latest non-empty ISR."""
        self._recovering = False
        self._state: facts.PartitionState | None = None
        """The message with the ISR in `_isr`."""

    def feed(self, fact: facts.PartitionState) -> None:
        if fact.new or fact.leader_epoch == 0:
            self._epoch, self._version, self._isr, self._recovering = -1, -1, (), False  # perhaps a new topic
        if fact.leader_epoch is not None and fact.leader_epoch < self._epoch:
            return  # the message is late
        if fact.recovering and not self._recovering and not fact.past:
            self._report(fact, Confidence.PROVEN)
        elif fact.recovering is None and fact.at.key in CONTROLLED:
            self._compare(fact)
        if fact.recovering is not None:
            self._recovering = fact.recovering
        if fact.leader_epoch is not None:
            self._epoch = fact.leader_epoch
        if fact.version is not None:
            self._version = fact.version
        if fact.isr:
            self._isr, self._state = fact.isr, fact

    def _compare(self, fact: facts.PartitionState) -> None:
        """Check a new leader against the last ISR, if the message cannot say whether the leader was in sync."""
        if not self._isr or fact.leader is None or fact.leader_epoch is None or fact.leader_epoch <= self._epoch:
            return
        if fact.leader in self._isr or fact.isr != (fact.leader,):
            return
        # In ZooKeeper mode the leader changes the ISR by itself; each change raises the version by one.
        nothing_between = fact.version is not None and fact.version == self._version + 1
        if nothing_between:
            self._report(fact, Confidence.STRONG)
        else:
            self._report(fact, Confidence.INFERRED, Severity.NOTE)

    def _report(self, fact: facts.PartitionState, confidence: Confidence, severity: Severity = Severity.ERROR) -> None:
        before = None if self._state is None else self._state.at
        _report(self._context, fact, fact.leader, self._isr, before, confidence, severity)


class Elected(Analyzer):
    """For the whole cluster, finds partitions whose Metadata shows no leader, then a leader from outside the ISR."""

    __slots__ = ("_context", "_leaderless")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leaderless: dict[Place, facts.PartitionView] = {}

    def feed(self, fact: facts.PartitionView) -> None:
        if fact.leader is not None:
            if not self._leaderless:
                return
            before = self._leaderless.pop((fact.topic, fact.partition), None)
            if before is not None and fact.leader not in before.isr and fact.isr == (fact.leader,):
                _report(self._context, fact, fact.leader, before.isr, before.at, Confidence.INFERRED, Severity.WARN)
        elif fact.isr:
            # With eligible leader replicas (KIP-966) the ISR may be empty, and replicas outside it lead without loss.
            remember(self._leaderless, (fact.topic, fact.partition), fact, PLACES)
        else:
            self._leaderless.pop((fact.topic, fact.partition), None)


def _report(
    context: Context, fact: Any, leader: int | None, isr: tuple[int, ...], before: facts.At | None,
    confidence: Confidence, severity: Severity,
) -> None:  # fmt: skip
    known = f"the ISR was {', '.join(map(str, isr))}" if isr else "it was not in the ISR"
    note = f"leader {'unknown' if leader is None else leader}; {known}"
    evidence: list[Evidence] = [] if before is None else [at_evidence(before, "baseline", known)]
    context.report(
        UNCLEAN,
        *evidence,
        at_evidence(fact.at, "trigger", note),
        numbers={
            "partition": f"{fact.topic}-{fact.partition}", "leader": "?" if leader is None else leader, "known": known,
        },
        impact=Impact("records_at_risk", 1),
        episode=fact.leader_epoch if fact.leader_epoch is not None else ("record", fact.at.time),
        scope=Scope("partition", f"{fact.topic}-{fact.partition}"),
        severity=severity,
        confidence=confidence,
    )  # fmt: skip


ANALYSES = (
    Analysis(frozenset({UNCLEAN}), Key.PARTITION, (facts.PartitionState,), Elections),
    Analysis(frozenset({UNCLEAN}), Key.CLUSTER, (facts.PartitionView,), Elected),
)
