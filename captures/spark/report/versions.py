"""Which versions clients speak, and which of them Kafka 4 refuses."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kproxy.captures.spark.report.measured import measured
from kproxy.captures.spark.report.tables import Tables
from kproxy.decoders.schema import store
from kproxy.decoders.schema.apis import all_apis

UPGRADE: Final = "4."
"""The releases to which an upgrade is judged."""

_VERSIONS: Final = """
    SELECT
        coalesce(software, '(not told)') AS software, api_name AS api, api_version AS version,
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
    """The lowest version of each API key that the newest 4.x we hold serves; None where the API is gone."""
    release = next(one for one in store.releases() if one.startswith(UPGRADE))
    return {key: api.spoken[release].low if release in api.spoken else None for key, api in all_apis(release).items()}


def versions(spark: SparkSession, tables: Tables) -> DataFrame:
    """A row for each software, API and version: who speaks it, and `refused`: why Kafka 4 does not, else null.

    It is "gone" (the whole API) or "below N". Clients tell their software in ApiVersions since Kafka 2.4. What brokers
    say to each other is marked `between_brokers`: an upgrade replaces both ends. What is refused comes first.
    Source: KIP-896, by the message definitions of the newest 4.x release that we hold.
    """
    apis = all_apis()
    known = [(key, lowest, apis[key].klass == "control") for key, lowest in lowest_versions().items()]
    return spark.sql(
        _VERSIONS,
        measured=measured(spark, tables),
        known=spark.createDataFrame(known, "api_key int, lowest int, between_brokers boolean"),
    )
