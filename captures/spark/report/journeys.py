"""Follows records from producer to consumer: at which offset and when they were produced, who fetched them and when."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.spark.report.measured import measured
from kproxy.captures.spark.report.tables import Tables

# A batch is stored as it was produced, but a message set message by message: what is fetched begins within what was
# produced last before it in the order of offsets. So offsets are met by sorting, not by comparing each with each.
_JOURNEYS: Final = """
    WITH produced AS (
        SELECT
            topic, partition, t.base_offset AS offset, 0 AS step, e.req_ts_ns AS at_ns, client,
            e.rsp_last_ts_ns AS acked_ns, greatest(t.records, 1) AS records
        FROM {exchange_topics} AS t JOIN {measured} AS e USING (capture_id, exchange_id)
        WHERE t.api_key = 0 AND t.error_code = 0 AND t.base_offset >= 0 AND bytes > 0 AND e.status = 'ok'
    ),
    fetched AS (
        SELECT
            topic, partition, b.base_offset AS offset, 1 AS step, e.rsp_last_ts_ns AS at_ns, client,
            CAST(NULL AS BIGINT) AS acked_ns, CAST(NULL AS BIGINT) AS records, by_broker
        FROM {record_batches} AS b JOIN {measured} AS e USING (capture_id, exchange_id)
        WHERE e.api_key IN (1, 78) AND NOT coalesce(b.control, false)
    ),
    met AS (
        SELECT
            *, last(if(step = 0, struct(offset AS base, at_ns, acked_ns, client, records), NULL), true) OVER (
                PARTITION BY topic, partition ORDER BY offset, step ROWS UNBOUNDED PRECEDING
            ) AS p
        FROM (SELECT *, false AS by_broker FROM produced UNION ALL SELECT * FROM fetched)
    ),
    arrivals AS (
        SELECT
            topic, partition, p.base AS offset, client, by_broker, min(at_ns) AS fetched_ns, count(*) AS fetches
        FROM met WHERE step = 1 AND offset < p.base + p.records AND at_ns >= p.at_ns GROUP BY ALL
    )
    SELECT
        topic, partition, offset, p.records, p.client AS producer,
        timestamp_micros(p.at_ns DIV 1000) AS produced, (p.acked_ns - p.at_ns) DIV 1000 AS acked_us,
        a.client AS consumer, a.by_broker, timestamp_micros(fetched_ns DIV 1000) AS fetched,
        (fetched_ns - p.at_ns) DIV 1000 AS delay_us, coalesce(fetches, 0) AS fetches
    FROM produced AS p LEFT JOIN arrivals AS a USING (topic, partition, offset)
"""
_SUMMARY: Final = """
    SELECT
        topic, producer, consumer, by_broker, batches, records, p[0] AS p50_us, p[1] AS p99_us, max_us, again
    FROM (
        SELECT
            topic, producer, consumer, by_broker, count(*) AS batches, sum(records) AS records,
            percentile(delay_us, array(0.5, 0.99)) AS p, max(delay_us) AS max_us, count_if(fetches > 1) AS again
        FROM {journeys} GROUP BY ALL
    )
    ORDER BY topic, producer, by_broker, consumer
"""


def journeys(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each partition of a Produce that was stored, and each client that fetched it; without a client if
    nobody did.

    `offset` is the first offset that the broker assigned, `records` the number of records. `delay_us` is the time from
    the Produce's first byte to the last byte of the first Fetch response that brought the records to this client;
    `fetches` counts such responses. Captures of producer and consumer are needed; they may be different ones. Requests
    with acks=0 have no offset, and compressed message sets (magic 0 and 1) no count of records: these are not matched.
    """
    return spark.sql(
        _JOURNEYS,
        exchange_topics=tables["exchange_topics"],
        record_batches=tables["record_batches"],
        measured=measured(spark, tables),
    )


def delays(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each topic, producer and client that fetched: number of batches, delays, number of repeated fetches.

    A null consumer means that the captures show nobody who fetched the batches.
    """
    return spark.sql(_SUMMARY, journeys=journeys(spark, tables))
