"""Analyses how brokers throttle clients by quotas."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import MEASURED

_THROTTLED: Final = f"""
    WITH {MEASURED}
    SELECT
        client, api, broker, count(*) AS exchanges, count_if(throttle_time_ms > 0) AS throttled,
        sum(throttle_time_ms) AS throttle_ms, max(throttle_time_ms) AS max_ms,
        min(ts) FILTER (WHERE throttle_time_ms > 0) AS first, max(ts) FILTER (WHERE throttle_time_ms > 0) AS last
    FROM measured WHERE throttle_time_ms IS NOT NULL
    GROUP BY ALL HAVING throttled > 0
    ORDER BY throttle_ms DESC, client, api, broker
"""


def throttled() -> str:
    """A row for each client, API and broker with throttled responses: their number, and the throttle times.

    `exchanges` counts the responses that have a field for the throttle time.
    """
    return _THROTTLED
