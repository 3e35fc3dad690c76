"""Converts JSON to the values of a message that the writer expects: the inverse of `jsonform`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from kproxy.decoders.batches.writing import BatchError, batch
from kproxy.decoders.fields import Type
from kproxy.decoders.filters.values import LITERALS, BadLiteral
from kproxy.decoders.jsonform import uuid_bytes
from kproxy.decoders.schema.layout import UNKNOWN_TAGS, Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message


class JsonError(ValueError):
    """A JSON value does not fit its field; the text names the field."""


def body_values(body: Any, message: Message, version: int) -> dict[str, Any]:
    """The values of a body in the form of the exchange JSON; absent fields stay absent. Raises JsonError."""
    if not isinstance(body, Mapping):
        raise JsonError("a body is a JSON object")
    return _struct(layout_of(message, version), body, message.name)


def value(slot: Slot, given: Any) -> Any:
    """The value of one field. Raises JsonError."""
    if given is None:
        return None
    if slot.shape is Shape.ARRAY:
        if not isinstance(given, list):
            raise JsonError(f"{slot.name} is a list")
        return [value(slot.one, one) for one in given]
    if slot.layout is not None:
        if not isinstance(given, dict):
            raise JsonError(f"{slot.name} has fields: write a JSON object")
        return _struct(slot.layout, given, slot.name)
    if slot.shape is Shape.STRING:
        return given if isinstance(given, str) else str(given)
    try:
        return _plain(slot, given)
    except JsonError:
        raise
    except BatchError as error:
        raise JsonError(f"{slot.name}: {error}") from None
    except (ValueError, TypeError, BadLiteral):
        raise JsonError(f"{given!r} is not a valid {slot.type} for {slot.name}") from None


def _struct(layout: Layout, given: Mapping[str, Any], name: str) -> dict[str, Any]:
    inner = {one.name: one for one in layout.every()}
    if strange := next((field for field in given if field not in inner and field != UNKNOWN_TAGS), None):
        raise JsonError(f"{name} has no field {strange} in this version")
    values = {field: value(inner[field], one) for field, one in given.items() if field != UNKNOWN_TAGS}
    if UNKNOWN_TAGS in given:
        values[UNKNOWN_TAGS] = [(one["tag"], b64decode(one["base64"])) for one in given[UNKNOWN_TAGS]]
    return values


def _plain(slot: Slot, given: Any) -> Any:
    if slot.type == "uuid":
        return uuid_bytes(given)
    if slot.type in {"bytes", "records"}:
        return _bytes(slot, given)
    if slot.type == "bool":
        if not isinstance(given, bool):
            raise ValueError
        return given
    if slot.type == "float64":
        return float(given)
    if isinstance(given, str) and slot.name.endswith("rrorCode"):
        return int(LITERALS[Type.ERROR].read(given))
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError
    return given


def _bytes(slot: Slot, given: Any) -> bytes:
    """Bytes from base64, from an object with base64 or, for records, from batches.

    One batch may be written as {"records": […]}.
    """
    if isinstance(given, Mapping):
        if "redacted" in given:
            raise JsonError(f"{slot.name} is a secret that kproxy has withheld: write its value")
        if slot.type == "records" and isinstance(given.get("batches"), list):
            if given.get("truncatedTail"):
                raise JsonError(f"{slot.name} ends within a batch, which cannot be written")
            return b"".join(map(batch, given["batches"]))
        if slot.type == "records" and "records" in given:
            return batch(given)
        given = given.get("base64")
    if not isinstance(given, str):
        raise TypeError
    return b64decode(given, validate=True)
