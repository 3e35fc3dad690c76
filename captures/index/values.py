"""Reads the attributes of exchanges (decoders/fields.py) from the rows of an index."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from kproxy.captures.index import format as layout
from kproxy.captures.index.format import Flag, Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders.exchange_row import KAFKA, api_class, retriable, topics_of
from kproxy.decoders.fields import Field, Type
from kproxy.decoders.filters import Unavailable, Why
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.schema import Definitions
from kproxy.decoders.subjects import Subject

CHUNK: Final = 16_384
"""Number of rows in a chunk of columns."""

HALF_READ: Final = frozenset({State.UNDECODABLE, State.CUT, State.ORPHAN_RESPONSE, State.TLS})
"""States of exchanges with a body that could not be decoded."""
_MILLISECOND: Final = 1_000_000


NUMBER: Final = "number"
"""Name of a column with the numbers of exchanges, which are made from the rows' positions."""
SIZE: Final = "size"
"""Name of a column with the size in bytes of request and response together; NO_SIZE if both are missing."""


class Columns:
    """The columns, by name, of the rows [start, stop) of an index."""

    def __init__(self, index: IndexReader, start: int, stop: int) -> None:
        self.start = start
        self._data = index.raw(start, stop)
        self.count = len(self._data) // layout.ROW_SIZE
        self._made: dict[str, Sequence[int]] = {}

    def __getitem__(self, name: str) -> Sequence[int]:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(name)
        return made

    def _make(self, name: str) -> Sequence[int]:
        if name == NUMBER:
            return range(self.start + 1, self.start + 1 + self.count)
        if name == SIZE:
            none = layout.NO_SIZE
            return [
                (0 if asked == none else asked + layout.LENGTH) + (0 if answered == none else answered + layout.LENGTH)
                if asked != none or answered != none
                else none
                for asked, answered in zip(self["request_size"], self["response_size"], strict=True)
            ]
        code, offset, size = layout.COLUMNS[name]
        if size == 1 or not self.count:
            return self._data[offset :: layout.ROW_SIZE]
        if sys.byteorder == "big":
            one = struct.Struct(f"<{offset}x{code}{layout.ROW_SIZE - offset - size}x")
            return [value for (value,) in one.iter_unpack(self._data)]
        # The memory view begins at the column, because it is cast to the column's type, and ends with its last item.
        end = offset + (self.count - 1) * layout.ROW_SIZE + size
        column: memoryview[int] = memoryview(self._data)[offset:end].cast(cast("Any", code))
        return column[:: layout.ROW_SIZE // size].tolist()

    def row(self, at: int) -> Row:
        return Row._make(layout.ROW.unpack_from(self._data, at * layout.ROW_SIZE))


def _or_none(absent: int, value: int) -> int | None:
    return None if value == absent else value


def _frame_size(size: int) -> int | None:
    """Number of bytes of a frame whose length field says `size`; None if the frame is missing."""
    return None if size == layout.NO_SIZE else size + layout.LENGTH


class RowValues:
    """Functions that read the attributes of an exchange (decoders/fields.py) from its index row.

    They raise Unavailable if the row lacks the value. Rows hold neither their own number nor stored attributes: set
    `number`, from 1, before calling a function.
    """

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        self._index = index
        self._definitions = definitions
        self._subjects: dict[int, Subject] = {}
        self.number = 0

    def getter(self, name: str) -> Callable[[Row], Any]:
        """The function that reads the attribute `name` of a row."""
        index = self._index
        table: dict[str, Callable[[Row], Any]] = {
            "number": lambda _row: self.number,
            "connection": lambda row: row.connection,
            "client": lambda row: index.string(index.connection(row.connection).client),
            "broker": lambda row: index.string(index.connection(row.connection).broker),
            "node": self._node,
            "api_key": lambda row: _or_none(layout.NO_NUMBER, row.api_key),
            "api_class": lambda row: api_class(row.api_key, index.protocol(row), self._definitions),
            "protocol": lambda row: index.protocol(row) or KAFKA,
            "api_version": lambda row: _or_none(layout.NO_NUMBER, row.api_version),
            "correlation_id": lambda row: None if row.flags & Flag.NO_CORRELATION else row.correlation,
            "client_id": self._client_id,
            "topics": lambda row: topics_of(self._subject(row), index.knowledge),
            "groups": lambda row: self._subject(row).groups,
            "txns": lambda row: self._subject(row).txns,
            "acks": lambda row: self._subject(row).acks,
            "fetch_role": lambda row: self._subject(row).role,
            "status": _status,
            "status_seen": _status,
            "error_codes": self._errors,
            "retriable": self._retriable,
            "time": lambda row: row.time,
            "latency": lambda row: _or_none(layout.NO_LATENCY, row.latency),
            "throttle": self._throttle,
            "request_size": lambda row: _frame_size(row.request_size),
            "response_size": lambda row: _frame_size(row.response_size),
            "records": _records,
            "problem": lambda row: bool(row.flags & Flag.PROBLEMS),
            "partial": lambda row: bool(row.flags & Flag.PARTIAL),
            "modified": lambda row: bool(row.flags & Flag.MODIFIED),
            "commented": lambda row: bool(row.flags & Flag.COMMENTED),
            "at": _in_bodies,
        } | dict.fromkeys(_RECORD_ATTRIBUTES, _no_records)
        if name in layout.STORED_NAMES:
            return lambda _row: self._stored(name)
        return table.get(name, _in_bodies)

    def _stored(self, name: str) -> int | None:
        value = self._index.stored(self.number - 1, name)
        if value == layout.NOT_KNOWN:
            raise Unavailable(Why.NOT_INDEXED)
        return None if value == layout.NOT_THERE else value

    def _node(self, row: Row) -> int:
        node = self._index.connection(row.connection).node
        if node == layout.NO_NODE:
            raise Unavailable(Why.NODE)
        return node

    def _client_id(self, row: Row) -> str | None:
        text = self._index.string(row.client) if row.client else None
        if text is not None and text.endswith("…") and len(text.encode()) > layout.STRING_LIMIT - 8:
            raise Unavailable(Why.NOT_INDEXED)
        return text

    def _subject(self, row: Row) -> Subject:
        if not row.subject:
            raise Unavailable(Why.NOT_INDEXED)
        found = self._subjects.get(row.subject)
        if found is None:
            if len(self._subjects) >= CHUNK:
                self._subjects.clear()
            found = self._subjects[row.subject] = Subject.from_text(self._index.string(row.subject))
        return found

    def _errors(self, row: Row) -> Sequence[int]:
        if row.more_errors:
            return self._index.detail(row).errors
        if row.error:
            return (row.error,)
        _response_read(row)
        return ()

    def _retriable(self, row: Row) -> bool | None:
        codes = self._errors(row)
        return None if row.protocol else retriable(codes, row.api_key, row.api_version)

    def _throttle(self, row: Row) -> int | None:
        _response_read(row)
        return self._index.detail(row).throttle_ms * _MILLISECOND if row.flags & Flag.THROTTLED else None


def _status(row: Row) -> str:
    return layout.STATUS_OF[State(row.state)].value if row.state else "waiting"


def _response_read(row: Row) -> None:
    """Raise Unavailable if the response of a row's exchange was not decoded."""
    if row.state in HALF_READ or row.flags & Flag.PARTIAL:
        raise Unavailable(Why.UNDECODABLE)


def _records(row: Row) -> int | None:
    if row.records != layout.NO_RECORDS:
        return row.records
    _response_read(row)
    return None


_RECORD_ATTRIBUTES: Final = (
    "record_texts", "record_keys", "record_values", "record_headers", "record_offsets", "record_timestamps",
    "batch_codecs", "batch_sizes", "batch_magics",
)  # fmt: skip


def _no_records(row: Row) -> Sequence[Any]:
    if row.api_key == layout.NO_NUMBER or (row.api_key in PLACES and not row.protocol):
        raise Unavailable(Why.NOT_INDEXED)
    return ()


def _in_bodies(_row: Row) -> Any:
    raise Unavailable(Why.NOT_INDEXED)


_SUBJECT: Final = ("topic", "group", "txn", "acks", "fetch.role")
_TAIL: Final = ("error.retriable", "throttle", "problem", "partial", "modified", "commented", "error")
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "api": ("api_key",),
    "class": ("api_key", "protocol"),
    "protocol": ("protocol",),
    "version": ("api_version",),
    "client.id": ("client",),
    "client": ("connection",),
    "broker": ("connection",),
    "connection": ("connection",),
    "status": ("state",),
    **dict.fromkeys(_SUBJECT, ("subject",)),
    **dict.fromkeys(_TAIL, (layout.TAIL,)),
    "record": ("api_key", "protocol"),
    **{f"record.{part}": ("api_key", "protocol") for part in ("key", "value", "header", "offset", "timestamp")},
    **{f"batch.{part}": ("api_key", "protocol") for part in ("codec", "size", "magic")},
}
"""By field, the columns that determine its value, except in rows for which `of_row` is true."""

NUMBERS: Final[Mapping[str, tuple[str, int, int]]] = {
    "latency": ("latency", layout.NO_LATENCY, 0),
    "time": ("time", -(2**63), 0),
    "request.size": ("request_size", layout.NO_SIZE, layout.LENGTH),
    "response.size": ("response_size", layout.NO_SIZE, layout.LENGTH),
    "size": (SIZE, layout.NO_SIZE, 0),
    "records": ("records", layout.NO_RECORDS, 0),
    "correlation": ("correlation", 0, 0),
    "exchange": (NUMBER, 0, 0),
    **{name: (name, layout.NOT_KNOWN, 0) for name in layout.STORED_NAMES},
}
"""Fields with many different values: (column, number that means "absent", addend).

What "absent" means depends on the row's other columns. The field's value is the column's number plus the addend.
"""


def of_row(field: Field, row: Row) -> bool:
    """Whether the columns in KEYS do not suffice for a field's value, because the row's details or other columns have
    it.
    """
    if field.type is Type.ERROR or field.name == "error.retriable":
        return row.error != 0
    return field.name == "throttle" and bool(row.flags & Flag.THROTTLED)
