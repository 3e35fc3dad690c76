"""Analyses groups over time: each generation, its members, and the duration of its rebalance."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import since

_TIMELINE: Final = f"""
    WITH events AS (
        SELECT g.*, coalesce(e.rsp_last_ts, e.ts) AS answered
        FROM {{group_events}} AS g JOIN {{exchanges}} AS e USING (source_id, exchange_id)
    ),
    steps AS (
        SELECT
            group_id, generation, member_id, assignor, event,
            if(event = 'join', ts, NULL) AS joined,
            if(event <> 'join', min(answered) OVER (PARTITION BY group_id, generation, member_id, event), NULL)
                AS ready
        FROM events
        WHERE event IN ('join', 'sync', 'consumer_heartbeat', 'share_heartbeat', 'streams_heartbeat')
            AND generation > 0 AND error_code = 0
    ),
    generations AS (
        SELECT
            group_id, generation, min(coalesce(joined, ready)) AS began, max(ready) AS stable,
            sort_array(collect_set(member_id)) AS members, max(assignor) AS assignor,
            if(bool_or(event IN ('join', 'sync')), 'classic', max(replace(event, '_heartbeat', ''))) AS protocol
        FROM steps GROUP BY group_id, generation
    ),
    following AS (
        SELECT *, lead(began) OVER (PARTITION BY group_id ORDER BY began, generation) AS next FROM generations
    ),
    left_by AS (
        SELECT
            f.group_id, f.generation,
            count_if(event = 'leave' OR (event LIKE '%heartbeat' AND v.generation < 0)) AS leaves,
            count_if(v.error_code = 27) AS told_to_rejoin,
            count_if(coalesce(v.error_code, 0) NOT IN (0, 27)) AS errors
        FROM following AS f JOIN events AS v
            ON v.group_id = f.group_id AND v.ts >= f.began AND (f.next IS NULL OR v.ts < f.next)
        GROUP BY f.group_id, f.generation
    )
    SELECT
        f.group_id, f.generation, protocol, assignor, size(members) AS members, members AS member_ids, began, stable,
        {since("stable", "began")} AS took_us, {since("next", "began")} AS lasted_us,
        coalesce(leaves, 0) AS leaves, coalesce(told_to_rejoin, 0) AS told_to_rejoin, coalesce(errors, 0) AS errors
    FROM following AS f LEFT JOIN left_by AS l ON l.group_id = f.group_id AND l.generation = f.generation
    ORDER BY f.group_id, began, f.generation
"""


def timeline() -> str:
    """A row for each generation of a group; for groups that the coordinator balances (KIP-848), for each member epoch.

    A generation begins with the first JoinGroup that led to it, or when the first member learns of it. It is stable
    once every member seen in it has its assignment; `took_us` is the time until then. `lasted_us` is the time until the
    next generation begins. The row counts events until that: members that left, responses with REBALANCE_IN_PROGRESS,
    and other errors.
    """
    return _TIMELINE
