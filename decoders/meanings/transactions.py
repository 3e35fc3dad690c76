"""Meanings of fields about idempotent and transactional producers."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NEGATIVE, NULL, Row, Texts

STATES: Final[Texts] = {
    "Empty": "no transaction has begun yet",
    "Ongoing": "open: records are being written",
    "PrepareCommit": "committed for good; the markers are being written",
    "PrepareAbort": "aborted for good; the markers are being written",
    "CompleteCommit": "committed, and all markers are written",
    "CompleteAbort": "aborted, and all markers are written",
    "Dead": "expired and about to be forgotten",
    "PrepareEpochFence": "being fenced in favour of a newer producer",
}

ROWS: Final = (
    Row(
        "InitProducerIdRequest",
        "transactionalId",
        "Transactional id of the producer; an open transaction of an earlier producer with this id is aborted.",
        {NULL: "an idempotent producer without transactions"},
    ),
    Row(
        "InitProducerIdRequest",
        "transactionTimeoutMs",
        "The coordinator aborts a transaction that is open for longer; an open one holds up consumers "
        "with read_committed.",
    ),
    Row(
        "InitProducerIdRequest",
        "producerId",
        "The producer id that the producer wants to keep (KIP-360).",
        {-1: "a new producer, which asks for an id"},
    ),
    Row(
        "InitProducerIdRequest",
        "producerEpoch",
        "The epoch of the producer id that the producer wants to keep.",
        {-1: "a new producer without an epoch"},
    ),
    Row(
        "InitProducerIdRequest",
        "enable2Pc",
        "Whether another system decides transactions (KIP-939).",
        {1: "two-phase commit: the broker never ends the transaction by its timeout", 0: "no two-phase commit"},
    ),
    Row(
        "InitProducerIdRequest",
        "keepPreparedTxn",
        "Whether a transaction left open is kept (KIP-939).",
        {1: "the open transaction is kept, to be committed or aborted later", 0: "the open transaction is aborted"},
    ),
    Row("InitProducerIdResponse", "producerId", "The producer id to use.", {-1: "no id, see the error"}),
    Row(
        "InitProducerIdResponse",
        "ongoingTxnProducerId",
        "Producer id of the transaction that was kept.",
        {-1: "no transaction was kept"},
    ),
    Row(
        "InitProducerIdResponse",
        "ongoingTxnProducerEpoch",
        "The epoch of the transaction that was kept.",
        {-1: "no epoch, because there is no open transaction"},
    ),
    Row(
        "AddPartitionsToTxnRequest",
        "transactions[].verifyOnly",
        "Whether a broker only asks if the partitions are in the open transaction, before it writes (KIP-890).",
        {1: "only asks whether the partitions are in the transaction", 0: "adds the partitions"},
    ),
    Row("EndTxnRequest", "committed", "Whether the transaction is committed or aborted.", {1: "commit", 0: "abort"}),
    Row(
        "WriteTxnMarkersRequest",
        "markers[].transactionResult",
        "Kind of the marker that is written.",
        {1: "a commit marker", 0: "an abort marker"},
    ),
    Row(
        "WriteTxnMarkersRequest DescribeProducersResponse",
        "*.coordinatorEpoch",
        "Number of coordinator changes; markers with an older epoch are refused (error 52).",
        {-1: "no coordinator has written a marker yet"},
    ),
    Row(
        "WriteTxnMarkersRequest",
        "markers[].transactionVersion",
        "The level of transaction.version.",
        {
            0: "transactions without a new epoch each",
            1: "transactions as before KIP-890",
            2: "each transaction has its own epoch (KIP-890)",
        },
    ),
    Row(
        "EndTxnResponse",
        "producerId",
        "The producer id for the next transaction.",
        {-1: "the producer id stays as it is"},
    ),
    Row(
        "EndTxnResponse",
        "producerEpoch",
        "The epoch for the next transaction (KIP-890).",
        {-1: "the epoch stays as it is"},
    ),
    Row(
        "DescribeTransactionsResponse ListTransactionsResponse",
        "*.transactionState",
        "State of the transaction.",
        STATES,
    ),
    Row(
        "DescribeTransactionsResponse",
        "transactionStates[].transactionStartTimeMs",
        "When the transaction began.",
        {-1: "no transaction is open"},
    ),
    Row(
        "ListTransactionsRequest",
        "durationFilter",
        "Only transactions open for longer than these milliseconds.",
        {NEGATIVE: "transactions of any duration"},
    ),
    Row(
        "ListTransactionsRequest",
        "stateFilters",
        "Which states of transactions to list.",
        {EMPTY: "transactions in any state"},
    ),
    Row(
        "ListTransactionsRequest",
        "producerIdFilters",
        "Producer ids whose transactions to list.",
        {EMPTY: "transactions of all producers"},
    ),
    Row(
        "DescribeProducersResponse",
        "topics[].partitions[].activeProducers[].lastSequence",
        "The sequence of the producer's last record here.",
        {-1: "no sequence: only markers so far"},
    ),
    Row(
        "DescribeProducersResponse",
        "topics[].partitions[].activeProducers[].currentTxnStartOffset",
        "Where the producer's open transaction begins; it holds back the last stable offset.",
        {-1: "no open transaction on this partition"},
    ),
)
