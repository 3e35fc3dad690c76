"""Converts tables to Arrow: the schemas, and batches of rows as columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.tables.rows import Row
from kproxy.captures.tables.schema import Table

AT_ONCE: Final = 1024
"""Number of rows converted to columns at a time."""

_TEXT, _LONG = pa.string(), pa.int64()
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ACTORS: Final = pa.list_(pa.struct([(name, _TEXT) for name in ("role", "peer", "client_id", "member")]))
_EVIDENCE: Final = pa.list_(
    pa.struct([
        ("exchange", _LONG), ("ts_ns", _LONG), ("connection", _LONG), ("role", _TEXT), ("note", _TEXT), ("path", _TEXT),
    ])
)  # fmt: skip
_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "map<int,int>": pa.map_(pa.int32(), pa.int32()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,double>": pa.map_(pa.string(), pa.float64()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "double": pa.float64(),
    "array<struct<key:string,value:binary>>": _HEADERS,
    "array<struct<role:string,peer:string,client_id:string,member:string>>": _ACTORS,
    "array<struct<exchange:bigint,ts_ns:bigint,connection:bigint,role:string,note:string,path:string>>": _EVIDENCE,
}
"""For each type of the tables' schema, the Arrow type that Spark uses, so that Spark takes batches unchanged."""


@cache
def schema(table: Table) -> Any:
    """The pyarrow.Schema of a table; every column is nullable, as in Spark."""
    return pa.schema([pa.field(column.name, _TYPES[column.type]) for column in table.columns])


def batch(table: Table, rows: Sequence[Row]) -> Any:
    """A pyarrow.RecordBatch of rows with the values of `Table.given`; lone surrogates become "?".

    Raises ValueError if a row has another number of values.
    """
    given = table.given
    columns = zip(given, zip(*rows, strict=True) if rows else [()] * len(given), strict=True)
    arrays: dict[str, Any] = {column.name: _array(values, _TYPES[column.type]) for column, values in columns}
    for column in table.columns:
        if column.of:
            arrays[column.name] = _micros(*(arrays[name] for name in column.of)).cast(_TYPES[column.type])
    of_table = schema(table)
    return pa.record_batch([arrays[name] for name in of_table.names], schema=of_table)


def _micros(nanos: Any, before: Any = None) -> Any:
    """A column of nanoseconds in microseconds, rounded down; with `before`, `nanos - before`, null where negative."""
    since = nanos if before is None else pc.subtract(nanos, before)
    if (pc.min(since).as_py() or 0) < 0:
        # Arrow's division rounds towards 0
        less = pc.subtract(since, 999) if before is None else pa.scalar(None, since.type)
        since = pc.if_else(pc.less(since, 0), less, since)
    return pc.divide(since, 1000)


def _array(values: Any, type_: Any) -> Any:
    try:
        # Many columns are constant; checking for that is faster than converting every value.
        if values and values[0] is values[-1] and values.count(values[0]) == len(values):
            return pa.repeat(pa.scalar(values[0], type_), len(values))
        return pa.array(values, type_)
    except UnicodeEncodeError:
        return pa.array([_text(value) for value in values], type_)


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _text(one) for name, one in value.items()}
    return type(value)(map(_text, value)) if type(value) in {list, tuple} else value
