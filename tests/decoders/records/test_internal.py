"""Records of Kafka's internal topics; tests/system/test_oracle.py compares their values with Kafka's reading."""

from __future__ import annotations

import gzip
import json
import struct
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.batches.record import RecordsError
from kproxy.decoders.compiler import decoder
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.primitives import write_unsigned_varint
from kproxy.decoders.problems import Code
from kproxy.decoders.records import internal
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.records.nodes import attach
from kproxy.decoders.records.places import Place
from kproxy.decoders.schema import definitions
from kproxy.decoders.tree import Node, tree
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.decoders.batches.support import batch, message, record

OFFSETS, TRANSACTIONS, CLUSTER = "__consumer_offsets", "__transaction_state", "__cluster_metadata"


def body(name: str, version: int, /, **values: Any) -> bytes:
    message = definitions().message(name, version)
    assert message is not None
    return write(message, version, values)


def key(number: int, name: str, /, **values: Any) -> bytes:
    return struct.pack(">h", number) + body(name, 0, **values)


def value(version: int, name: str, /, **values: Any) -> bytes:
    return struct.pack(">h", version) + body(name, version, **values)


def metadata(number: int, version: int, name: str, /, **values: Any) -> bytes:
    return b"\1" + write_unsigned_varint(number) + write_unsigned_varint(version) + body(name, version, **values)


COMMIT_KEY = key(1, "OffsetCommitKey", group="g", topic="t", partition=2)
COMMIT_VALUE = value(3, "OffsetCommitValue", offset=5, leaderEpoch=1, metadata="m", commitTimestamp=9)
PASSWORD = metadata(4, 0, "ConfigRecord", resourceType=4, resourceName="1", name="a.password", value="hunter2!")


def opened(topic: str | None, *pairs: tuple[bytes | None, bytes | None], show_secrets: bool = False) -> RecordsForm:
    data = b"".join(record(delta, key, value) for delta, (key, value) in enumerate(pairs))
    form = RecordsForm(batch(data, len(pairs)))
    form.open(body_json, View(show_secrets=show_secrets), topic)
    json.dumps(form)
    return form


def shown(topic: str | None, key: bytes | None, value: bytes | None, *, show_secrets: bool = False) -> tuple[Any, Any]:
    form = opened(topic, (key, value), show_secrets=show_secrets)
    assert form.troubles == []
    (found,) = form["batches"][0]["records"]
    return found["key"], found["value"]


def faults(topic: str, key: bytes | None, value: bytes | None) -> tuple[Any, list[tuple[Code, str]]]:
    form = opened(topic, (key, value))
    (found,) = form["batches"][0]["records"]
    return found, [(trouble.code, trouble.path) for trouble in form.troubles]


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def test_the_topics_are_those_of_the_definitions() -> None:
    assert {message.topic for message in definitions().messages()} == {None, *internal.TOPICS}


def test_a_commit() -> None:
    assert shown(OFFSETS, COMMIT_KEY, COMMIT_VALUE) == (
        {
            "base64": base64(COMMIT_KEY),
            "decoded": {"type": 1, "name": "OffsetCommitKey", "data": {"group": "g", "topic": "t", "partition": 2}},
        },
        {
            "base64": base64(COMMIT_VALUE),
            "decoded": {
                "type": 1,
                "name": "OffsetCommitValue",
                "version": 3,
                "data": {"offset": 5, "leaderEpoch": 1, "metadata": "m", "commitTimestamp": 9},
            },
        },
    )


def test_a_tombstone_has_a_key_only() -> None:
    found_key, found_value = shown(OFFSETS, COMMIT_KEY, None)
    assert found_key["decoded"]["name"] == "OffsetCommitKey"
    assert found_value is None


def test_the_same_type_means_another_record_in_another_topic() -> None:
    number = struct.pack(">h", 0)
    transaction = number + body("TransactionLogKey", 0, transactionalId="x")
    assert shown(TRANSACTIONS, transaction, None)[0]["decoded"]["name"] == "TransactionLogKey"
    legacy = number + body("LegacyOffsetCommitKey", 0, group="g", topic="t", partition=0)
    assert shown(OFFSETS, legacy, None)[0]["decoded"]["name"] == "LegacyOffsetCommitKey"
    register = metadata(0, 0, "RegisterBrokerRecord")
    assert shown(CLUSTER, None, register)[1]["decoded"]["name"] == "RegisterBrokerRecord"
    segment = metadata(0, 0, "RemoteLogSegmentMetadataRecord")
    assert shown("__remote_log_metadata", None, segment)[1]["decoded"]["name"] == "RemoteLogSegmentMetadataRecord"


def test_a_layout_that_an_older_release_had() -> None:
    share = key(11, "ShareGroupMetadataKey", groupId="s")
    newer = value(0, "ShareGroupMetadataValue", epoch=7, metadataHash=1)
    older = struct.pack(">hib", 0, 7, 0)
    assert shown(OFFSETS, share, newer)[1]["decoded"]["data"] == {"epoch": 7, "metadataHash": 1}
    assert shown(OFFSETS, share, older)[1]["decoded"]["data"] == {"epoch": 7}
    assert faults(OFFSETS, share, older[:-2])[1] == [(Code.TRUNCATED, "batches[0].records[0].value.epoch")]


def test_other_topics_stay_as_they_are() -> None:
    for topic in (None, "orders", "__consumer_offsets2"):
        assert shown(topic, b"\0\1", b"text") == ({"base64": "AAE="}, "text")


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (OFFSETS, b"\0", COMMIT_VALUE, [(Code.TRUNCATED, "key")]),
        (OFFSETS, b"\0\x63", COMMIT_VALUE, [(Code.UNKNOWN_VERSION, "key")]),
        (OFFSETS, b"\xff\xff", COMMIT_VALUE, [(Code.UNKNOWN_VERSION, "key")]),
        (OFFSETS, None, COMMIT_VALUE, [(Code.TRUNCATED, "key")]),
        (OFFSETS, COMMIT_KEY[:-1], COMMIT_VALUE, [(Code.TRUNCATED, "key.partition")]),
        (OFFSETS, COMMIT_KEY + b"x", COMMIT_VALUE, [(Code.TRAILING_BYTES, "key")]),
        (OFFSETS, COMMIT_KEY.replace(b"t", b"\xff"), COMMIT_VALUE, [(Code.BAD_UTF8, "key.topic")]),
        (OFFSETS, COMMIT_KEY, b"", [(Code.TRUNCATED, "value")]),
        (OFFSETS, COMMIT_KEY, b"\0\x63text", [(Code.UNKNOWN_VERSION, "value")]),
        (OFFSETS, COMMIT_KEY, COMMIT_VALUE + b"x", [(Code.TRAILING_BYTES, "value")]),
        (CLUSTER, None, b"", [(Code.TRUNCATED, "value")]),
        (CLUSTER, None, b"\1\x80", [(Code.TRUNCATED, "value")]),
        (CLUSTER, None, b"\1" + b"\xff" * 5, [(Code.BAD_VARINT, "value")]),
        (CLUSTER, None, b"\1\x80\x80\x04\0", [(Code.BAD_VARINT, "value")]),
        (CLUSTER, None, b"\0\4\0", [(Code.UNKNOWN_VERSION, "value")]),
        (CLUSTER, None, b"\1\x7f\0", [(Code.UNKNOWN_VERSION, "value")]),
        (CLUSTER, None, PASSWORD[:-3], [(Code.TRUNCATED, "value.value")]),
    ],
)
def test_what_cannot_be_read_is_a_problem(
    topic: str, key: bytes | None, value: bytes, expected: list[tuple[Code, str]]
) -> None:
    found, said = faults(topic, key, value)
    assert said == [(code, f"batches[0].records[0].{path}") for code, path in expected]
    assert found["key"] is None or found["key"]["base64"] == base64(key or b"")
    if topic == CLUSTER:
        assert found["value"] == {"redacted": True, "sizeInBytes": len(value)}
    else:
        assert found["value"]["base64"] == base64(value)


def test_what_does_not_fit_inside_a_group_s_bytes_is_a_problem() -> None:
    subscription = b"\0\1\0\0\0\1\0\7ord"
    member = {"memberId": "m", "clientId": "c", "clientHost": "h", "subscription": subscription, "assignment": b""}
    group = value(3, "GroupMetadataValue", protocolType="consumer", generation=1, members=[member])
    found, said = faults(OFFSETS, key(2, "GroupMetadataKey", group="g"), group)
    path = "batches[0].records[0].value.members[0].subscription.topics[0]"
    assert said == [(Code.TRUNCATED, path)]
    assert found["value"]["base64"] == base64(group)


SCRAM = metadata(
    11, 0, "UserScramCredentialRecord", name="ann", mechanism=1, salt=b"SALT", storedKey=b"STORED", serverKey=b"SERVER"
)


def test_secrets_are_withheld_in_what_was_read_and_in_its_bytes() -> None:
    _, scram = shown(CLUSTER, None, SCRAM)
    assert {name: scram[name] for name in ("redacted", "sizeInBytes")} == {"redacted": True, "sizeInBytes": len(SCRAM)}
    assert "base64" not in scram
    assert scram["decoded"]["data"]["salt"] == {"redacted": True, "sizeInBytes": 4}
    _, password = shown(CLUSTER, None, PASSWORD)
    assert "base64" not in password
    assert password["decoded"]["data"]["value"] == {"redacted": True, "sizeInBytes": 8}
    plain = metadata(4, 0, "ConfigRecord", name="retention.ms", value="5")
    _, config = shown(CLUSTER, None, plain)
    assert b64decode(config["base64"]) == plain
    assert config["decoded"]["data"]["value"] == "5"


@pytest.mark.parametrize(
    "data",
    [
        batch(record(0, None, SCRAM), 1, attributes=32),
        batch(record(0, b"\0\0\0\2", SCRAM), 1, attributes=32),
        batch(record(0, b"\0\0\0\1", SCRAM), 1, attributes=32),
        batch(record(0, b"\0\0\0\1\0\0" + SCRAM, None), 1, attributes=32),
        batch(record(0, SCRAM, None), 1),
        batch(record(0, None, b"x", [(b"h", SCRAM)]), 1),
        message(1, 0, SCRAM, SCRAM),
        message(1, 0, None, gzip.compress(message(1, 0, None, SCRAM)), attributes=1),
    ],
    ids=[
        "control",
        "controlled value",
        "value as of a newer version",
        "controlled key",
        "key",
        "header",
        "message",
        "message set",
    ],
)
def test_a_secret_that_damage_moved_is_withheld(data: bytes) -> None:
    for show_secrets in (False, True):
        view = View(show_secrets=show_secrets)
        form = RecordsForm(data)
        form.open(body_json, view, CLUSTER)
        assert (base64(SCRAM) in json.dumps(form)) is show_secrets
        field = Node("records", "records", 0)
        field.end, field.value = len(data), memoryview(data)
        attach(field, view, [Place("", CLUSTER, None, 0, data)])
        told = [node for node in leaves(field) if SCRAM in bytes(node.value)]
        assert told
        assert all(node.secret is not show_secrets for node in told)


def test_a_control_record_of_a_newer_version_is_read_and_its_bytes_are_withheld() -> None:
    newer, known = b"\0\5\0\0\0\7" + b"more", b"\0\0\0\0\0\7"
    for value, whole in ((newer, False), (newer[:6], True), (known, True)):
        for topic in (CLUSTER, None):
            form = RecordsForm(batch(record(0, b"\0\0\0\1", value), 1, attributes=32))
            form.open(body_json, topic=topic)
            (found,) = form["batches"][0]["records"]
            assert found["value"]["decoded"] == {"version": value[1], "coordinatorEpoch": 7}
            assert ("base64" in found["value"]) is (whole or topic is None)
            assert found["key"]["base64"] == "AAAAAQ=="
            assert form.troubles == []


def leaves(node: Node) -> list[Node]:
    """The nodes of bytes fields below a node, those inside of bytes included."""
    below = [leaf for child in node.children for leaf in leaves(child)]
    return below + [child for child in node.children if isinstance(child.value, memoryview)]


def test_secrets_are_shown_where_asked_for() -> None:
    _, scram = shown(CLUSTER, None, SCRAM, show_secrets=True)
    assert b64decode(scram["base64"]) == SCRAM
    assert scram["decoded"]["data"]["storedKey"] == base64(b"STORED")
    _, password = shown(CLUSTER, None, PASSWORD, show_secrets=True)
    assert password["decoded"]["data"]["value"] == "hunter2!"
    form = opened(CLUSTER, (None, PASSWORD[:-3]), show_secrets=True)
    assert form["batches"][0]["records"][0]["value"] == {"base64": base64(PASSWORD[:-3])}


def values_in(api_key: int, version: int, values: dict[str, Any]) -> Any:
    """The JSON of a response body after writing and decoding the values."""
    message = definitions().response(api_key, version)
    assert message is not None
    data = write(message, version, values)
    return body_json(decoder(message, version)(data, 0, len(data))[0], message, version)


def test_the_metadata_topic_is_known_by_its_reserved_id() -> None:
    responses = [
        {"topicId": topic, "partitions": [{"partitionIndex": 0, "records": batch(record(0, None, PASSWORD), 1)}]}
        for topic in (bytes(15) + b"\1", bytes(15) + b"\2")
    ]
    first, second = (
        response["partitions"][0]["records"]["batches"][0]["records"][0]["value"]
        for response in values_in(1, 13, {"responses": responses})["responses"]
    )
    assert first["decoded"]["name"] == "ConfigRecord"
    assert "decoded" not in second


def test_a_snapshot_names_the_metadata_topic() -> None:
    partition = {"index": 0, "unalignedRecords": batch(record(0, None, PASSWORD), 1)}
    shown = values_in(59, 0, {"topics": [{"name": CLUSTER, "partitions": [partition]}]})
    records = shown["topics"][0]["partitions"][0]["unalignedRecords"]
    assert records["batches"][0]["records"][0]["value"]["decoded"]["name"] == "ConfigRecord"


def test_a_body_can_be_walked_as_a_tree() -> None:
    place = internal.value_body(CLUSTER, None, PASSWORD)
    assert place is not None
    root = tree(place.message, place.version, PASSWORD, place.start, len(PASSWORD))
    assert root.end == len(PASSWORD)
    assert [node.value for node in root.children if node.secret] == ["hunter2!"]


@given(st.sampled_from(sorted(internal.TOPICS)), st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_no_bytes_break_it(topic: str, key: bytes | None, value: bytes | None) -> None:
    opened(topic, (key, value))


@given(
    st.sampled_from([message for message in definitions().messages() if message.topic is not None]),
    st.integers(0, 5),
    st.binary(max_size=80),
)
def test_no_body_breaks_it(message: Any, version: int, rest: bytes) -> None:
    number = struct.pack(">h", message.record_type)
    if message.kind == "metadata":
        data = b"\1" + write_unsigned_varint(message.record_type) + write_unsigned_varint(version) + rest
        form = opened(message.topic, (None, data))
    elif message.kind == "coordinator-key":
        form = opened(message.topic, (number + rest, None))
    else:
        form = opened(message.topic, (number + rest, struct.pack(">h", version) + rest))
    (found,) = form["batches"][0]["records"]
    assert form.troubles or "decoded" in (found["value"] or found["key"])


def test_a_topic_that_is_not_internal_has_no_bodies() -> None:
    assert internal.key_body("orders", b"\0\1") is None
    assert internal.value_body("orders", b"\0\1", b"\0\1") is None
    with pytest.raises(RecordsError):
        internal.key_body(OFFSETS, b"")


@pytest.mark.parametrize(("marker", "null"), [(b"\0", True), (b"\xff\xff\xff\xff\x0f", True), (b"\x80\x01", False)])
def test_a_tagged_struct_that_may_be_null_begins_with_a_varint(marker: bytes, null: bool) -> None:
    """Other nullable structs begin with an int8, -1 for null; no request or response has a field like this one."""
    message = definitions().message("ConsumerGroupMemberMetadataValue", 0)
    assert message is not None
    start = write(message, 0, {})[:-1]
    inner = marker if null else marker + struct.pack(">i", 5) + b"\1\0"
    data = start + b"\1\0" + write_unsigned_varint(len(inner)) + inner
    values, end = decoder(message, 0)(data, 0, len(data))
    assert end == len(data)
    expected = None if null else {"sessionTimeoutMs": 5, "supportedProtocols": []}
    assert values["classicMemberMetadata"] == expected
    (node,) = (node for node in tree(message, 0, data, 0, len(data)).walk() if node.name == "classicMemberMetadata")
    assert (node.null, node.problem, node.end) == (null, None, len(data))
    again = decoder(message, 0)(write(message, 0, values), 0, len(write(message, 0, values)))[0]
    assert again == values
