"""kproxy's reading of Protobuf by descriptors against Protobuf's own JSON mapping."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproxy.decoders.payloads.jsonvalue import json_value
from kproxy.decoders.payloads.protobuf import ProtobufViewer
from kproxy.decoders.payloads.reading import Reading
from kproxy.decoders.payloads.schemas import IdKind, Part, Schema, SchemaType
from kproxy.decoders.payloads.viewer import ViewError
from kproxy.decoders.payloads.wire import Framing
from tests.support.proto import classes, compiled

SOURCES = {
    "zoo.proto": """
        syntax = "proto3"; package zoo;
        import "google/protobuf/any.proto"; import "google/protobuf/duration.proto";
        import "google/protobuf/struct.proto"; import "google/protobuf/timestamp.proto";
        import "google/protobuf/wrappers.proto";
        message Second { message Inner { message Deep { bool x = 1; } string s = 1; } int32 n = 1; }
        message Animal {
          string name = 1; int64 big = 2; uint64 huge = 3; double weight = 4; bytes raw = 5; repeated sint32 list = 6;
          map<int32, Animal> friends = 7; Kind kind = 8; google.protobuf.Timestamp born = 9;
          google.protobuf.Duration age = 10; google.protobuf.Struct more = 11; google.protobuf.Any any = 12;
          google.protobuf.StringValue nick = 13; oneof home { string town = 14; Animal cave = 15; }
          google.protobuf.Int64Value count = 16; repeated Kind kinds = 17; map<bool, bytes> flags = 18;
        }
        enum Kind { CAT = 0; DOG = 1; }
        message First { bool before = 1; }
    """,
}


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(tmp_path_factory.mktemp("proto"), SOURCES)


@pytest.fixture(scope="module")
def animal(descriptors: bytes) -> Any:
    return classes(descriptors, "zoo.Animal")[0]


def schema(descriptors: bytes, message: str | None = None) -> Schema:
    files = FileDescriptorSet.FromString(descriptors).file
    parts = tuple(Part(file.name, file.SerializeToString()) for file in files)
    return Schema(SchemaType.PROTOBUF, parts, "test", message=message)


def read(schema: Schema, data: bytes, framed: Framing | None = None) -> Any:
    return json_value(ProtobufViewer().read(Reading(schema, data, framed, "")).value)


def test_all_kinds_of_fields(descriptors: bytes, animal: Any) -> None:
    one = animal(name="Ä", big=-(1 << 63), huge=(1 << 64) - 1, weight=0.5, raw=b"\0", list=[1, -2], kind=1, town="Ulm")
    one.friends[3].name = "b"
    one.born.FromJsonString("2026-11-21T05:48:00.5Z")
    one.age.FromJsonString("1.5s")
    one.more.update({"a": [1, None, "x"]})
    one.nick.value = "n"
    one.count.value = 1 << 60
    one.kinds.extend([0, 1, 7])
    one.flags[True] = b"\xff"
    inner = animal(name="inner")
    one.any.Pack(inner)
    assert read(schema(descriptors, "zoo.Animal"), one.SerializeToString()) == {
        "name": "Ä", "big": -(1 << 63), "huge": (1 << 64) - 1, "weight": 0.5, "raw": {"base64": "AA=="},
        "list": [1, -2], "friends": {"3": {"name": "b"}}, "kind": "DOG", "born": "2026-11-21T05:48:00.500Z",
        "age": "1.500s", "more": {"a": [1.0, None, "x"]},
        "any": {"@type": "type.googleapis.com/zoo.Animal", "name": "inner"}, "nick": "n", "town": "Ulm",
        "count": 1 << 60, "kinds": ["CAT", "DOG", 7], "flags": {"true": {"base64": "/w=="}},
    }  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(st.characters(exclude_categories=["Cs"])),
    integers=st.lists(st.integers(-(1 << 31), (1 << 31) - 1)),
    weight=st.floats(allow_nan=False, allow_infinity=False),
    seconds=st.integers(-62135596800, 253402300799),
)
def test_values_are_those_of_protobuf_s_own_json(
    descriptors: bytes, animal: Any, name: str, integers: list[int], weight: float, seconds: int
) -> None:
    one = animal(name=name, list=integers, weight=weight)
    one.born.seconds = seconds
    one.cave.name = name
    theirs = MessageToDict(one, preserving_proto_field_name=True)
    assert read(schema(descriptors, "Animal"), one.SerializeToString()) == theirs


@pytest.mark.parametrize(
    ("path", "data", "shown"),
    [
        ([0], b"\x08\x05", {"n": 5}),
        ([2], b"\x08\x01", {"before": True}),
        ([0, 0], b"\x0a\x01s", {"s": "s"}),
        ([0, 0, 0], b"\x08\x01", {"x": True}),
    ],
)
def test_indexes_lead_to_the_message(descriptors: bytes, path: Sequence[int], data: bytes, shown: Any) -> None:
    from confluent_kafka.schema_registry.serde import SchemaId

    prefix = SchemaId("PROTOBUF", 1, message_indexes=list(path)).id_to_bytes()[5:]
    known = schema(descriptors)
    assert read(known, prefix + data, Framing(IdKind.ID, 1, prefix + data)) == shown
    assert read(known, data, Framing(IdKind.GUID, "g", data, prefix, in_header=True)) == shown


def test_apicurio_s_reference_names_the_message(descriptors: bytes) -> None:
    name = b"First"
    reference = bytes([len(name) + 2, 0x0A, len(name)]) + name
    data = reference + b"\x08\x01"
    assert read(schema(descriptors), data, Framing(IdKind.GLOBAL_ID, 1, data)) == {"before": True}


def test_fields_that_the_type_does_not_know(descriptors: bytes) -> None:
    data = b"\x08\x01\x7a\x01a\x7a\x01b\x80\x01\x07"
    shown = {"before": True, "#15": [{"base64": "YQ=="}, {"base64": "Yg=="}], "#16": 7}
    assert read(schema(descriptors, "First"), data) == shown


def test_a_timestamp_out_of_range_is_its_fields(descriptors: bytes, animal: Any) -> None:
    one = animal()
    one.born.seconds = 1 << 60
    assert read(schema(descriptors, "Animal"), one.SerializeToString()) == {"born": {"seconds": 1 << 60}}


def test_messages_nest_only_so_deep(descriptors: bytes) -> None:
    data = b""
    for _ in range(3000):
        data = b"\x7a" + _varint(len(data)) + data
    with pytest.raises(ViewError, match="the bytes are not a zoo"):
        read(schema(descriptors, "Animal"), data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_any_in_any_ends(descriptors: bytes, animal: Any) -> None:
    one = animal()
    for _ in range(500):
        outer = animal()
        outer.any.Pack(one)
        one = outer
    with pytest.raises(ViewError, match="deep"):
        read(schema(descriptors, "Animal"), one.SerializeToString())


@pytest.mark.parametrize("keep", [0, 2])
def test_descriptors_that_lack_an_import(descriptors: bytes, keep: int) -> None:
    parts = schema(descriptors).parts
    whole = Schema(SchemaType.PROTOBUF, parts[-1:], "test")
    assert ProtobufViewer().problem(whole) is None
    assert ProtobufViewer().problem(Schema(SchemaType.PROTOBUF, (Part("", b"\xff"),), "test"))
    files = FileDescriptorSet.FromString(descriptors).file
    files[-1].dependency.append("confluent/meta.proto")
    lenient = Schema(SchemaType.PROTOBUF, (*parts[:keep], Part("", files[-1].SerializeToString())), "test")
    assert ProtobufViewer().problem(lenient) is None
    files[-1].message_type[0].field.add(
        name="lost", number=9, type="TYPE_MESSAGE", type_name=".confluent.Lost", label="LABEL_OPTIONAL"
    )
    lost = Schema(SchemaType.PROTOBUF, (*parts[:keep], Part("", files[-1].SerializeToString())), "test")
    assert "imports confluent/meta.proto" in (ProtobufViewer().problem(lost) or "")


def test_a_message_that_is_not_there(descriptors: bytes, tmp_path: Path) -> None:
    with pytest.raises(ViewError, match=r"no message zoo\.Nobody"):
        read(schema(descriptors, "zoo.Nobody"), b"")
    with pytest.raises(ViewError, match="no message 9"):
        read(schema(descriptors), b"", Framing(IdKind.GUID, "g", b"", b"\x02\x12", in_header=True))
    empty = compiled(tmp_path, {"empty.proto": 'syntax = "proto3";'})
    with pytest.raises(ViewError, match="no message"):
        read(schema(empty), b"")
