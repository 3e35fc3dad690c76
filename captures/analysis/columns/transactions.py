"""The tables of transactions: those of producers, and the aborted ones that Fetch responses list."""

from __future__ import annotations

from typing import Final

from kproxy.captures.analysis.columns.column import (
    BYTES,
    COUNT,
    ID,
    MILLISECONDS,
    NAME,
    OFFSET,
    TEXT,
    TIME,
    Column,
    Table,
    length,
    listed,
    member,
    warn,
)

_GOOD: Final = frozenset({"open", "committed"})


TABLES: Final = (
    Table(
        "transactions", "Transactions", "transactions", "kproxy.transaction/1",
        (
            Column("transactional_id", "Transactional id", NAME, member("transactional_id")),
            Column("state", "State", TEXT, member("state"), severity=lambda state: warn(state not in _GOOD)),
            Column("began", "Began", TIME, member("began"), drop=2),
            Column("duration", "Took", MILLISECONDS, member("duration_ms")),
            Column("timeout", "Timeout", MILLISECONDS, member("timeout_ms"), drop=6),
            Column("client_id", "Client", NAME, member("client_id"), drop=3),
            Column("producer_id", "Producer", ID, member("producer_id"), drop=5),
            Column("producer_epoch", "Epoch", ID, member("producer_epoch"), drop=5),
            Column("records", "Records", COUNT, member("records"), drop=2),
            Column("bytes", "Bytes", BYTES, member("bytes"), drop=4),
            Column("partitions", "Partitions", COUNT, length("partitions"), drop=4),
            Column("groups", "Groups", TEXT, listed("groups"), drop=7),
            Column("failure", "Failure", TEXT, member("failure"), drop=1, severity=warn),
        ),
    ),
    Table(
        "aborted", "Aborted", "transactions", "kproxy.aborted_transaction/1",
        (
            Column("topic", "Topic", NAME, member("topic")),
            Column("partition", "Part", ID, member("partition")),
            Column("producer_id", "Producer", ID, member("producer_id")),
            Column("first_offset", "First offset", OFFSET, member("first_offset")),
            Column("fetches", "Listed by Fetches", COUNT, length("exchanges")),
        ),
    ),
)  # fmt: skip
