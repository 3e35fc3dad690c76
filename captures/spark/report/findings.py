"""Analyses findings: which rules fired, how often, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from kproxy.captures.findings.table import RULES
from kproxy.captures.findings.text import rule_text

_SEVERITIES: Final = ("error", "warn", "note", "info")
_UNITS: Final = ("records_at_risk", "ms_lost", "requests", "bytes_wasted")
"""Units of impact, the gravest first."""


@cache
def findings() -> str:
    """A row for each rule, severity, confidence and unit of impact: the most severe first, then the most costly."""
    titles = ", ".join(f"({_quoted(row.id)}, {_quoted(row.title)})" for row in RULES.values())
    return f"""
        WITH rules AS (SELECT * FROM (VALUES {titles}) AS r(rule, title)),
        grouped AS (
        SELECT
            f.severity, f.rule, title, confidence, count(*) AS findings, sum(occurrences) AS occurrences,
            sum(impact) AS impact, impact_unit, min_by(summary, rank) AS example, min_by(cause, rank) AS cause,
            sort_array(collect_set(scope)) AS scopes, min(first_ts) AS first, max(last_ts) AS last, min(rank) AS rank
        FROM {{findings}} AS f LEFT JOIN rules AS r ON r.rule = f.rule
        GROUP BY f.severity, f.rule, title, confidence, impact_unit
        )
        SELECT * FROM grouped
        ORDER BY {_place("severity", _SEVERITIES)}, {_place("impact_unit", _UNITS)}, impact DESC, rule, confidence
    """


def _place(column: str, values: Iterable[str]) -> str:
    """SQL for the index of a column's value in `values`."""
    cases = " ".join(f"WHEN '{value}' THEN {place}" for place, value in enumerate(values))
    return f"CASE {column} {cases} ELSE 99 END"


def _quoted(text: str) -> str:
    """A text as a literal of SQL in a query whose braces name tables."""
    return "'" + text.replace("'", "’").replace("\\", "/").replace("{", "(").replace("}", ")") + "'"


def rule_texts(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The text of each rule in the rows of `findings`, by rule id."""
    return {name: "\n".join(rule_text(RULES[name])) for name in (row["rule"] for row in rows) if name in RULES}
