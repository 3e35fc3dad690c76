"""Analyses which API versions clients use, and which of them Kafka 4 refuses."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.spark.report.measured import measured
from kproxy.captures.spark.report.tables import Tables
from kproxy.decoders.schema import store
from kproxy.decoders.schema.apis import all_apis

UPGRADE: Final = "4."
"""First characters of the release numbers that count as Kafka 4."""

_VERSIONS: Final = """
    SELECT
        coalesce(software, '(unknown)') AS software, api_name AS api, api_version AS version,
        CASE
            WHEN known.api_key IS NULL THEN NULL
            WHEN lowest IS NULL THEN 'gone'
            WHEN api_version < lowest THEN 'below ' || lowest
        END AS refused,
        coalesce(between_brokers, false) OR coalesce(by_broker, false) AS between_brokers,
        sort_array(collect_set(client)) AS clients, sort_array(collect_set(client_ip)) AS addresses,
        count(*) AS exchanges, max(ts) AS last
    FROM {measured} AS m LEFT JOIN {known} AS known USING (api_key)
    WHERE api_name IS NOT NULL AND api_version IS NOT NULL
    GROUP BY ALL
    ORDER BY refused IS NULL, between_brokers, software, api, version
"""


def lowest_versions() -> dict[int, int | None]:
    """By API key, the lowest version that the newest known 4.x release serves; None if the API was removed."""
    release = next(one for one in store.releases() if one.startswith(UPGRADE))
    return {key: api.spoken[release].low if release in api.spoken else None for key, api in all_apis(release).items()}


def versions(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each software, API and version, with its clients; `refused` says why Kafka 4 refuses it, null if it
    does not.

    `refused` is "gone" (the whole API) or "below N". Clients send their software in ApiVersions since Kafka 2.4.
    Traffic between brokers is marked `between_brokers`: an upgrade replaces both ends. Refused versions come first.
    Source: KIP-896, from the message definitions of the newest known 4.x release.
    """
    apis = all_apis()
    known = [(key, lowest, apis[key].klass == "control") for key, lowest in lowest_versions().items()]
    return spark.sql(
        _VERSIONS,
        measured=measured(spark, tables),
        known=spark.createDataFrame(known, "api_key int, lowest int, between_brokers boolean"),
    )
