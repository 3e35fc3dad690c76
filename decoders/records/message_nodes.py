"""Nodes of a message of magic 0 or 1, and of the messages that a compressed one holds."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kproxy.decoders.batches.batch import compression_name
from kproxy.decoders.batches.codecs import CodecError, decompress
from kproxy.decoders.batches.legacy import MOST_NESTED, RECORD_COSTS
from kproxy.decoders.batches.record import RecordsError
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.records.batch_context import MOST, BatchContext
from kproxy.decoders.records.field_nodes import FORMATS, FieldReader, add_bits, byte_node, check_crc, fixed, moment
from kproxy.decoders.tree import Node

_MESSAGE: Final = (
    ("offset", "int64"), ("messageSize", "int32"), ("crc", "uint32"), ("magic", "int8"), ("attributes", "int8"),
)  # fmt: skip
_HEAD: Final = struct.Struct(">qiIbb")
_LEAST: Final = _HEAD.size
_OUTER: Final = 12
_CRC_ENDS: Final = 16


def message_fields(context: BatchContext, node: Node) -> Iterator[Node]:
    """The nodes for the fields of an outer message."""
    data = memoryview(context.found.records)[context.batch.start : context.batch.end]
    header = context.batch.header
    reading = _Message(context, context.view.batch_limit, bool(header["crcValid"]))
    return reading.fields(data, node.start, node)


class _Message:
    """Reads the fields of a message of magic 0 or 1 and makes a node for each.

    `shift` is added to the offset of the message and of messages inside it; None if it is unknown. `left` is the number
    of bytes that may still be decompressed below the message. `append_time`, if given, replaces the timestamps of the
    message and of those inside.
    """

    def __init__(
        self,
        context: BatchContext,
        left: int,
        crc_valid: bool,
        *,
        shift: int | None = 0,
        append_time: int | None = None,
        depth: int = 0,
    ) -> None:
        self.context, self.left, self.crc_valid = context, left, crc_valid
        self.shift, self.append_time, self.depth = shift, append_time, depth

    def fields(self, data: memoryview, at: int, node: Node) -> Iterator[Node]:
        offset = attributes = magic = 0
        for field in fixed(_MESSAGE, data, 0, at, node):
            if field.name == "crc":
                check_crc(field, self.crc_valid)
            elif field.name == "magic":
                magic = field.value
            elif field.name == "offset":
                offset = field.value
            elif field.name == "attributes":
                attributes = field.value
                add_bits(field, _legacy_attributes(magic, attributes))
            yield field
        fields = FieldReader(data, sum(FORMATS[type_].size for _, type_ in _MESSAGE), at, node)
        timestamp = self.append_time
        try:
            if magic:
                stamp = fields.fixed("timestamp", "int64")
                timestamp = stamp.value if self.append_time is None else self.append_time
                stamp.label = moment(timestamp)
                yield stamp
            key = fields.bytes32("key")
            key.secret = self.context.secret
            yield key
            value = fields.bytes32("value")
            codec = compression_name(attributes)
            if codec == "none":
                self.context.describe(key, value)
            else:
                value.name, value.type, value.elsewhere, value.label = "records", "[]message", True, codec
                above = timestamp if magic and attributes & 8 else self.append_time
                value.later(partial(self._set, value.value, codec, offset, magic, above))
                value.value = None
            yield value
            fields.done()
        except RecordsError as error:
            rest = byte_node("unread", data, min(fields.position, len(data)), len(data), at, node)
            rest.problem = Problem("", at + error.position, node.path, error.message, error.code)
            rest.secret = self.context.secret
            yield rest

    def _set(
        self, data: Buffer | None, codec: str, offset: int, magic: int, append_time: int | None, node: Node
    ) -> Iterator[Node]:
        """The nodes of the messages in a compressed set."""

        def problem(code: Code, text: str) -> None:
            node.problem = Problem("", node.start, node.path, text, code)

        if data is None:
            return problem(Code.DECOMPRESSION_FAILED, "a compressed message without value")
        if self.depth == MOST_NESTED:
            text = f"compressed sets are nested more than {MOST_NESTED} deep"
            return problem(Code.DECOMPRESSION_LIMIT, text)
        try:
            inner = decompress(codec, data, limit=self.left, magic=magic)
        except CodecError as error:
            return problem(error.code, error.message)
        node.label = f"{codec}, decompressed to {counted(len(inner), 'byte')}"
        spans, count, last, damage = _messages(inner, self.context.view.batch_limit)
        shift = self.shift
        if magic and damage is not None:
            # Absolute offsets are computed from the last message, so without it they are unknown.
            shift = None
        elif magic and offset and shift is not None:
            shift += offset - last
        view = memoryview(inner)
        for number, (start, end) in enumerate(spans):
            message = Node(f"[{number}]", "message", start, node)
            message.end = end
            message.buffer = inner
            valid = _crc_matches(inner, start, end)
            stamp = append_time
            if stamp is None and magic:
                stamp = _timestamp(inner, start, end)
            if shift is not None:
                message.label = self.context.label(shift + _offset(inner, start), stamp, number)
            reading = _Message(
                self.context, self.left - len(inner), valid,
                shift=shift, append_time=append_time, depth=self.depth + 1,
            )  # fmt: skip
            message.later(partial(reading.fields, view[start:end], start))
            yield message
        node.more = count > len(spans)
        node.value = count
        if damage is not None:
            start = min(damage.position, len(inner))
            rest = byte_node("unread", view, start, len(inner), 0, node)
            rest.buffer = inner
            rest.secret = self.context.secret
            rest.problem = Problem("", damage.position, rest.path, damage.message, damage.code)
            yield rest
        return None


def _messages(data: bytes, limit: int) -> tuple[list[tuple[int, int]], int, int, RecordsError | None]:
    """Find the messages of a decompressed set.

    Returns ([start, end) of the first MOST messages, number of messages, last offset, error that ended the set or
    None).
    """
    spans: list[tuple[int, int]] = []
    position = count = last = 0
    end = len(data)
    while position < end:
        left = end - position - _LEAST
        if left < 0:
            return spans, count, last, RecordsError(Code.TRUNCATED, "a set ends within a message's head", position)
        offset, size, _, magic, _ = _HEAD.unpack_from(data, position)
        after = position + _OUTER + size
        if size < _LEAST - _OUTER or after > end:
            left = end - position - _OUTER
            words = f"a message of {counted(size, 'byte')} where {left} {are(left)} left"
            return spans, count, last, RecordsError(Code.BAD_LENGTH, words, position)
        if magic not in {0, 1}:
            return spans, count, last, RecordsError(Code.BAD_LENGTH, f"no message has magic {magic}", position)
        if count * RECORD_COSTS > limit:
            words = f"more than {count} records in a set: the rest is not read"
            return spans, count, last, RecordsError(Code.DECOMPRESSION_LIMIT, words, position)
        if count < MOST:
            spans.append((position, after))
        count += 1
        last, position = offset, after
    if not count:
        return spans, 0, 0, RecordsError(Code.DECOMPRESSION_FAILED, "a compressed set without messages", 0)
    return spans, count, last, None


def _offset(data: bytes, start: int) -> int:
    return int(FORMATS["int64"].unpack_from(data, start)[0])


def _timestamp(data: bytes, start: int, end: int) -> int | None:
    at = start + _LEAST
    return None if at + 8 > end else int(FORMATS["int64"].unpack_from(data, at)[0])


def _crc_matches(data: bytes, start: int, end: int) -> bool:
    (crc,) = FORMATS["uint32"].unpack_from(data, start + _OUTER)
    return bool(zlib.crc32(data[start + _CRC_ENDS : end]) == crc)


def _legacy_attributes(magic: int, attributes: int) -> dict[str, Any]:
    bits: dict[str, Any] = {"compression": compression_name(attributes)}
    if magic:
        bits["timestampType"] = "LogAppendTime" if attributes & 8 else "CreateTime"
    return bits
