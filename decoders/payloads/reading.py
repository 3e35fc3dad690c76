"""Finds the schemas for a payload: by the schema id in its framing, or by the name of its topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kproxy.decoders.payloads.schemas import Missing, Schema, Schemas, SchemaType
from kproxy.decoders.payloads.viewer import Content, Payload, ViewError
from kproxy.decoders.payloads.wire import Framing, framing


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to decode a payload: a schema for `body`.

    `framed` is the payload's framing; None if all bytes are the body.

    `why` says where the schema comes from.
    """

    schema: Schema
    body: bytes
    framed: Framing | None
    why: str


def readings(payload: Payload, schemas: Schemas) -> Iterator[Reading]:
    """The ways to decode a payload, most likely first.

    If the schema with the payload's schema id is found, it is the only way. Otherwise the topic's schema is tried for
    the body after the framing, if there is one, and then for the whole payload.
    """
    framed = framing(payload)
    if framed is not None:
        found = schemas.by_id(framed.kind, framed.id)
        if isinstance(found, Schema):
            yield Reading(found, framed.body, framed, f"schema {framed.kind} {framed.id}, {found.origin}")
            return
    if payload.topic is None or payload.part == "header":
        return
    named = schemas.by_name(payload.topic, payload.part)
    if isinstance(named, Schema):
        if framed is not None:
            yield Reading(named, framed.body, framed, f"{named.origin}; schema {framed.kind} {framed.id} is missing")
        yield Reading(named, payload.data, None, named.origin)


def missing(payload: Payload, schemas: Schemas) -> str | None:
    """Why the schema with the payload's schema id is missing; None if it is found or the payload has no schema id."""
    framed = framing(payload)
    if framed is None:
        return None
    found = schemas.by_id(framed.kind, framed.id)
    return found.reason if isinstance(found, Missing) else None


class SchemaViewer:
    """Base class of viewers that decode payloads with a schema of one type."""

    name: str
    title: str
    priority = 900
    plain = False
    type: SchemaType

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        first = next(readings(payload, schemas), None)
        return first.why if first is not None and first.schema.type is self.type else None

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        """Decode with the first schema that fits. If none does, raises the ViewError of the first one."""
        wrong: ViewError | None = None
        for reading in readings(payload, schemas):
            try:
                return self._read(reading)
            except ViewError as error:
                wrong = wrong or error
        raise wrong or ViewError(missing(payload, schemas) or _nameless(payload, schemas))

    def _read(self, reading: Reading) -> Content:
        if reading.schema.type is not self.type:
            raise ViewError(f"the schema is {reading.schema.type}, from {reading.schema.origin}")
        return self.read(reading)

    def read(self, reading: Reading) -> Content:
        """Decode the body with the schema of this reading. Raises ViewError."""
        raise NotImplementedError

    def problem(self, schema: Schema) -> str | None:
        """Why a schema of the viewer's type cannot be used; None if it can."""
        raise NotImplementedError


Made = TypeVar("Made")


class CompilingViewer(SchemaViewer, Generic[Made]):
    """A viewer that compiles each schema once and decodes payloads with the result."""

    def compile(self, schema: Schema) -> Made | ViewError:
        """Compile a schema. An error is returned, not raised, so that it can be cached."""
        raise NotImplementedError

    def compiled(self, schema: Schema) -> Made:
        """The compiled schema. Raises ViewError if the schema cannot be used."""
        made = self.compile(schema)
        if isinstance(made, ViewError):
            raise made.with_traceback(None)
        return made

    def problem(self, schema: Schema) -> str | None:
        made = self.compile(schema)
        return str(made) if isinstance(made, ViewError) else None


def _nameless(payload: Payload, schemas: Schemas) -> str:
    if payload.topic is None:
        return "the payload holds no schema id, and its topic is unknown"
    found = schemas.by_name(payload.topic, payload.part)
    return found.reason if isinstance(found, Missing) else "no schema"
