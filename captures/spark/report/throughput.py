"""Analyses the traffic into and out of topics."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import MEASURED, interval

_WITH: Final = f"""
    {MEASURED},
    moved AS (
        SELECT
            coalesce(topic, topic_uuid) AS topic, t.ts, client,
            if(t.api_key = 0, 'in', if(by_broker, 'replicated', 'out')) AS way,
            bytes, if(records = 0 AND batches > 0, NULL, records) AS records, batches
        FROM {{exchange_topics}} AS t JOIN measured AS e USING (source_id, exchange_id)
        WHERE t.api_key IN (0, 1, 78) AND bytes > 0 AND coalesce(t.error_code, 0) = 0
    )
"""
_BY_TOPIC: Final = f"""
    WITH {_WITH}
    SELECT
        topic,
        coalesce(sum(bytes) FILTER (WHERE way = 'in'), 0) AS in_bytes,
        sum(records) FILTER (WHERE way = 'in') AS in_records,
        count(DISTINCT client) FILTER (WHERE way = 'in') AS producers,
        coalesce(sum(bytes) FILTER (WHERE way = 'out'), 0) AS out_bytes,
        sum(records) FILTER (WHERE way = 'out') AS out_records,
        count(DISTINCT client) FILTER (WHERE way = 'out') AS consumers,
        coalesce(sum(bytes) FILTER (WHERE way = 'replicated'), 0) AS replicated_bytes
    FROM moved GROUP BY topic
    ORDER BY in_bytes + out_bytes + replicated_bytes DESC, topic
"""


def moved() -> str:
    """A row for each partition of a Produce or Fetch that carried records without an error: topic, way, bytes, records.

    `way` is "in" (produced), "out" (fetched) or "replicated" (fetched with a client id that brokers use to replicate).
    Records are counted from batch headers; they are null for compressed message sets (magic 0 and 1).
    """
    return f"WITH {_WITH} SELECT * FROM moved ORDER BY ts, topic, way, client"


def by_topic() -> str:
    """A row for each topic: bytes, records and clients that produced, fetched and replicated."""
    return _BY_TOPIC


def over_time(seconds: int = 60) -> str:
    """A row for each interval of `seconds`, topic and way (see `moved`): bytes and records; `time` is its beginning."""
    return f"""
        WITH {_WITH}
        SELECT {interval("ts", seconds)} AS time, topic, way, sum(bytes) AS bytes, sum(records) AS records
        FROM moved GROUP BY ALL ORDER BY time, topic, way
    """
