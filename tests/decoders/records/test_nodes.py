"""Records in the tree of a frame agree with their JSON form."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.reader import read as read_capture
from kproxy.decoders import knowledge
from kproxy.decoders.batches.compiled import text_or_base64
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.problems import Code
from kproxy.decoders.records import message_nodes
from kproxy.decoders.records.batch_context import MOST
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.records.nodes import attach, topic_of
from kproxy.decoders.records.places import PLACES, Place, places
from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.model import Message
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import PLAIN, View
from kproxy.decoders.writer import write
from tests.decoders.batches.support import batch, message, record
from tests.decoders.embedded.support import structure
from tests.support.golden import DATA
from tests.support.scripts import response

CAPTURES = ("kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka")


def below(data: bytes, view: View = PLAIN, *, name: str = "records", **told: Any) -> Node:
    """The records field of a frame, at offset 7."""
    field = Node(name, "records", 7)
    field.end = 7 + len(data)
    field.value = memoryview(data)
    attach(field, view, [Place("", "t", None, 0, data, **told)])
    return field


def child(node: Node, *names: str) -> Node:
    for name in names:
        node = next(one for one in node.children if one.name == name)
    return node


def everything(node: Node) -> Iterator[Node]:
    """The node and all nodes below it."""
    children = node.children
    yield node
    for one in children:
        yield from everything(one)


def buffer_of(node: Node) -> Any:
    while node.buffer is None and node.parent is not None:
        node = node.parent
    return node.buffer


def check_places(field: Node, data: bytes) -> None:
    """Assert that nodes lie inside their parent, one after the other, with their values' bytes at their offsets."""
    for node in everything(field):
        bytes_ = buffer_of(node)
        whole = b"\0" * 7 + data if bytes_ is None else bytes_
        assert 0 <= node.start <= node.end <= len(whole), node
        at = None if node.elsewhere else node.start
        for one in node.children:
            if one.type not in {"bits", "header"}:
                assert at is None or one.start >= at, one
                at = None if node.elsewhere else one.end
            assert node.elsewhere or one.end <= node.end, (node, one)
        if node.type == "bytes" and node.value is not None:
            assert whole[node.end - len(node.value) : node.end] == bytes(node.value)


def offset_of(node: Node) -> int:
    assert node.label is not None
    return int(node.label.replace("→", " ").removeprefix("offset ").split()[0])


def found(records: Node) -> Iterator[dict[str, Any]]:
    """Records, and messages without an inner set, in the parts that JSON has too."""
    for one in records.children:
        if one.type not in {"record", "message", "batch"}:
            continue
        inner = next((part for part in one.children if part.name == "records"), None)
        if inner is not None:
            yield from found(inner)
            continue
        key, value = child(one, "key"), child(one, "value")
        shown: dict[str, Any] = {"offset": offset_of(one), "key": json_of(key), "value": json_of(value)}
        if one.type == "record":
            shown["headers"] = [
                {"key": child(header, "key").value, "value": json_of(child(header, "value"))}
                for header in child(one, "headers").children
            ]
        yield shown


def json_of(node: Node) -> Any:
    shown = text_or_base64(None if node.value is None else bytes(node.value))
    if not node.children:
        return shown
    if node.label is not None and node.label.endswith(("Key", "Value")):
        assert isinstance(shown, dict)
        return {"label": node.label, **shown}
    assert node.label is None or not node.label.startswith('"')
    return {"label": node.label, **{part.name: part.value for part in node.children}}


def plain(record_: Mapping[str, Any]) -> dict[str, Any]:
    """A record of the JSON form in the form of `found`."""
    shown = {name: record_[name] for name in ("offset", "key", "value", "headers") if name in record_}
    for part in ("key", "value"):
        one = shown[part]
        if isinstance(one, dict) and "decoded" in one:
            decoded = dict(one["decoded"])
            name = decoded.pop("name", None)
            shown[part] = {"label": name, "base64": one["base64"]} if "data" in decoded else {"label": name, **decoded}
    return shown


def both(data: bytes) -> Node:
    """The nodes of an undamaged field; asserts that they agree with the JSON form."""
    form = RecordsForm(data)
    form.open(body_json)
    field = below(data)
    check_places(field, data)
    batches = child(field, "batches")
    assert batches.value == len(form["batches"])
    for node, header in zip(batches.children, form["batches"], strict=True):
        assert node.end - node.start == header["sizeInBytes"]
        for part in everything(node):
            if part.parent is node and part.name in header and part.name not in {"records", "baseOffset"}:
                assert part.value == header[part.name]
            if part.type == "bits" and part.name in header and part.parent and part.parent.parent is node:
                assert part.value == header[part.name]
    expected = [plain(one) for header in form["batches"] for one in header["records"] or ()]
    assert list(found(batches)) == expected
    tails = [node for node in field.children if node.name == "truncatedTail"]
    assert sum(len(node.value) for node in tails) == form["truncatedTail"]
    assert [node.problem for node in everything(field) if node.problem is not None] == []
    return field


@pytest.mark.parametrize("name", CAPTURES)
def test_nodes_of_captured_exchanges_are_the_json_form(name: str) -> None:
    known = definitions()
    checked = 0
    with closing(read_capture([DATA / "captures" / f"{name}.pcap"])) as reader:
        for exchange in reader:
            if not isinstance(exchange, Exchange) or exchange.api_key not in PLACES or exchange.request is None:
                continue
            checked += compare(exchange, reader.source, known)
    assert checked > 10


def compare(exchange: Exchange, source: Any, known: Any) -> int:
    """Number of records of an exchange; asserts that nodes and JSON agree on them, skip marks and offsets included."""
    key, version = exchange.api_key, exchange.api_version
    assert exchange.request is not None
    assert key is not None
    assert version is not None
    request = bytes(exchange.request.data(source))
    response = b"" if exchange.response is None else bytes(exchange.response.data(source))
    asked = decode_request(request, known).body
    answered = decode_response(response, key, version, known).body if response else None
    side = "request" if PLACES[key].in_request else "response"
    data = request if side == "request" else response
    if not data:
        return 0
    line = exchange_json(exchange, source, known)
    root = frame_tree(
        data,
        Side.CLIENT if side == "request" else Side.BROKER,
        key,
        version,
        known,
        places=places(key, asked, answered, knowledge.Knowledge(), known),
    )
    fields = [node for node in root.walk() if node.type == "records" and node.value is not None]
    lists = PLACES[key]
    forms = [
        partition[lists.field]
        for topic in line[side]["body"][lists.topics]
        for partition in topic[lists.partitions]
        if partition[lists.field] is not None
    ]
    count = 0
    for field, form in zip(fields, forms, strict=True):
        records = [one for header in form["batches"] for one in header["records"]]
        assert list(found(child(field, "batches"))) == [plain(one) for one in records]
        labelled = [node for node in everything(field) if node.label and "record" not in node.label]
        for mark in ("below_fetch_offset", "aborted"):
            marked = sum(one.get("skipped") == mark for one in records)
            assert sum(mark in (node.label or "") for node in labelled) == marked
        count += len(records)
    return count


RECORDS = [
    (b"k", b"v", [(b"h", None), (b"h", b"x"), (b"", b"")]),
    (None, b"\0\xff", []),
    (b"", None, []),
    (b"key" * 50, b"value" * 500, []),
]


@pytest.mark.parametrize("codec", [0, 1, 3])
def test_a_batch(codec: int) -> None:
    inner = b"".join(record(i, key, value, headers, time=i) for i, (key, value, headers) in enumerate(RECORDS))
    packed = {0: inner, 1: gzip.compress(inner), 3: lz4.frame.compress(inner)}[codec]
    field = both(batch(packed, 4, offset=40, attributes=codec | 64))
    first = child(field, "batches", "[0]")
    assert child(first, "crc").label == "valid"
    assert child(first, "attributes", "hasDeleteHorizonMs").value is True
    records = child(first, "records")
    assert records.elsewhere is bool(codec)
    assert records.children[1].label == "offset 41  1970-01-01T00:00:01.001Z"
    assert (records.children[1].buffer == inner) is bool(codec)
    assert child(records.children[3], "offsetDelta").label == "offset 43"


def test_nothing_is_opened_before_it_is_asked_for() -> None:
    field = below(batch(gzip.compress(record(0, b"k", b"v")), 1, attributes=1) * 2)
    assert [node.name for node in field.walk()] == ["records"]
    batches = child(field, "batches")
    assert len(batches.children) == 2
    assert len(list(batches.walk())) == 3
    records = child(batches.children[0], "records")
    assert records.unopened
    list(field.walk())
    assert records.unopened
    assert records.at(records.start + 3) is records
    assert records.unopened


def test_bytes_find_their_records_wherever_these_are() -> None:
    plain_one = batch(record(0, b"key", b"value"), 1)
    packed = batch(gzip.compress(record(0, b"key", b"value")), 1, attributes=1)
    field = below(plain_one + packed)
    at = 7 + plain_one.index(b"value")
    assert field.at(at).path == "batches[0].records[0].value"
    assert field.at(7 + len(plain_one) + 70).path == "batches[1].records"
    records = child(field, "batches", "[1]", "records")
    inner = records.children[0].buffer
    assert inner is not None
    assert records.inside(bytes(inner).index(b"key")).path == "batches[1].records[0].key"


def test_records_of_internal_topics_are_read_and_their_secrets_withheld() -> None:
    # UserScramCredentialRecord v0: name, mechanism, salt, two keys, iterations.
    value = bytes((1, 11, 0, 2)) + b"u" + bytes((1,)) + b"\x03ab\x03cd\x03ef" + (4096).to_bytes(4, "big") + b"\0"
    data = batch(record(0, None, value), 1)
    field = Node("records", "records", 7)
    field.end = 7 + len(data)
    field.value = memoryview(data)
    for view, hidden in ((PLAIN, True), (View(show_secrets=True), False)):
        attach(field, view, [Place("", "__cluster_metadata", None, 0, data)])
        shown = child(field, "batches", "[0]", "records", "[0]", "value")
        assert shown.label == "UserScramCredentialRecord"
        assert shown.problem is None
        assert shown.secret is hidden
        salt = child(shown, "salt")
        assert (salt.path, bytes(salt.value)) == ("batches[0].records[0].value.salt", b"ab")
        assert salt.secret
        assert data[salt.start - 7 : salt.end - 7].endswith(b"ab")


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("magic", [1, 2])
def test_what_is_inside_bytes_of_internal_topics_has_its_place(magic: int, *, whole: bool) -> None:
    subscription = structure("ConsumerProtocolSubscription", 1, topics=["orders"])
    member = {"memberId": "m", "clientId": "c", "clientHost": "h", "subscription": subscription, "assignment": b""}
    group = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m", "members": [member]}
    key = b"\0\2" + write(written("GroupMetadataKey", 0), 0, {"group": "g"})
    value = b"\0\3" + write(written("GroupMetadataValue", 3), 3, group)
    if not whole:
        value = value.replace(b"orders", b"ord\xffrs")
    data = batch(record(0, key, value), 1) if magic == 2 else message(1, 0, key, value)
    field = Node("records", "records", 7)
    field.end, field.value = 7 + len(data), memoryview(data)
    attach(field, PLAIN, [Place("", "__consumer_offsets", None, 0, data)])
    outer = child(field, "batches", "[0]")
    shown = child(outer, "records", "[0]", "value") if magic == 2 else child(outer, "value")
    assert shown.label == "GroupMetadataValue"
    inner = child(shown, "members", "[0]", "subscription")
    assert inner.label == "consumer protocol subscription v1"
    topic = child(inner, "topics", "[0]")
    assert data[topic.start - 7 : topic.end - 7] == (b"\0\6orders" if whole else b"\0\6ord\xffrs")
    assert (topic.problem is None) is whole
    assert topic.problem is None or data[topic.problem.offset - 7] == 0xFF


def written(name: str, version: int) -> Message:
    message_ = definitions().message(name, version)
    assert message_ is not None
    return message_


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_within_sets(magic: int) -> None:
    inner = b"".join(message(magic, offset, b"k", b"%d" % offset, time=offset) for offset in (0, 1, 5))
    middle = message(magic, 3, None, gzip.compress(inner), attributes=1) + message(magic, 7, None, b"x")
    data = message(magic, 100, None, gzip.compress(middle), attributes=1) + message(magic, 101, b"k", None)
    field = both(data)
    outer = child(field, "batches", "[0]", "records")
    assert outer.value == 2
    assert outer.elsewhere
    assert child(outer.children[0], "records").children[0].buffer == inner
    offsets = [one["offset"] for one in found(child(field, "batches"))]
    assert offsets == ([91, 92, 96, 100, 101] if magic else [0, 1, 5, 7, 101])


def test_sets_are_followed_only_so_deep() -> None:
    data = message(0, 0, b"k", b"v")
    for _ in range(20):
        data = message(0, 0, None, gzip.compress(data), attributes=1)
    problems = [node.problem for node in everything(below(data)) if node.problem]
    assert [problem.code for problem in problems] == [Code.DECOMPRESSION_LIMIT]


@pytest.mark.parametrize(
    ("cut", "label"),
    [(-5, "partial message, 63 of 68 bytes"), (11, "partial message, 11 of an unknown number of bytes")],
)
def test_a_partial_message_says_how_much_of_it_is_there(cut: int, label: str) -> None:
    one = batch(record(0, b"k", b"v" * 10), 1)[:68]
    whole = batch(record(0, None, None), 1)
    one = one[:8] + (68 - 12).to_bytes(4, "big") + one[12:]
    field = below(whole + one[:cut])
    tail = child(field, "truncatedTail")
    assert (tail.label, tail.problem) == (label, None)
    assert tail.end == field.end


def test_what_begins_within_a_batch() -> None:
    data = batch(record(0, b"k", b"v"), 1)
    piece = data[9:] + data
    field = below(piece, name="unalignedRecords")
    attach(field, PLAIN, [Place("unalignedRecords", None, None, 0, piece)])
    named = Node("root", "struct", 0)
    field.parent = named
    named.children.append(field)
    attach(named, PLAIN, [])
    head = child(field, "truncatedHead")
    assert (head.start, head.end) == (7, 7 + len(data) - 9)
    (one,) = child(field, "batches").children
    assert (one.start, one.end) == (7 + len(data) - 9, 7 + len(piece))
    assert child(one, "records", "[0]", "value").value == b"v"


def test_damage_stands_where_it_is() -> None:
    broken = batch(record(0, b"k", b"v") + b"\x10\0\0\0\0", 2)
    unpacked = batch(b"nothing of gzip", 1, attributes=1)
    forged = bytearray(batch(record(0, b"k", b"v"), 1))
    forged[-2] ^= 1
    nonsense = b"\0" * 16 + b"\x09" + b"\0" * 20
    field = below(broken + unpacked + bytes(forged) + nonsense)
    troubled = {node.path: node.problem.code for node in everything(field) if node.problem is not None}
    assert troubled == {
        "batches[0].records.unread": Code.BAD_LENGTH,
        "batches[1].records": Code.DECOMPRESSION_FAILED,
        "batches[2].crc": Code.CRC_MISMATCH,
        "truncatedTail": Code.BAD_LENGTH,
    }
    rest = child(field, "batches", "[0]", "records", "unread")
    assert (b"\0" * 7 + broken)[rest.start : rest.end] == b"\x10\0\0\0\0"
    assert child(field, "batches", "[2]", "crc").label == "does not match"


def test_a_batch_beyond_the_limit_is_not_opened() -> None:
    data = batch(gzip.compress(record(0, None, bytes(5000))), 1, attributes=1)
    records = child(below(data, View(batch_limit=4999)), "batches", "[0]", "records")
    assert records.children == []
    assert records.problem is not None
    assert records.problem.code == Code.DECOMPRESSION_LIMIT


def test_many_records_become_so_many_nodes() -> None:
    data = batch(record(0, None, None) * (MOST + 5), MOST + 5)
    records = child(below(data), "batches", "[0]", "records")
    assert records.value == MOST + 5
    assert len(records.children) == MOST
    assert records.more
    assert [node.problem for node in records.children if node.problem] == []


def test_assigned_offsets_stand_beside_those_that_were_sent() -> None:
    data = batch(record(0, None, b"a") + record(1, None, b"b"), 2) + message(1, 0, None, b"c")
    field = below(data, assigned=1045)
    first, second = child(field, "batches").children
    assert [(node.label or "").split("  ")[0] for node in child(first, "records").children] == ["0 → 1045", "1 → 1046"]
    assert (second.label or "").startswith("0 → 1047")


def test_bytes_that_may_hold_a_secret_are_marked() -> None:
    broken = batch(record(0, None, b"\1") + b"\x7f", 2)
    packed = batch(gzip.compress(record(0, None, b"v")), 1, attributes=1)
    data = broken + packed + packed[:40]
    for topic, view, hidden in (
        ("__cluster_metadata", PLAIN, ["batches[0].records[0].value", "batches[0].records.unread", "batches[1].records",
                                       "batches[1].records[0].value", "truncatedTail"]),
        ("__cluster_metadata", View(show_secrets=True), []),
        ("orders", PLAIN, []),
    ):  # fmt: skip
        field = Node("records", "records", 7)
        field.end, field.value = 7 + len(data), memoryview(data)
        attach(field, view, [Place("", topic, None, 0, data)])
        assert [node.path for node in everything(field) if node.secret] == hidden


def test_a_topic_is_found_around_its_records() -> None:
    data = batch(record(0, None, b"v"), 1)
    body = response(1, 13, 7, responses=[
        {"topicId": one, "partitions": [{"partitionIndex": 0, "records": data}]}
        for one in (bytes(15) + b"\1", b"x" * 16)
    ])  # fmt: skip
    root = frame_tree(body[:-3], Side.BROKER, 1, 13, definitions())
    names = [topic_of(node, knowledge.Knowledge()) for node in root.walk() if node.type == "records"]
    assert names == ["__cluster_metadata", None]


class Shouting:
    """A viewer that shows payloads in capitals."""

    def show(self, topic: str | None, part: str, data: bytes, headers: Any) -> Any:
        return {"base64": "", "format": f"{topic}/{part}/{len(headers)}", "decoded": data.decode().upper()}


def test_payloads_are_labelled_by_their_viewers() -> None:
    field = below(
        batch(record(0, b"k", b"v", [(b"h", b"x")]), 1) + message(1, 1, None, b"w"), View(payloads=Shouting())
    )
    labels = [node.label for node in everything(field) if node.type == "bytes"]
    assert labels == ['t/key/1: "K"', 't/value/1: "V"', 't/header/1: "X"', None, 't/value/0: "W"']


def test_control_records_are_read() -> None:
    control = record(0, b"\0\0\0\1", b"\0\0\0\0\0\7")
    field = both(batch(control, 1, attributes=16 | 32, producer=3))
    one = child(field, "batches", "[0]", "records", "[0]")
    assert child(one, "key").label == "COMMIT"
    epoch = child(one, "value", "coordinatorEpoch")
    assert (epoch.value, epoch.path) == (7, "batches[0].records[0].value.coordinatorEpoch")
    assert (epoch.start, epoch.end) == (child(one, "value").end - 4, child(one, "value").end)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_do_harm(noise: bytes, at: int) -> None:
    data = bytearray(
        batch(record(0, b"k", b"v", [(b"\xff", None)]) + record(1, None, None), 2)
        + batch(gzip.compress(record(0, b"\0\0\0\0", b"\0\0\0\0\0\1")), 1, attributes=1 | 32)
        + message(1, 9, None, gzip.compress(message(1, 0, b"k", b"v") * 2), attributes=1)
    )
    data[at : at + len(noise)] = noise
    field = below(bytes(data))
    for node in everything(field):
        assert node.start <= node.end


def test_the_offset_of_what_is_wrong_is_the_frame_s() -> None:
    """7 bytes stand before the field. Inside of what was decompressed, offsets are its own."""
    broken = batch(record(0, b"k", b"v") + b"\x10\0\0\0\0", 2)
    packed = batch(gzip.compress(record(0, b"k", b"v") + b"\x10\0\0\0\0"), 2, attributes=1)
    forged = bytearray(batch(record(0, b"k", b"v"), 1))
    forged[-2] ^= 1
    field = below(broken + packed + bytes(forged) + b"\0" * 16 + b"\x09" + b"\0" * 20)
    found = {node.path: node.problem.offset for node in everything(field) if node.problem is not None}
    first = len(broken)
    last = first + len(packed)
    assert found == {
        "batches[0].records.unread": 7 + first - 5,
        "batches[1].records.unread": 9,
        "batches[2].crc": 7 + last + 17,
        "truncatedTail": 7 + last + len(forged),
    }


@pytest.mark.parametrize(
    ("control", "path", "offset"),
    [
        (record(0, None, b"x"), "batches[0].records[0].key", 72),
        (record(0, b"\0\0", b"x"), "batches[0].records[0].key", 72),
        (record(0, b"\0\0\0\1", b"\0"), "batches[0].records[0].value", 79),
    ],
)
def test_the_offset_of_what_is_wrong_with_a_control_record(control: bytes, path: str, offset: int) -> None:
    field = below(batch(control, 1, attributes=32))
    found = {node.path: node.problem.offset for node in everything(field) if node.problem is not None}
    assert found == {path: offset}


FIRST, SECOND = message(0, 4, b"k", b"v"), message(0, 9, b"k", b"v")


@pytest.mark.parametrize(
    ("data", "spans", "count", "last", "why", "position"),
    [
        (FIRST + SECOND, [(0, 28), (28, 56)], 2, 9, None, 0),
        (b"", [], 0, 0, "a compressed set without messages", 0),
        (FIRST + bytes(17), [(0, 28)], 1, 4, "a set ends within a message's head", 28),
        (FIRST + bytes(18), [(0, 28)], 1, 4, "a message of 0 bytes where 6 are left", 28),
        (FIRST + SECOND[:-1], [(0, 28)], 1, 4, "a message of 16 bytes where 15 are left", 28),
        (FIRST + SECOND[:16] + b"\2" + SECOND[17:], [(0, 28)], 1, 4, "no message has magic 2", 28),
        (bytes(8) + b"\0\0\0\6" + bytes(6), [(0, 18)], 1, 0, None, 0),
        (bytes(8) + b"\0\0\0\5" + bytes(6), [], 0, 0, "a message of 5 bytes where 6 are left", 0),
    ],
)
def test_where_the_messages_of_a_set_are(
    data: bytes, spans: list[tuple[int, int]], count: int, last: int, why: str | None, position: int
) -> None:
    found = message_nodes._messages(data, 1000)
    assert found[:3] == (spans, count, last)
    if why is None:
        assert found[3] is None
    else:
        assert found[3] is not None
        assert (found[3].message, found[3].position) == (why, position)


@pytest.mark.parametrize(("limit", "count"), [(128, 3), (127, 2), (0, 1)])
def test_only_so_many_messages_are_followed(limit: int, count: int) -> None:
    """Each counts for 64 bytes at least, beginning with the second."""
    _, found, _, damage = message_nodes._messages(FIRST * 3, limit)
    assert found == count
    assert (damage is None) == (count == 3)


def test_timestamps_of_messages_in_a_set() -> None:
    one = message(1, 3, None, b"v", time=77)
    inner = one + message(1, 4, None, b"w", time=1_700_000_000_000)
    field = below(message(1, 4, None, gzip.compress(inner), attributes=1))
    labels = [node.label for node in everything(field) if node.type == "message" and node.label]
    assert labels[-2:] == ["offset 3  1970-01-01T00:00:00.077Z", "offset 4  2023-11-14T22:13:20.000Z"]
