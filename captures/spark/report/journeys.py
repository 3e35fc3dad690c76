"""Follows records from producer to consumer: the offset and time at which they were produced, and each fetch."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import MEASURED, percentile, since

# A broker stores batches unchanged, but message sets message by message, so a fetched part may begin within a produced
# one. In the order of offsets it belongs to the last produced part before it. So the query sorts by offset, which is
# cheaper than a join of all pairs.
_WITH: Final = f"""
    {MEASURED},
    produced AS (
        SELECT
            topic, partition, t.base_offset AS start, 0 AS step, e.req_ts AS seen, client, e.rsp_last_ts AS acked,
            greatest(t.records, 1) AS records
        FROM {{exchange_topics}} AS t JOIN measured AS e USING (source_id, exchange_id)
        WHERE t.api_key = 0 AND t.error_code = 0 AND t.base_offset >= 0 AND bytes > 0 AND e.status = 'ok'
    ),
    fetched AS (
        SELECT topic, partition, b.base_offset AS start, 1 AS step, e.rsp_last_ts AS seen, client, by_broker
        FROM {{record_batches}} AS b JOIN measured AS e USING (source_id, exchange_id)
        WHERE e.api_key IN (1, 78) AND NOT coalesce(b.control, false)
    ),
    met AS (
        SELECT
            *, max(if(step = 0, start, NULL)) OVER (
                PARTITION BY topic, partition ORDER BY start, step ROWS UNBOUNDED PRECEDING
            ) AS base
        FROM (
            SELECT topic, partition, start, step, seen, client, false AS by_broker FROM produced
            UNION ALL SELECT topic, partition, start, step, seen, client, by_broker FROM fetched
        ) AS steps
    ),
    stored AS (
        SELECT topic, partition, start, min(seen) AS seen, max(records) AS records FROM produced GROUP BY ALL
    ),
    arrivals AS (
        SELECT
            m.topic, m.partition, s.start, m.client, m.by_broker, min(m.seen) AS fetched, count(*) AS fetches
        FROM met AS m
        JOIN stored AS s ON s.topic = m.topic AND s.partition = m.partition AND s.start = m.base
        WHERE m.step = 1 AND m.start < s.start + s.records AND m.seen >= s.seen
        GROUP BY ALL
    ),
    journeys AS (
        SELECT
            p.topic, p.partition, p.start, p.records, p.client AS producer, p.seen AS produced,
            {since("p.acked", "p.seen")} AS acked_us, a.client AS consumer, a.by_broker, a.fetched,
            {since("a.fetched", "p.seen")} AS delay_us, coalesce(a.fetches, 0) AS fetches
        FROM produced AS p
        LEFT JOIN arrivals AS a
            ON a.topic = p.topic AND a.partition = p.partition AND a.start = p.start AND a.fetched >= p.seen
    )
"""
_JOURNEYS: Final = f"""
    WITH {_WITH}
    SELECT
        topic, partition, start AS offset, records, producer, produced, acked_us, consumer, by_broker, fetched,
        delay_us, fetches
    FROM journeys ORDER BY topic, partition, start, produced, producer, consumer
"""
_SUMMARY: Final = f"""
    WITH {_WITH}
    SELECT
        topic, producer, consumer, by_broker, count(*) AS batches, sum(records) AS records,
        {percentile("delay_us", 0.5)} AS p50_us, {percentile("delay_us", 0.99)} AS p99_us, max(delay_us) AS max_us,
        count_if(fetches > 1) AS again
    FROM journeys GROUP BY ALL
    ORDER BY topic, producer, by_broker, consumer
"""


def journeys() -> str:
    """A row for each partition of a Produce that was stored, and each client that fetched it; without a client if
    nobody did.

    `offset` is the first offset that the broker assigned, `records` the number of records. `delay_us` is the time from
    the Produce's first byte to the last byte of the first Fetch response that brought the records to this client;
    `fetches` counts such responses. Captures of producer and consumer are needed; they may be different ones. Requests
    with acks=0 have no offset, and compressed message sets (magic 0 and 1) no count of records: these are not matched.
    """
    return _JOURNEYS


def delays() -> str:
    """A row for each topic, producer and client that fetched: number of batches, delays, number of repeated fetches.

    A null consumer means that the captures show nobody who fetched the batches.
    """
    return _SUMMARY
