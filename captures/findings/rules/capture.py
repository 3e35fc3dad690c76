"""Reports which bytes the capture lacks, because other rules are less certain then."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import Analysis, Analyzer, Context, Key, at_evidence
from kproxy.captures.findings.model import Evidence, Impact, Severity
from kproxy.decoders.problems import Code

HEALTH = "capture.health"
MISSING = frozenset({Code.GAP, Code.CUT_BY_SNAPLEN, Code.ONE_SIDED, Code.RESYNC})
MOST = 20_000
"""Maximum number of connections with missing bytes that are counted."""


class CaptureHealth(Analyzer):
    """Counts missing bytes; reports them once, when the capture ends."""

    __slots__ = ("_codes", "_context", "_damaged", "_evidence", "_seen")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._codes: Counter[str] = Counter()
        self._damaged: set[int] = set()
        self._seen = 0
        self._evidence: list[Evidence] = []

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.Closed):
            self._seen += 1
        elif fact.code in MISSING:
            self._codes[fact.code] += 1
            if fact.at.connection not in self._damaged and len(self._damaged) < MOST:
                self._damaged.add(fact.at.connection)
                if len(self._evidence) < 12:
                    self._evidence.append(at_evidence(fact.at, "trigger", fact.text))

    def close(self) -> None:
        damaged = len(self._damaged)
        if not damaged:
            return
        much = damaged >= self._context.limit(HEALTH, "least")
        much = much and damaged >= self._seen * self._context.limit(HEALTH, "share")
        self._context.report(
            HEALTH,
            *self._evidence,
            numbers={
                "connections": damaged,
                "all": max(self._seen, damaged),
                "places": self._codes.total(),
                "codes": ", ".join(f"{name} {number}" for name, number in self._codes.most_common()),
            },
            impact=Impact("requests", self._codes.total()),
            severity=Severity.WARN if much else Severity.NOTE,
        )


ANALYSES = (Analysis(frozenset({HEALTH}), Key.CLUSTER, (facts.Trouble, facts.Closed), CaptureHealth),)
