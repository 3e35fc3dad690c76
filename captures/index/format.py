"""The files of an index, field by field. All numbers are little-endian.

An index is a directory:

    rows         a header of one row's size, then the rows; row i is exchange number i + 1. A row has 64 bytes, then
                 8 bytes for each attribute that decoders/fields.py says to store
    strings      a header of 16 bytes, then entries; a string's id is its offset in the file divided by 4
    connections  a header of 64 bytes, then 32 bytes for each connection; entry i is connection number i + 1
    details      a header of 16 bytes, then records that say where an exchange's bytes lie
    problems     one JSON object (kproxy.problem/1) a line: problems that belong to no exchange
    knowledge    one JSON object a line: {"fact": "topic", "about": topic id as hex digits, "known": its name}, or
                 "protocolType" or "protocol" about a group id; if a fact about a subject is repeated, the last counts
    meta.json    state, progress, sources and health, replaced as a whole

`rows` is appended when a request's header is readable, and the row is completed in place, so a reader that maps the
file sees that an exchange waits before it sees the response. `strings`, `details`, `problems` and `knowledge` are only
appended to. A row is written after everything that it points at.

An index of a ring drops the rows whose exchange began in a deleted file, and the strings, details and problems that
only such rows refer to. The header of `rows` holds the number of dropped rows; these rows, their strings and details
read as zeros, and take no space if the file system supports holes. Numbers and offsets stay the same. The first problem
is at "problems_from" of meta.json. Connections, 32 bytes each, are kept.

A writer never truncates or reuses the files of another writer: it creates new ones, and a changed `generation` in
meta.json tells readers to map those.

Extending the format: a new attribute of exchanges that is `stored` gives each row a further column; reserved bytes are
zero, which must mean "not known" in any later use; readers ignore unknown members of the JSON object in details. An
index whose meta.json names other stored attributes is built again. A change that an old reader would misread raises
VERSION, and an index of another version is built again.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import NamedTuple

from kproxy.decoders.exchange import Status
from kproxy.decoders.fields import STORED

VERSION = 2

ROWS = "rows"
STRINGS = "strings"
CONNECTIONS = "connections"
DETAILS = "details"
PROBLEMS = "problems"
KNOWLEDGE = "knowledge"
META = "meta.json"
STOP = "stop"
"""Name of the file whose creation tells the writer to stop reading; the state in meta.json is "stopped" then."""
VIEWS = "views"
"""Name of the subdirectory of an index that holds snapshots of views (captures.analysis.snapshots)."""

ROWS_MAGIC = b"KPXROWS\0"
STRINGS_MAGIC = b"KPXSTRS\0"
CONNECTIONS_MAGIC = b"KPXCONN\0"
DETAILS_MAGIC = b"KPXDETL\0"

_FIXED = struct.Struct("<qqIIihhIIIIIhBBHBBI")
"""The columns of `Row`: the first 64 bytes of each row."""
STORED_NAMES = [field.name for field in STORED]
"""Names of the stored attributes, in the order of their columns; meta.json lists them."""
ROW_SIZE = _FIXED.size + 8 * len(STORED)
ROWS_HEADER = struct.Struct(f"<8sHHIQQ{ROW_SIZE - 32}x")
"""Header of `rows`: magic, version, row size, reserved, changes, first; the rest is reserved.

`changes` counts how often rows were completed in place: if it has grown, rows that were read before may have changed.
`first` is the number of rows at the beginning that were dropped.
"""
CHANGES_OFFSET = 16
CHANGES = struct.Struct("<Q")
FIRST_OFFSET = 24
FIRST = struct.Struct("<Q")

CONNECTION_SIZE = 32
CONNECTIONS_HEADER = struct.Struct("<8sHHI48x")
"""Header of `connections`: magic, version, entry size, reserved; 48 reserved bytes."""

SHORT_HEADER = struct.Struct("<8sHHI")
"""Header of `strings` and of `details`: magic, version, reserved, reserved."""

MOST_PROTOCOLS = 255
"""Maximum number of dialects in an index; further ones share the last number."""
NO_SIZE = 0xFFFFFFFF
"""Size of a request or response that the capture lacks."""
LENGTH = 4
"""Size in bytes of a frame's length field, which the sizes in rows do not include."""
NO_LATENCY = -(2**63)
NO_NUMBER = -(2**15)
"""API key or version of an exchange that has none: an orphan response or a bare SASL token."""
NO_NODE = -(2**31)
NO_RECORDS = 0xFFFFFFFF
"""Number of records of an exchange whose messages have no records field."""

WRITTEN_ROW = struct.Struct(f"{_FIXED.format}{'q' * len(STORED)}")
"""A whole row as the writer packs it: the columns of `Row`, then the stored attributes."""
ROW = struct.Struct(f"{_FIXED.format}{8 * len(STORED)}x")
"""A whole row as readers unpack it: the columns of `Row`; stored attributes are skipped."""
NOT_THERE = -(2**63)
"""Value of a stored attribute that the exchange does not have."""
NOT_KNOWN = NOT_THERE + 1
"""Value of a stored attribute that could not be read from the exchange."""

CONNECTION = struct.Struct("<IIIiq8x")
"""Entry of `connections`: string id of the client, string id of the broker, flags (0), node id of the broker, first
time (ns since the epoch); 8 reserved bytes.
"""
assert CONNECTION.size == CONNECTION_SIZE  # noqa: S101


class State(IntEnum):
    """The status of an exchange as a byte; EMPTY is a row whose exchange is not known yet."""

    EMPTY = 0
    WAITING = 1
    OK = 2
    NO_REPLY_EXPECTED = 3
    NO_RESPONSE = 4
    ORPHAN_RESPONSE = 5
    UNDECODABLE = 6
    CUT = 7
    TLS = 8


STATE_OF = {status: State[status.name] for status in Status}
STATUS_OF = {state: status for status, state in STATE_OF.items()}


UNSETTLED = frozenset({State.EMPTY, State.WAITING})
"""States of rows whose exchange is incomplete."""


class Flag(IntFlag):
    """Bits that describe an exchange.

    1 << 11 and above are free for components in the path (held, edited, replayed) and for findings.
    """

    PROBLEMS = 1 << 0
    """A part of the exchange could not be decoded, paired or reassembled; the details list the problems."""
    MODIFIED = 1 << 1
    """kproxy changed bytes of a frame; the details hold the field's path, old and new value."""
    PARTIAL = 1 << 2
    """Bytes of a frame are missing from the capture."""
    THROTTLED = 1 << 3
    """The response's throttle time is above 0."""
    WAITED = 1 << 4
    """The exchange is a Fetch for which the broker waited because there was too little data (long poll)."""
    COMMENTED = 1 << 5
    """Frames of the exchange have packet comments."""
    GUESSED = 1 << 6
    """A body was decoded in the layout of another version than the exchange's."""
    OLDER_LAYOUT = 1 << 7
    """A body was decoded with the definitions of an older release."""
    TOKEN = 1 << 8
    """The exchange is a bare SASL token, which has no Kafka header."""
    CUT_RECORDS = 1 << 9
    """A records field ends within a batch, like that of a Fetch with a small limit."""
    NO_CORRELATION = 1 << 10
    """The exchange has no correlation id: a bare SASL token, TLS, or a dialect without correlation ids."""


class Row(NamedTuple):
    """The columns of an index row; the number in brackets is each column's offset in the row."""

    time: int
    """[0] int64, ns since the epoch: last byte of the request, or of the response if the request is missing."""
    latency: int
    """[8] int64, ns: the response's last byte minus the request's; NO_LATENCY if one of them is missing."""
    request_size: int
    """[16] uint32, bytes: the value of the request's length field; NO_SIZE if the request is missing."""
    response_size: int
    """[20] uint32, bytes: the value of the response's length field; NO_SIZE if the response is missing."""
    correlation: int
    """[24] int32: correlation id; 0 with the flag NO_CORRELATION."""
    api_key: int
    """[28] int16; NO_NUMBER if unknown."""
    api_version: int
    """[30] int16; NO_NUMBER if unknown."""
    connection: int
    """[32] uint32: connection number, from 1; its entry in `connections` has client, broker and node id."""
    client: int
    """[36] uint32: string id of the client id; 0 if it is null or unknown."""
    label: int
    """[40] uint32: string id of the text in the topic/group/transaction column."""
    records: int
    """[44] uint32: number of records; NO_RECORDS if the messages have no records field."""
    details: int
    """[48] uint32: the low 32 bits of (offset in `details` divided by 8); 0 without details."""
    error: int
    """[52] int16: first non-zero error code of the response; 0 without one."""
    more_errors: int
    """[54] uint8: number of further distinct error codes; 255 stands for 255 and more."""
    state: int
    """[55] uint8: State."""
    flags: int
    """[56] uint16: Flag."""
    protocol: int
    """[58] uint8: 0 for Kafka; for a dialect its place in "protocols" of meta.json, counted from 1."""
    details_high: int
    """[59] uint8: the next 8 bits of (offset in `details` divided by 8)."""
    subject: int
    """[60] uint32: string id of what the exchange concerns (`decoders.subjects.Subject.to_text`).

    0 if that is unknown or longer than SUBJECT_LIMIT.
    """


TAIL = "tail"
"""Name of a column that reads error, more_errors, state, flags and protocol of a row together, as one number."""


def _columns() -> dict[str, tuple[str, int, int]]:
    columns = {}
    offset = 0
    codes = WRITTEN_ROW.format.removeprefix("<")
    for name, code in zip((*Row._fields, *STORED_NAMES), codes, strict=True):
        size = struct.calcsize(f"<{code}")
        columns[name] = (code, offset, size)
        offset += size
    return columns | {TAIL: ("q", columns["error"][1], 8)}


COLUMNS: dict[str, tuple[str, int, int]] = _columns()
"""By name of a column: (format character of the struct module, offset in the row, size in bytes)."""


class ConnectionEntry(NamedTuple):
    """An entry of the file `connections`."""

    client: int
    """String id of "host:port" of the client, which opened the connection."""
    broker: int
    """String id of "host:port" of the broker."""
    flags: int
    node: int
    """The broker's node id; NO_NODE until Metadata has named it."""
    first_time: int
    """Time of the connection's first packet, in nanoseconds since the epoch."""


SUBJECT_LIMIT = 1024
"""Maximum size in bytes of a stored subject; a longer one is obtained by decoding the bodies."""

STRING_LENGTH = struct.Struct("<I")
"""The length in bytes before each string's UTF-8 bytes.

Entries are padded with zeros to a multiple of 4. Id 0 is the empty string.
"""
STRING_LIMIT = 4096
"""Maximum size in bytes of a stored string; a longer one, such as a huge client id, is cut and ends in an ellipsis."""

DETAIL = struct.Struct("<IBBHII")
"""Head of a record of `details`, which starts at a multiple of 8.

Its fields are: number of bytes after the head; sides (bit 0 request, bit 1 response); reserved; reserved; number of
bytes of JSON at the end, 0 without JSON; reserved.

After the head come a SIDE and its SPANs for the request, the same for the response, and the JSON object. Its members,
all optional: "problems" (a list), "comments" ({"request": […], "response": […]}), "reason", "throttle_ms", "errors"
(all error codes, if there are more than the row's one), "asked_by" ("broker"), "truths" (as `Exchange.truths`),
"session" (as `decoders.sasl.session.Session.to_json`).
"""
SIDE = struct.Struct("<qqqQIII4x")
"""A request or response in `details`.

Its fields are: stream offset, time of the first byte (ns), time of the last byte (ns), address of the first byte in the
source, size (value of the length field), number of missing bytes, number of spans.
"""
SPAN = struct.Struct("<QQ")
"""A span in `details`: address in the source, length in bytes."""


def pack_strings_header(magic: bytes) -> bytes:
    return SHORT_HEADER.pack(magic, VERSION, 0, 0)
