"""Orders findings for output: the most severe first, symptoms after their causes.

Lowers the confidence of findings whose connections have missing bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from kproxy.captures.findings.model import Confidence, Finding, Scope, Severity
from kproxy.captures.findings.rule import Rule

NEAR: Final = 5_000_000_000
"""Maximum time in nanoseconds between a cause and its symptom."""
_UNITS: Final = ("bytes_wasted", "requests", "ms_lost", "records_at_risk")
"""Units of impact, from the least to the most severe."""


def correlate(
    findings: Iterable[Finding], rules: Mapping[str, Rule], whole: Callable[[int], bool] = lambda _: True
) -> list[Finding]:
    """Copies of the findings in the order of output: the most severe first, each symptom after its cause.

    `whole` returns whether the capture has all bytes of a connection.
    """
    ranked = sorted((_lowered(one, whole) for one in findings), key=_rank)
    by_id = {one.id: one for one in ranked}
    causes: dict[str, list[Finding]] = {}
    for one in ranked:
        causes.setdefault(one.rule, []).append(one)
    for one in ranked:
        found = (cause for rule in rules[one.rule].under for cause in causes.get(rule, ()) if _explains(cause, one))
        cause = next(found, None)
        if cause is not None and not _is_above(one, cause, by_id):
            one.parent = cause.id
    return _in_trees(ranked)


def _lowered(finding: Finding, whole: Callable[[int], bool]) -> Finding:
    """A copy of the finding; its confidence is one step lower if bytes of a connection in its evidence are missing."""
    damaged = {one.connection for one in finding.evidence if one.connection and not whole(one.connection)}
    if not damaged or finding.rule.startswith("capture."):
        return replace(finding)
    confidence = Confidence(max(0, finding.confidence - 1))
    severity = min(finding.severity, Severity.WARN) if confidence is Confidence.INFERRED else finding.severity
    return replace(
        finding, confidence=confidence, severity=severity, coverage={"connections with missing bytes": len(damaged)}
    )


def _rank(finding: Finding) -> tuple[int, int, int, float, int, str]:
    unit = _UNITS.index(finding.impact.unit) if finding.impact.unit in _UNITS else -1
    return -finding.severity, -unit, -finding.confidence, -finding.impact.value, finding.first_time, finding.id


def _explains(cause: Finding, symptom: Finding) -> bool:
    if cause is symptom or cause.last_time + NEAR < symptom.first_time or symptom.last_time + NEAR < cause.first_time:
        return False
    return bool(_about(cause) & _about(symptom))


def _about(finding: Finding) -> set[Scope]:
    """The scopes by which a finding is matched with its cause: its own, and the connections of its evidence."""
    return {finding.scope} | {Scope("connection", str(one.connection)) for one in finding.evidence if one.connection}


def _is_above(finding: Finding, below: Finding, by_id: Mapping[str, Finding]) -> bool:
    """Whether `below` is `finding` itself or one of its symptoms, direct or indirect.

    A finding must not get one of its own symptoms as its cause: that would be a cycle.
    """
    at: Finding | None = below
    while at is not None and at is not finding:
        at = by_id.get(at.parent or "")
    return at is finding


def _in_trees(ranked: list[Finding]) -> list[Finding]:
    below: dict[str | None, list[Finding]] = {}
    for one in ranked:
        below.setdefault(one.parent, []).append(one)
    ordered: list[Finding] = []
    waiting = below.get(None, [])[::-1]
    while waiting:
        one = waiting.pop()
        ordered.append(one)
        waiting += below.get(one.id, [])[::-1]
    return ordered
