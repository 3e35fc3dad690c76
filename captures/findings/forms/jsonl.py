"""Findings as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kproxy.captures.findings.forms import Report


def lines(report: Report) -> Iterator[str]:
    """One JSON object "kproxy.finding/1" per line; the last line is the reading's health."""
    for one in (*report.findings, report.health):
        yield json.dumps(one)
