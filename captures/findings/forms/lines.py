"""Findings as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.captures.findings.forms import Report
from kproxy.captures.findings.text import closing_line, findings_text


def lines(report: Report) -> Iterator[str]:
    """Yields each finding with its evidence, symptoms indented below their cause; the last line counts the findings."""
    yield from findings_text(report.findings)
    yield closing_line(len(report.findings) + report.hidden, report.hidden)
