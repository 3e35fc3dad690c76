"""The type of a row in the table of rules."""

from __future__ import annotations

from typing import NamedTuple

from kproxy.captures.findings.model import Confidence, Fix, Severity


class Threshold(NamedTuple):
    """A number that decides whether a rule reports a finding."""

    name: str
    default: float
    unit: str
    meaning: str


class Rule(NamedTuple):
    """One row of the table of rules.

    `vantage` says whose traffic the capture must contain. `text` is a finding's summary, with names in braces that are
    replaced by the finding's numbers. `confidence` and `severity` are defaults; the analyzer may choose others.
    `unknown` lists what the rule cannot see, and where to look for it. `under` lists the rules whose findings may be
    the cause of this rule's findings: a finding of such a rule becomes the cause if both have the same scope or a
    connection in common, at about the same time (see `correlator`).
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
