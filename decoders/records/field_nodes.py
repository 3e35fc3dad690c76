"""Nodes for single fields of batches, records and messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kproxy.decoders.batches.batch import Trouble
from kproxy.decoders.batches.record import RecordsError
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer, read_unsigned_varint, read_varlong
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.tree import Node

BITS: Final = "bits"
"""Type of the nodes that explain single bits of attributes; they have the bytes of the attributes."""
FORMATS: Final = {
    name: struct.Struct(">" + code)
    for name, code in {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}.items()
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(milliseconds: int) -> str:
    """A record's timestamp as ISO 8601 text; "" if it is negative or beyond datetime's range."""
    if milliseconds < 0:
        return ""
    try:
        when = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return ""
    return when.strftime("%Y-%m-%dT%H:%M:%S") + f".{milliseconds % 1000:03d}Z"


class FieldReader:
    """Reads the fields of a record one after the other and makes a node for each."""

    def __init__(self, data: memoryview, position: int, at: int, parent: Node) -> None:
        self.data, self.position, self.at, self.parent = data, position, at, parent

    def _node(self, name: str, type_: str) -> Node:
        return Node(name, type_, self.at + self.position, self.parent)

    def number(self, name: str, *, long: bool = False) -> Node:
        node = self._node(name, "varlong" if long else "varint")
        if long:
            node.value, self.position = read_varlong(self.data, self.position)
        else:
            raw, self.position = read_unsigned_varint(self.data, self.position)
            node.value = raw >> 1 ^ -(raw & 1)
        node.end = self.at + self.position
        return node

    def fixed(self, name: str, type_: str) -> Node:
        """A node for a field of fixed size. Raises RecordsError if fewer bytes remain."""
        node = self._node(name, type_)
        if self.position + FORMATS[type_].size > len(self.data):
            raise RecordsError(Code.TRUNCATED, f"the bytes end within {name}", self.position)
        (node.value,) = FORMATS[type_].unpack_from(self.data, self.position)
        self.position += FORMATS[type_].size
        node.end = self.at + self.position
        return node

    def bytes(self, name: str) -> Node:
        """A node for bytes with a varint size before them; null if the size is negative."""
        node = self.number(name)
        return self._sized(node, node.value)

    def bytes32(self, name: str) -> Node:
        """A node for bytes with an int32 size before them, null if it is negative.

        Raises RecordsError if fewer bytes remain.
        """
        node = self.fixed(name, "int32")
        left = len(self.data) - self.position
        if node.value > left:
            words = f"a {name} of {counted(node.value, 'byte')} where {left} {are(left)} left"
            raise RecordsError(Code.BAD_LENGTH, words, self.position)
        return self._sized(node, node.value)

    def done(self) -> None:
        """Raises RecordsError if bytes remain after the last field."""
        left = len(self.data) - self.position
        if left:
            raise RecordsError(Code.TRAILING_BYTES, f"{counted(left, 'byte')} after the last field", self.position)

    def _sized(self, node: Node, size: int) -> Node:
        node.type = "bytes"
        node.value = None
        node.null = size < 0
        if size >= 0:
            node.value = self.data[self.position : self.position + size]
            self.position += size
            node.end = self.at + self.position
        return node


def fixed(fields: Iterable[tuple[str, str]], data: Buffer, position: int, at: int, parent: Node) -> Iterator[Node]:
    """Nodes of adjoining fields of fixed size; `at` is the offset of `data[0]`."""
    for name, type_ in fields:
        node = Node(name, type_, at + position, parent)
        (node.value,) = FORMATS[type_].unpack_from(data, position)
        position += FORMATS[type_].size
        node.end = at + position
        yield node


def check_crc(crc: Node, valid: bool) -> None:
    crc.label = "valid" if valid else "does not match"
    if not valid:
        whose = "a message's" if crc.parent is not None and crc.parent.type == "message" else "the batch's"
        crc.problem = Problem("", crc.start, crc.path, f"{whose} CRC does not match its bytes", Code.CRC_MISMATCH)


def add_bits(attributes: Node, bits: Mapping[str, Any]) -> None:
    """Add a node below the attributes for each entry of `bits`: (name of a bit or of several bits, meaning)."""
    for name, value in bits.items():
        node = Node(name, BITS, attributes.start, attributes)
        node.end, node.value = attributes.end, value
        attributes.children.append(node)


def byte_node(name: str, data: memoryview, start: int, end: int, at: int, parent: Node) -> Node:
    node = Node(name, "bytes", at + start, parent)
    node.end, node.value = at + end, data[start:end]
    return node


def problem_at(trouble: Trouble, at: int) -> Problem:
    return Problem("", at + trouble.offset, trouble.path, trouble.message, trouble.code)
