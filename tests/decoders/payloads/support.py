"""Schemas and viewers for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.decoders.payloads.avro import AvroViewer
from kproxy.decoders.payloads.cbor import CborViewer
from kproxy.decoders.payloads.hexadecimal import HexViewer
from kproxy.decoders.payloads.integers import IntegerViewer
from kproxy.decoders.payloads.json import JsonViewer
from kproxy.decoders.payloads.jsonschema import JsonSchemaViewer
from kproxy.decoders.payloads.msgpack import MessagePackViewer
from kproxy.decoders.payloads.protobuf import ProtobufViewer
from kproxy.decoders.payloads.schemas import IdKind, Missing, Part, Schema, SchemaType
from kproxy.decoders.payloads.text import TextViewer
from kproxy.decoders.payloads.viewer import Viewer

VIEWERS: tuple[Viewer, ...] = (
    AvroViewer(), CborViewer(), HexViewer(), IntegerViewer(), JsonViewer(), JsonSchemaViewer(), MessagePackViewer(),
    ProtobufViewer(), TextViewer(),
)  # fmt: skip


@dataclass
class Given:
    """A schema source with the given schemas; all others are missing."""

    ids: Mapping[tuple[IdKind, int | str], Schema] = field(default_factory=dict)
    names: Mapping[str, Schema] = field(default_factory=dict)

    def by_id(self, kind: IdKind, value: int | str) -> Schema | Missing:
        return self.ids.get((kind, value)) or Missing(f"schema {value} not found (404)")

    def by_name(self, topic: str, part: str) -> Schema | Missing:
        return self.names.get(f"{topic}-{part}") or Missing(f"no schema for {topic}-{part}")


def avro(schema: Any, *others: Any, number: int | None = None) -> Schema:
    parts = [Part("", json.dumps(one).encode()) for one in (*others, schema)]
    return Schema(SchemaType.AVRO, tuple(parts), "test", number)


def json_schema(schema: Any, **others: Any) -> Schema:
    parts = [Part(name, json.dumps(one).encode()) for name, one in others.items()]
    return Schema(SchemaType.JSON, (*parts, Part("", json.dumps(schema).encode())), "test")
