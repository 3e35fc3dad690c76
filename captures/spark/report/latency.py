"""Analyses how long brokers took to answer: exact percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.spark.report.measured import measured
from kproxy.captures.spark.report.tables import Tables

BY: Final = {
    "api": "api",
    "client": "client",
    "broker": "broker",
    "software": "software",
    "minute": "date_trunc('minute', ts)",
}

_PERCENTILES: Final = """
    SELECT {names}, exchanges, p[0] AS p50_us, p[1] AS p90_us, p[2] AS p99_us, p[3] AS p999_us, max_us
    FROM (
        SELECT
            {expressions}, count(*) AS exchanges, max(latency_us) AS max_us,
            percentile(latency_us, array(0.5, 0.9, 0.99, 0.999)) AS p
        FROM {{measured}} WHERE latency_us IS NOT NULL GROUP BY {names}
    )
    ORDER BY {order}
"""


def percentiles(spark: SparkSession, tables: Tables, by: Sequence[str] = ("api",)) -> DataFrame:
    """A row for each combination of the columns in `by` (keys of `BY`): number of exchanges, p50_us to p999_us, max_us.

    A latency is the time from the request's last byte to the response's, as in `kproxy stats`; unanswered requests have
    none. Sorted by time if `by` names minutes, otherwise by the number of exchanges, descending. Raises KeyError for an
    unknown name.
    """
    query = _PERCENTILES.format(
        names=", ".join(by),
        expressions=", ".join(f"{BY[name]} AS {name}" for name in by),
        order=", ".join((*(name for name in by if name == "minute"), "exchanges DESC", *by)),
    )
    return spark.sql(query, measured=measured(spark, tables))
