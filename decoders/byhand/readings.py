"""Finds the messages that given bytes may be.

A request names its API and version; a response does not. So a response is decoded with every layout. Readings that end
at the last byte are ranked by how likely their values are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from kproxy.decoders import guessing
from kproxy.decoders.compiler import STRICT, decoder
from kproxy.decoders.conversation.recognition import printable
from kproxy.decoders.primitives import Buffer, write_unsigned_varint
from kproxy.decoders.problems import DecodeError
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.layout import UNKNOWN_TAGS
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node, tree

_JUDGED: Final = 2_000
"""Maximum number of nodes of a reading whose values are scored."""
_LONGEST_THROTTLE: Final = 3_600_000
_USUAL: Final = ("core", "group", "transaction", "admin", "security")
"""Classes of APIs that clients use, in order of rank; among equal scores, all other classes rank after them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to decode bytes to the last byte; the message's fields begin at offset `start`.

    `score` says how likely the values are, compared with other readings of the same bytes; a higher one is likelier.
    """

    message: Message
    version: int
    score: float
    start: int = 0


def responses(
    frame: bytes, definitions: Definitions, *, api_key: int | None = None, version: int | None = None
) -> list[Reading]:
    """All responses that a frame may be, likeliest first; `api_key` and `version` restrict them."""
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
    """All messages without header that the bytes may be, likeliest first.

    `names`, `api_key` and `version` restrict them. The numbers of `lead` may stand before a message's fields, if the
    message comes from a record or from a bytes field.
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
    """A number that Kafka writes before the fields of a message in a record or a bytes field; `data` are its bytes."""

    name: str
    type: str
    value: int
    data: bytes


def lead(message: Message, version: int) -> list[Lead]:
    """The numbers that Kafka writes before a message's fields; none for a request, response or header.

    Before a coordinator's key, this is the key's type; before a metadata record, the frame version, type and version;
    before any other message, its version.
    """
    if message.kind in {"request", "response", "header"}:
        return []
    if message.kind == "metadata":
        numbers = (("frameVersion", 1), ("type", message.record_type or 0), ("version", version))
        return [Lead(name, "unsigned varint", value, write_unsigned_varint(value)) for name, value in numbers]
    name, value = ("type", message.record_type or 0) if message.kind == "coordinator-key" else ("version", version)
    return [Lead(name, "int16", value, struct.pack(">h", value))]


def starts(message: Message, version: int, data: Buffer) -> tuple[int, ...]:
    """The offsets at which a message's fields may begin, likelier first.

    The fields may begin at 0 or, if the bytes begin with the numbers of `lead`, after these.
    """
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
    """The readings sorted by score, then class of API (those that clients use first), API key, newest version."""

    def usual(reading: Reading) -> int:
        api = None if reading.message.api_key is None else definitions.api(reading.message.api_key)
        return len(_USUAL) if api is None or api.klass not in _USUAL else _USUAL.index(api.klass)

    return sorted(readings, key=lambda one: (-one.score, usual(one), one.message.api_key or 0, -one.version))


def _score(body: Node, data: Buffer) -> float:
    """How likely a message's values are: values that random bytes seldom have raise the score, odd ones lower it."""
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
