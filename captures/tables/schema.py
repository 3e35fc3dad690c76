"""The tables as data: columns, their types and meanings.

All code that writes or reads tables uses this module: Parquet (captures.tables.arrow), Spark, docs/tables.md. Types are
those of Spark's DDL. Every time is a BIGINT of nanoseconds since the epoch, NAME_ns, with a TIMESTAMP of microseconds,
NAME, computed from it (`Column.of`). The rows of every table are partitioned by day and hour (UTC) of the column that
`Table.time` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PLACE: Final = (
    "The place of an exchange is the stream offset of its request's first byte (of its response's, if the request is "
    'missing), with "b" in front of it if the broker sent that byte.'
)
"""Explains the last part of an exchange_id, behind the flow's id and the epoch."""
PARTITIONS: Final = ("capture_date", "capture_hour")
"""Names of the partition columns, which are folder levels: the day as "2026-11-21", the hour as "05"."""


_FLAGS = (
    "what is odd about the exchange's packets. `out_of_order`: the packets of a frame were captured in another order "
    "than its bytes; `gap_before`: bytes that belong to no frame precede one of its frames; `midstream`: the capture "
    "lacks the connection's beginning; `snaplen_cut`: the capture holds the packets of a frame only in part. "
    "Retransmissions are counted only in the table flows"
)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    meaning: str
    of: tuple[str, ...] = ()
    """Columns of nanoseconds from which this column is computed, rounded down to microseconds.

    One column gives its value, two give the difference: the first minus the second.
    """


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `time` names the column of nanoseconds by which its rows are partitioned and sorted.

    `later` names the columns whose values depend not only on an exchange and its bodies, but also on its connection and
    its position in the reading.
    """

    name: str
    meaning: str
    time: str
    columns: tuple[Column, ...]
    later: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[Column, ...]:
        """The columns whose values a row holds, in the row's order; those of `later` come last.

        The other columns are computed from them.
        """
        own = [column for column in self.columns if not column.of]
        return tuple(sorted(own, key=lambda column: column.name in self.later))

    def index(self, name: str) -> int:
        """The index in a row of the column with this name."""
        return [column.name for column in self.given].index(name)

    @property
    def ddl(self) -> str:
        """All columns as Spark's DDL."""
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


_HANGING: Final = ("capture_id", "source_id", "exchange_id")
"""Columns of tables keyed by exchange that are filled in stage 3 of the Spark reading."""
_CAPTURE: Final = (
    "capture_id", "string",
    "id of the file that holds the exchange's first byte; null if TLS in several files was decrypted",
)  # fmt: skip
_SOURCE: Final = ("source_id", "string", "id of the reading: a hash of its first bytes")
_WHO: Final = (
    ("client_id", "string", ""),
    ("client_ip", "string", "address of the side that opened the connection"),
    ("broker_ip", "string", "address of the other side"),
    ("broker_port", "int", ""),
)
"""Who took part in an exchange, in tables keyed by exchange."""
_EXCHANGE: Final = ("exchange_id", "string", "id of the exchange, as in exchanges")
_TIME: Final = (
    "ts_ns",
    "time",
    "time of the request's first byte (of the response's, if the request is missing)",
)

_SIZED: Final = "; null without `--record-sizes`"

EXCHANGES: Final = Table(
    "exchanges",
    "One row per exchange: a request with its response.",
    "ts_ns",
    _columns(
        _CAPTURE,
        _SOURCE,
        ("flow_id", "bigint", "hash of the two addresses, the same for both directions and in every capture"),
        ("conn_epoch", "int", "number of the connection among those with this flow_id, from 0"),
        ("exchange_id", "string", "flow_id:conn_epoch:place, unique in a capture"),
        ("exchange", "bigint", "number of the exchange, as in the exchange JSON"),
        ("client_ip", "string", "address of the side that opened the connection"),
        ("client_port", "int", ""),
        ("broker_ip", "string", "address of the other side"),
        ("broker_port", "int", ""),
        ("broker_id", "int", "node id, if an earlier Metadata response named the broker's address"),
        ("client_id", "string", ""),
        ("client_software", "string", "name and version of the client, if ApiVersions on the connection has them"),
        ("protocol", "string", "name of the dialect; null for Kafka"),
        ("api_key", "int", ""),
        ("api_name", "string", "name of the API, as in the exchange JSON"),
        ("api_version", "int", ""),
        ("correlation_id", "bigint", ""),
        _TIME,
        ("req_ts_ns", "time", "time of the request's first byte"),
        ("req_last_ts_ns", "time", "time of the request's last byte"),
        ("rsp_ts_ns", "time", "time of the response's first byte"),
        ("rsp_last_ts_ns", "time", "time of the response's last byte"),
        (
            "latency_us", "bigint",
            "time from the request's last byte to the response's last, as `latency_ms` of the JSON; null if negative",
            "rsp_last_ts_ns", "req_last_ts_ns",
        ),
        (
            "first_byte_us", "bigint", "time from the request's last byte to the response's first; null if negative",
            "rsp_ts_ns", "req_last_ts_ns",
        ),
        (
            "total_us", "bigint", "time from the request's first byte to the response's last; null if negative",
            "rsp_last_ts_ns", "req_ts_ns",
        ),
        ("request_bytes", "bigint", "size of the request, its length field included"),
        ("response_bytes", "bigint", "size of the response, its length field included"),
        ("request_captured", "bigint", "number of these bytes of the request that the capture holds"),
        ("response_captured", "bigint", "number of these bytes of the response that the capture holds"),
        ("error_code", "int", "the first error code of the response, 0 for none; null without a decoded response"),
        ("error_counts", "map<int,int>", "partitions by error code, without 0; 1 for a code outside of partitions"),
        ("throttle_time_ms", "int", "null if negative"),
        ("acks", "smallint", "acks of a Produce request"),
        ("group_id", "string", ""),
        ("txn_id", "string", "transactional id"),
        ("topics", "array<string>", "topics that request or response name, each once; ids where names are unknown"),
        ("status", "string", "status, as in the exchange JSON"),
        ("reason", "string", "reason of the status, as in the exchange JSON"),
        ("flags", "array<string>", _FLAGS),
        ("problems", "array<string>", "codes of the exchange's problems"),
        ("decode_error", "string", "message of the first problem"),
        ("req_file", "string", "file that holds the request's first byte"),
        ("req_off", "bigint", "offset of that byte in the file"),
        ("rsp_file", "string", "file that holds the response's first byte"),
        ("rsp_off", "bigint", "offset of that byte in the file"),
    ),
    (
        "capture_id", "source_id", "flow_id", "conn_epoch", "exchange_id", "exchange", "client_ip", "client_port",
        "broker_ip", "broker_port", "broker_id", "client_software", "flags", "req_file", "req_off", "rsp_file",
        "rsp_off",
    ),
)  # fmt: skip

EXCHANGE_TOPICS: Final = Table(
    "exchange_topics",
    "One row for each partition that an exchange names, and for each topic that it names without partitions.",
    "ts_ns",
    _columns(
        _CAPTURE, _SOURCE, _EXCHANGE, _TIME,
        ("api_key", "int", ""),
        ("api_name", "string", "name of the API, as in exchanges"),
        *_WHO,
        ("topic", "string", "name of the topic; null if only its id is known"),
        ("topic_uuid", "string", "topic id, as Kafka prints it"),
        ("partition", "int", "null if the exchange names only the topic"),
        ("error_code", "int", "error code of the partition, or of the topic, in the response"),
        ("bytes", "bigint", "size of the partition's records field"),
        ("records", "bigint", "number of records in complete batches, as far as record_batches has it"),
        ("batches", "int", "number of complete batches"),
        ("compression", "string", "codec of the first batch"),
        ("base_offset", "bigint", "of a Produce: the first offset assigned; otherwise the first batch's base offset"),
        ("fetch_offset", "bigint", "offset that a Fetch asks for, a ListOffsets returns, or an OffsetCommit commits"),
        ("high_watermark", "bigint", ""),
        ("last_stable_offset", "bigint", ""),
        ("key_bytes", "bigint", f"size of the keys in complete batches that can be read{_SIZED}"),
        ("value_bytes", "bigint", f"size of the values in complete batches that can be read{_SIZED}"),
    ),
    _HANGING,
)  # fmt: skip

RECORD_BATCHES: Final = Table(
    "record_batches",
    "One row per record batch, or per outer message of a message set (magic 0 and 1). Batches are decompressed only "
    "with `--record-sizes`.",
    "ts_ns",
    _columns(
        _CAPTURE, _SOURCE, _EXCHANGE, _TIME,
        ("topic", "string", ""),
        ("partition", "int", ""),
        ("base_offset", "bigint", "base offset in the batch, as it was sent"),
        ("batch_bytes", "bigint", ""),
        (
            "records", "int",
            "number of records; null for a compressed message set, unless `--record-sizes` is given and it can be read",
        ),
        ("magic", "tinyint", ""),
        ("codec", "string", "none, gzip, snappy, lz4 or zstd"),
        ("producer_id", "bigint", ""),
        ("producer_epoch", "smallint", ""),
        ("base_sequence", "int", ""),
        ("transactional", "boolean", ""),
        ("control", "boolean", ""),
        ("key_bytes", "bigint", f"size of the records' keys{_SIZED}, or if the batch cannot be read"),
        ("value_bytes", "bigint", f"size of the records' values{_SIZED}, or if the batch cannot be read"),
        ("header_bytes", "bigint", "size of the keys and values of the records' headers; null as `value_bytes`"),
    ),
    _HANGING,
)  # fmt: skip

RECORDS: Final = Table(
    "records",
    "One row per record; written only if --tables names it.",
    "ts_ns",
    _columns(
        _CAPTURE, _SOURCE, _EXCHANGE, _TIME,
        ("topic", "string", ""),
        ("topic_uuid", "string", ""),
        ("partition", "int", ""),
        ("offset", "bigint", "offset of the record, as it was sent"),
        ("assigned_offset", "bigint", "offset that the broker assigned to a produced record"),
        ("timestamp_ms", "bigint", "timestamp of the record in milliseconds"),
        ("key", "binary", "null if the record has no key, or the key is withheld"),
        ("value", "binary", "null if the record has no value, or the value is withheld"),
        ("headers", "array<struct<key:string,value:binary>>", ""),
        ("withheld", "boolean", "whether key or value are withheld because they hold a secret or were redacted"),
        ("skipped", "string", "why consumers skip the record, as in the exchange JSON"),
    ),
    _HANGING,
)  # fmt: skip

GROUP_EVENTS: Final = Table(
    "group_events",
    "One row for each request of a group's member with its response, and one for each group that a response describes.",
    "ts_ns",
    _columns(
        _CAPTURE, _SOURCE, _EXCHANGE, _TIME, *_WHO,
        ("event", "string", "join, sync, heartbeat, leave, commit, describe, consumer_, share_ or streams_heartbeat"),
        ("group_id", "string", ""),
        ("member_id", "string", "member id in the response, or else in the request"),
        ("instance_id", "string", "group.instance.id of a static member"),
        ("generation", "int", "generation or member epoch: the response's, or else the request's or the group's"),
        ("state", "string", "state of the group; only in descriptions, because members do not receive it"),
        ("assignor", "string", "name of the protocol or of the server-side assignor"),
        ("error_code", "int", "error code in the response; null if it could not be read"),
    ),
    _HANGING,
)  # fmt: skip

FLOWS: Final = Table(
    "flows",
    "One row per connection that carried Kafka or TLS.",
    "first_ts_ns",
    _columns(
        ("capture_id", "string", "id of the file with the first exchange or problem; null as in exchanges"),
        _SOURCE,
        ("flow_id", "bigint", "hash of the two addresses, as in exchanges"),
        ("conn_epoch", "int", "number of the connection among those with this flow_id, as in exchanges"),
        ("connection", "bigint", "number of the connection, as in the exchange JSON"),
        ("client_ip", "string", ""),
        ("client_port", "int", ""),
        ("broker_ip", "string", ""),
        ("broker_port", "int", ""),
        ("first_ts_ns", "time", "time of the first packet"),
        ("last_ts_ns", "time", "time of the last packet"),
        ("exchanges", "bigint", ""),
        ("packets", "bigint", "number of TCP segments in both directions"),
        ("client_bytes", "bigint", "TCP payload in bytes that the client sent, with retransmissions"),
        ("broker_bytes", "bigint", "TCP payload in bytes that the broker sent, with retransmissions"),
        ("syn", "int", "number of segments with SYN"),
        ("fin", "int", "number of segments with FIN"),
        ("rst", "int", "number of segments with RST"),
        ("retransmissions", "int", "segments whose bytes had all arrived before: sent again, or captured twice"),
        ("out_of_order", "int", "segments with missing bytes that came after later segments: late, or sent again"),
        ("gaps", "int", "number of places where bytes are missing between frames"),
        ("gap_bytes", "bigint", "number of bytes that are missing in these places"),
        ("tls", "boolean", ""),
    ),
)  # fmt: skip

CAPTURES: Final = Table(
    "captures",
    "One row per file that was read, also if files of the same time were merged, or TLS in them was decrypted.",
    "first_ts_ns",
    _columns(
        ("capture_id", "string", "id of the file: a hash of its first bytes; null if they were deleted before"),
        _SOURCE,
        ("path", "string", "path of the file, as it was given"),
        ("size", "bigint", "size of the file in bytes, decompressed"),
        ("first_ts_ns", "time", "time of the first TCP segment"),
        ("last_ts_ns", "time", "time of the last TCP segment"),
        ("packets", "bigint", "number of TCP segments"),
        ("truncated", "boolean", "whether the file could not be read to its end"),
        ("error", "string", "why the file could not be read to its end, or what in it cannot be read"),
    ),
)  # fmt: skip

ANOMALIES: Final = Table(
    "anomalies",
    "One row for each problem: bytes that could not be read or are odd, and files that were lost or late.",
    "ts_ns",
    _columns(
        ("capture_id", "string", "id of the file, as in exchanges; without an exchange, of that with the problem"),
        _SOURCE,
        ("ts_ns", "time", "time of the exchange; for other problems, the time at which the problem was found"),
        ("kind", "string", "code of the problem, as in the exchange JSON; lost_file or late_file in a followed folder"),
        ("flow_id", "bigint", ""),
        ("conn_epoch", "int", ""),
        ("exchange_id", "string", "id of the exchange; null if the problem belongs to no exchange"),
        ("side", "string", "request or response; without an exchange, the sender: client or broker"),
        ("off", "bigint", "offset of the problem in the frame; without an exchange, in the stream"),
        ("size", "bigint", "number of bytes concerned; null if unknown"),
        ("path", "string", "path of the field"),
        ("detail", "string", "message of the problem"),
    ),
)  # fmt: skip

FINDINGS: Final = Table(
    "findings",
    "One row per finding of `kproxy findings` (docs/findings.md lists the rules); written only if --tables names it.",
    "first_ts_ns",
    _columns(
        _SOURCE,
        ("finding_id", "string", "id of the finding, as in its JSON"),
        ("rank", "int", "place in the order of `kproxy findings`, from 1: the worst first, symptoms after their cause"),
        ("rule", "string", ""),
        ("family", "string", "first part of the rule's id, such as `group`"),
        ("severity", "string", "error, warn, note or info"),
        ("confidence", "string", "proven, strong or inferred"),
        ("scope_kind", "string", "kind of what the finding is about: connection, client, group, partition, ..."),
        ("scope", "string", "name of what the finding is about"),
        ("client_id", "string", "client id of the culprit, or else of a victim"),
        ("client_ip", "string", "address of that client"),
        ("broker", "string", "address of the broker that is concerned, or `node` and its id"),
        ("connection", "bigint", "number of the connection, if only one is concerned"),
        ("group_id", "string", ""),
        ("txn_id", "string", "transactional id"),
        ("topic", "string", ""),
        ("partition", "int", ""),
        ("summary", "string", ""),
        ("cause", "string", "the likely cause"),
        ("occurrences", "bigint", ""),
        ("first_ts_ns", "time", "time of the first evidence"),
        ("last_ts_ns", "time", "time of the last evidence"),
        ("impact_unit", "string", "ms_lost, records_at_risk, requests or bytes_wasted"),
        ("impact", "double", "what the finding costs, in this unit"),
        ("numbers", "map<string,string>", "the rule's measurements, as in the finding's JSON"),
        ("limits", "map<string,double>", "the thresholds that were applied"),
        ("coverage", "map<string,bigint>", "what was missing of the traffic that the finding rests on"),
        ("parent_id", "string", "id of the finding that explains this one"),
        ("actors", "array<struct<role:string,peer:string,client_id:string,member:string>>", "who takes part"),
        (
            "evidence",
            "array<struct<exchange:bigint,ts_ns:bigint,connection:bigint,role:string,note:string,path:string>>",
            "the exchanges that prove it, by time, as in the finding's JSON",
        ),
        ("fixes", "array<string>", "what to change, for the Java client, librdkafka or the broker"),
        ("verify", "string", "how to verify the change"),
        ("unknown", "array<string>", "what the capture does not tell"),
    ),
)

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        EXCHANGES, EXCHANGE_TOPICS, RECORD_BATCHES, RECORDS, GROUP_EVENTS, FLOWS, CAPTURES, ANOMALIES,
        FINDINGS,
    )
}  # fmt: skip
"""All tables by name."""

WITHOUT_BODIES: Final = (EXCHANGES.name, FLOWS.name, CAPTURES.name, ANOMALIES.name)
"""The tables that have rows if bodies are not read."""
FROM_BODIES: Final = (
    "broker_id", "client_software", "error_code", "error_counts", "throttle_time_ms", "acks", "group_id", "txn_id",
    "topics",
)  # fmt: skip
"""The columns of the table exchanges that are null if bodies are not read."""
OF_RECORDS: Final = ("key_bytes", "value_bytes", "header_bytes")
"""The columns with sizes of records, which are null unless batches are measured."""

USUAL: Final = tuple(name for name in TABLES if name not in {RECORDS.name, FINDINGS.name})
"""The tables that are written by default; the others cost as much as these together."""
