"""The nodes below a records field in the tree of a frame.

A batch has nodes for the fields of its header, named as in the JSON form, and "records", each with its own fields.
Offsets count in the frame, except for compressed records and problems in them: these count in the decompressed bytes
(`Node.buffer`). Nodes are created on first access.
"""

from __future__ import annotations

import codecs
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from kproxy.decoders import embedded, secrets
from kproxy.decoders.batches.batch import V2_HEADER, Trouble, compression_name
from kproxy.decoders.batches.codecs import CodecError, decompress
from kproxy.decoders.batches.legacy import MOST_NESTED, RECORD_COSTS
from kproxy.decoders.batches.opening import Opened
from kproxy.decoders.batches.record import NO_HEADERS, Header, RecordsError
from kproxy.decoders.embedded import Scope
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import Buffer, read_unsigned_varint, read_varlong, text, text_as_java
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.records import control, internal
from kproxy.decoders.records.partition import PartitionRecords
from kproxy.decoders.records.places import Place
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.view import View

MOST: Final = 10_000
"""Maximum number of records of a batch, or of messages of a set, that get nodes."""

PREVIEW: Final = 80
"""Maximum number of bytes of a key or value that a label shows as text."""

SHOWN: Final = 1_000
"""Maximum number of characters of a viewer's output that a label shows."""

BITS: Final = "bits"
"""Type of the nodes that explain single bits of attributes; they have the bytes of the attributes."""

_decoder: Final = codecs.getincrementaldecoder("utf-8")

_V2: Final = (
    ("baseOffset", "int64"), ("batchLength", "int32"), ("partitionLeaderEpoch", "int32"), ("magic", "int8"),
    ("crc", "uint32"), ("attributes", "int16"), ("lastOffsetDelta", "int32"), ("baseTimestamp", "int64"),
    ("maxTimestamp", "int64"), ("producerId", "int64"), ("producerEpoch", "int16"), ("baseSequence", "int32"),
    ("recordCount", "int32"),
)  # fmt: skip
_MESSAGE: Final = (
    ("offset", "int64"), ("messageSize", "int32"), ("crc", "uint32"), ("magic", "int8"), ("attributes", "int8"),
)  # fmt: skip
_FORMATS: Final = {
    name: struct.Struct(">" + code)
    for name, code in {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}.items()
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def attach(body: Node, view: View, places: Iterable[Place]) -> None:
    """Add nodes for batches and records below the records fields of a message; they are created on first access.

    `places` holds facts about the records from the rest of the exchange.
    """
    known = {place.path: place for place in places}
    for node in body.walk():
        if node.type == "records" and node.value is not None:
            place = known.get(node.path) or _alone(node, view.knowledge)
            node.later(partial(_field, place, view))


def topic_of(node: Node, knowledge: Knowledge) -> str | None:
    """The topic of a records field; None if the topic is unknown or the node is another field."""
    return _alone(node, knowledge).topic if node.type == "records" else None


def _alone(node: Node, knowledge: Knowledge) -> Place:
    """The Place of a records field, as far as fields of the same message determine it."""
    around: dict[str, Any] = {}
    above = node.parent
    while above is not None:
        around = {child.name: child.value for child in above.children} | around
        above = above.parent
    topic_id = around.get("topicId")
    name = around.get("name", around.get("topic"))
    if name is None and topic_id is not None:
        name = knowledge.topic(topic_id)
    number = around.get("index", around.get("partitionIndex", -1))
    return Place(node.path, name, topic_id, number, node.value)


def moment(milliseconds: int) -> str:
    """A record's timestamp as ISO 8601 text; "" if it is negative or beyond datetime's range."""
    if milliseconds < 0:
        return ""
    try:
        when = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return ""
    return when.strftime("%Y-%m-%dT%H:%M:%S") + f".{milliseconds % 1000:03d}Z"


def _field(place: Place, view: View, node: Node) -> Iterator[Node]:
    """The nodes of a records field: the end of an earlier batch, the batches, and the incomplete or unreadable rest."""
    found = PartitionRecords(place, view)
    data = memoryview(node.value)
    at = node.end - len(data)
    if found.start:
        head = _bytes("truncatedHead", data, 0, found.start, at, node)
        head.label = "the end of a batch that began before"
        head.secret = _secret(place, view)
        yield head
    at += found.start
    batches = Node("batches", "[]batch", at, node)
    batches.value = len(found.batches)
    batches.end = at + (found.batches[-1].end if found.batches else 0)
    batches.later(partial(_batches, found, at, view))
    yield batches
    if found.tail or (found.troubles and not found.troubles[-1].path):
        tail = _tail(found, data[found.start :], at, node)
        tail.secret = _secret(place, view)
        yield tail


def _secret(place: Place, view: View) -> bool:
    """Whether undecoded bytes of a records field are withheld because they may hold a secret."""
    return place.topic in secrets.TOPICS and not view.show_secrets


def _tail(found: PartitionRecords, data: memoryview, at: int, parent: Node) -> Node:
    tail = _bytes("truncatedTail", data, len(data) - found.tail, len(data), at, parent)
    trouble = found.troubles[-1] if found.troubles else None
    if trouble is not None and not trouble.path:
        tail.problem = _problem(trouble, at)
        return tail
    whole = found.tail_size()
    tail.label = f"partial message, {found.tail} of {'an unknown number of' if whole is None else whole} bytes"
    return tail


def _batches(found: PartitionRecords, at: int, view: View, parent: Node) -> Iterator[Node]:
    before: int | None = 0
    for index, batch in enumerate(found.batches):
        node = Node(f"[{index}]", "batch", at + batch.start, parent)
        node.end = at + batch.end
        inside = _InBatch(found, index, at, before, view)
        node.label = _batch_label(inside)
        node.later(partial(_v2 if batch.header["magic"] == 2 else _message, inside))
        yield node
        count = batch.header.get("recordCount")
        before = None if before is None or count is None else before + count


def _batch_label(inside: _InBatch) -> str:
    header = inside.batch.header
    if header["magic"] == 2:
        count = header["recordCount"]
        words = [f"offset {header['baseOffset']}", counted(count, "record")]
        words += [header["compression"]] if header["compression"] != "none" else []
        words += [word for word in ("isTransactional", "isControl") if header[word]]
        return ", ".join(words)
    if header["compression"] == "none":
        return inside.label(header["baseOffset"], header.get("maxTimestamp"), 0)
    return f"message set, {header['compression']}"


class _InBatch:
    """A batch with its context. Positions in the batch count from the frame offset `at`.

    `before` is the number of records in the batches before it, None if unknown.
    """

    def __init__(self, found: PartitionRecords, index: int, at: int, before: int | None, view: View) -> None:
        self.found = found
        self.index = index
        self.at = at
        self.before = before
        self.view = view
        self.secret = _secret(found.place, view)
        self.batch = found.batches[index]

    def label(self, offset: int, timestamp: int | None, number: int) -> str:
        """Label of a record: its offset, the offset that the broker assigned, its timestamp, and why a client skips it.

        `number` is the record's index in the batch.
        """
        words = [f"offset {offset}"]
        assigned = None if self.before is None else self.found.assigned(self.before + number)
        if assigned is not None:
            words = [f"{offset} → {assigned}"]
        if timestamp is not None:
            words.append(moment(timestamp))
        words.append(self.found.skipped(self.index, offset) or "")
        return "  ".join(filter(None, words))

    def tell(self, key: Node, value: Node, headers: Sequence[Header] = NO_HEADERS) -> None:
        """Set labels on the key and value of a record, or decode them for an internal topic.

        Not for control records.
        """
        topic = self.found.place.topic
        if topic in internal.TOPICS:
            _internal(topic, key, value, self.view)
        else:
            key.label, value.label = self.payload("key", key, headers), self.payload("value", value, headers)

    def payload(self, part: str, node: Node, headers: Sequence[Header] = NO_HEADERS) -> str | None:
        """Label of a key, value or header value: the output of the chosen viewer, else the beginning of its text."""
        payloads = self.view.payloads
        if node.value is None or payloads is None:
            return _preview(node)
        shown = payloads.show(self.found.place.topic, part, bytes(node.value), headers)
        if not isinstance(shown, dict) or "format" not in shown:
            return _preview(node)
        if "decoded" not in shown:
            return str(shown["error"])
        text = json.dumps(shown["decoded"], ensure_ascii=False)
        return f"{shown['format']}: {text[:SHOWN]}{'…' if len(text) > SHOWN else ''}"


# --- batches of magic 2 ---


def _v2(inside: _InBatch, node: Node) -> Iterator[Node]:
    header = inside.batch.header
    data = memoryview(inside.found.records)[inside.batch.start : inside.batch.end]
    for field in _fixed(_V2, data, 0, node.start, node):
        if field.name == "crc":
            _check(field, bool(header["crcValid"]))
        elif field.name == "attributes":
            bits = {name: header[name] for name in ("compression", "timestampType", "isTransactional", "isControl")}
            _bits(field, bits | {"hasDeleteHorizonMs": "deleteHorizon" in header})
        elif field.name in {"baseTimestamp", "maxTimestamp"}:
            field.label = moment(field.value)
        yield field
    records = Node("records", "[]record", node.start + V2_HEADER, node)
    records.end = node.end
    records.value = header["recordCount"]
    compressed = header["compression"] != "none"
    if compressed:
        records.elsewhere = True
        records.secret = inside.secret
        records.label = header["compression"]
    records.later(partial(_records, inside))
    yield records


def _records(inside: _InBatch, node: Node) -> Iterator[Node]:
    opened = inside.found.open(inside.index, most=MOST)
    buffer = opened.data if node.elsewhere else None
    at = 0 if node.elsewhere else node.start
    if node.elsewhere and opened.uncompressed_size is not None:
        node.label = f"{inside.batch.header['compression']}, decompressed to {counted(len(opened.data), 'byte')}"
    data = memoryview(opened.data)
    start = 0
    for number, (offset, timestamp, _, _, headers) in enumerate(opened.records):
        end = _record_end(data, start)
        record = Node(f"[{number}]", "record", at + start, node)
        record.end = at + end
        record.buffer = buffer
        record.label = inside.label(offset, timestamp, number)
        record.later(partial(_record, data, start, at, inside, offset, timestamp, headers))
        yield record
        start = end
    node.more = len(opened.records) == MOST < inside.batch.header["recordCount"]
    for rest in _damage(opened, data, start, at, node):
        rest.secret = inside.secret
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
            node.problem = _problem(trouble, 0)
            continue
        rest = _bytes("unread", data, start, len(data), at, node)
        rest.buffer = opened.data if node.elsewhere else None
        rest.problem = Problem("", rest.start, rest.path, trouble.message, trouble.code)
        yield rest


def _record(
    data: memoryview,
    start: int,
    at: int,
    inside: _InBatch,
    offset: int,
    timestamp: int | None,
    carried: Sequence[Header],
    node: Node,
) -> Iterator[Node]:
    """The nodes for the fields of a complete record."""
    fields = _Varints(data, start, at, node)
    yield fields.number("length")
    yield fields.fixed("attributes", "int8")
    delta = fields.number("timestampDelta", long=True)
    delta.label = None if timestamp is None else moment(timestamp)
    yield delta
    delta = fields.number("offsetDelta")
    delta.label = f"offset {offset}"
    yield delta
    key, value = fields.bytes("key"), fields.bytes("value")
    if inside.batch.header["isControl"]:
        _control(key, value)
        key.secret = value.secret = inside.secret
    else:
        inside.tell(key, value, carried)
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
        content.secret = inside.secret
        content.label = None if inside.secret else inside.payload("header", content, carried)
        header.children.extend((name, content))
        header.end = headers.end = at + fields.position
        headers.children.append(header)
    yield headers


class _Varints:
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
        if self.position + _FORMATS[type_].size > len(self.data):
            raise RecordsError(Code.TRUNCATED, f"the bytes end within {name}", self.position)
        (node.value,) = _FORMATS[type_].unpack_from(self.data, self.position)
        self.position += _FORMATS[type_].size
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


def _control(key: Node, value: Node) -> None:
    """Set a label on the key of a control record; the nodes below key and value are created on first access."""
    if key.value is None:
        key.problem = Problem("", key.start, key.path, "a control record without key", Code.TRUNCATED)
        return
    number = control.type_of(bytes(key.value))
    if number is None:
        text = f"a control record's key of {counted(len(key.value), 'byte')}"
        key.problem = Problem("", key.start, key.path, text, Code.TRUNCATED)
        return
    key.label = control.type_name(number)
    key.later(_control_key)
    if value.value is not None:
        value.later(partial(_control_value, number))


def _control_key(key: Node) -> Iterator[Node]:
    at = key.end - len(key.value)
    for field in _fixed((("version", "int16"), ("type", "int16")), key.value, 0, at, key):
        if field.name == "type":
            field.label = control.type_name(field.value)
        yield field


def _control_value(number: int, value: Node) -> Iterable[Node]:
    at = value.end - len(value.value)
    try:
        found = control.value_tree(number, bytes(value.value))
    except RecordsError as error:
        value.problem = Problem("", at + error.position, value.path, error.message, error.code)
        return []
    return () if found is None else _moved(found, at, value)


def _internal(topic: str, key: Node, value: Node, view: View) -> None:
    """Set labels on the key and value of an internal topic's record; the nodes below are created on first access."""
    name = None if key.value is None else bytes(key.value)
    for node in (key, value):
        if node.value is None:
            continue
        data = bytes(node.value)
        body = values = None
        try:
            body = internal.key_body(topic, data) if node is key else internal.value_body(topic, name, data)
            if body is not None:
                node.label = body.message.name
                values, _ = internal.read(body, data, node.name)
        except RecordsError as error:
            at = node.end - len(data)
            node.problem = Problem("", at + error.position, node.path, error.message, error.code)
        node.secret = internal.withheld(topic, body, values, view)
        if body is not None:
            node.later(partial(_internal_fields, body, data, view))


def _internal_fields(body: internal.Body, data: bytes, view: View, node: Node) -> list[Node]:
    found = tree(body.message, body.version, data, body.start, len(data))
    embedded.attach(found, body.message, body.version, memoryview(data), Scope(view))
    # Children that are created later would get offsets within `data`, so all are created before _moved shifts them.
    closed = [found]
    while closed:
        closed += closed.pop().children
    return _moved(found, node.end - len(data), node)


def _moved(found: Node, by: int, parent: Node) -> list[Node]:
    """The children of `found`, with offsets shifted by `by` and `parent` as their parent."""
    for node in found.walk():
        node.start += by
        node.end += by
        if node.problem is not None:
            node.problem = replace(node.problem, offset=node.problem.offset + by)
    for child in found.children:
        child.parent = parent
    return found.children


# --- message sets ---


def _message(inside: _InBatch, node: Node) -> Iterator[Node]:
    """The nodes for the fields of an outer message."""
    data = memoryview(inside.found.records)[inside.batch.start : inside.batch.end]
    header = inside.batch.header
    reading = _Message(inside, inside.view.batch_limit, bool(header["crcValid"]))
    return reading.fields(data, node.start, node)


class _Message:
    """Reads the fields of a message of magic 0 or 1 and makes a node for each.

    `shift` is added to the offset of the message and of messages inside it; None if it is unknown. `left` is the number
    of bytes that may still be decompressed below the message. `append_time`, if given, replaces the timestamps of the
    message and of those inside.
    """

    def __init__(
        self,
        inside: _InBatch,
        left: int,
        crc_valid: bool,
        *,
        shift: int | None = 0,
        append_time: int | None = None,
        depth: int = 0,
    ) -> None:
        self.inside, self.left, self.crc_valid = inside, left, crc_valid
        self.shift, self.append_time, self.depth = shift, append_time, depth

    def fields(self, data: memoryview, at: int, node: Node) -> Iterator[Node]:
        offset = attributes = magic = 0
        for field in _fixed(_MESSAGE, data, 0, at, node):
            if field.name == "crc":
                _check(field, self.crc_valid)
            elif field.name == "magic":
                magic = field.value
            elif field.name == "offset":
                offset = field.value
            elif field.name == "attributes":
                attributes = field.value
                _bits(field, _legacy_attributes(magic, attributes))
            yield field
        fields = _Varints(data, sum(_FORMATS[type_].size for _, type_ in _MESSAGE), at, node)
        timestamp = self.append_time
        try:
            if magic:
                stamp = fields.fixed("timestamp", "int64")
                timestamp = stamp.value if self.append_time is None else self.append_time
                stamp.label = moment(timestamp)
                yield stamp
            key = fields.bytes32("key")
            key.secret = self.inside.secret
            yield key
            value = fields.bytes32("value")
            codec = compression_name(attributes)
            if codec == "none":
                self.inside.tell(key, value)
            else:
                value.name, value.type, value.elsewhere, value.label = "records", "[]message", True, codec
                above = timestamp if magic and attributes & 8 else self.append_time
                value.later(partial(self._set, value.value, codec, offset, magic, above))
                value.value = None
            yield value
            fields.done()
        except RecordsError as error:
            rest = _bytes("unread", data, min(fields.position, len(data)), len(data), at, node)
            rest.problem = Problem("", at + error.position, node.path, error.message, error.code)
            rest.secret = self.inside.secret
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
        spans, count, last, damage = _messages(inner, self.inside.view.batch_limit)
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
                message.label = self.inside.label(shift + _offset(inner, start), stamp, number)
            reading = _Message(
                self.inside, self.left - len(inner), valid,
                shift=shift, append_time=append_time, depth=self.depth + 1,
            )  # fmt: skip
            message.later(partial(reading.fields, view[start:end], start))
            yield message
        node.more = count > len(spans)
        node.value = count
        if damage is not None:
            start = min(damage.position, len(inner))
            rest = _bytes("unread", view, start, len(inner), 0, node)
            rest.buffer = inner
            rest.secret = self.inside.secret
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


_HEAD: Final = struct.Struct(">qiIbb")
_LEAST: Final = _HEAD.size
_OUTER: Final = 12
_CRC_ENDS: Final = 16


def _offset(data: bytes, start: int) -> int:
    return int(_FORMATS["int64"].unpack_from(data, start)[0])


def _timestamp(data: bytes, start: int, end: int) -> int | None:
    at = start + _LEAST
    return None if at + 8 > end else int(_FORMATS["int64"].unpack_from(data, at)[0])


def _crc_matches(data: bytes, start: int, end: int) -> bool:
    (crc,) = _FORMATS["uint32"].unpack_from(data, start + _OUTER)
    return bool(zlib.crc32(data[start + _CRC_ENDS : end]) == crc)


def _legacy_attributes(magic: int, attributes: int) -> dict[str, Any]:
    bits: dict[str, Any] = {"compression": compression_name(attributes)}
    if magic:
        bits["timestampType"] = "LogAppendTime" if attributes & 8 else "CreateTime"
    return bits


# --- all formats ---


def _fixed(fields: Iterable[tuple[str, str]], data: Buffer, position: int, at: int, parent: Node) -> Iterator[Node]:
    """Nodes of adjoining fields of fixed size; `at` is the offset of `data[0]`."""
    for name, type_ in fields:
        node = Node(name, type_, at + position, parent)
        (node.value,) = _FORMATS[type_].unpack_from(data, position)
        position += _FORMATS[type_].size
        node.end = at + position
        yield node


def _check(crc: Node, valid: bool) -> None:
    crc.label = "valid" if valid else "does not match"
    if not valid:
        whose = "a message's" if crc.parent is not None and crc.parent.type == "message" else "the batch's"
        crc.problem = Problem("", crc.start, crc.path, f"{whose} CRC does not match its bytes", Code.CRC_MISMATCH)


def _bits(attributes: Node, bits: Mapping[str, Any]) -> None:
    """Add a node below the attributes for each entry of `bits`: (name of a bit or of several bits, meaning)."""
    for name, value in bits.items():
        node = Node(name, BITS, attributes.start, attributes)
        node.end, node.value = attributes.end, value
        attributes.children.append(node)


def _bytes(name: str, data: memoryview, start: int, end: int, at: int, parent: Node) -> Node:
    node = Node(name, "bytes", at + start, parent)
    node.end, node.value = at + end, data[start:end]
    return node


def _preview(node: Node) -> str | None:
    """The beginning of bytes as text in quotes; None if they are not printable UTF-8."""
    if not node.value:
        return None
    try:
        begin = _decoder().decode(bytes(node.value[:PREVIEW]))
    except UnicodeDecodeError:
        return None
    if not begin.isprintable():
        return None
    return f'"{begin}"' if len(node.value) <= PREVIEW else f'"{begin}…'


def _problem(trouble: Trouble, at: int) -> Problem:
    return Problem("", at + trouble.offset, trouble.path, trouble.message, trouble.code)
