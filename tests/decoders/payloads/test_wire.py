"""Framing against Confluent's own class, and Apicurio's forms as documented."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.payloads.schemas import IdKind
from kproxy.decoders.payloads.viewer import Payload, ViewError
from kproxy.decoders.payloads.wire import Framing, framing, message_indexes

PATHS = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=8)


@given(st.integers(1, (1 << 31) - 1), PATHS, st.binary())
def test_an_id_and_indexes_in_front(number: int, path: list[int], rest: bytes) -> None:
    data = SchemaId("PROTOBUF", number, message_indexes=path).id_to_bytes() + rest
    found = framing(Payload("t", "value", data))
    assert found is not None
    assert (found.kind, found.id, found.in_header) == (IdKind.ID, number, False)
    indexes, start = message_indexes(found.body)
    assert (indexes, found.body[start:]) == (path, rest)


@given(st.uuids(), PATHS, st.binary(), st.sampled_from(["key", "value"]))
def test_a_guid_and_indexes_in_a_header(guid: UUID, path: list[int], data: bytes, part: str) -> None:
    header = SchemaId("PROTOBUF", guid=str(guid), message_indexes=path).guid_to_bytes()
    headers = [(b"other", b"x"), (f"__{part}_schema_id".encode(), header)]
    found = framing(Payload("t", part, data, headers))
    assert found is not None
    assert (found.kind, found.id, found.body) == (IdKind.GUID, str(guid), data)
    assert found.indexes is not None
    assert message_indexes(found.indexes)[0] == path
    other = "value" if part == "key" else "key"
    assert framing(Payload("t", other, b"x", headers)) is None


@given(st.binary(max_size=40))
def test_what_confluent_reads_as_framed_is_framed_here(data: bytes) -> None:
    """Exceptions are ids that no registry assigns, and Apicurio's longer ones."""
    ours = framing(Payload("t", "value", data))
    theirs = SchemaId("AVRO")
    if len(data) >= 5 and data[0] == 0 and 0 < int.from_bytes(data[1:5], "big") < 1 << 31:
        rest = theirs.from_bytes(io.BytesIO(data)).read()
        assert ours == Framing(IdKind.ID, theirs.id or 0, rest)
    elif ours is not None:
        assert ours.kind is IdKind.GLOBAL_ID


def test_an_id_with_nothing_behind_it() -> None:
    """Five bytes of framing suffice: the Protobuf or Avro value is empty."""
    data = b"\0" + (7).to_bytes(4, "big")
    assert framing(Payload("t", "value", data)) == Framing(IdKind.ID, 7, b"")
    assert framing(Payload("t", "value", data[:-1])) is None


@pytest.mark.parametrize("kind", [IdKind.GLOBAL_ID, IdKind.CONTENT_ID])
def test_apicurio_s_numbers(kind: IdKind) -> None:
    headers = [(f"apicurio.value.{kind}".encode(), (7).to_bytes(8, "big"))]
    assert framing(Payload("t", "value", b"\0data", headers)) == Framing(kind, 7, b"\0data", in_header=True)
    assert framing(Payload("t", "key", b"data", headers)) is None
    data = b"\0" + (7).to_bytes(8, "big") + b"data"
    assert framing(Payload("t", "value", data)) == Framing(IdKind.GLOBAL_ID, 7, b"data")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\x07", b"\1\0\0\0\1", b"\0\xff\0\0\0\1"])
def test_what_names_no_schema(data: bytes) -> None:
    assert framing(Payload("t", "value", data)) is None
    assert framing(Payload("t", "header", b"\0\0\0\0\1x")) is None


@pytest.mark.parametrize("data", [b"", b"\x04\x02", b"\x01", b"\xff" * 9, b"\xfe\xff\xff\x0f"])
def test_indexes_that_are_none(data: bytes) -> None:
    with pytest.raises(ViewError):
        message_indexes(data)
