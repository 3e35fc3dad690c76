"""Decodes keys and values of the records of Kafka's internal topics by their definitions.

Source: Kafka's `CoordinatorRecordSerde` and `AbstractApiMessageSerde`; KIP-98, KIP-405, KIP-631, KIP-932. A
coordinator's key is a record type (int16) and a body, its value a version (int16) and a body. Metadata records have no
key; their value is a frame version, a record type, a version (unsigned varints) and a body.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from kproxy.decoders import embedded, secrets
from kproxy.decoders.batches.record import Record, RecordsError
from kproxy.decoders.compiler import decoder
from kproxy.decoders.embedded import Scope
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import Buffer, read_unsigned_varint
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.records.control import ToJson
from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.model import Kind, Message
from kproxy.decoders.tree import tree
from kproxy.decoders.view import PLAIN, View

COORDINATORS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA: Final = frozenset({"__cluster_metadata", "__remote_log_metadata"})
TOPICS: Final = COORDINATORS | METADATA

_FRAME_VERSION: Final = 1
_INT16: Final = struct.Struct(">h")
_LARGEST: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class Body:
    """The message in a key or value: its definition, its `version`, and the offset at which it begins.

    It extends to the last byte.
    """

    message: Message
    version: int
    start: int


def key_body(topic: str, key: Buffer) -> Body | None:
    """The message in the key of an internal topic's record; None if keys of the topic have no definition.

    Raises RecordsError.
    """
    if topic not in COORDINATORS:
        return None
    number = _int16(key, "key")
    return Body(_message(topic, "coordinator-key", number, 0, "key"), 0, _INT16.size)


def value_body(topic: str, key: Buffer | None, value: Buffer) -> Body | None:
    """The message in the value of an internal topic's record. Raises RecordsError.

    None if the key of a coordinator's record does not determine the value's type: that fault is reported for the key.
    """
    if topic in METADATA:
        return _metadata_body(topic, value)
    if topic not in COORDINATORS:
        return None
    if key is None:
        raise RecordsError(Code.TRUNCATED, f"a record of {topic} without key", 0, part="key")
    try:
        described = key_body(topic, key)
    except RecordsError:
        return None
    if described is None or described.message.record_type is None:
        return None
    version = _int16(value, "value")
    message = _message(topic, "coordinator-value", described.message.record_type, version, "value")
    body = Body(message, version, _INT16.size)
    older = definitions().older(message.name, version)
    if older is None or _fits(body, value):
        return body
    other = Body(older, version, _INT16.size)
    return other if _fits(other, value) else body


def read(body: Body, data: Buffer, part: str) -> tuple[dict[str, Any], list[Problem]]:
    """(decoded fields of a record's key or value, problems that do not stop decoding). Raises RecordsError."""
    problems: list[Problem] = []
    name = body.message.name
    try:
        values, position = decoder(body.message, body.version)(data, body.start, len(data), problems)
    except DecodeError as error:
        place = f"{part}.{error.path}" if error.path else part
        raise RecordsError(error.code, f"{name}: {error.message}", error.offset, part=place) from None
    if position != len(data):
        left = len(data) - position
        raise RecordsError(Code.TRAILING_BYTES, f"{counted(left, 'byte')} after a {name}", position, part=part)
    return values, problems


def decoded_json(
    body: Body, data: Buffer, values: dict[str, Any], to_json: ToJson, view: View
) -> tuple[dict[str, Any], list[Problem]]:
    """A decoded key or value as {"type", "name", "version", "data"} (keys have no version), and problems inside it.

    The problems are those inside the message's bytes fields. The view's knowledge learns from the values, for example
    topic names from the cluster's metadata.
    """
    message = body.message
    view.knowledge.learn(message, body.version, values)
    shown: dict[str, Any] = {"type": message.record_type, "name": message.name}
    if message.kind != "coordinator-key":
        shown["version"] = body.version
    scope = Scope(view)
    shown["data"] = to_json(values, message, body.version, view, scope)
    if not scope.found.wrong:
        return shown, []
    root = tree(message, body.version, data, body.start, len(data))
    embedded.attach(root, message, body.version, memoryview(data), scope)
    return shown, list(embedded.problems(root))


def withheld(topic: str, body: Body | None, values: dict[str, Any] | None, view: View) -> bool:
    """Whether the bytes of a key or value are withheld because of secrets. `values` is None if they are unreadable."""
    if view.show_secrets:
        return False
    if body is None or values is None:
        return topic in secrets.TOPICS
    return secrets.in_record(body.message, values)


def content_withheld(topic: str | None, part: str, record: Record) -> bool:
    """Whether the "key", "value" or "header" (`part`) of a record is withheld.

    Topics with secrets show only values that decode to their last byte and contain no secret.
    """
    if topic not in secrets.TOPICS:
        return False
    key, value = record[2], record[3]
    if part != "value" or value is None:
        return True
    try:
        body = value_body(topic, key, value)
        return body is None or withheld(topic, body, read(body, value, part)[0], PLAIN)
    except RecordsError:
        return True


def fits(topic: str, key: Buffer | None, value: Buffer | None) -> bool:
    """Whether a value decodes to its last byte as a value of the internal topic."""
    try:
        body = None if value is None else value_body(topic, key, value)
    except RecordsError:
        return False
    return body is not None and value is not None and _fits(body, value)


def _metadata_body(topic: str, value: Buffer) -> Body:
    numbers, position = [], 0
    for what in ("frame version", "record type", "version"):
        try:
            number, after = read_unsigned_varint(value, position)
        except IndexError:
            raise RecordsError(Code.TRUNCATED, f"the value ends within its {what}", position, part="value") from None
        except DecodeError as error:
            raise RecordsError(error.code, f"{what}: {error.message}", error.offset, part="value") from None
        if number > _LARGEST:
            raise RecordsError(Code.BAD_VARINT, f"a {what} of {number}", position, part="value")
        numbers.append(number)
        position = after
    frame_version, number, version = numbers
    if frame_version != _FRAME_VERSION:
        raise RecordsError(
            Code.UNKNOWN_VERSION, f"a metadata record with frame version {frame_version}", 0, part="value"
        )
    return Body(_message(topic, "metadata", number, version, "value"), version, position)


def _message(topic: str, kind: Kind, number: int, version: int, part: str) -> Message:
    message = definitions().record(topic, kind, number, version)
    if message is None:
        which = f"record type {number}" if kind == "coordinator-key" else f"version {version} of record type {number}"
        raise RecordsError(Code.UNKNOWN_VERSION, f"no release knows {which} of {topic}", 0, part=part)
    return message


def _int16(data: Buffer, part: str) -> int:
    if len(data) < _INT16.size:
        raise RecordsError(Code.TRUNCATED, f"a {part} of {counted(len(data), 'byte')}", len(data), part=part)
    number: int = _INT16.unpack_from(data)[0]
    return number


def _fits(body: Body, data: Buffer) -> bool:
    try:
        read(body, data, "value")
    except RecordsError:
        return False
    return True
