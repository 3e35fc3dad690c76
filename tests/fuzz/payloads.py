"""Any bytes in any viewer, with a schema or without, give a value that prints as JSON, or say why there is none."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import cbor2
import msgpack

from kproxy.decoders.payloads.choose import Chooser
from kproxy.decoders.payloads.schemas import IdKind, Part, Schema, SchemaType
from tests.decoders.payloads.support import VIEWERS, Given, avro, json_schema

TREE = {
    "type": "record", "name": "Tree",
    "fields": [
        {"name": "children", "type": {"type": "array", "items": "Tree"}},
        {"name": "more", "type": ["null", "Tree", "string", {"type": "map", "values": "null"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
    ],
}  # fmt: skip


def _descriptors() -> Schema:
    """Protobuf's own description of itself: deep, and with fields of many types."""
    from google.protobuf import descriptor_pb2

    part = Part("", descriptor_pb2.DESCRIPTOR.serialized_pb)
    return Schema(SchemaType.PROTOBUF, (part,), "fuzz", 2)


CHOOSER = Chooser(
    VIEWERS,
    (),
    Given(
        {(IdKind.ID, 1): avro(TREE, number=1), (IdKind.ID, 2): _descriptors()},
        {"j-value": json_schema({"type": "object", "additionalProperties": {"$ref": "#"}})},
    ),
)
NAMES = [None, *(viewer.name for viewer in VIEWERS)]


def _value(dice: Random, depth: int = 0) -> Any:
    kind = dice.randrange(5 if depth > 4 else 8)
    if kind < 5:
        return (None, dice.random(), dice.randbytes(3), "text", dice.getrandbits(63))[kind]
    if kind == 5:
        return {dice.choice(["a", "b", "c"]): _value(dice, depth + 1) for _ in range(dice.randrange(4))}
    return [_value(dice, depth + 1) for _ in range(dice.randrange(4))]


def _bytes(dice: Random) -> bytes:
    kind = dice.randrange(5)
    if kind == 0:
        data = msgpack.packb(_value(dice))
    elif kind == 1:
        data = cbor2.dumps(_value(dice))
    elif kind == 2:
        data = bytes([0, 0, 0, 0, dice.randrange(4)]) + bytes(dice.choices(range(5), k=dice.randrange(200)))
    elif kind == 3:
        data = bytes([0, 0, 0, 0, 2, 0]) + _descriptors().parts[0].content[: dice.randrange(500)]
    else:
        data = dice.randbytes(dice.randrange(100))
    changed = bytearray(data)
    for _ in range(dice.randrange(4) if changed else 0):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def once(dice: Random) -> None:
    data, part = _bytes(dice), dice.choice(["key", "value", "header"])
    topic, headers = dice.choice([None, "j"]), [(b"__value_schema_id", data)] if dice.randrange(2) else []
    for name in NAMES:
        shown = CHOOSER.look(topic, part, data, headers, name)
        json.dumps(shown.to_json(data), allow_nan=False).encode()
        assert shown.error is not None or not shown.failed
        assert shown.error is None or "Error: " not in shown.error, shown.error
