"""Reads the schema id of a payload: Confluent's and Apicurio's framing, before the payload or in a record header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kproxy.decoders.payloads.schemas import IdKind
from kproxy.decoders.payloads.viewer import Payload, ViewError

MAGIC_ID: Final = 0
"""Value of the first byte of a framing that holds a schema id."""
MAGIC_GUID: Final = 1
"""Value of the first byte of a framing that holds a schema's GUID; it is in a record header."""
DEEPEST: Final = 100
"""Maximum depth of nested Protobuf message declarations."""


@dataclass(frozen=True, slots=True)
class Framing:
    """The schema id of a payload, and `body`, the payload without the framing.

    `in_header` says that the id is in a record header. `indexes` are the bytes after the id in this header, which begin
    with the Protobuf message indexes; None if these are at the beginning of the body.
    """

    kind: IdKind
    id: int | str
    body: bytes
    indexes: bytes | None = None
    in_header: bool = False


def framing(payload: Payload) -> Framing | None:
    """The framing of a payload; None if it has none.

    Ids are positive, so four zero bytes after the first byte are the beginning of Apicurio's eight-byte id.
    """
    if payload.part == "header":
        return None
    if payload.headers:
        found = _in_header(payload)
        if found is not None:
            return found
    return _in_front(payload.data)


def _in_front(data: bytes) -> Framing | None:
    if len(data) < 5 or data[0] != MAGIC_ID:
        return None
    number = int.from_bytes(data[1:5], "big", signed=True)
    if number > 0:
        return Framing(IdKind.ID, number, data[5:])
    if number == 0 and len(data) > 9:
        number = int.from_bytes(data[5:9], "big")
        if number:
            return Framing(IdKind.GLOBAL_ID, number, data[9:])
    return None


def _in_header(payload: Payload) -> Framing | None:
    headers = {key: value for key, value in reversed(payload.headers) if value}
    value = headers.get(f"__{payload.part}_schema_id".encode())
    if value is not None:
        if value[0] == MAGIC_GUID and len(value) >= 17:
            return Framing(IdKind.GUID, str(UUID(bytes=value[1:17])), payload.data, value[17:], in_header=True)
        if value[0] == MAGIC_ID and len(value) >= 5:
            return Framing(IdKind.ID, int.from_bytes(value[1:5], "big"), payload.data, value[5:], in_header=True)
    for kind in (IdKind.GLOBAL_ID, IdKind.CONTENT_ID):
        value = headers.get(f"apicurio.{payload.part}.{kind}".encode())
        if value is not None and len(value) == 8:
            return Framing(kind, int.from_bytes(value, "big"), payload.data, in_header=True)
    return None


def message_indexes(data: bytes) -> tuple[list[int], int]:
    """Read the indexes that lead to a message type in its file; returns (indexes, position after them).

    The index of the outermost message type comes first.

    The indexes are encoded as their count followed by the indexes, all zigzag varints; a count of 0 stands for the
    first message type. Raises ViewError.
    """
    count, at = _varint(data, 0)
    if not 0 <= count <= DEEPEST:
        raise ViewError(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise ViewError("no message indexes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
