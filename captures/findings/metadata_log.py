"""Reads records of the metadata log (KRaft) from Fetch responses to brokers and controllers, each record once.

All followers fetch the same records, so repeated ones are skipped. The number of old records is limited, because a
broker that starts may fetch the history of years.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kproxy.decoders.batches.batch import Batch, parse
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.batches.record import Record, RecordsError
from kproxy.decoders.records import internal

TOPIC: Final = "__cluster_metadata"
OLD_MS: Final = 60_000
"""A batch counts as old if its newest timestamp differs by more than this from the time of the Fetch response; ms."""
PAST: Final = 20_000
"""Maximum number of old records that are read (see OLD_MS)."""
AT_ONCE: Final = 10_000
"""Maximum number of records of one batch that are read."""
LARGEST: Final = 16 << 20
"""Maximum decompressed size in bytes of a batch that is read."""
CLUSTERS: Final = 100


class Written(NamedTuple):
    """A record of the metadata log: its name in Kafka's definitions, its fields, and whether it is old (see OLD_MS)."""

    name: str
    values: Mapping[str, Any]
    past: bool


class MetadataLog:
    """Remembers, for each cluster, up to which batch the metadata log was read."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, int]] = {}
        """Maps each cluster to (leader epoch, base offset) of the newest batch that was read.

        The epoch comes first, because a new leader may write other records at the offsets of uncommitted ones.
        """
        self._past = 0

    def read(self, cluster: str, records: Any, time: int) -> Iterator[Written]:
        """Yields the records in a response at `time` (ns) that no earlier response had; never raises on bad bytes."""
        for batch in parse(records, check=False).batches:
            header = batch.header
            place = header.get("partitionLeaderEpoch", -1), header.get("baseOffset", -1)
            if header["magic"] != 2 or header["isControl"] or place <= self._read.get(cluster, (-1, -1)):
                continue
            self._read.pop(cluster, None)
            self._read[cluster] = place
            if len(self._read) > CLUSTERS:
                del self._read[next(iter(self._read))]
            past = abs(time // 1_000_000 - header["maxTimestamp"]) > OLD_MS
            if past:
                self._past += max(0, header["recordCount"])
                if self._past > PAST:
                    continue
            yield from _written(records, batch, past)


def _written(records: Any, batch: Batch, past: bool) -> Iterator[Written]:
    for record in open_batch(records, batch, limit=LARGEST, most=AT_ONCE).records:
        found = _decoded(record)
        if found is not None:
            yield Written(*found, past)


def _decoded(record: Record) -> tuple[str, Mapping[str, Any]] | None:
    value = record[3]
    if value is None:
        return None
    try:
        body = internal.value_body(TOPIC, None, value)
        if body is None:
            return None
        return body.message.name, internal.read(body, value, "value")[0]
    except RecordsError:
        return None
