"""Headers of record batches, with the field names of `decoders.records`, and codecs in other messages."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.common import COMPRESSION
from kproxy.decoders.meanings.row import Row

BATCH: Final = "batch"
"""The type of a batch's node; no message definition describes its header."""

_CODEC: Final = 7
_FLAGS: Final = ((8, "times set by the broker"), (16, "transactional"), (32, "control"), (64, "with a delete horizon"))


def attributes(bits: int) -> str:
    """The meaning of a batch's attributes: the codec in bits 0 to 2, then one bit each."""
    codec = COMPRESSION.get(bits & _CODEC, f"unknown codec {bits & _CODEC}")
    return ", ".join([codec, *(name for bit, name in _FLAGS if bits & bit)])


ROWS: Final = (
    Row(
        BATCH,
        "attributes",
        "Codec in bits 0 to 2; then timestamp type, transactional, control, delete horizon.",
        read=attributes,
    ),
    Row(BATCH, "baseOffset", "Offset of the first record; a producer counts from 0, the broker sets the true one."),
    Row(
        BATCH,
        "partitionLeaderEpoch",
        "Set by the broker: who led when the batch was written.",
        {-1: "no leader epoch: set by the broker when it writes"},
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
        "Last offset minus base offset; it stays when compaction removes records, so records may be fewer.",
    ),
    Row(
        BATCH,
        "*.timestampType",
        "Whose clock the times of the records are.",
        {
            "CreateTime": "the producer's clock",
            "LogAppendTime": "the broker's clock when it wrote them",
            "NoTimestampType": "the format has no times",
        },
    ),
    Row(
        BATCH,
        "*.isTransactional",
        "Whether a transaction decides about the records.",
        {1: "part of a transaction, to be committed or aborted", 0: "no part of a transaction"},
    ),
    Row(
        BATCH,
        "*.isControl",
        "Whether it holds markers of the broker instead of records.",
        {1: "markers, which consumers never see", 0: "records of a producer"},
    ),
    Row(BATCH, "deleteHorizon", "The cleaner keeps tombstones and markers until then (KIP-534)."),
    Row(BATCH, "maxTimestamp", "The greatest time among the records; retention and look-ups by time go by it."),
    Row(
        BATCH,
        "baseSequence",
        "The producer's number of the first record; gaps and repeats are found by it.",
        {-1: "no sequence: not idempotent, or markers"},
    ),
    Row(BATCH, "producerId", "The idempotent producer.", {-1: "not an idempotent producer"}),
    Row(BATCH, "producerEpoch", "The epoch of the idempotent producer.", {-1: "no epoch: not an idempotent producer"}),
    Row(BATCH, "recordCount", "Records in the batch.", {0: "compaction removed all records of the batch"}),
    Row("PushTelemetryRequest", "compressionType", "How the metrics are compressed.", COMPRESSION),
    Row(
        "GetTelemetrySubscriptionsResponse", "acceptedCompressionTypes[]", "A codec that the broker takes.", COMPRESSION
    ),
)
