"""Aggregates over time that can be merged: aggregates by minute, client and API give those of any longer time.

Only Spark makes them. Latencies are kept as KLL sketches: two sketches merge into that of both inputs; percentiles
cannot be merged. A quantile of a sketch is a value whose rank differs from the wanted rank by at most about 1.3 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from kproxy.captures.spark.report.by_spark import Tables
from kproxy.captures.spark.report.measured import MEASURED, interval

MINUTE: Final = 60

_MERGED: Final = """
    SELECT {names}, exchanges, errors, request_bytes, response_bytes, throttle_ms, p[0] AS p50_us, p[1] AS p99_us
    FROM (
        SELECT
            *, if(kll_sketch_get_n_bigint(latency_kll) = 0, NULL,
                kll_sketch_get_quantile_bigint(latency_kll, array(0.5D, 0.99D))) AS p
        FROM (
            SELECT
                {names}, sum(exchanges) AS exchanges, sum(errors) AS errors,
                sum(request_bytes) AS request_bytes, sum(response_bytes) AS response_bytes,
                sum(throttle_ms) AS throttle_ms, kll_merge_agg_bigint(latency_kll) AS latency_kll
            FROM {{rollup}} GROUP BY {names}
        )
    )
    ORDER BY {names}
"""


def rollup(tables: Tables, seconds: int = MINUTE) -> DataFrame:
    """A row for each interval of `seconds`, API, client and broker; `time` is the interval's beginning.

    `latency_kll` is a KLL sketch (BINARY) of latencies in microseconds.
    """
    return tables.frame(f"""
        WITH {MEASURED}
        SELECT
            {interval("ts", seconds)} AS time, api, client, broker,
            count(*) AS exchanges,
            count_if(cardinality(error_counts) > 0) AS errors,
            sum(asked_bytes) AS request_bytes, sum(answered_bytes) AS response_bytes,
            sum(throttle_time_ms) AS throttle_ms,
            kll_sketch_agg_bigint(latency_us) AS latency_kll
        FROM measured GROUP BY ALL
    """)


def merged(kept: DataFrame, by: Sequence[str] = ("time",)) -> DataFrame:
    """Rows of `rollup`, summed to one row for each combination of the columns in `by`, with p50_us and p99_us.

    `by` has some of time, api, client and broker. Needs Spark 4.1.2.
    """
    return kept.sparkSession.sql(_MERGED.format(names=", ".join(by)), rollup=kept)
