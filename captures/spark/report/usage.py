"""Analyses which clients use which topic."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import MEASURED

_USERS: Final = f"""
    WITH {MEASURED},
    users AS (
    SELECT
        coalesce(topic, topic_uuid) AS topic,
        CASE
            WHEN t.api_key = 0 THEN 'produces'
            WHEN t.api_key IN (1, 78) AND by_broker THEN 'replicates'
            WHEN t.api_key IN (1, 78) THEN 'fetches'
            WHEN t.api_key IN (8, 28) THEN 'commits'
            ELSE 'asks'
        END AS use,
        client,
        sort_array(collect_set(t.client_ip)) AS addresses, sort_array(collect_set(software)) AS software,
        sort_array(collect_set(t.api_name)) AS apis, sort_array(collect_set(group_id)) AS groups,
        count(DISTINCT (source_id, exchange_id)) AS exchanges, coalesce(sum(bytes), 0) AS bytes,
        sum(if(records = 0 AND batches > 0, NULL, records)) AS records, count_if(t.error_code <> 0) AS errors,
        min(e.ts) AS first, max(e.ts) AS last
    FROM {{exchange_topics}} AS t
    JOIN measured AS e USING (source_id, exchange_id)
    GROUP BY ALL
    )
    SELECT * FROM users ORDER BY use = 'asks', topic, use, exchanges DESC, client
"""


def users() -> str:
    """A row for each topic, client and use.

    `use` is "produces", "fetches", "commits" (OffsetCommit, TxnOffsetCommit), "replicates" (a broker, known by its
    client id) or "asks": Metadata, ListOffsets and other requests that name the topic; these rows come last. `errors`
    counts refused partitions.
    """
    return _USERS
