from __future__ import annotations

import json
from typing import Any

import pytest

from kproxy.decoders.compiler import decoder
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.schema import Field, Struct
from kproxy.decoders.schema.model import ALWAYS
from kproxy.decoders.writer import write
from tests.decoders.support import RELEASES, decoded
from tests.decoders.test_compiler import message


def form(field: Field, value: Any, *, flexible: bool = False) -> Any:
    definition = message(field, flexible=flexible)
    data = write(definition, 0, {field.name: value})
    return body_json(decoder(definition, 0)(data, 0, len(data))[0], definition, 0)[field.name]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (Field("a", "uuid"), bytes(16), "AAAAAAAAAAAAAAAAAAAAAA"),
        (Field("a", "uuid"), bytes([0xFB, 0xFF] * 8), "-__7__v_-__7__v_-__7_w"),
        (Field("a", "uuid", array=True), [bytes(15) + b"\x01"], ["AAAAAAAAAAAAAAAAAAAAAQ"]),
        (Field("a", "uuid", array=True, nullable=ALWAYS), None, None),
        (Field("a", "bytes"), b"\x00\xff\xfe", "AP/+"),
        (Field("a", "bytes", nullable=ALWAYS), None, None),
        (Field("a", "bytes", array=True), [b"a", b""], ["YQ==", ""]),
        (Field("a", "float64"), 1.5, 1.5),
        (Field("a", "float64"), float("nan"), "NaN"),
        (Field("a", "float64", array=True), [float("inf"), float("-inf")], ["Infinity", "-Infinity"]),
        (Field("a", "int64"), -(2**63), -(2**63)),
        (Field("a", "records", nullable=ALWAYS), None, None),
        (Field("a", "records"), b"", {"sizeInBytes": 0, "batches": [], "truncatedTail": 0}),
        (Field("a", "records"), b"12345", {"sizeInBytes": 5, "batches": [], "truncatedTail": 5}),
    ],
)
def test_values(field: Field, value: Any, expected: Any) -> None:
    assert form(field, value) == expected
    assert form(field, value, flexible=True) == expected


@pytest.mark.parametrize("plain", [True, False])
def test_unknown_tagged_fields(plain: bool) -> None:
    inner = Struct("S", ALWAYS, (Field("x", "int8" if plain else "uuid"),))
    value = [{"_unknownTaggedFields": [(7, b"ab")]}, {}]
    found = form(Field("a", "S", array=True, struct=inner), value, flexible=True)
    assert found[0]["_unknownTaggedFields"] == [{"tag": 7, "base64": "YWI="}]
    assert "_unknownTaggedFields" not in found[1]


def test_a_tagged_field_is_there_when_it_is_on_the_wire() -> None:
    definition = message(Field("a", "uuid", tagged=ALWAYS, tag=0), flexible=True)
    assert body_json({}, definition, 0) == {}
    assert body_json({"a": bytes(16)}, definition, 0) == {"a": "A" * 22}


@pytest.mark.parametrize("release", RELEASES)
def test_every_golden_body_can_be_dumped_and_is_left_as_it_was(release: str) -> None:
    for one, read in decoded(release):
        assert read.message is not None
        assert read.body is not None
        body = body_json(read.body, read.message, read.version)
        assert json.loads(json.dumps(body, allow_nan=False)) == body
        offset = read.body_start
        assert decoder(read.message, read.version)(one.frame, offset, len(one.frame))[0] == read.body
