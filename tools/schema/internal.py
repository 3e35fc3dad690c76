"""Makes the rows of the data files for records of Kafka's internal topics and for the metadata of Streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kproxy.decoders.schema.model import Field, Message, Versions
from tools.schema import facts, jars
from tools.schema.facts import Json
from tools.schema.layout import layout

Identity = tuple[str, str, int]


def streams_facts(release: jars.Release) -> list[Json]:
    return [facts.compact(definition, definition["release"], unstable=False) for definition in release.streams]


def record_facts(release: jars.Release) -> dict[Identity, Json]:
    """One row per key, value or metadata record of a record type, sorted by topic, kind and number."""
    rows = [
        facts.compact(definition, release.version, unstable=False, topic=topic)
        for topic, definitions in release.records.items()
        for definition in [*definitions, *_numbered(definitions)]
        if "apiKey" in definition
    ]
    return dict(sorted((identity(row), row) for row in rows))


def identity(row: Json) -> Identity:
    """The identity of a record across releases: topic, kind and number, because names changed."""
    return row["topic"], row["kind"], row["record"]


def _numbered(definitions: list[Json]) -> Iterator[Json]:
    """Definitions of keys and values, one for each record type, from definitions of type "data".

    There, the key's version is the record type. If a key has several versions, only the last gets the value; the newest
    release defines the values of the others under separate names.
    """
    by_name = {definition["name"]: definition for definition in definitions if definition["type"] == "data"}
    for name, key in by_name.items():
        value = by_name.get(name.removesuffix("Key") + "Value")
        if not name.endswith("Key") or value is None:
            continue
        types = Versions.parse(key["validVersions"])
        for number in range(types.low, types.high + 1):
            fields = [
                field | {"versions": "0+"} for field in key["fields"] if number in Versions.parse(field["versions"])
            ]
            yield key | {"type": "coordinator-key", "apiKey": number, "validVersions": "0", "fields": fields}
        yield value | {"type": "coordinator-value", "apiKey": types.high}


def beside(newest: Json | None, older: Json) -> Iterator[Json]:
    """A row for each version of an older definition that the newest one lacks or reads differently."""
    ours, theirs = facts.parsed(newest) if newest else None, facts.parsed(older)
    for version in range(theirs.versions.low, theirs.versions.high + 1):
        if ours is None or version not in ours.versions:
            reason = "gone"
        elif layout(_as_of(ours, theirs, version), version) != layout(theirs, version):
            reason = "layout"
        else:
            continue
        yield facts.cut(older, Versions(version, version), reason)


def _as_of(ours: Message, theirs: Message, version: int) -> Message:
    """Our definition without tagged fields that were added later: it also reads messages that lack them."""
    return replace(ours, fields=_fields_as_of(ours.fields, theirs.fields, version))


def _fields_as_of(ours: tuple[Field, ...], theirs: tuple[Field, ...], version: int) -> tuple[Field, ...]:
    before = {field.name: field for field in theirs if version in field.versions}
    kept = []
    for field in ours:
        old = before.get(field.name)
        if old is None and version in field.tagged:
            continue
        struct = field.struct
        if old is not None and old.struct is not None and struct is not None:
            struct = replace(struct, fields=_fields_as_of(struct.fields, old.struct.fields, version))
        kept.append(replace(field, struct=struct))
    return tuple(kept)
