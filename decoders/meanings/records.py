"""Meanings of the fields in headers of record batches, under the names of `decoders.records`, and of codec numbers."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.common import COMPRESSION
from kproxy.decoders.meanings.row import Row

BATCH: Final = "batch"
"""The type of a batch's node in a tree; no message definition describes the header of a batch."""

_CODEC: Final = 7
_FLAGS: Final = ((8, "times set by the broker"), (16, "transactional"), (32, "control"), (64, "with a delete horizon"))


def attributes(bits: int) -> str:
    """A batch's attributes in words: the codec in bits 0 to 2, then one flag per bit."""
    codec = COMPRESSION.get(bits & _CODEC, f"unknown codec {bits & _CODEC}")
    return ", ".join([codec, *(name for bit, name in _FLAGS if bits & bit)])


ROWS: Final = (
    Row(
        BATCH,
        "attributes",
        "Codec in bits 0 to 2; then timestamp type, transactional, control, delete horizon.",
        read=attributes,
    ),
    Row(
        BATCH,
        "baseOffset",
        "Offset of the first record; a producer writes 0, and the broker replaces it by the real offset.",
    ),
    Row(
        BATCH,
        "partitionLeaderEpoch",
        "Leader epoch when the batch was written; set by the broker.",
        {-1: "no leader epoch yet: the broker sets it when it writes the batch"},
    ),
    Row(
        BATCH,
        "magic",
        "Format of the batch.",
        {
            0: "message set of 0.8 and 0.9, without times",
            1: "message set of 0.10, with times",
            2: "record batch since 0.11",
        },
    ),
    Row(
        BATCH,
        "lastOffsetDelta",
        "Last offset minus base offset; it stays when compaction removes records, so the batch may hold fewer records.",
    ),
    Row(
        BATCH,
        "*.timestampType",
        "Whose clock the records' timestamps come from.",
        {
            "CreateTime": "the producer's clock",
            "LogAppendTime": "the broker's clock when it wrote them",
            "NoTimestampType": "the format has no times",
        },
    ),
    Row(
        BATCH,
        "*.isTransactional",
        "Whether the records belong to a transaction.",
        {1: "part of a transaction, to be committed or aborted", 0: "not part of a transaction"},
    ),
    Row(
        BATCH,
        "*.isControl",
        "Whether the batch holds markers of the broker instead of records.",
        {1: "markers, which consumers never see", 0: "records of a producer"},
    ),
    Row(BATCH, "deleteHorizon", "Time until which the log cleaner keeps tombstones and markers (KIP-534)."),
    Row(BATCH, "maxTimestamp", "Greatest timestamp of the records; retention and look-ups by time use it."),
    Row(
        BATCH,
        "baseSequence",
        "Producer's sequence number of the first record; the broker detects gaps and duplicates by it.",
        {-1: "no sequence: not idempotent, or markers"},
    ),
    Row(BATCH, "producerId", "Id of the idempotent producer.", {-1: "not an idempotent producer"}),
    Row(BATCH, "producerEpoch", "The epoch of the idempotent producer.", {-1: "no epoch: not an idempotent producer"}),
    Row(BATCH, "recordCount", "Number of records in the batch.", {0: "compaction removed all records of the batch"}),
    Row("PushTelemetryRequest", "compressionType", "How the metrics are compressed.", COMPRESSION),
    Row(
        "GetTelemetrySubscriptionsResponse", "acceptedCompressionTypes[]", "Codec that the broker accepts.", COMPRESSION
    ),
)
