"""Any bytes in place of an expected structure are shown as they are, and nothing raises."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.embedded.group import PROTOCOLS, USER_DATA
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View
from tests.decoders.embedded.support import lines, newest, structure
from tests.decoders.embedded.test_envelope import ANSWER, METADATA, PASSWORD, PRINCIPAL
from tests.decoders.embedded.test_telemetry import PACKED
from tests.support.plain import bare
from tests.support.scripts import eyes, request, response

GOOD = [
    *(structure(one.name, newest(one.name)) for one in (*PROTOCOLS.values(), *USER_DATA.values())),
    METADATA, PASSWORD, ANSWER, PRINCIPAL, *PACKED.values(),
]  # fmt: skip


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Random bytes, and slightly damaged structures."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=60))
    data = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=4))


def exchanges(data: bytes, protocol_type: str, protocol: str) -> list[tuple[bytes, bytes]]:
    member = {"memberId": "m", "metadata": data}
    described = {
        "groupId": "g", "protocolType": protocol_type, "protocolData": protocol,
        "members": [{"memberMetadata": data, "memberAssignment": data}],
    }  # fmt: skip
    wrapped = structure("ConsumerProtocolAssignment", 1, userData=data)
    return [
        (
            request(14, 3, 1, groupId="other", assignments=[{"memberId": "m", "assignment": data}]),
            response(14, 3, 1, assignment=data),
        ),
        (
            request(
                11, 5, 2, groupId="g", protocolType=protocol_type, protocols=[{"name": protocol, "metadata": data}]
            ),
            response(11, 5, 2, protocolName=protocol, members=[member]),
        ),
        (request(14, 3, 3, groupId="g"), response(14, 3, 3, assignment=wrapped)),
        (request(15, 5, 4, groups=["g"]), response(15, 5, 4, groups=[described])),
        (
            request(58, 0, 5, requestData=data, requestPrincipal=data, clientHostAddress=data),
            response(58, 0, 5, responseData=data),
        ),
        (request(58, 0, 6, requestData=METADATA, clientHostAddress=b""), response(58, 0, 6, responseData=data)),
        (request(72, 0, 7, metrics=data, compressionType=len(data) % 6), response(72, 0, 7)),
    ]


def values(body: Any) -> Any:
    """The values of `read` as JSON, with base64 for bytes."""
    if isinstance(body, dict):
        return {name: values(value) for name, value in body.items()}
    if isinstance(body, list):
        return [values(one) for one in body]
    return bytes(body) if isinstance(body, memoryview) else body


def given_bytes(shown: Any, read: Any) -> None:
    """Assert that all bytes of `read` are in `shown`, in base64."""
    if isinstance(read, dict):
        for name, value in read.items():
            given_bytes(shown[name], value)
    elif isinstance(read, list):
        for one, value in zip(shown, read, strict=True):
            given_bytes(one, value)
    elif isinstance(read, bytes):
        assert isinstance(shown, str)
        if len(read) != 16:
            assert b64decode(shown) == read
    elif not isinstance(read, float):
        assert shown == read


@given(
    contents(),
    st.sampled_from([("consumer", "stream"), ("consumer", "range"), ("connect", "sessioned"), ("sr", "v0"), ("", "")]),
)
def test_any_bytes(data: bytes, protocol: tuple[str, str]) -> None:
    frames = exchanges(data, *protocol)
    for show_secrets in (True, False):
        out = lines(*frames, view=View(show_secrets=show_secrets))
        for line, (asked, answered) in zip(out, frames, strict=True):
            for problem in line["problems"]:
                frame = asked if problem["where"] == "request" else answered
                assert 4 <= problem["offset"] <= len(frame), problem
                assert problem["path"], problem
            read = decode_request(asked, eyes())
            answer = decode_response(answered, line["api_key"], line["api_version"], eyes())
            for side, decoded in (("request", read), ("response", answer)):
                if show_secrets:
                    given_bytes(bare(line[side]["body"]), values(decoded.body))
        if not show_secrets:
            assert "geheim" not in json.dumps(out)


def walk(node: Node) -> list[Node]:
    return [node, *(one for child in node.children for one in walk(child))]


@given(contents(), st.sampled_from([("consumer", "stream"), ("connect", "sessioned"), ("", "")]))
def test_any_bytes_as_a_tree(data: bytes, protocol: tuple[str, str]) -> None:
    for asked, answered in exchanges(data, *protocol):
        key, version = int.from_bytes(asked[4:6], "big"), int.from_bytes(asked[6:8], "big")
        for root, frame in (
            (frame_tree(asked, Side.CLIENT, None, None, eyes()), asked),
            (frame_tree(answered, Side.BROKER, key, version, eyes(), request=asked), answered),
        ):
            for node in walk(root):
                assert 0 <= node.start <= node.end <= len(frame)
                if node.parent is not None and node.parent.name not in {"frame", "_unknownTaggedFields"}:
                    assert node.parent.start <= node.start
                    assert node.end <= node.parent.end
