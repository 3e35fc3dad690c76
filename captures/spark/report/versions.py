"""Analyses which API versions clients use, and which of them Kafka 4 refuses."""

from __future__ import annotations

from functools import cache
from typing import Final

from kproxy.captures.spark.report.measured import MEASURED
from kproxy.decoders.schema import store
from kproxy.decoders.schema.apis import all_apis

UPGRADE: Final = "4."
"""First characters of the release numbers that count as Kafka 4."""


def lowest_versions() -> dict[int, int | None]:
    """By API key, the lowest version that the newest known 4.x release serves; None if the API was removed."""
    release = next(one for one in store.releases() if one.startswith(UPGRADE))
    return {key: api.spoken[release].low if release in api.spoken else None for key, api in all_apis(release).items()}


@cache
def versions() -> str:
    """A row for each software, API and version, with its clients; `refused` says why Kafka 4 refuses it, null if it
    does not.

    `refused` is "gone" (the whole API) or "below N". Clients send their software in ApiVersions since Kafka 2.4.
    Traffic between brokers is marked `between_brokers`: an upgrade replaces both ends. Refused versions come first.
    Source: KIP-896, from the message definitions of the newest known 4.x release.
    """
    apis = all_apis()
    known = ", ".join(
        f"({key}, {'NULL' if lowest is None else lowest}, {str(apis[key].klass == 'control').lower()})"
        for key, lowest in lowest_versions().items()
    )
    return f"""
        WITH {MEASURED},
        known AS (SELECT * FROM (VALUES {known}) AS k(api_key, lowest, between_brokers)),
        used AS (
        SELECT
            coalesce(software, '(unknown)') AS software, api_name AS api, api_version AS version,
            CASE
                WHEN k.api_key IS NULL THEN NULL
                WHEN lowest IS NULL THEN 'gone'
                WHEN api_version < lowest THEN 'below ' || lowest
            END AS refused,
            coalesce(between_brokers, false) OR coalesce(by_broker, false) AS between_brokers,
            sort_array(collect_set(client)) AS clients, sort_array(collect_set(client_ip)) AS addresses,
            count(*) AS exchanges, max(ts) AS last
        FROM measured AS m LEFT JOIN known AS k ON k.api_key = m.api_key
        WHERE api_name IS NOT NULL AND api_version IS NOT NULL
        GROUP BY ALL
        )
        SELECT * FROM used ORDER BY refused IS NULL, between_brokers, software, api, version, refused
    """
