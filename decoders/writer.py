"""Encodes values as bytes, as Kafka's generated classes do."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import write_unsigned_varint
from kproxy.decoders.schema.layout import RANGES, UNKNOWN_TAGS, Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Field, Message

_MAX_STRING = (1 << 15) - 1


class WriteError(ValueError):
    """A value does not fit its field; `path` names the field."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


def write(message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    """Encode `values`, in the form of the compiled functions, as `version` of a message.

    A missing field gets its default; a tagged field is written only if it is present. Raises WriteError for a value
    that does not fit its field, and for a name that the version does not have.
    """
    out = bytearray()
    _fields(out, layout_of(message, version), values, "")
    return bytes(out)


def _fields(out: bytearray, layout: Layout, values: Mapping[str, Any], path: str) -> None:
    written = 0
    for slot in layout.slots:
        where = f"{path}.{slot.name}" if path else slot.name
        if slot.name in values:
            written += 1
            _value(out, slot, values[slot.name], where)
        else:
            _value(out, slot, default(slot), where)
    if layout.flexible:
        written += _tags(out, layout, values, path)
    if written != len(values):
        strange = next(name for name in values if name not in layout.order and name != UNKNOWN_TAGS)
        raise WriteError(f"this version has no field {strange}", path)


def _tags(out: bytearray, layout: Layout, values: Mapping[str, Any], path: str) -> int:
    """Write the tagged fields in the order of their tags, including unknown ones; returns how many there are.

    Unknown fields keep their relative order.
    """
    known = [(tag, slot) for tag, slot in layout.tagged.items() if slot.name in values]
    unknown = list(values.get(UNKNOWN_TAGS, ()))
    out += write_unsigned_varint(len(known) + len(unknown))
    for tag, slot in known:
        while unknown and unknown[0][0] < tag:
            _raw(out, *unknown.pop(0))
        inner = bytearray()
        _value(inner, slot, values[slot.name], f"{path}.{slot.name}" if path else slot.name)
        _raw(out, tag, inner)
    for tag, data in unknown:
        _raw(out, tag, data)
    return len(known) + (UNKNOWN_TAGS in values)


def _raw(out: bytearray, tag: int, data: bytes | bytearray | memoryview) -> None:
    out += write_unsigned_varint(tag)
    out += write_unsigned_varint(len(data))
    out += data


def _length(out: bytearray, slot: Slot, length: int, code: str) -> None:
    """Write a length or count in the field's encoding; -1 stands for null."""
    out += write_unsigned_varint(length + 1) if slot.compact else struct.pack(code, length)


def _null(out: bytearray, slot: Slot, path: str) -> None:
    if not slot.nullable:
        raise WriteError("null, where the definition allows no null", path)
    if slot.shape is Shape.STRUCT:
        out += b"\xff" if slot.tag is None else b"\0"
    else:
        _length(out, slot, -1, ">h" if slot.shape is Shape.STRING else ">" + slot.count)


def _value(out: bytearray, slot: Slot, value: Any, path: str) -> None:
    shape = slot.shape
    if shape is Shape.FIXED:
        out += _fixed(slot, value, path)
    elif value is None:
        _null(out, slot, path)
    elif shape is Shape.STRING:
        try:
            data = value.encode()
        except (AttributeError, UnicodeEncodeError):
            raise WriteError(f"{value!r} is not a string", path) from None
        if len(data) > _MAX_STRING:
            raise WriteError(f"{counted(len(data), 'byte')} of text; at most {_MAX_STRING} fit", path)
        _length(out, slot, len(data), ">h")
        out += data
    elif shape is Shape.BYTES:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise WriteError(f"{type(value).__name__} in place of bytes", path)
        _length(out, slot, len(value), ">i")
        out += value
    elif shape is Shape.ARRAY:
        _length(out, slot, _counted(slot, len(value), path), ">" + slot.count)
        for index, element in enumerate(value):
            _value(out, slot.one, element, f"{path}[{index}]")
    else:
        if slot.nullable:
            out += b"\x01"
        _fields(out, slot.struct, value, path)


def _counted(slot: Slot, count: int, path: str) -> int:
    if slot.count == "h" and not slot.compact and count > _MAX_STRING:
        raise WriteError(f"{counted(count, 'element')}; at most {_MAX_STRING} fit", path)
    return count


def _fixed(slot: Slot, value: Any, path: str) -> bytes:
    try:
        data = struct.pack(">" + slot.format, value)
    except (struct.error, TypeError):
        low, high = RANGES.get(slot.type, (None, None))
        limits = "" if low is None else f" ({low} to {high})"
        raise WriteError(f"{value!r} is not a valid {slot.type}{limits}", path) from None
    if slot.type == "uuid" and len(value) != 16:
        raise WriteError(f"a uuid has 16 bytes, not {len(value)}", path)
    return data


def default(slot: Slot) -> Any:
    """The default value of a field, as Kafka's generator derives it from the definition."""
    field: Field = slot.field
    given = field.default
    if given == "null":
        return None
    if slot.shape is Shape.ARRAY:
        return []
    if slot.shape is Shape.STRUCT:
        return {}
    if slot.shape is Shape.STRING:
        return "" if given is None else str(given)
    if slot.shape is Shape.BYTES:
        # Kafka's `records` fields are null by default.
        return None if slot.type == "records" and slot.nullable else b""
    if slot.type == "uuid":
        return UUID(int=0).bytes
    if slot.type == "bool":
        return str(given).lower() == "true"
    if slot.type == "float64":
        return float(given) if given is not None else 0.0
    return int(str(given), 0) if given is not None else 0
