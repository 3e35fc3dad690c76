"""The tables as data: columns, their types and meanings.

All code that writes or reads tables uses this module: Parquet (captures.tables.arrow), Spark, docs/tables.md. Types
are spelt as Spark's DDL spells them. Every time is a BIGINT of nanoseconds since the epoch, NAME_ns, with a TIMESTAMP
of microseconds, NAME, computed from it (`Column.of`). The rows of every table are partitioned by day
and hour (UTC) of the column that `Table.time` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PLACE: Final = (
    "The place of an exchange is the stream offset of its request's first byte (of its response's, where no request "
    'was seen), after "b" where the broker sent it.'
)
"""The position within an exchange_id that follows the flow and the epoch."""
PARTITIONS: Final = ("capture_date", "capture_hour")
"""Names of the partition columns, which are folder levels: the day as "2026-11-21", the hour as "05"."""


_FLAGS = (
    "`out_of_order`: a frame's packets were captured in another order than its bytes; `gap_before`: bytes that belong "
    "to no frame stand right before one of its frames; `midstream`: the connection's beginning is not in the capture; "
    "`snaplen_cut`: the capture holds less of a frame's packets than passed. Packets that came again are in flows alone"
)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    meaning: str
    of: tuple[str, ...] = ()
    """The column of nanoseconds that this one has in microseconds, or two columns whose difference it is: the first
    minus the second, rounded down."""


@dataclass(frozen=True, slots=True)
class Table:
    """`time` is the column of nanoseconds by which rows are partitioned and sorted.

    `later` names the columns whose values do not follow from the exchange and its bodies alone, but from its connection
    and its position in the reading.
    """

    name: str
    meaning: str
    time: str
    columns: tuple[Column, ...]
    later: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[Column, ...]:
        """The columns whose values a row has, in order, those of `later` last. Other columns are computed from them."""
        own = [column for column in self.columns if not column.of]
        return tuple(sorted(own, key=lambda column: column.name in self.later))

    def index(self, name: str) -> int:
        """The index of each column in a row."""
        return [column.name for column in self.given].index(name)

    @property
    def ddl(self) -> str:
        """The columns as Spark's DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


def _columns(*columns: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(_with_twins(columns))


def _with_twins(columns: tuple[tuple[str, ...], ...]) -> Iterator[Column]:
    for name, type_, meaning, *of in columns:
        if type_ == "time":
            yield Column(name, "bigint", meaning)
            yield Column(name.removesuffix("_ns"), "timestamp", f"`{name}` in microseconds", (name,))
        else:
            yield Column(name, type_, meaning, tuple(of))


_HANGING: Final = ("capture_id", "exchange_id")
"""Columns filled in stage 3 of tables keyed by exchange."""
_CAPTURE: Final = ("capture_id", "string", "which reading it comes from: a hash of the capture's first bytes")
_EXCHANGE: Final = ("exchange_id", "string", "of the exchange")
_TIME: Final = (
    "ts_ns",
    "time",
    "first byte of the exchange's request (of its response, where no request was seen)",
)

EXCHANGES: Final = Table(
    "exchanges",
    "One row an exchange: a request with its response.",
    "ts_ns",
    _columns(
        _CAPTURE,
        ("flow_id", "bigint", "hash of the two addresses, the same for both directions and in every capture"),
        ("conn_epoch", "int", "which of the flow's connections that carried Kafka, counted from 0"),
        ("exchange_id", "string", "flow_id:conn_epoch:place, unique in a capture"),
        ("exchange", "bigint", "its number in the exchange JSON"),
        ("client_ip", "string", "address of the side that opened the connection"),
        ("client_port", "int", ""),
        ("broker_ip", "string", "address of the other side"),
        ("broker_port", "int", ""),
        ("broker_id", "int", "node id, where Metadata has named the address before"),
        ("client_id", "string", ""),
        ("client_software", "string", "name and version, where ApiVersions told them on the connection"),
        ("protocol", "string", "name of the dialect; null for Kafka"),
        ("api_key", "int", ""),
        ("api_name", "string", "as in the exchange JSON"),
        ("api_version", "int", ""),
        ("correlation_id", "bigint", ""),
        _TIME,
        ("req_ts_ns", "time", "first byte of the request"),
        ("req_last_ts_ns", "time", "last byte of the request"),
        ("rsp_ts_ns", "time", "first byte of the response"),
        ("rsp_last_ts_ns", "time", "last byte of the response"),
        (
            "latency_us", "bigint",
            "the response's last byte minus the request's last byte, as `latency_ms` of the JSON",
            "rsp_last_ts_ns", "req_last_ts_ns",
        ),
        (
            "first_byte_us", "bigint", "the response's first byte minus the request's last byte",
            "rsp_ts_ns", "req_last_ts_ns",
        ),
        (
            "total_us", "bigint", "the response's last byte minus the request's first byte",
            "rsp_last_ts_ns", "req_ts_ns",
        ),
        ("request_bytes", "bigint", "of the frame, its length field included"),
        ("response_bytes", "bigint", "of the frame, its length field included"),
        ("error_code", "int", "the first error code of the response, 0 for none; null without a decoded response"),
        ("error_counts", "map<int,int>", "error codes but 0, and how many partitions have each (1 if none)"),
        ("throttle_time_ms", "int", ""),
        ("acks", "smallint", "of a Produce"),
        ("group_id", "string", ""),
        ("txn_id", "string", "transactional id"),
        ("topics", "array<string>", "topics in both bodies, each once; by their ids where names are unknown"),
        ("status", "string", "as in the exchange JSON"),
        ("reason", "string", "as in the exchange JSON"),
        ("flags", "array<string>", _FLAGS),
        ("problems", "array<string>", "codes of what could not be read"),
        ("decode_error", "string", "the first of them in words"),
        ("req_file", "string", "file of the request's first byte"),
        ("req_off", "bigint", "its offset there"),
        ("rsp_file", "string", "file of the response's first byte"),
        ("rsp_off", "bigint", "its offset there"),
    ),
    (
        "capture_id", "flow_id", "conn_epoch", "exchange_id", "exchange", "client_ip", "client_port", "broker_ip",
        "broker_port", "broker_id", "client_software", "flags", "req_file", "req_off", "rsp_file", "rsp_off",
    ),
)  # fmt: skip

EXCHANGE_TOPICS: Final = Table(
    "exchange_topics",
    "One row for each partition, or topic without partitions, that an exchange names.",
    "ts_ns",
    _columns(
        _CAPTURE, _EXCHANGE, _TIME,
        ("api_key", "int", ""),
        ("topic", "string", "null where only its id is known"),
        ("topic_uuid", "string", "as Kafka prints it"),
        ("partition", "int", "null where the exchange names the topic alone"),
        ("error_code", "int", "of the partition, or topic, in the response"),
        ("bytes", "bigint", "of its records field"),
        ("records", "bigint", "in whole batches, as their headers count them"),
        ("batches", "int", "whole ones"),
        ("compression", "string", "of the first batch"),
        ("base_offset", "bigint", "of a Produce the offset that was assigned, else the first that is carried"),
        ("fetch_offset", "bigint", "where a Fetch begins, what a ListOffsets finds, what an OffsetCommit commits"),
        ("high_watermark", "bigint", ""),
        ("last_stable_offset", "bigint", ""),
    ),
    _HANGING,
)  # fmt: skip

RECORD_BATCHES: Final = Table(
    "record_batches",
    "One row a record batch; of a message set (magic 0 and 1) one an outer message. No batch is opened for it.",
    "ts_ns",
    _columns(
        _CAPTURE, _EXCHANGE, _TIME,
        ("topic", "string", ""),
        ("partition", "int", ""),
        ("base_offset", "bigint", "as sent"),
        ("batch_bytes", "bigint", ""),
        ("records", "int", "null where only its inside tells"),
        ("magic", "tinyint", ""),
        ("codec", "string", "none, gzip, snappy, lz4, zstd"),
        ("producer_id", "bigint", ""),
        ("producer_epoch", "smallint", ""),
        ("base_sequence", "int", ""),
        ("transactional", "boolean", ""),
        ("control", "boolean", ""),
    ),
    _HANGING,
)  # fmt: skip

RECORDS: Final = Table(
    "records",
    "One row a record, its batch opened: written only where it is asked for.",
    "ts_ns",
    _columns(
        _CAPTURE, _EXCHANGE, _TIME,
        ("topic", "string", ""),
        ("topic_uuid", "string", ""),
        ("partition", "int", ""),
        ("offset", "bigint", "as sent"),
        ("assigned_offset", "bigint", "of a produced record"),
        ("timestamp_ms", "bigint", "of the record"),
        ("key", "binary", "null where there is none, or it is withheld"),
        ("value", "binary", "null where there is none, or it is withheld"),
        ("headers", "array<struct<key:string,value:binary>>", ""),
        ("withheld", "boolean", "key or value hold a secret, or were redacted"),
        ("skipped", "string", "why the client drops it, as in the exchange JSON"),
    ),
    _HANGING,
)  # fmt: skip

GROUP_EVENTS: Final = Table(
    "group_events",
    "One row for each step of a group's member: what it asked and how it was answered; and one a group described.",
    "ts_ns",
    _columns(
        _CAPTURE, _EXCHANGE, _TIME,
        ("event", "string", "join, sync, heartbeat, leave, commit, describe, consumer_, share_ or streams_heartbeat"),
        ("group_id", "string", ""),
        ("member_id", "string", "as answered, where the answer gives one"),
        ("instance_id", "string", "of a static member"),
        ("generation", "int", "or member epoch; as answered, where the answer gives one; of a description the group's"),
        ("state", "string", "of the group, as its coordinator describes it: members are told nothing of it"),
        ("assignor", "string", "protocol or server-side assignor"),
        ("error_code", "int", "null where the response could not be read so far"),
    ),
    _HANGING,
)  # fmt: skip

FLOWS: Final = Table(
    "flows",
    "One row a connection that carried Kafka or TLS.",
    "first_ts_ns",
    _columns(
        _CAPTURE,
        ("flow_id", "bigint", "as in exchanges"),
        ("conn_epoch", "int", "as in exchanges"),
        ("connection", "bigint", "its number in the exchange JSON"),
        ("client_ip", "string", ""),
        ("client_port", "int", ""),
        ("broker_ip", "string", ""),
        ("broker_port", "int", ""),
        ("first_ts_ns", "time", "first packet"),
        ("last_ts_ns", "time", "last packet"),
        ("exchanges", "bigint", ""),
        ("packets", "bigint", "TCP segments, both directions"),
        ("client_bytes", "bigint", "TCP payload that the client sent, retransmissions included"),
        ("broker_bytes", "bigint", "TCP payload that the broker sent, retransmissions included"),
        ("syn", "int", "segments with SYN"),
        ("fin", "int", "segments with FIN"),
        ("rst", "int", "segments with RST"),
        ("retransmissions", "int", "segments whose bytes were all there already: sent again, or captured twice"),
        ("out_of_order", "int", "segments behind later ones, with bytes that were missing: late, or sent again"),
        ("gaps", "int", "places where bytes are missing between frames"),
        ("gap_bytes", "bigint", "bytes that are missing there"),
        ("tls", "boolean", ""),
    ),
)  # fmt: skip

CAPTURES: Final = Table(
    "captures",
    "One row a file that was read.",
    "first_ts_ns",
    _columns(
        _CAPTURE,
        ("path", "string", "as it was given"),
        ("size", "bigint", "bytes"),
        ("first_ts_ns", "time", "first TCP segment"),
        ("last_ts_ns", "time", "last TCP segment"),
        ("packets", "bigint", "TCP segments"),
        ("truncated", "boolean", "it could not be read to its end"),
        ("error", "string", "why not"),
    ),
)  # fmt: skip

ANOMALIES: Final = Table(
    "anomalies",
    "One row for each thing that could not be read, or is odd about a connection's bytes.",
    "ts_ns",
    _columns(
        _CAPTURE,
        ("ts_ns", "time", "when it was found; of an exchange its time"),
        ("kind", "string", "the problem's code, as in the exchange JSON; of followed files lost_file, late_file"),
        ("flow_id", "bigint", ""),
        ("conn_epoch", "int", ""),
        ("exchange_id", "string", "null where it belongs to none"),
        ("side", "string", "request, response, client or broker"),
        ("off", "bigint", "in the frame; in the stream where it belongs to no exchange"),
        ("size", "bigint", "bytes concerned, where that is known"),
        ("path", "string", "the field"),
        ("detail", "string", "in words"),
    ),
)  # fmt: skip

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        EXCHANGES, EXCHANGE_TOPICS, RECORD_BATCHES, RECORDS, GROUP_EVENTS, FLOWS, CAPTURES, ANOMALIES,
    )
}  # fmt: skip
"""All tables by name."""

WITHOUT_BODIES: Final = (EXCHANGES.name, FLOWS.name, CAPTURES.name, ANOMALIES.name)
"""The tables that have rows if bodies are not read."""
FROM_BODIES: Final = (
    "broker_id", "client_software", "error_code", "error_counts", "throttle_time_ms", "acks", "group_id", "txn_id",
    "topics",
)  # fmt: skip
"""The columns of exchanges that are null in that case."""

USUAL: Final = tuple(name for name in TABLES if name != RECORDS.name)
"""The tables that are written by default."""
