"""What the table says of a rule."""

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

    `vantage` says whose traffic must be in the capture. `text` is the summary, with the finding's numbers in braces.
    `confidence` and `severity` are those of the usual case; the analyzer may name others. `unknown` is what the rule
    cannot see, and where it could be seen. `under`: a finding of one of these rules in the same group, client,
    connection or partition at the same time explains this one.
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
