"""Analyses the size of producers' batches, and the compression ratio."""

from __future__ import annotations

from typing import Final

from kproxy.captures.spark.report.measured import MEASURED, percentile

_SIZES: Final = f"""
    WITH {MEASURED}
    SELECT
        topic, client, codec, count(*) AS batches, sum(records) AS records, sum(batch_bytes) AS bytes,
        {percentile("batch_bytes", 0.5)} AS p50_bytes, max(batch_bytes) AS max_bytes,
        {percentile("records", 0.5)} AS p50_records,
        sum(batch_bytes) FILTER (WHERE records > 0) / sum(records) AS bytes_per_record
    FROM {{record_batches}} AS b JOIN measured AS e USING (source_id, exchange_id)
    WHERE e.api_key = 0
    GROUP BY ALL
    ORDER BY batches DESC, topic, client, codec
"""
_COMPRESSION: Final = """
    WITH measured_batches AS (
        SELECT topic, codec, 1 AS batches, records, batch_bytes, key_bytes + value_bytes + header_bytes AS payload_bytes
        FROM {record_batches} WHERE key_bytes IS NOT NULL AND NOT coalesce(control, false)
    ),
    stored AS (
        SELECT
            source_id, exchange_id, topic, partition, count(*) AS batches, sum(batch_bytes) AS batch_bytes,
            if(count(DISTINCT codec) = 1, max(codec), 'mixed') AS codec
        FROM {record_batches} GROUP BY ALL HAVING NOT coalesce(bool_or(control), false) AND count(key_bytes) = 0
    ),
    payloads AS (
        SELECT
            source_id, exchange_id, topic, partition, count(*) AS records,
            sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)) AS bytes
        FROM {records} GROUP BY ALL HAVING NOT coalesce(bool_or(withheld), false)
    ),
    header_bytes AS (
        SELECT
            source_id, exchange_id, topic, partition,
            sum(bit_length(h.key)) / 8 + coalesce(sum(octet_length(h.value)), 0) AS bytes
        FROM (SELECT source_id, exchange_id, topic, partition, explode(headers) AS h FROM {records}) AS r
        GROUP BY ALL
    ),
    found AS (
        SELECT topic, codec, batches, records, batch_bytes, payload_bytes FROM measured_batches
        UNION ALL
        SELECT
            topic, codec, batches, records, batch_bytes,
            CAST(p.bytes + coalesce(h.bytes, 0) AS BIGINT) AS payload_bytes
        FROM stored AS s
        JOIN payloads AS p USING (source_id, exchange_id, topic, partition)
        LEFT JOIN header_bytes AS h USING (source_id, exchange_id, topic, partition)
    )
    SELECT
        topic, codec, sum(batches) AS batches, sum(records) AS records, sum(batch_bytes) AS batch_bytes,
        CAST(sum(payload_bytes) AS BIGINT) AS payload_bytes, sum(payload_bytes) / sum(batch_bytes) AS ratio
    FROM found
    GROUP BY topic, codec
    ORDER BY batch_bytes DESC, topic, codec
"""


def sizes() -> str:
    """A row for each topic, client and codec of produced batches: number of batches, their sizes and records.

    Records of compressed message sets (magic 0 and 1) are counted only in tables made with `--record-sizes`.
    """
    return _SIZES


def compression() -> str:
    """A row for each topic and codec; `ratio` is bytes of keys, values and headers for each byte of the batches with
    them.

    The bytes of batch headers count as well, so without compression the ratio is below 1. The payload is that of the
    columns `key_bytes`, `value_bytes` and `header_bytes`, which only `--record-sizes` fills; control batches and those
    that could not be read are left out. Where these columns are null for all batches of a partition in an exchange, the
    payload is that of the table `records`, which is written only on demand: then a partition with several codecs has
    the codec "mixed", and partitions with control batches or withheld records are left out. With neither, there are no
    rows.
    """
    return _COMPRESSION
