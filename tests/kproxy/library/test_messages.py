"""`kproxy.decode` and `kproxy.encode`: each undoes the other, and no bytes make decoding raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kproxy

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "golden-4.4.0.pcap"


@pytest.fixture(scope="module")
def exchanges() -> list[kproxy.Exchange]:
    with kproxy.open(GOLDEN, show_secrets=True) as capture:
        found = [one for one in capture if one.request_bytes and one.api is not None and one.request is not None]
        assert all(one.response is not None or not one.response_bytes for one in found)
        for one in found:
            frames[one.number] = one.request_bytes, one.response_bytes
    return found


frames: dict[int, tuple[bytes, bytes]] = {}


def test_encoding_undoes_decoding(exchanges: list[kproxy.Exchange]) -> None:
    encoded = 0
    for one in exchanges:
        request, response = frames[one.number]
        if one.api == "SaslToken" or one["problems"] or one.request is None or _unwritable(one.request):
            continue
        assert one.api is not None
        assert one.api_version is not None
        ids: dict[str, Any] = {"correlation_id": one.correlation_id}
        assert kproxy.encode(one.api, one.api_version, one.request, client_id=one.client_id, **ids) == request
        encoded += 1
        if one.response is not None and not _unwritable(one.response):
            assert kproxy.encode(one.api, one.api_version, one.response, kind="response", **ids) == response
    assert encoded > 200


def _unwritable(body: Any) -> bool:
    """Whether a body has what `encode` does not write back byte by byte: compressed or damaged batches."""
    if isinstance(body, dict):
        return (
            body.get("compression", "none") != "none"
            or bool(body.get("truncatedTail"))
            or body.get("crcValid") is False
            or body.get("magic", 2) != 2
            or any(map(_unwritable, body.values()))
        )
    return isinstance(body, list) and any(map(_unwritable, body))


def test_cut_bytes_become_problems(exchanges: list[kproxy.Exchange]) -> None:
    for one in exchanges[:: max(len(exchanges) // 20, 1)]:
        request, response = frames[one.number]
        for size in {*range(1, min(len(request), 60)), len(request) - 1}:
            cut = kproxy.decode(request[:size], kind="request")
            assert cut.problems or cut.body is None
        for size in {*range(1, min(len(response), 40)), len(response) - 1} if response else ():
            cut = kproxy.decode(response[:size], kind="response", request=request)
            assert cut.size <= max(size, 4)
            str(cut)


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=200), st.sampled_from([None, "request", "response"]))
def test_any_bytes_are_decoded_without_an_exception(data: bytes, kind: str | None) -> None:
    message = kproxy.decode(data, kind=kind)
    assert message.to_json().startswith('{"schema":"kproxy.message/1"')
    assert str(message)
    assert sum(one.size for one in kproxy.decode_all(data, kind=kind)) <= len(data) + 4


@pytest.mark.parametrize("kind", [None, "request", "response"])
def test_no_bytes(kind: str | None) -> None:
    message = kproxy.decode(b"", kind=kind)
    assert (message.body, message.size, len(message.problems)) == (None, 0, 1)


def test_a_stream_of_messages(exchanges: list[kproxy.Exchange]) -> None:
    some = exchanges[:5]
    stream = b"".join(frames[one.number][0] for one in some)
    assert [one.body for one in kproxy.decode_all(stream, kind="request")] == [one.request for one in some]
    first = kproxy.decode(stream, kind="request")
    assert first.body == some[0].request
    assert first.problems[-1]["message"] == "bytes follow the message"
    assert first.problems[-1]["offset"] == len(frames[some[0].number][0])


def test_a_message_inside_others() -> None:
    values = {"topics": ["t"], "userData": None}
    data = kproxy.encode("ConsumerProtocolSubscription", 0, values)
    message = kproxy.decode(data, "ConsumerProtocolSubscription", 0)
    assert (message.kind, message.name, message.api, message.header) == (
        "message", "ConsumerProtocolSubscription", None, {},
    )  # fmt: skip
    assert message.body["topics"] == ["t"]
    assert repr(message) == f"<Message ConsumerProtocolSubscription v0, {len(data)} bytes>"


def test_a_body_alone() -> None:
    data = kproxy.encode("Metadata", 1, {"topics": None}, body=True)
    assert data == b"\xff\xff\xff\xff"
    assert kproxy.decode(data, "Metadata", 1, kind="request", body=True).body == {"topics": None}
    assert kproxy.decode(data, 3, 1, kind="request", body=True).name == "MetadataRequest"


def test_a_response_without_its_request_is_guessed() -> None:
    data = kproxy.encode("Heartbeat", 4, {"errorCode": "NOT_COORDINATOR"}, kind="response")
    assert kproxy.decode(data, "HeartbeatResponse", 4).body["errorCode"] == 16
    assert kproxy.decode(data).guess


def test_defaults_and_records() -> None:
    data = kproxy.encode(
        "Produce",
        9,
        {
            "acks": -1,
            "timeoutMs": 1000,
            "topicData": [
                {"name": "t", "partitionData": [{"index": 0, "records": {"records": [{"key": "k", "value": "v"}]}}]}
            ],
        },
    )
    message = kproxy.decode(data)
    assert not message.problems
    (batch,) = message.body["topicData"][0]["partitionData"][0]["records"]["batches"]
    assert [(one["key"], one["value"]) for one in batch["records"]] == [("k", "v")]


@pytest.mark.parametrize(("api", "version", "values", "words"), [
    ("Metadata", 1, {"topic": []}, "MetadataRequest has no field topic in this version"),
    ("Metadata", 1, {"topics": "t"}, "topics is a list"),
    ("Metadata", 1, [], "a body is a JSON object"),
    ("Heartbeat", 0, {"generationId": 1 << 40}, "generationId"),
    ("Heartbeat", 0, {"groupId": "g" * 40_000}, "groupId"),
])  # fmt: skip
def test_values_that_do_not_fit(api: str, version: int, values: Any, words: str) -> None:
    with pytest.raises(kproxy.EncodeError, match=words):
        kproxy.encode(api, version, values)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="Metadata has versions 0 to 13, not 99"):
        kproxy.encode("Metadata", 99, {})
    with pytest.raises(ValueError, match="called 'Metadat'"):
        kproxy.encode("Metadat", 1, {})
    with pytest.raises(ValueError, match='neither "request" nor "response"'):
        kproxy.decode(b"1", kind="answer")
    with pytest.raises(ValueError, match="not 99"):
        kproxy.decode(b"1", "Metadata", 99)
    with pytest.raises(kproxy.EncodeError, match="correlationId"):
        kproxy.encode("Metadata", 1, {}, correlation_id=1 << 40)
