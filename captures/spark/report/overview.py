"""Analyses the extent of the captures: time span, clients, brokers, bytes, errors."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import MEASURED

_OVERVIEW: Final = f"""
    WITH {MEASURED}
    SELECT
        min(ts) AS first, max(ts) AS last, count(*) AS exchanges,
        (SELECT count(*) FROM {{captures}}) AS captures,
        count(DISTINCT client) AS clients, count(DISTINCT broker) AS brokers,
        coalesce(sum(asked_bytes), 0) + coalesce(sum(answered_bytes), 0) AS bytes,
        coalesce(sum(request_bytes), 0) + coalesce(sum(response_bytes), 0) AS declared_bytes,
        count_if(cardinality(error_counts) > 0) AS errors,
        count_if(status NOT IN ('ok', 'no_reply_expected')) AS unfinished,
        (SELECT count(*) FROM {{anomalies}}) AS anomalies
    FROM measured
"""


def overview() -> str:
    """A single row: time span, bytes captured and declared.

    Also the numbers of exchanges, captures, clients, brokers, errors, incomplete exchanges and anomalies.
    """
    return _OVERVIEW
