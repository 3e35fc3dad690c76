"""Schemas of payloads, and how viewers ask for them; files and registries give them (kproxy/schemas)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class SchemaType(StrEnum):
    """As schema registries call them."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class IdKind(StrEnum):
    """What a schema's number is: Confluent's id or GUID, Apicurio's global id or content id."""

    ID = "id"
    GUID = "guid"
    GLOBAL_ID = "globalId"
    CONTENT_ID = "contentId"


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a schema: JSON text, or a serialised FileDescriptorProto.

    `name` is what other files refer to it by, "" where none does.
    """

    name: str
    content: bytes


@dataclass(frozen=True, eq=False, slots=True)
class Schema:
    """A schema with everything that it refers to; the same object for the same schema, so that readers are kept by it.

    The last of `parts` is the schema itself. `id` is its number or GUID where it was asked for by that. `origin` is
    "registry" or a file's name. `message` is the Protobuf message where the origin names one.
    """

    type: SchemaType
    parts: tuple[Part, ...]
    origin: str
    id: int | str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """No schema, and why ("schema 42 not found (404)"). `pending`: it may be there when it is asked for again."""

    reason: str
    pending: bool = False


class Schemas(Protocol):
    """Where viewers get schemas from. Never raises, and never waits longer than whoever made it allows."""

    def by_id(self, kind: IdKind, value: int | str) -> Schema | Missing:
        """The schema that a payload names; a GUID is text in lower case with hyphens."""

    def by_name(self, topic: str, part: str) -> Schema | Missing:
        """The schema of all keys or values of a topic."""


class Chain:
    """Asks one after the other; the last one's reason where none has it."""

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
    """A schema in a sentence: "schema 42", "schema globalId 7"."""
    return f"schema {value}" if kind in {IdKind.ID, IdKind.GUID} else f"schema {kind} {value}"
