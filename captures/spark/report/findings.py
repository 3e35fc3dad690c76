"""Findings in the tables: which rules fired, how often, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.findings.table import RULES
from kproxy.captures.findings.text import rule_text
from kproxy.captures.spark.report.tables import Tables

_FINDINGS: Final = """
    SELECT
        f.severity, f.rule, title, confidence, count(*) AS findings, sum(occurrences) AS occurrences,
        sum(impact) AS impact, impact_unit, min_by(summary, rank) AS example, min_by(cause, rank) AS cause,
        array_sort(collect_set(scope)) AS scopes, min(first_ts) AS first, max(last_ts) AS last, min(rank) AS rank
    FROM {findings} AS f LEFT JOIN {rules} AS r ON r.rule = f.rule
    GROUP BY f.severity, f.rule, title, confidence, impact_unit
    ORDER BY
        array_position(array('error', 'warn', 'note', 'info'), f.severity),
        array_position(array('records_at_risk', 'ms_lost', 'requests', 'bytes_wasted'), impact_unit),
        impact DESC, f.rule, confidence
"""


def findings(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each rule, severity, confidence and unit of impact: the most severe first, then the most costly."""
    rules = spark.createDataFrame([(row.id, row.title) for row in RULES.values()], "rule string, title string")
    return spark.sql(_FINDINGS, findings=tables["findings"], rules=rules)


def rule_texts(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What the table of rules says of each rule in the rows of `findings`, by its id."""
    return {name: "\n".join(rule_text(RULES[name])) for name in (row["rule"] for row in rows) if name in RULES}
