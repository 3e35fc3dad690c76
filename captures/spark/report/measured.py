"""Adds to exchanges the columns by which analyses group them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.spark.report.tables import Tables

NAMES: Final = ("api", "client", "broker", "software")

_WITH_NAMES: Final = r"""
    SELECT
        e.*,
        coalesce(api_name, 'Key ' || api_key, '(unmatched)')
            || if(api_key IN (1, 78) AND coalesce(carried, 0) = 0 AND error_code = 0, ' (no records)', '')
            AS api,
        coalesce(nullif(client_id, ''), client_ip) AS client,
        if(broker_ip LIKE '%:%', '[' || broker_ip || ']', broker_ip) || ':' || broker_port AS broker,
        client_software AS software,
        client_id RLIKE '^(broker-[0-9]+-(fetcher|txn)|ReplicaFetcherThread)-' AS by_broker
    FROM {exchanges} AS e
    LEFT JOIN (
        SELECT capture_id, exchange_id, sum(bytes) AS carried
        FROM {exchange_topics} WHERE api_key IN (1, 78) GROUP BY ALL
    ) USING (capture_id, exchange_id)
    WHERE protocol IS NULL AND status <> 'tls'
"""


def measured(spark: SparkSession, tables: Tables) -> DataFrame:
    """Kafka's exchanges, without TLS and dialects, with five further columns.

    `api` is the API's name; a Fetch whose response has no records is marked "(no records)", because the broker waited
    for records. `client` is the client id, or the client's address if there is none; `broker` is the broker's address,
    `software` the client's software. `by_broker` is true if brokers use this client id, mostly to replicate.
    """
    names = ("exchanges", "exchange_topics")
    return spark.sql(_WITH_NAMES, args=None, **{name: tables[name] for name in names})
