"""Schemas of payloads, and the interface to their sources; kproxy/schemas implements it for files and registries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class SchemaType(StrEnum):
    """Types of schemas, named as in schema registries."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class IdKind(StrEnum):
    """The kind of a schema's id: Confluent's id or GUID, Apicurio's global id or content id."""

    ID = "id"
    GUID = "guid"
    GLOBAL_ID = "globalId"
    CONTENT_ID = "contentId"


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a schema: JSON text, or a serialised FileDescriptorProto.

    Other files refer to it by `name`, which is "" if none does.
    """

    name: str
    content: bytes


@dataclass(frozen=True, eq=False, slots=True)
class Schema:
    """A schema with all schemas that it refers to. Compiled schemas are cached by this object's identity, so use one
    object for each schema.

    The last of `parts` is the schema itself. `id` is the id or GUID by which it was looked up; None if it was found by
    name. `origin` is "registry" or a file's name. `message` is the name of the Protobuf message if the origin gives
    one.
    """

    type: SchemaType
    parts: tuple[Part, ...]
    origin: str
    id: int | str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why a schema is missing ("schema 42 not found (404)").

    `pending` says that a later look-up may find it.
    """

    reason: str
    pending: bool = False


class Schemas(Protocol):
    """A source of schemas. Its methods never raise, and wait at most as long as its creator allows."""

    def by_id(self, kind: IdKind, value: int | str) -> Schema | Missing:
        """The schema with this id from a payload; a GUID is lower-case text with hyphens."""

    def by_name(self, topic: str, part: str) -> Schema | Missing:
        """The schema for the keys or the values (`part`) of a topic."""


class Chain:
    """Several sources, asked in order. If none has a schema, the result is the reason of the last one."""

    def __init__(self, members: Sequence[Schemas] = ()) -> None:
        self._members = members

    def by_id(self, kind: IdKind, value: int | str) -> Schema | Missing:
        found: Schema | Missing = Missing(f"{named(kind, value)} unknown: neither --schemas nor --registry is given")
        for member in self._members:
            found = member.by_id(kind, value)
            if isinstance(found, Schema):
                return found
        return found

    def by_name(self, topic: str, part: str) -> Schema | Missing:
        found: Schema | Missing = Missing(f"no schema for {topic}-{part}: neither --schemas nor --registry is given")
        for member in self._members:
            found = member.by_name(topic, part)
            if isinstance(found, Schema):
                return found
        return found


NONE = Chain()


def named(kind: IdKind, value: int | str) -> str:
    """A schema's id in words for messages: "schema 42", "schema globalId 7"."""
    return f"schema {value}" if kind in {IdKind.ID, IdKind.GUID} else f"schema {kind} {value}"
