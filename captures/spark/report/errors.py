"""Analyses errors in responses, and requests that were never answered."""

from __future__ import annotations

from functools import cache
from typing import Final

from kproxy.captures.spark.report.measured import MEASURED
from kproxy.decoders.schema import definitions, irregular
from kproxy.decoders.schema.errors import all_errors, name

_UNFINISHED: Final = f"""
    WITH {MEASURED}
    SELECT status, reason, api, client, broker, count(*) AS exchanges, min(ts) AS first, max(ts) AS last
    FROM measured WHERE status NOT IN ('ok', 'no_reply_expected')
    GROUP BY ALL
    ORDER BY exchanges DESC, status, reason, api, client, broker
"""


@cache
def errors() -> str:
    """A row for each error, API, client and broker: number of exchanges with the error, and of partitions in them."""
    names = ", ".join(f"({code}, '{name(code)}')" for code in all_errors())
    meant = ", ".join(
        f"({key}, {version}, {code}, '{meaning}')"
        for key, version in definitions().pairs()
        for code in all_errors()
        if (meaning := irregular.error_meaning(key, version, code)) is not None
    )
    return f"""
        WITH {MEASURED},
        names AS (SELECT * FROM (VALUES {names}) AS n(code, error)),
        meant AS (SELECT * FROM (VALUES {meant}) AS m(api_key, api_version, code, error)),
        counted AS (SELECT *, explode(map_keys(error_counts)) AS code FROM measured)
        SELECT
            coalesce(m.error, n.error, 'UNKNOWN(' || e.code || ')') AS error, e.code, api, client, broker,
            count(*) AS exchanges, sum(error_counts[e.code]) AS partitions, min(ts) AS first, max(ts) AS last
        FROM counted AS e
        LEFT JOIN names AS n ON n.code = e.code
        LEFT JOIN meant AS m ON m.code = e.code AND m.api_key = e.api_key AND m.api_version = e.api_version
        GROUP BY ALL
        ORDER BY exchanges DESC, error, e.code, api, client, broker
    """


def unfinished() -> str:
    """A row for each status, reason, API, client and broker of incomplete, unanswered or unreadable exchanges."""
    return _UNFINISHED
