"""Display filters over an index: evaluated on its columns, chunk by chunk; rows that need their bodies open them.

A test runs once for each distinct value of the columns that it depends on; its result holds for all rows with that
value. Results have three values: 0 is no, 3 is yes, 1 is unknown from the columns. So `and` and `or` are the bitwise
operations on whole chunks.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from kproxy.captures.index import format as layout
from kproxy.captures.index.exchanges import Exchanges
from kproxy.captures.index.format import UNSETTLED, Flag, Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.decoders.filters import Expression, Unavailable, Why
from kproxy.decoders.filters.expression import And, Compare, Not, Or, Present, meant_errors
from kproxy.decoders.filters.fields import BY_NAME, Field, Type
from kproxy.decoders.filters.rows import KAFKA, api_class, retriable, topics_of
from kproxy.decoders.filters.values import LITERALS
from kproxy.decoders.records.places import PLACES
from kproxy.decoders.schema import Definitions
from kproxy.decoders.subjects import Subject

CHUNK: Final = 16_384
"""Rows per chunk of columns."""

_NO, _UNTOLD, _YES = 0, 1, 3
_OPPOSITE: Final = bytes([_YES, _UNTOLD, 2, _NO]) + bytes(252)

HALF_READ: Final = frozenset({State.UNDECODABLE, State.CUT, State.ORPHAN_RESPONSE, State.TLS})
"""States of rows for whose exchanges a body was not decoded."""
_MILLISECOND: Final = 1_000_000


NEARLY: Final = 1_024
"""How many of the last rows are searched for the newest request."""
NUMBER: Final = "number"
"""The column of exchange numbers, which follow from the positions of rows."""
SIZE: Final = "size"
"""The column of the bytes of both frames together, NO_SIZE if neither side was seen."""


class Columns:
    """The rows [start, stop) of an index as columns."""

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
        # A view of a larger type must begin where the column does, and end with it.
        end = offset + (self.count - 1) * layout.ROW_SIZE + size
        column: memoryview[int] = memoryview(self._data)[offset:end].cast(cast("Any", code))
        return column[:: layout.ROW_SIZE // size].tolist()

    def row(self, at: int) -> Row:
        return Row._make(layout.ROW.unpack_from(self._data, at * layout.ROW_SIZE))


def _or_none(absent: int, value: int) -> int | None:
    return None if value == absent else value


def _frame_size(size: int) -> int | None:
    """Bytes of a whole frame whose length field says `size`."""
    return None if size == layout.NO_SIZE else size + layout.LENGTH


class RowValues:
    """The attributes of `decoders.filters.Row`, as functions of an index row.

    They raise Unavailable if the row does not have the value. A row does not hold its own number: set `number` before
    running a filter that needs it.
    """

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        self._index = index
        self._definitions = definitions
        self._subjects: dict[int, Subject] = {}
        self.number = 0

    def getter(self, name: str) -> Callable[[Row], Any]:
        """The function that reads attribute `name`."""
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
        return table[name]

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
    """Raises Unavailable for a row without the content of its response."""
    if row.state in HALF_READ or row.flags & Flag.PARTIAL:
        raise Unavailable(Why.UNDECODABLE)


def _records(row: Row) -> int | None:
    if row.records != layout.NO_RECORDS:
        return row.records
    _response_read(row)
    return None


_RECORD_ATTRIBUTES: Final = ("record_keys", "record_values", "record_headers", "record_offsets", "record_timestamps")


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
    **{f"record.{part}": ("api_key", "protocol") for part in ("key", "value", "header", "offset", "timestamp")},
}
"""The columns that determine a field's value, except for the rows of `_of_row`."""

NUMBERS: Final[Mapping[str, tuple[str, int, int]]] = {
    "latency": ("latency", layout.NO_LATENCY, 0),
    "time": ("time", -(2**63), 0),
    "request.size": ("request_size", layout.NO_SIZE, layout.LENGTH),
    "response.size": ("response_size", layout.NO_SIZE, layout.LENGTH),
    "size": (SIZE, layout.NO_SIZE, 0),
    "records": ("records", layout.NO_RECORDS, 0),
    "correlation": ("correlation", 0, 0),
    "exchange": (NUMBER, 0, 0),
}
"""High-cardinality fields: (column, its number for "absent", whose meaning depends on the row's tail, and the field's
value minus the column's number).
"""


def _of_row(field: Field, row: Row) -> bool:
    """Whether the value depends on this row alone, because its details or further columns have it."""
    if field.type is Type.ERROR or field.name == "error.retriable":
        return row.error != 0
    return field.name == "throttle" and bool(row.flags & Flag.THROTTLED)


def _number_fits(test: Compare) -> Callable[[int], bool]:
    """A test of the field's value, given the column's number."""
    more = NUMBERS[test.field.name][2]
    if not more:
        return test.fits()
    return replace(test, values=tuple(int(value) - more for value in test.values)).fits()


class _Test:
    """One comparison over columns; caches its result for each value."""

    def __init__(self, test: Compare | Present, values: RowValues) -> None:
        self._field = test.field
        self._values = values
        self._asks = test.compile(values.getter)
        self._fits = _number_fits(test) if isinstance(test, Compare) and test.field.name in NUMBERS else None
        self._known: dict[Hashable, int] = {}

    def codes(self, columns: Columns) -> bytes:
        field = self._field
        if self._fits is not None:
            return self._numbers(columns, self._fits)
        names = KEYS.get(field.name)
        if names is None:
            return bytes(self._ask(columns, at) for at in range(columns.count))
        keys: Sequence[Hashable] = (
            columns[names[0]] if len(names) == 1 else list(zip(*(columns[name] for name in names), strict=True))
        )
        single = self._learn(columns, keys)
        known = self._known
        codes = bytearray(map(known.__getitem__, keys))
        if single:
            for at, key in enumerate(keys):
                if key in single:
                    codes[at] = self._ask(columns, at)
        for key in [key for key, code in known.items() if code == _UNTOLD]:
            del known[key]  # facts learnt later may decide it
        return bytes(codes)

    def _learn(self, columns: Columns, keys: Sequence[Hashable]) -> set[Hashable]:
        """Evaluate new values; returns the values whose rows must be evaluated one by one."""
        single: set[Hashable] = set()
        for key in set(keys):
            if key in self._known:
                continue
            at = keys.index(key)
            if _of_row(self._field, columns.row(at)):
                single.add(key)
                self._known[key] = _UNTOLD
            else:
                self._known[key] = self._ask(columns, at)
        return single

    def _ask(self, columns: Columns, at: int) -> int:
        self._values.number = columns.start + at + 1
        try:
            return _YES if self._asks(columns.row(at)) else _NO
        except Unavailable:
            return _UNTOLD

    def _numbers(self, columns: Columns, fits: Callable[[int], bool]) -> bytes:
        column, absent, _ = NUMBERS[self._field.name]
        numbers = columns[column]
        codes = bytearray([_YES if fits(number) else _NO for number in numbers])
        if absent in numbers:
            codes_by_tail: dict[int, int] = {}
            tails = columns[layout.TAIL]
            for at, number in enumerate(numbers):
                if number == absent:
                    if tails[at] not in codes_by_tail:
                        codes_by_tail[tails[at]] = self._ask(columns, at)
                    codes[at] = codes_by_tail[tails[at]]
        return bytes(codes)


Codes = Callable[[Columns], bytes]


def _compile(expression: Expression, values: RowValues) -> Codes:
    if isinstance(expression, Not):
        item = _compile(expression.item, values)
        return lambda columns: item(columns).translate(_OPPOSITE)
    if isinstance(expression, And | Or):
        return _joined(expression, [_compile(item, values) for item in expression.items])
    if isinstance(expression, Compare | Present):
        return _Test(expression, values).codes
    raise TypeError(f"no filter over an index: {expression!r}")


def _joined(expression: And | Or, items: Sequence[Codes]) -> Codes:
    every = isinstance(expression, And)

    def codes(columns: Columns) -> bytes:
        size = columns.count
        decided = bytes([_NO if every else _YES]) * size
        found = items[0](columns)
        for item in items[1:]:
            if found == decided:
                break
            one, other = int.from_bytes(found, "little"), int.from_bytes(item(columns), "little")
            found = (one & other if every else one | other).to_bytes(size, "little")
        return found

    return codes


def newest(index: IndexReader) -> int:
    """Time of the newest request in ns since the epoch, 0 without one; rows are nearly in time order."""
    return max(Columns(index, max(index.first, index.count - NEARLY), index.count)["time"], default=0)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan of the rows up to `stop`: numbers of matching rows, numbers of incomplete rows, and how many
    other rows are undecided, by reason. An incomplete row may already match.
    """

    stop: int
    matched: list[int]
    unsettled: list[int]
    unknown: Counter[Why]


class IndexFilter:
    """A filter over an index. Row numbers count from 0. Never raises on bad bytes or deleted captures.

    Times relative to the end count back from the newest request in the index.
    """

    def __init__(self, index: IndexReader, expression: Expression, definitions: Definitions) -> None:
        self._index = index
        self._values = RowValues(index, definitions)
        expression = expression.anchored(newest(index))
        self._codes = _compile(expression, self._values)
        self._exchanges = Exchanges(index, definitions)
        self._asks = expression.compile(self._getter)

    def scan(self, start: int, stop: int, *, most_bodies: int | None = None) -> Scan:
        """Test the rows [start, stop), at most CHUNK of them; ends earlier once `most_bodies` exchanges were opened."""
        columns = Columns(self._index, start, min(stop, start + CHUNK, self._index.count))
        states = columns["state"]
        codes = self._codes(columns) if columns.count else b""
        matched: list[int] = []
        unsettled = (
            [start + at for at, state in enumerate(states) if state in UNSETTLED]
            if State.EMPTY in states or State.WAITING in states
            else []
        )
        unknown: Counter[Why] = Counter()
        opened = 0
        for at, code in enumerate(codes):
            if not code or states[at] == State.EMPTY:
                continue
            if code == _YES:
                matched.append(start + at)
                continue
            if opened == most_bodies:
                end = start + at
                return Scan(end, matched, [number for number in unsettled if number < end], unknown)
            opened += 1
            answer = self._test(start + at, columns.row(at))
            if answer is True:
                matched.append(start + at)
            elif isinstance(answer, Why) and states[at] not in UNSETTLED:
                unknown[answer] += 1
        return Scan(start + columns.count, matched, unsettled, unknown)

    def test(self, number: int) -> bool | Why:
        """Whether a row matches now, or why that is undecided."""
        return self._test(number, self._index.row(number))

    def close(self) -> None:
        self._exchanges.close()

    def _test(self, number: int, row: Row) -> bool | Why:
        if row.state == State.EMPTY:
            return False
        self._values.number = number + 1
        try:
            return self._asks(row)
        except Unavailable as unavailable:
            return unavailable.why

    def _getter(self, name: str) -> Callable[[Row], Any]:
        """An attribute from the row, or from the bodies if the row does not have it."""
        stored = self._values.getter(name)
        if name == "node":
            return stored  # the bodies do not have it either: it comes from Metadata of other exchanges

        def read(row: Row) -> Any:
            try:
                return stored(row)
            except Unavailable:
                return getattr(self._exchanges.row(self._values.number, row), name)

        return read


class SeenValues:
    """The values of fields in an index, with the number of exchanges that have each: `decoders.filters.Seen`.

    Counts rows as far as they were written at the time of the call, and only fields that columns have.
    """

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        self._index = index
        self._values = RowValues(index, definitions)
        self._counted: dict[str, tuple[int, Counter[str]]] = {}
        self._generation = index.generation

    def __call__(self, name: str) -> Iterable[tuple[str, int]]:
        """(value, count) of a field, the most frequent first; empty for a field without columns."""
        while self.advance(name):
            pass
        return self.so_far(name)

    def so_far(self, name: str) -> list[tuple[str, int]]:
        """The counts so far, the most frequent first."""
        return self._counted[name][1].most_common() if name in self._counted else []

    def advance(self, name: str) -> bool:
        """Count a field's values in the next CHUNK of rows; True if rows are left."""
        field = BY_NAME.get(name)
        if field is None or name not in KEYS or field.type is Type.FLAG:
            return False
        if self._generation != self._index.generation:
            self._counted.clear()
            self._generation = self._index.generation
        start, counts = self._counted.get(name, (0, Counter()))
        start = max(start, self._index.first)
        columns = Columns(self._index, start, min(start + CHUNK, self._index.count))
        self._count(field, columns, counts)
        self._counted[name] = start + columns.count, counts
        return start + columns.count < self._index.count

    def _count(self, field: Field, columns: Columns, counts: Counter[str]) -> None:
        keys: Sequence[Hashable] = list(zip(*(columns[name] for name in KEYS[field.name]), strict=True))
        get = self._values.getter(field.attributes[0])
        if field.type is Type.ERROR:
            get = meant_errors(get, self._values.getter)
        write = str if field.type in {Type.TEXT, Type.ADDRESS, Type.BROKER} else LITERALS[field.type].write
        single: set[Hashable] = set()
        for key, times in Counter(keys).items():
            row = columns.row(keys.index(key))
            if row.state == State.EMPTY or _of_row(field, row):
                single.add(key)
            else:
                self._add(field, get, row, times, counts, write)
        if single:
            for at, key in enumerate(keys):
                if key in single and columns["state"][at] != State.EMPTY:
                    self._add(field, get, columns.row(at), 1, counts, write)

    def _add(
        self,
        field: Field,
        get: Callable[[Row], Any],
        row: Row,
        times: int,
        counts: Counter[str],
        write: Callable[..., str],
    ) -> None:
        try:
            value = get(row)
            for one in value if field.many else () if value is None else (value,):
                counts[write(one)] += times
        except Unavailable:
            return
