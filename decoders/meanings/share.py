"""Share groups (KIP-932)."""

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
        "Counts the requests of a share session.",
        {0: "opens a share session", -1: "ends the share session", POSITIVE: "goes on with the share session"},
    ),
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "*.acknowledgeTypes",
        "What became of the records: one value for all of them, or one for each offset.",
    ),
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "topics[].partitions[].acknowledgementBatches[].acknowledgeTypes[]",
        "What became of the record.",
        ACKNOWLEDGE,
    ),
    Row(
        "ShareFetchRequest",
        "shareAcquireMode",
        "How strictly the limit of records is kept.",
        {0: "whole batches, the limit may be passed", 1: "never more records than the limit"},
    ),
    Row("ShareFetchRequest", "maxRecords", "How many records to acquire; whole batches may come to more."),
    Row(
        "ShareFetchRequest ShareAcknowledgeRequest",
        "isRenewAck",
        "Whether locks are to be renewed here.",
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
        "The offsets that are this member's to process; other records that came along are not.",
    ),
    Row(
        "ShareFetchResponse",
        "responses[].partitions[].acquiredRecords[].deliveryCount",
        "How often the records were delivered; group.share.delivery.count.limit bounds it.",
        {1: "delivered for the first time"},
    ),
    Row(
        "ReadShareGroupStateResponse WriteShareGroupStateRequest",
        "*.deliveryState",
        "What the share group knows of the records.",
        DELIVERY,
    ),
    Row(
        "InitializeShareGroupStateRequest ReadShareGroupStateResponse ReadShareGroupStateSummaryResponse "
        "WriteShareGroupStateRequest DescribeShareGroupOffsetsResponse",
        "*.startOffset",
        "The first offset that the share group is not done with.",
        {-1: "start offset not set"},
    ),
    Row(
        "ReadShareGroupStateSummaryResponse WriteShareGroupStateRequest",
        "*.deliveryCompleteCount",
        "How many records beyond the start offset are done with.",
        {-1: "the number of done records is not known"},
    ),
    Row(
        "DescribeShareGroupOffsetsResponse",
        "groups[].topics[].partitions[].lag",
        "How many records the share group is not done with.",
        {-1: "the lag is not known"},
    ),
)
