"""The type of the rows in the table of rules."""

from __future__ import annotations

from typing import NamedTuple

from kproxy.captures.findings.model import Confidence, Fix, Severity


class Threshold(NamedTuple):
    """A number that decides whether a rule fires."""

    name: str
    default: float
    unit: str
    meaning: str


class Rule(NamedTuple):
    """One row of the table.

    `vantage` says whose traffic the capture must have. `text` is the summary, in which the finding's numbers replace
    names in braces. `confidence` and `severity` are the usual ones; the analyzer may set others. `unknown` lists what
    the rule cannot see, and where that could be seen. `under` names rules whose findings are causes: a finding of such
    a rule about the same group, client, connection or partition at the same time is the cause of this rule's finding.
    """

    id: str
    number: int
    title: str
    severity: Severity
    confidence: Confidence
    vantage: str
    meaning: str
    text: str
    cause: str
    guards: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    fixes: tuple[Fix, ...]
    verify: str
    unknown: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
