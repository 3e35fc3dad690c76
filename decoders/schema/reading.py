"""Parses a line of kproxy's data files of message definitions into a `Message`.

A line is a JSON object: name, kind, key (requests and responses), topic and record (records of internal topics),
release, versions, flexible, listeners, unstable, because (see `store.Definition`), fields, structs. A field has name,
type, and the attributes of `Field` that differ from their defaults. The fields of an inline struct stand in the field,
those of a shared struct in structs.
"""

from __future__ import annotations

import json
from typing import Any

from kproxy.decoders.schema.model import ALWAYS, NEVER, Field, Message, Struct, Versions

PRIMITIVES = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes", "records"}
)


def message(line: str | bytes) -> Message:
    """Parse a line. Raises ValueError or KeyError if the line does not have the form that this module describes."""
    return from_facts(json.loads(line))


def from_facts(facts: dict[str, Any]) -> Message:
    """The message that a parsed line of a data file defines."""
    shared: dict[str, Any] = {struct["name"]: struct for struct in facts.get("structs", ())}
    return Message(
        name=facts["name"],
        kind=facts["kind"],
        api_key=facts.get("key"),
        versions=Versions.parse(facts["versions"]),
        flexible=Versions.parse(facts["flexible"]),
        fields=_fields(facts["fields"], shared),
        release=facts["release"],
        listeners=tuple(facts.get("listeners", ())),
        unstable=Versions.parse(facts.get("unstable", "none")),
        topic=facts.get("topic"),
        record_type=facts.get("record"),
    )


def _fields(all_facts: list[dict[str, Any]], shared: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(_field(facts, shared) for facts in all_facts)


def _field(facts: dict[str, Any], shared: dict[str, Any]) -> Field:
    kind: str = facts["type"]
    versions = _versions(facts, "versions") or ALWAYS
    struct = None
    if "fields" in facts:
        struct = Struct(kind, versions, _fields(facts["fields"], shared))
    elif kind not in PRIMITIVES:
        known = shared[kind]
        struct = Struct(kind, Versions.parse(known["versions"]), _fields(known["fields"], shared))
    return Field(
        name=facts["name"],
        type=kind,
        array=facts.get("array", False),
        versions=versions,
        nullable=_versions(facts, "nullable") or NEVER,
        tagged=_versions(facts, "tagged") or NEVER,
        tag=facts.get("tag"),
        flexible=_versions(facts, "flexible"),
        default=facts.get("default"),
        map_key=facts.get("map_key", False),
        entity=facts.get("entity"),
        ignorable=facts.get("ignorable", False),
        struct=struct,
    )


def _versions(facts: dict[str, Any], name: str) -> Versions | None:
    text = facts.get(name)
    return None if text is None else Versions.parse(text)
