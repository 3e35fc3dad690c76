"""The files of an index, field by field. Everything is little-endian.

An index is a directory:

    rows         a header of one row's size, then the rows; row i is exchange number i + 1. A row has 64 bytes, then
                 8 bytes for each attribute that decoders/fields.py says to store
    strings      a header of 16 bytes, then entries; a string's id is its offset in the file divided by 4
    connections  a header of 64 bytes, then 32 bytes a connection; entry i is connection number i + 1
    details      a header of 16 bytes, then records that say where an exchange's bytes lie
    problems     one JSON object (kproxy.problem/1) a line: what belongs to no exchange
    knowledge    one JSON object a line: {"fact": "topic", "about": topic id as hex digits, "known": its name}, or
                 "protocolType" or "protocol" about a group id; of one fact about one thing the last counts
    meta.json    state, progress, sources and health, replaced as a whole

`rows` is appended when a request's header is readable and completed in place, so a reader that maps it sees an
exchange wait before it sees its answer. `strings`, `details`, `problems` and `knowledge` are only appended to. A row is
written after everything that it points at.

An index of a ring drops rows whose exchange began in a deleted file, and what only such rows refer to. The header of
`rows` holds the number of dropped rows; these rows, their strings and details read as zeros, and take no space if the
file system supports holes. Numbers and offsets stay the same. `problems` begins at "problems_from" of meta.json.
Connections, 32 bytes each, are kept.

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
"""Creating this file tells the writer to stop reading; the state in meta.json is "stopped" then."""
VIEWS = "views"
"""Subdirectory of an index, for captures.analysis.snapshots."""

ROWS_MAGIC = b"KPXROWS\0"
STRINGS_MAGIC = b"KPXSTRS\0"
CONNECTIONS_MAGIC = b"KPXCONN\0"
DETAILS_MAGIC = b"KPXDETL\0"

_FIXED = struct.Struct("<qqIIihhIIIIIhBBHBBI")
"""The columns of `Row`, 64 bytes."""
STORED_NAMES = [field.name for field in STORED]
"""Names of the stored attributes, in the order of their columns; meta.json lists them."""
ROW_SIZE = _FIXED.size + 8 * len(STORED)
ROWS_HEADER = struct.Struct(f"<8sHHIQQ{ROW_SIZE - 32}x")
"""magic, version, row size, reserved, changes: how often rows were completed in place (any growth of it means that
rows seen before may have changed), first: rows at the beginning that were let go; the rest is reserved."""
CHANGES_OFFSET = 16
CHANGES = struct.Struct("<Q")
FIRST_OFFSET = 24
FIRST = struct.Struct("<Q")

CONNECTION_SIZE = 32
CONNECTIONS_HEADER = struct.Struct("<8sHHI48x")
"""magic, version, entry size, reserved; 48 reserved bytes."""

SHORT_HEADER = struct.Struct("<8sHHI")
"""magic, version, reserved, reserved: of `strings` and `details`."""

MOST_PROTOCOLS = 255
"""Maximum number of dialects with a number of their own."""
NO_SIZE = 0xFFFFFFFF
"""Size of a side that was not seen."""
LENGTH = 4
"""Bytes of a frame's length field, which a row's sizes exclude."""
NO_LATENCY = -(2**63)
NO_NUMBER = -(2**15)
"""API key or version of an exchange that has none (orphan response, bare token)."""
NO_NODE = -(2**31)
NO_RECORDS = 0xFFFFFFFF
"""Record count of an exchange that carries no records field."""

WRITTEN_ROW = struct.Struct(f"{_FIXED.format}{'q' * len(STORED)}")
"""A whole row: the columns of `Row`, then the stored attributes."""
ROW = struct.Struct(f"{_FIXED.format}{8 * len(STORED)}x")
"""A whole row, of which the columns of `Row` are read."""
NOT_THERE = -(2**63)
"""Stored attribute that the exchange does not have."""
NOT_KNOWN = NOT_THERE + 1
"""Stored attribute that could not be taken from the exchange."""

CONNECTION = struct.Struct("<IIIiq8x")
"""client string id, broker string id, flags (0), node id of the broker, first time (ns since the epoch); 8 reserved."""
assert CONNECTION.size == CONNECTION_SIZE  # noqa: S101


class State(IntEnum):
    """Status as a byte; EMPTY is a row whose exchange is not known yet."""

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
    """Bits of a row. 1 << 11 and above are free for what acts in the path (held, edited, replayed) and for findings."""

    PROBLEMS = 1 << 0
    """Something of it could not be decoded, paired or reassembled; the details say what."""
    MODIFIED = 1 << 1
    """kproxy changed bytes of a frame; the details carry path, old and new value."""
    PARTIAL = 1 << 2
    """Bytes of a frame are missing from the capture."""
    THROTTLED = 1 << 3
    """The response's throttle time is above 0."""
    WAITED = 1 << 4
    """A Fetch for which the broker waited because there was too little data (long poll)."""
    COMMENTED = 1 << 5
    """Its frames have packet comments."""
    GUESSED = 1 << 6
    """Decoded with another version than its own."""
    OLDER_LAYOUT = 1 << 7
    """Decoded with the definitions of an older release."""
    TOKEN = 1 << 8
    """A bare SASL token, which has no Kafka header."""
    CUT_RECORDS = 1 << 9
    """Records end within a batch, as those of a Fetch with a small limit do."""
    NO_CORRELATION = 1 << 10
    """There is no correlation id: a bare SASL token, TLS, a dialect without them."""


class Row(NamedTuple):
    """A row's columns. Offsets in the row are given in brackets."""

    time: int
    """[0] int64, ns since the epoch: last byte of the request (of the response where no request was seen)."""
    latency: int
    """[8] int64, ns: response's last byte minus request's last byte; NO_LATENCY where either is missing."""
    request_size: int
    """[16] uint32, bytes: the length field's value; NO_SIZE where the side was not seen."""
    response_size: int
    """[20] uint32, bytes."""
    correlation: int
    """[24] int32: correlation id, 0 where there is none (NO_CORRELATION)."""
    api_key: int
    """[28] int16, NO_NUMBER where not known."""
    api_version: int
    """[30] int16, NO_NUMBER where not known."""
    connection: int
    """[32] uint32: connection number, from 1; its entry names client, broker and the broker's node id."""
    client: int
    """[36] uint32: string id of the client id; 0 where it is null or not known."""
    label: int
    """[40] uint32: string id of the topic/group/transaction column."""
    records: int
    """[44] uint32: records carried, NO_RECORDS where the message has no records field."""
    details: int
    """[48] uint32: offset in `details` divided by 8, its low 32 bits; 0 is none."""
    error: int
    """[52] int16: first non-zero error code of the response, 0 none."""
    more_errors: int
    """[54] uint8: further distinct error codes, 255 stands for 255 and more."""
    state: int
    """[55] uint8: State."""
    flags: int
    """[56] uint16: Flag."""
    protocol: int
    """[58] uint8: 0 Kafka; a dialect's place in "protocols" of meta.json, counted from 1."""
    details_high: int
    """[59] uint8: the high 8 bits of the offset in `details`."""
    subject: int
    """[60] uint32: string id of what the exchange names (`decoders.subjects.Subject.to_text`); 0 where that is not
    known, or longer than SUBJECT_LIMIT."""


TAIL = "tail"
"""A column of its own: error, more_errors, state, flags and protocol of a row as one number."""


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
"""For each column: format character (of the struct module), offset in the row, size in bytes."""


class ConnectionEntry(NamedTuple):
    """An entry of `connections`."""

    client: int
    """String id of "host:port" of the side that opened it."""
    broker: int
    """String id of "host:port" of the other side."""
    flags: int
    node: int
    """The broker's node id once Metadata has named it, NO_NODE until then."""
    first_time: int
    """Nanoseconds since the epoch."""


SUBJECT_LIMIT = 1024
"""Maximum size of a stored subject, in bytes; a longer one is obtained by decoding the bodies."""

STRING_LENGTH = struct.Struct("<I")
"""Before each string's UTF-8 bytes; entries are padded with zeros to a multiple of 4. Id 0 is the empty string."""
STRING_LIMIT = 4096
"""Maximum size of a stored string, in bytes; longer ones are cut and end in an ellipsis. A client id may have 32767."""

DETAIL = struct.Struct("<IBBHII")
"""Head of a record of `details`, which starts at a multiple of 8: bytes that follow the head, sides (bit 0 request,
bit 1 response), reserved, reserved, bytes of JSON at the end (0 none), reserved. Then for each side a SIDE and its
SPANs, request first; then the JSON object {"problems": […], "comments": {"request": […], "response": […]},
"reason": …, "throttle_ms": …, "errors": [all codes, where the row's one is not all],
"asked_by": "broker", "truths": as `Exchange.truths`, "session": as `Session.to_json` of `decoders.sasl`},
of which each member may be absent."""
SIDE = struct.Struct("<qqqQIII4x")
"""stream offset, time of the first byte (ns), time of the last byte (ns), address of its first byte in the source,
size (length field), bytes missing, number of spans."""
SPAN = struct.Struct("<QQ")
"""address in the source, length."""


def pack_strings_header(magic: bytes) -> bytes:
    return SHORT_HEADER.pack(magic, VERSION, 0, 0)
