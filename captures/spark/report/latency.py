"""Analyses how long brokers took to answer: exact percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kproxy.captures.spark.report.measured import MEASURED, interval, percentile

BY: Final = {
    "api": "api",
    "client": "client",
    "broker": "broker",
    "software": "software",
    "minute": "date_trunc('minute', ts)",
}


def percentiles(by: Sequence[str] = ("api",)) -> str:
    """A row for each combination of the columns in `by` (keys of `BY`): number of exchanges, p50_us to p999_us, max_us.

    A latency is the time from the request's last byte to the response's, as in `kproxy stats`; unanswered requests have
    none. Sorted by time if `by` names minutes, otherwise by the number of exchanges, descending. Raises KeyError for an
    unknown name.
    """
    columns = ", ".join(f"{BY[name]} AS {name}" for name in by)
    order = ", ".join((*(name for name in by if name == "minute"), "exchanges DESC", *by))
    return f"""
        WITH {MEASURED}
        SELECT
            {columns}, count(*) AS exchanges, {percentile("latency_us", 0.5)} AS p50_us,
            {percentile("latency_us", 0.9)} AS p90_us, {percentile("latency_us", 0.99)} AS p99_us,
            {percentile("latency_us", 0.999)} AS p999_us, max(latency_us) AS max_us
        FROM measured WHERE latency_us IS NOT NULL GROUP BY ALL ORDER BY {order}
    """


def over_time(seconds: int = 60) -> str:
    """A row for each interval of `seconds`: exchanges, errors, bytes, throttle_ms, p50_us and p99_us; `time` is its
    beginning.
    """
    return f"""
        WITH {MEASURED}
        SELECT
            {interval("ts", seconds)} AS time, count(*) AS exchanges,
            count_if(cardinality(error_counts) > 0) AS errors,
            sum(asked_bytes) AS request_bytes, sum(answered_bytes) AS response_bytes,
            sum(throttle_time_ms) AS throttle_ms,
            {percentile("latency_us", 0.5)} AS p50_us, {percentile("latency_us", 0.99)} AS p99_us
        FROM measured GROUP BY ALL ORDER BY time
    """
