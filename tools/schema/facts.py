"""Converts a definition file of Kafka to one line of our data: facts in a fixed order, without documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kproxy.decoders.schema.model import ALWAYS, NEVER, Message, Versions
from kproxy.decoders.schema.reading import message

Json = dict[str, Any]


def compact(definition: Json, release: str, *, unstable: bool, topic: str | None = None) -> Json:
    """The facts of a definition, without those that have default values (see `decoders.schema.reading`).

    For a record of the internal `topic`, the definition's `apiKey` is the record type.
    """
    versions = Versions.parse(definition["validVersions"])
    facts: Json = {"name": definition["name"], "kind": definition["type"]}
    if topic is not None:
        facts |= {"topic": topic, "record": definition["apiKey"]}
    elif "apiKey" in definition:
        facts["key"] = definition["apiKey"]
    facts |= {"release": release, "versions": str(versions), "flexible": definition.get("flexibleVersions", "none")}
    if "listeners" in definition:
        facts["listeners"] = definition["listeners"]
    if unstable:
        facts["unstable"] = str(versions.high)
    facts["fields"] = [_field(field) for field in definition.get("fields", ())]
    if "commonStructs" in definition:
        facts["structs"] = [
            {
                "name": struct["name"],
                "versions": str(Versions.parse(struct["versions"])),
                "fields": [_field(field) for field in struct["fields"]],
            }
            for struct in definition["commonStructs"]
        ]
    return facts


def line(facts: Json) -> str:
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False) + "\n"


def parsed(facts: Json) -> Message:
    return message(line(facts))


def cut(facts: Json, versions: Versions, because: str) -> Json:
    """A copy of the facts with only what is needed to read `versions`, and with the reason for keeping them."""
    row = {name: value for name, value in facts.items() if name not in {"fields", "structs", "unstable"}}
    row["versions"] = str(versions)
    if "unstable" in facts and int(facts["unstable"]) in versions:
        row["unstable"] = facts["unstable"]
    row["because"] = because
    row["fields"] = _cut_fields(facts["fields"], versions)
    shared = [struct | {"fields": _cut_fields(struct["fields"], versions)} for struct in facts.get("structs", ())]
    used: set[str] = set()
    new = set(_types(row["fields"]))
    while new:
        used |= new
        new = {kind for struct in shared if struct["name"] in new for kind in _types(struct["fields"])} - used
    structs = [struct for struct in shared if struct["name"] in used]
    return row | {"structs": structs} if structs else row


def _cut_fields(fields: list[Json], versions: Versions) -> list[Json]:
    kept = []
    for field in fields:
        present = Versions.parse(field.get("versions", "0+"))
        if present.low <= versions.high and versions.low <= present.high:
            inner = {"fields": _cut_fields(field["fields"], versions)} if "fields" in field else {}
            kept.append(field | inner)
    return kept


def _types(fields: list[Json]) -> Iterator[str]:
    for field in fields:
        yield field["type"]
        yield from _types(field.get("fields", []))


def _field(field: Json) -> Json:
    name, kind = field["name"], field["type"]
    if "versions" not in field and "taggedVersions" in field:
        field = field | {"versions": field["taggedVersions"]}
    facts: Json = {"name": name[0].lower() + name[1:], "type": kind.removeprefix("[]")}
    if kind.startswith("[]"):
        facts["array"] = True
    for ours, theirs, usual in (
        ("versions", "versions", ALWAYS),
        ("nullable", "nullableVersions", NEVER),
        ("tagged", "taggedVersions", NEVER),
        ("flexible", "flexibleVersions", None),
    ):
        if theirs in field and (versions := Versions.parse(field[theirs])) != usual:
            facts[ours] = str(versions)
    if "tag" in field:
        facts["tag"] = int(field["tag"])
    # The string "null" is a default; Kafka's generator ignores a JSON null.
    if field.get("default") is not None:
        facts["default"] = _default(kind, field["default"])
    for ours, theirs in (("map_key", "mapKey"), ("entity", "entityType"), ("ignorable", "ignorable")):
        if field.get(theirs) not in {None, False, "false"}:
            facts[ours] = field[theirs]
    if "fields" in field:
        facts["fields"] = [_field(inner) for inner in field["fields"]]
    return facts


def _default(kind: str, default: object) -> object:
    if default == "null" or kind in {"string", "uuid"}:
        return default
    if kind == "bool":
        return str(default).lower() == "true"
    if kind.startswith(("int", "uint")):
        return int(str(default), 0)
    return default
