"""Meanings of fields about share groups (KIP-932)."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import POSITIVE, Row, Texts

ACKNOWLEDGE: Final[Texts] = {
    0: "gap: no record with this offset",
    1: "accept: processed",
    2: "release: deliver it again",
    3: "reject: deliver it to nobody",
    4: "renew: lock it for longer (KIP-1222)",
}
DELIVERY: Final[Texts] = {0: "available to any member", 2: "acknowledged", 4: "archived: rejected or tried too often"}

ROWS: Final = (
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "shareSessionEpoch",
        "Number of the request in its share session.",
        {0: "opens a share session", -1: "ends the share session", POSITIVE: "goes on with the share session"},
    ),
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "*.acknowledgeTypes",
        "Outcome of the records: one value for all, or one for each offset.",
    ),
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "topics[].partitions[].acknowledgementBatches[].acknowledgeTypes[]",
        "Outcome of the record.",
        ACKNOWLEDGE,
    ),
    Row(
        "ShareFetchRequest",
        "shareAcquireMode",
        "Whether the limit of records is strict.",
        {0: "whole batches, so the limit may be exceeded", 1: "never more records than the limit"},
    ),
    Row("ShareFetchRequest", "maxRecords", "How many records to acquire; whole batches may exceed the number."),
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "isRenewAck",
        "Whether this request renews locks on records.",
        {1: "locks on records are renewed", 0: "no lock is renewed"},
    ),
    Row(
        "ShareFetchResponse ShareAcknowledgeResponse",
        "acquisitionLockTimeoutMs",
        "How long acquired records stay locked for this member; then others may get them.",
    ),
    Row(
        "ShareFetchResponse",
        "responses[].partitions[].acquiredRecords",
        "Offsets that this member is to process; the response may hold other records too.",
    ),
    Row(
        "ShareFetchResponse",
        "responses[].partitions[].acquiredRecords[].deliveryCount",
        "How often the records were delivered; group.share.delivery.count.limit is the maximum.",
        {1: "delivered for the first time"},
    ),
    Row(
        "ReadShareGroupStateResponse WriteShareGroupStateRequest",
        "*.deliveryState",
        "State of the records in the share group.",
        DELIVERY,
    ),
    Row(
        "InitializeShareGroupStateRequest ReadShareGroupStateResponse ReadShareGroupStateSummaryResponse "
        "WriteShareGroupStateRequest DescribeShareGroupOffsetsResponse",
        "*.startOffset",
        "First offset that the share group has not finished.",
        {-1: "start offset not set"},
    ),
    Row(
        "ReadShareGroupStateSummaryResponse WriteShareGroupStateRequest",
        "*.deliveryCompleteCount",
        "How many records after the start offset are finished.",
        {-1: "the number of finished records is not known"},
    ),
    Row(
        "DescribeShareGroupOffsetsResponse",
        "groups[].topics[].partitions[].lag",
        "How many records the share group has not finished.",
        {-1: "the lag is not known"},
    ),
)
