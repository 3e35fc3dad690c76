"""The layout of one version of a message, on the wire and in JSON, for comparing two definitions."""

from __future__ import annotations

from kproxy.decoders.schema.model import Field, Message, Struct

Layout = tuple[object, ...]


def layout(message: Message, version: int) -> Layout:
    """Everything that decides the bytes and names of a message at `version`; equal layouts read and print the same."""
    flexible = version in message.flexible
    return (flexible, *_fields(message.fields, version, flexible=flexible))


def _fields(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Layout:
    plain: list[Layout] = []
    tagged: list[tuple[int, Layout]] = []
    for field in fields:
        if version not in field.versions:
            continue
        compact = version in field.flexible if field.flexible is not None else flexible
        shape: Layout = (
            field.name,
            _type(field.type, field.struct, version, flexible=flexible),
            field.array,
            version in field.nullable,
            compact,
        )
        if version in field.tagged and field.tag is not None:
            # if a tagged field is absent, its value is the default
            tagged.append((field.tag, (*shape, field.default)))
        else:
            plain.append(shape)
    return (*plain, *sorted(tagged))


def _type(name: str, struct: Struct | None, version: int, *, flexible: bool) -> str | Layout:
    return name if struct is None else _fields(struct.fields, version, flexible=flexible)
