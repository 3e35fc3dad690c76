"""Decodes keys and values of control records by their definitions.

Source: Kafka's `ControlRecordType`, `ControlRecordUtils`, `EndTransactionMarker`; KIP-98, KIP-595, KIP-630, KIP-853. A
key is a version (int16) and a type (int16). A value begins with its version as well; some definitions declare this
version as their first field.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, Protocol

from kproxy.decoders.batches.record import RecordsError
from kproxy.decoders.compiler import decoder
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.plurals import counted
from kproxy.decoders.problems import Code, DecodeError, Problem
from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.view import PLAIN, View


class ToJson(Protocol):
    """Type of `decoders.jsonform.body_json`, which turns a message's decoded values into JSON."""

    def __call__(
        self,
        values: Mapping[str, Any],
        message: Message,
        version: int,
        view: View = PLAIN,
        scope: Scope | None = None,
        /,
    ) -> Any: ...


TYPES: Final = (
    ("ABORT", "EndTxnMarker"),
    ("COMMIT", "EndTxnMarker"),
    ("LEADER_CHANGE", "LeaderChangeMessage"),
    ("SNAPSHOT_HEADER", "SnapshotHeaderRecord"),
    ("SNAPSHOT_FOOTER", "SnapshotFooterRecord"),
    ("KRAFT_VERSION", "KRaftVersionRecord"),
    ("KRAFT_VOTERS", "VotersRecord"),
)
"""(name, message that defines the value) of each control record type; the index is the type's number."""

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")


def type_of(key: bytes | None) -> int | None:
    """The number of the control record type in a key; None for a null or short key."""
    return None if key is None or len(key) < _KEY.size else _KEY.unpack_from(key)[1]


def type_name(number: int) -> str:
    return TYPES[number][0] if 0 <= number < len(TYPES) else f"UNKNOWN({number})"


def key_json(key: bytes) -> tuple[dict[str, Any], bool]:
    """(A control record's key as JSON, whether all bytes of the key were decoded). Raises RecordsError."""
    if len(key) < _KEY.size:
        text = f"a control record's key of {counted(len(key), 'byte')}"
        raise RecordsError(Code.TRUNCATED, text, len(key), part="key")
    version, number = _KEY.unpack_from(key)
    return {"version": version, "type": number, "name": type_name(number)}, len(key) == _KEY.size


def value_json(number: int, value: bytes, to_json: ToJson) -> tuple[dict[str, Any], bool] | None:
    """(A control record's value as JSON, whether all bytes of the value were decoded); None for an unknown type.

    A version newer than the known ones may have more fields. Raises RecordsError.
    """
    found = _definition(number, value)
    if found is None:
        return None
    message, version, known, start = found
    problems: list[Problem] = []
    try:
        values, position = decoder(message, known)(value, start, len(value), problems)
    except DecodeError as error:
        raise RecordsError(error.code, f"{message.name}: {error.message}", error.offset, part="value") from None
    if position != len(value) and version == known:
        left = len(value) - position
        text = f"{counted(left, 'byte')} after a {message.name}"
        raise RecordsError(Code.TRAILING_BYTES, text, position, part="value")
    shown: dict[str, Any] = to_json(values, message, known)
    return {"version": version, **shown} if start else shown, position == len(value)


def value_tree(number: int, value: bytes) -> Node | None:
    """A control record's value as a tree, with offsets from the value's first byte; None for an unknown type.

    Raises RecordsError.
    """
    found = _definition(number, value)
    if found is None:
        return None
    message, version, known, start = found
    root = tree(message, known, value, start, len(value))
    if start:
        node = Node("version", "int16", 0, root)
        node.value, node.end = version, start
        root.children.insert(0, node)
    return root


def _definition(number: int, value: bytes) -> tuple[Message, int, int, int] | None:
    """(message that defines the value, its version, version to decode it with, offset of its fields).

    None if unknown.
    """
    if not 0 <= number < len(TYPES):
        return None
    name = TYPES[number][1]
    if len(value) < _VERSION.size:
        raise RecordsError(Code.TRUNCATED, f"a {name} of {counted(len(value), 'byte')}", len(value), part="value")
    (version,) = _VERSION.unpack_from(value)
    # A newer version is read as the newest known one, as Kafka does: new versions only append fields.
    known = next((v for v in range(min(version, 15), -1, -1) if definitions().message(name, v) is not None), None)
    message = None if known is None else definitions().message(name, known)
    if known is None or message is None:
        raise RecordsError(Code.UNKNOWN_VERSION, f"no release knows version {version} of {name}", 0, part="value")
    own_version = any(field.name == "version" for field in message.fields)
    return message, version, known, 0 if own_version else _VERSION.size
