"""Requests that a broker forwards (Envelope), and which parts of them are withheld."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kproxy.decoders.embedded.scope import DEEPEST
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View
from tests.decoders.embedded.support import lines, structure, text
from tests.support.scripts import eyes, request, response

ENVELOPE = 58
METADATA = request(3, 12, 5, topics=[{"name": "orders"}])[4:]
ANSWER = response(3, 12, 5, clusterId="here")[4:]
PASSWORD = request(
    44, 1, 6, resources=[
        {"resourceName": "0", "configs": [{"name": "ssl.key.password", "value": "geheim"}, {"name": "a", "value": "b"}]}
    ],
)[4:]  # fmt: skip
PRINCIPAL = structure("DefaultPrincipalData", 0, type="User", name="alice")


def envelope(inner: bytes, answer: bytes = b"", **more: Any) -> tuple[bytes, bytes]:
    return (
        request(ENVELOPE, 0, 1, requestData=inner, **{"clientHostAddress": b"\x0a\0\0\1", **more}),
        response(ENVELOPE, 0, 1, responseData=answer or None),
    )


def test_a_request_in_an_envelope() -> None:
    (line,) = lines(envelope(METADATA, ANSWER, requestPrincipal=PRINCIPAL))
    body = line["request"]["body"]
    assert body["requestData"]["base64"] == text(METADATA)
    inner = body["requestData"]["decoded"]
    assert list(inner) == ["header", "api", "body"]
    assert inner["header"] == {
        "requestApiKey": 3, "requestApiVersion": 12, "correlationId": 5, "clientId": "shop",
    }  # fmt: skip
    assert inner["api"] == "Metadata"
    assert inner["body"]["topics"][0]["name"] == "orders"
    assert body["requestPrincipal"] == {
        "base64": text(PRINCIPAL),
        "decoded": {"version": 0, "type": "User", "name": "alice", "tokenAuthenticated": False},
    }
    assert body["clientHostAddress"] == {"base64": "CgAAAQ==", "decoded": "10.0.0.1"}
    answered = line["response"]["body"]["responseData"]
    assert answered["base64"] == text(ANSWER)
    assert answered["decoded"]["header"] == {"correlationId": 5}
    assert answered["decoded"]["body"]["clusterId"] == "here"
    assert line["problems"] == []


def test_a_principal_that_another_builder_wrote_stays_base64() -> None:
    (line,) = lines(envelope(METADATA, requestPrincipal=b"\0\0alice", clientHostAddress=bytes(15) + b"\1"))
    assert line["request"]["body"]["requestPrincipal"] == text(b"\0\0alice")
    assert line["request"]["body"]["clientHostAddress"]["decoded"] == "::1"
    assert line["problems"] == []


def test_what_is_secret_inside_stays_so() -> None:
    answer = response(44, 1, 6, responses=[{"resourceName": "0"}])[4:]
    (line,) = lines(envelope(PASSWORD, answer))
    shown = line["request"]["body"]["requestData"]
    assert shown["redacted"] is True
    assert shown["sizeInBytes"] == len(PASSWORD)
    assert "base64" not in shown
    configs = shown["decoded"]["body"]["resources"][0]["configs"]
    assert [config["value"] for config in configs] == [{"redacted": True, "sizeInBytes": 6}, "b"]
    assert line["response"]["body"]["responseData"]["redacted"] is True
    assert line["response"]["body"]["responseData"]["decoded"]["api"] == "IncrementalAlterConfigs"
    assert text(PASSWORD) not in json.dumps(line)
    assert "geheim" not in json.dumps(line)
    (line,) = lines(envelope(PASSWORD), view=View(show_secrets=True))
    shown = line["request"]["body"]["requestData"]
    assert shown["base64"] == text(PASSWORD)
    assert shown["decoded"]["body"]["resources"][0]["configs"][0]["value"] == "geheim"


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        (METADATA[:-2], "truncated"),
        (b"\x7f\xff" + METADATA[2:], "unknown_api"),
        (b"\0", "truncated"),
    ],
)
def test_what_cannot_be_decoded_is_withheld(inner: bytes, code: str) -> None:
    (line,) = lines(envelope(inner))
    assert line["request"]["body"]["requestData"] == {"redacted": True, "sizeInBytes": len(inner)}
    assert [problem["code"] for problem in line["problems"]] == [code]
    (line,) = lines(envelope(METADATA + b"secret"))
    shown = line["request"]["body"]["requestData"]
    assert shown["redacted"] is True
    assert shown["decoded"]["api"] == "Metadata"
    assert line["problems"][0]["code"] == "trailing_bytes"


def test_an_answer_without_its_request_is_withheld() -> None:
    asked, _ = envelope(b"\0")
    (line,) = lines((asked, response(ENVELOPE, 0, 1, responseData=ANSWER)))
    assert line["response"]["body"]["responseData"] == {"redacted": True, "sizeInBytes": len(ANSWER)}


def test_envelopes_in_envelopes_end() -> None:
    inner = METADATA
    for _ in range(DEEPEST + 4):
        inner = request(ENVELOPE, 0, 1, requestData=inner, clientHostAddress=b"\x0a\0\0\1")[4:]
    (line,) = lines(envelope(inner))
    shown, depth = line["request"]["body"]["requestData"], 0
    while "decoded" in shown:
        assert "base64" not in shown
        shown, depth = shown["decoded"]["body"]["requestData"], depth + 1
    assert depth == DEEPEST
    root = frame_tree(envelope(inner)[0], Side.CLIENT, None, None, eyes())
    assert len(list(opened(root))) > DEEPEST
    assert all(node.secret for node in opened(root) if node.name == "requestData")


def test_troubles_of_records_inside_have_their_place() -> None:
    batch = bytearray(61)
    batch[8:12] = (49).to_bytes(4, "big")
    batch[16] = 2
    topics = [{"name": "t", "partitionData": [{"index": 0, "records": bytes(batch)}]}]
    inner = request(0, 9, 5, acks=1, topicData=topics)[4:]
    asked, answered = envelope(inner)
    (line,) = lines((asked, answered))
    (problem,) = line["problems"]
    assert problem["code"] == "crc_mismatch"
    assert problem["path"].startswith("requestData.body.topicData[0].partitionData[0].records.batches[0]")
    assert problem["offset"] == asked.index(bytes(batch))


def opened(node: Node) -> list[Node]:
    """The node and all nodes below it, those inside of bytes included."""
    return [node, *(one for child in node.children for one in opened(child))]


def test_the_tree_has_true_offsets() -> None:
    asked, answered = envelope(METADATA, ANSWER, requestPrincipal=PRINCIPAL)
    root = frame_tree(asked, Side.CLIENT, None, None, eyes())
    (node,) = [node for node in root.walk() if node.name == "requestData"]
    assert node.label == "MetadataRequest v12"
    assert not node.secret
    names = [one for one in opened(node) if one.path == "requestData.body.topics[0].name"]
    assert asked[names[0].start + 1 : names[0].end] == b"orders"
    (name,) = [one for one in opened(root) if one.path == "requestPrincipal.name"]
    assert asked[name.start + 1 : name.end] == b"alice"

    without = frame_tree(answered, Side.BROKER, ENVELOPE, 0, eyes())
    (node,) = [node for node in without.walk() if node.name == "responseData"]
    assert node.secret
    assert node.label is None
    root = frame_tree(answered, Side.BROKER, ENVELOPE, 0, eyes(), request=asked)
    (node,) = [node for node in root.walk() if node.name == "responseData"]
    assert node.label == "MetadataResponse v12"
    (cluster,) = [one for one in opened(node) if one.path == "responseData.body.clusterId"]
    assert answered[cluster.start + 1 : cluster.end] == b"here"


def test_the_tree_marks_what_is_secret_inside() -> None:
    root = frame_tree(envelope(PASSWORD)[0], Side.CLIENT, None, None, eyes())
    assert [node.path for node in opened(root) if node.secret] == [
        "requestData",
        "requestData.body.resources[0].configs[0].value",
    ]
