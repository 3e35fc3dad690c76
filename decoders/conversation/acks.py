"""Whether a request says that it wants no reply, told from its first bytes by the definition's own fields."""

from __future__ import annotations

from functools import lru_cache

from decoders.layout import Layout, Shape, layout
from decoders.primitives import read_unsigned_varint
from decoders.problems import DecodeError
from decoders.schema import irregular
from decoders.schema.lookup import Definitions

ENOUGH = 1 << 16
"""Bytes of a frame that are looked at; a transactional id is at most 32 KiB."""


@lru_cache(maxsize=256)
def _layouts(definitions: Definitions, key: int, version: int) -> tuple[Layout | None, Layout | None]:
    """Layouts of the header and of the body of a request; None where the version is unknown."""
    if version not in definitions.versions(key):
        return None, None
    header_version = definitions.request_header_version(key, version)
    header, body = definitions.message("RequestHeader", header_version), definitions.request(key, version)
    if header is None or body is None:
        return None, None
    return layout(header, header_version), layout(body, version)


def wants_no_reply(frame: bytes, key: int, version: int, definitions: Definitions) -> bool | None:
    """Whether the request that begins with `frame` (its length field included) is never answered.

    Reads no further than the `acks` field; None where `frame` ends before it.
    """
    header, body = _layouts(definitions, key, version)
    if header is None or body is None:
        return False
    try:
        position = _skip(header, frame, 4)
        for slot in body.slots:
            if slot.name == "acks":
                if position + 2 > len(frame):
                    return None
                acks = int.from_bytes(frame[position : position + 2], "big", signed=True)
                return irregular.expects_no_reply(key, version, acks)
            position = _skip_slot(slot.shape, slot.minimum, frame, position, compact=slot.compact)
    except IndexError:
        return None
    except DecodeError:
        return False
    return irregular.expects_no_reply(key, version, None)


def _skip(fields: Layout, frame: bytes, position: int) -> int:
    for slot in fields.slots:
        position = _skip_slot(slot.shape, slot.minimum, frame, position, compact=slot.compact)
    if fields.flexible:
        count, position = read_unsigned_varint(frame, position)
        for _ in range(min(count, len(frame))):
            _, position = read_unsigned_varint(frame, position)
            length, position = read_unsigned_varint(frame, position)
            position += length
    return position


def _skip_slot(shape: Shape, minimum: int, frame: bytes, position: int, *, compact: bool) -> int:
    """Position after a string or a value of one size, the only kinds before `acks`."""
    if shape is Shape.FIXED:
        return position + minimum
    if shape is not Shape.STRING:
        raise IndexError(position)
    if compact:
        length, position = read_unsigned_varint(frame, position)
        return position + max(length - 1, 0)
    return position + 2 + max(int.from_bytes(frame[position : position + 2], "big", signed=True), 0)
