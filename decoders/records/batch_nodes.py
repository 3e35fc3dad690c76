"""Nodes of a batch of magic 2 and its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from kproxy.decoders.batches.batch import V2_HEADER
from kproxy.decoders.batches.opening import Opened
from kproxy.decoders.batches.record import Header
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import read_unsigned_varint, text, text_as_java
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.records.batch_context import MOST, BatchContext
from kproxy.decoders.records.field_nodes import FieldReader, add_bits, byte_node, check_crc, fixed, moment, problem_at
from kproxy.decoders.records.internal_nodes import add_control
from kproxy.decoders.tree import Node

_V2: Final = (
    ("baseOffset", "int64"), ("batchLength", "int32"), ("partitionLeaderEpoch", "int32"), ("magic", "int8"),
    ("crc", "uint32"), ("attributes", "int16"), ("lastOffsetDelta", "int32"), ("baseTimestamp", "int64"),
    ("maxTimestamp", "int64"), ("producerId", "int64"), ("producerEpoch", "int16"), ("baseSequence", "int32"),
    ("recordCount", "int32"),
)  # fmt: skip


def batch_fields(context: BatchContext, node: Node) -> Iterator[Node]:
    header = context.batch.header
    data = memoryview(context.found.records)[context.batch.start : context.batch.end]
    for field in fixed(_V2, data, 0, node.start, node):
        if field.name == "crc":
            check_crc(field, bool(header["crcValid"]))
        elif field.name == "attributes":
            bits = {name: header[name] for name in ("compression", "timestampType", "isTransactional", "isControl")}
            add_bits(field, bits | {"hasDeleteHorizonMs": "deleteHorizon" in header})
        elif field.name in {"baseTimestamp", "maxTimestamp"}:
            field.label = moment(field.value)
        yield field
    records = Node("records", "[]record", node.start + V2_HEADER, node)
    records.end = node.end
    records.value = header["recordCount"]
    compressed = header["compression"] != "none"
    if compressed:
        records.elsewhere = True
        records.secret = context.secret
        records.label = header["compression"]
    records.later(partial(_records, context))
    yield records


def _records(context: BatchContext, node: Node) -> Iterator[Node]:
    opened = context.found.open(context.index, most=MOST)
    buffer = opened.data if node.elsewhere else None
    at = 0 if node.elsewhere else node.start
    if node.elsewhere and opened.uncompressed_size is not None:
        node.label = f"{context.batch.header['compression']}, decompressed to {counted(len(opened.data), 'byte')}"
    data = memoryview(opened.data)
    start = 0
    for number, (offset, timestamp, _, _, headers) in enumerate(opened.records):
        end = _record_end(data, start)
        record = Node(f"[{number}]", "record", at + start, node)
        record.end = at + end
        record.buffer = buffer
        record.label = context.label(offset, timestamp, number)
        record.later(partial(_record, data, start, at, context, offset, timestamp, headers))
        yield record
        start = end
    node.more = len(opened.records) == MOST < context.batch.header["recordCount"]
    for rest in _damage(opened, data, start, at, node):
        rest.secret = context.secret
        yield rest


def _record_end(data: memoryview, start: int) -> int:
    """Offset at which a complete record ends; the record begins with its size."""
    size, position = read_unsigned_varint(data, start)
    return position + (size >> 1)


def _damage(opened: Opened, data: memoryview, start: int, at: int, node: Node) -> Iterator[Node]:
    """Nodes with the batch's faults for the unread bytes from `start` on; without any data, the faults are set on
    `node`.
    """
    for trouble in opened.troubles:
        if opened.uncompressed_size is None or not data:
            node.problem = problem_at(trouble, 0)
            continue
        rest = byte_node("unread", data, start, len(data), at, node)
        rest.buffer = opened.data if node.elsewhere else None
        rest.problem = Problem("", rest.start, rest.path, trouble.message, trouble.code)
        yield rest


def _record(
    data: memoryview,
    start: int,
    at: int,
    context: BatchContext,
    offset: int,
    timestamp: int | None,
    carried: Sequence[Header],
    node: Node,
) -> Iterator[Node]:
    """The nodes for the fields of a complete record."""
    fields = FieldReader(data, start, at, node)
    yield fields.number("length")
    yield fields.fixed("attributes", "int8")
    delta = fields.number("timestampDelta", long=True)
    delta.label = None if timestamp is None else moment(timestamp)
    yield delta
    delta = fields.number("offsetDelta")
    delta.label = f"offset {offset}"
    yield delta
    key, value = fields.bytes("key"), fields.bytes("value")
    if context.batch.header["isControl"]:
        add_control(key, value)
        key.secret = value.secret = context.secret
    else:
        context.describe(key, value, carried)
    yield key
    yield value
    headers = fields.number("headers")
    headers.type = "[]header"
    for index in range(headers.value):
        header = Node(f"[{index}]", "header", at + fields.position, headers)
        fields.parent = header
        name = fields.bytes("key")
        raw = name.value
        name.type = "string"
        try:
            name.value = text(raw)
        except UnicodeDecodeError:
            name.value = text_as_java(raw)
            name.problem = Problem("", name.start, name.path, "a header's key is not UTF-8", Code.BAD_UTF8)
        content = fields.bytes("value")
        content.secret = context.secret
        content.label = None if context.secret else context.payload("header", content, carried)
        header.children.extend((name, content))
        header.end = headers.end = at + fields.position
        headers.children.append(header)
    yield headers
