"""Analyses errors in responses, and requests that were never answered."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.spark.report.measured import measured
from kproxy.captures.spark.report.tables import Tables
from kproxy.decoders.schema import definitions, irregular
from kproxy.decoders.schema.errors import all_errors, name

_ERRORS: Final = """
    SELECT
        coalesce(m.error, n.error, 'UNKNOWN(' || e.code || ')') AS error, e.code, api, client, broker,
        count(*) AS exchanges, sum(partitions) AS partitions, min(ts) AS first, max(ts) AS last
    FROM (SELECT *, explode(error_counts) AS (code, partitions) FROM {measured}) AS e
    LEFT JOIN {names} AS n ON n.code = e.code
    LEFT JOIN {meant} AS m ON m.code = e.code AND m.api_key = e.api_key AND m.api_version = e.api_version
    GROUP BY ALL
    ORDER BY exchanges DESC, error, api, client, broker
"""
_UNFINISHED: Final = """
    SELECT status, reason, api, client, broker, count(*) AS exchanges, min(ts) AS first, max(ts) AS last
    FROM {measured} WHERE status NOT IN ('ok', 'no_reply_expected')
    GROUP BY ALL
    ORDER BY exchanges DESC, status, api, client, broker
"""


def errors(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each error, API, client and broker: number of exchanges with the error, and of partitions in them."""
    known = [(code, name(code)) for code in all_errors()]
    meant = [
        (key, version, code, meaning)
        for key, version in definitions().pairs()
        for code in all_errors()
        if (meaning := irregular.error_meaning(key, version, code)) is not None
    ]
    return spark.sql(
        _ERRORS,
        measured=measured(spark, tables),
        names=spark.createDataFrame(known, "code int, error string"),
        meant=spark.createDataFrame(meant, "api_key int, api_version int, code int, error string"),
    )


def unfinished(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each status, reason, API, client and broker of incomplete, unanswered or unreadable exchanges."""
    return spark.sql(_UNFINISHED, measured=measured(spark, tables))
