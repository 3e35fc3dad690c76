"""kproxy's reading of Avro against fastavro's."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from fastavro.utils import generate_many
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.payloads.avro import AvroViewer, Cursor, reader_of
from kproxy.decoders.payloads.jsonvalue import json_value
from kproxy.decoders.payloads.reading import Reading
from kproxy.decoders.payloads.viewer import ViewError
from tests.decoders.payloads.support import avro

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "double"}]}
TREE = {
    "type": "record", "name": "Tree", "namespace": "t",
    "fields": [
        {"name": "value", "type": "int"},
        {"name": "children", "type": {"type": "array", "items": "Tree"}},
        {"name": "parent", "type": ["null", "Tree"]},
    ],
}  # fmt: skip
SCHEMAS: list[Any] = [
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
    {"type": "fixed", "name": "F", "size": 5},
    {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
    {"type": "array", "items": "long"},
    {"type": "map", "values": {"type": "array", "items": "string"}},
    ["null", "string", POINT],
    POINT,
    {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {"type": "fixed", "name": "G", "size": 3}},
        {"name": "b", "type": "G"},
        {"name": "c", "type": ["null", {"type": "enum", "name": "H", "symbols": ["X", "Y"]}]},
        {"name": "d", "type": "H"},
    ]},
]  # fmt: skip


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, data: bytes, *others: Any) -> Any:
    """The decoded value as JSON. Raises ViewError."""
    return json_value(AvroViewer().read(Reading(avro(schema, *others), data, None, "")).value)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_values_are_fastavro_s(schema: Any) -> None:
    for value in generate_many(schema, 50):
        data = written(schema, value)
        theirs = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)
        assert json.dumps(read(schema, data)) == json.dumps(json_value(theirs))


def test_a_type_may_hold_itself() -> None:
    leaf = {"value": 2, "children": [], "parent": None}
    tree = {"value": 1, "children": [leaf, leaf], "parent": leaf}
    assert read(TREE, written(TREE, tree)) == tree


LOGICAL = [
    ("int", "date", date(2026, 11, 21), "2026-11-21"),
    ("int", "time-millis", time(1, 2, 3, 4000), "01:02:03.004"),
    ("long", "time-micros", time(23, 59, 59, 999999), "23:59:59.999999"),
    ("long", "timestamp-millis", datetime(2026, 11, 21, 5, 48, 0, 1000, UTC), "2026-11-21T05:48:00.001Z"),
    ("long", "timestamp-micros", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "1969-12-31T23:59:59.999999Z"),
    ("long", "local-timestamp-millis", datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05.000"),  # noqa: DTZ001 (it has none)
    ("long", "timestamp-nanos", 1, "1970-01-01T00:00:00.000000001Z"),
    ("string", "uuid", UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ("long", "of-tomorrow", 5, 5),
    ("long", "timestamp-millis", 1 << 62, 1 << 62),
    ("int", "time-millis", -1, -1),
]


@pytest.mark.parametrize(("kind", "logical", "value", "shown"), LOGICAL)
def test_logical_types_are_text(kind: str, logical: str, value: Any, shown: Any) -> None:
    schema = {"type": kind, "logicalType": logical}
    assert read(schema, written(kind if isinstance(value, int) else schema, value)) == shown


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9))
def test_decimals(value: Decimal) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
    assert Decimal(read(schema, written(schema, value))) == value


def test_fixed_logical_types() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    assert read(duration, bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])) == {"months": 1, "days": 2, "milliseconds": 3}
    amount = {"type": "fixed", "name": "A", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
    assert read(amount, b"\xff\xff") == "-0.01"
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": amount}, {"name": "b", "type": "A"}]}
    assert read(record, b"\x00\x01\x00\x02") == {"a": "0.01", "b": "0.02"}


def test_types_of_other_files_in_any_order() -> None:
    a = {"type": "record", "name": "n.A", "fields": [{"name": "b", "type": "n.B"}]}
    b = {"type": "record", "name": "n.B", "fields": [{"name": "x", "type": "int"}]}
    main = {"type": "record", "name": "n.M", "fields": [{"name": "a", "type": "n.A"}]}
    assert read(main, b"\x02", a, b) == read(main, b"\x02", b, a) == {"a": {"b": {"x": 1}}}


NULLS = {"type": "array", "items": "null"}
MANY = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # a count of 2^63 - 1


def doubling(levels: int) -> Any:
    """A record with two fields of the next record, and so on to one without fields: 2^levels values in no bytes."""
    schema: Any = {"type": "record", "name": "L0", "fields": []}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}"}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}
    return schema


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (NULLS, MANY),
        (NULLS, b"\x80\x80\x80\x80\x10"),
        ({"type": "map", "values": "null"}, MANY),
        ({"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}}, MANY),
        ("bytes", MANY),
        ("string", b"\x01"),
        (doubling(40), b""),
        (TREE, b"\x00\x02" * 5000),
        ({"type": "array", "items": "null"}, b"\xff" * 20),
        (["null"], b"\x04"),
        ("boolean", b"\x02"),
        ("int", b"\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("null", b"\0"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_no_payload_holds_ends_with_a_reason(schema: Any, data: bytes) -> None:
    with pytest.raises(ViewError):
        read(schema, data)


@pytest.mark.parametrize("content", [b"", b"{", b'"no.such"', b'{"type": "record"}', b"[" * 5000 + b"]" * 5000, b"7"])
def test_a_bad_schema_is_told(content: bytes) -> None:
    from kproxy.decoders.payloads.schemas import Part, Schema, SchemaType

    schema = Schema(SchemaType.AVRO, (Part("", content),), "test")
    assert "schema" in (AvroViewer().problem(schema) or "")
    assert isinstance(reader_of(schema), ViewError)


@given(st.sampled_from([*SCHEMAS, TREE]), st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_reason(schema: Any, data: bytes) -> None:
    reader = reader_of(avro(schema))
    assert not isinstance(reader, ViewError)
    cursor = Cursor(data)
    try:
        reader(cursor)
    except ViewError:
        return
    assert cursor.at <= len(data)
