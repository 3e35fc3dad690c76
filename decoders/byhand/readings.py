"""Which messages bytes can be.

A request says what it is; what a response is, only its request tells. So a response is tried in every layout, and the
readings that come out at the last byte are ranked by how likely their values are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from kproxy.decoders import guessing
from kproxy.decoders.compiler import STRICT, decoder
from kproxy.decoders.conversation.recognition import printable
from kproxy.decoders.layout import UNKNOWN_TAGS
from kproxy.decoders.primitives import Buffer, write_unsigned_varint
from kproxy.decoders.problems import DecodeError
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node, tree

_JUDGED: Final = 2_000
"""Nodes of a reading that are looked at to tell how likely it is."""
_LONGEST_THROTTLE: Final = 3_600_000
_USUAL: Final = ("core", "group", "transaction", "admin", "security")
"""Classes of APIs that clients meet; the others come after them where nothing else decides."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read bytes to the last one; of a bare message, `start` is where its fields begin.

    `score` is how likely its values are, to be compared with other readings of the same bytes.
    """

    message: Message
    version: int
    score: float
    start: int = 0


def responses(
    frame: bytes, definitions: Definitions, *, api_key: int | None = None, version: int | None = None
) -> list[Reading]:
    """Every response that a frame can be, the likeliest first; arguments as in `guessing.readings`."""
    found = []
    for _, one, decoded in guessing.readings(frame, definitions, api_key=api_key, version=version):
        if decoded.message is None or decoded.version != one:
            continue
        body = tree(decoded.message, one, frame, decoded.body_start, len(frame), limit=_JUDGED)
        unknown_tags = decoded.header.get(UNKNOWN_TAGS)
        found.append(Reading(decoded.message, one, _score(body, frame) - 10 * bool(unknown_tags), decoded.body_start))
    return ranked(found, definitions)


def bare(
    data: bytes,
    definitions: Definitions,
    *,
    names: frozenset[str] | None = None,
    api_key: int | None = None,
    version: int | None = None,
) -> list[Reading]:
    """Every message without header that bytes can be, the likeliest first.

    Messages that are kept in records or in other messages' bytes may have before them what Kafka writes there (`lead`).
    """
    found = []
    for message in definitions.messages():
        if (names is not None and message.name not in names) or api_key not in {None, message.api_key}:
            continue
        for one in range(message.versions.low, message.versions.high + 1):
            if version in {None, one} and definitions.message(message.name, one) is message:
                found += [
                    reading for start in starts(message, one, data) if (reading := _bare(data, message, one, start))
                ]
    return ranked(found, definitions)


class Lead(NamedTuple):
    """A number that Kafka writes before the fields of a message that stands alone."""

    name: str
    type: str
    value: int
    data: bytes


def lead(message: Message, version: int) -> list[Lead]:
    """What stands before the fields: the version, of a coordinator's key its type, of a metadata record both."""
    if message.kind in {"request", "response", "header"}:
        return []
    if message.kind == "metadata":
        numbers = (("frameVersion", 1), ("type", message.record_type or 0), ("version", version))
        return [Lead(name, "unsigned varint", value, write_unsigned_varint(value)) for name, value in numbers]
    name, value = ("type", message.record_type or 0) if message.kind == "coordinator-key" else ("version", version)
    return [Lead(name, "int16", value, struct.pack(">h", value))]


def starts(message: Message, version: int, data: Buffer) -> tuple[int, ...]:
    """Where a message's fields can begin: at once, or first behind what Kafka writes before them if it is there."""
    before = b"".join(one.data for one in lead(message, version))
    return (len(before), 0) if before and bytes(data[: len(before)]) == before else (0,)


def _bare(data: bytes, message: Message, version: int, start: int) -> Reading | None:
    try:
        _, position = decoder(message, version)(data, start, len(data), STRICT)
    except DecodeError:
        return None
    if position != len(data):
        return None
    body = tree(message, version, data, start, len(data), limit=_JUDGED)
    return Reading(message, version, _score(body, data) + 2 * start, start)


def ranked(readings: list[Reading], definitions: Definitions) -> list[Reading]:
    """The likeliest first: by their values, then what clients meet before what they do not, then the newest."""

    def usual(reading: Reading) -> int:
        api = None if reading.message.api_key is None else definitions.api(reading.message.api_key)
        return len(_USUAL) if api is None or api.klass not in _USUAL else _USUAL.index(api.klass)

    return sorted(readings, key=lambda one: (-one.score, usual(one), one.message.api_key or 0, -one.version))


def _score(body: Node, data: Buffer) -> float:
    """How likely the values of a message are: what random bytes seldom are counts for it, what is odd against it."""
    return sum(_worth(node, data) for node in body.walk())


def _worth(node: Node, data: Buffer) -> float:
    value = node.value
    if node.name == UNKNOWN_TAGS:
        return -10 * len(node.children)
    if node.null or value is None:
        return 0
    if node.type == "bool":
        return 1 if data[node.end - 1] in {0, 1} else -20
    if isinstance(value, str):
        return min(len(value), 8) if printable(value.encode("utf-8", "replace")) else -20
    if node.type.startswith("[]"):
        return 1
    if isinstance(value, int):
        return _number(node.name, value)
    return 0


def _number(name: str, value: int) -> float:
    if name.endswith("rrorCode"):
        return 2 if value in errors.all_errors() else -20
    if name == "throttleTimeMs":
        return 2 if 0 <= value <= _LONGEST_THROTTLE else -20
    if name.lower().endswith("port"):
        return 2 if 0 < value < 65536 else -20
    return 0.5 if -1 <= value < 1 << 48 else -5
