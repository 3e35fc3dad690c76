"""Adds columns to exchanges by which analyses group them."""

from __future__ import annotations

from typing import Final

NAMES: Final = ("api", "client", "broker", "software")

MEASURED: Final = r"""
    measured AS (
        SELECT
            e.*,
            coalesce(api_name, 'Key ' || api_key, '(unmatched)')
                || if(api_key IN (1, 78) AND coalesce(carried, 0) = 0 AND error_code = 0, ' (no records)', '')
                AS api,
            coalesce(nullif(client_id, ''), client_ip) AS client,
            if(broker_ip LIKE '%:%', '[' || broker_ip || ']', broker_ip) || ':' || broker_port AS broker,
            client_software AS software,
            coalesce(request_captured, request_bytes) AS asked_bytes,
            coalesce(response_captured, response_bytes) AS answered_bytes,
            regexp_like(client_id, '^(broker-[0-9]+-(fetcher|txn)|ReplicaFetcherThread)-') AS by_broker
        FROM {exchanges} AS e
        LEFT JOIN (
            SELECT source_id, exchange_id, sum(bytes) AS carried
            FROM {exchange_topics} WHERE api_key IN (1, 78) GROUP BY ALL
        ) AS t USING (source_id, exchange_id)
        WHERE protocol IS NULL AND status <> 'tls'
    )
"""
"""A common table expression: Kafka's exchanges, without TLS and dialects, with seven further columns.

`api` is the API's name; a Fetch whose response has no records is marked "(no records)", because the broker waited for
records. `client` is the client id, or the client's address if there is none; `broker` is the broker's address,
`software` the client's software. `asked_bytes` and `answered_bytes` are the sizes of request and response as captured,
or as declared in tables of earlier versions. `by_broker` is true if brokers use this client id, mostly to replicate.
"""


def percentile(column: str, rank: float) -> str:
    """An expression for the percentile at `rank` of a column of whole numbers, interpolated linearly.

    Ranks have three decimals at most, and so have the percentiles: rounding removes what floating point adds.
    """
    return f"round(percentile_cont({rank}) WITHIN GROUP (ORDER BY {column}), 3)"


def since(later: str, earlier: str) -> str:
    """An expression for the microseconds between two columns of times."""
    return f"unix_micros({later}) - unix_micros({earlier})"


def interval(time: str, seconds: int) -> str:
    """An expression for the beginning of the interval of `seconds` that holds a time."""
    return f"timestamp_seconds(unix_seconds({time}) - unix_seconds({time}) % {seconds:d})"
