"""Remarks that need both request and response."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kproxy.captures.opening import open_source
from kproxy.captures.reader import Reader
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.meanings.remarks import MAKERS, Remark, remarks
from kproxy.decoders.meanings.table import node_help, node_meaning
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.writer import write
from tests.captures import traffic
from tests.decoders.batches.support import batch, message, record
from tests.decoders.support import RELEASES, smallest

MILLISECOND = 1_000_000
TOPIC = bytes(range(16))
THREE = batch(b"".join(record(delta, None, b"v") for delta in range(3)), 3, offset=10)


def body(api_key: int, version: int, values: dict[str, Any], kind: str) -> dict[str, Any]:
    """The body after writing and decoding the values."""
    known = definitions()
    made = known.request(api_key, version) if kind == "request" else known.response(api_key, version)
    assert made is not None
    if kind == "request":
        header = struct.pack(">hhihB", api_key, version, 1, -1, 0)[: 11 if version in made.flexible else 10]
        frame = header + write(made, version, values)
        decoded = decode_request(struct.pack(">i", len(frame)) + frame, known)
    else:
        frame = struct.pack(">iB", 1, 0)[: 5 if version in made.flexible else 4] + write(made, version, values)
        decoded = decode_response(struct.pack(">i", len(frame)) + frame, api_key, version, known)
    assert not decoded.problems
    assert decoded.body is not None
    return decoded.body


def said(
    api_key: int, version: int, asked: dict[str, Any], answered: dict[str, Any] | None, elapsed: int | None = None
) -> list[Remark]:
    return remarks(
        api_key,
        body(api_key, version, asked, "request"),
        None if answered is None else body(api_key, version, answered, "response"),
        elapsed,
    )


def texts(found: list[Remark], title: str) -> list[str]:
    return [remark.text for remark in found if remark.title == title]


def asked(offset: int = 10, **more: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1000}
    usual = {"replicaId": -1, "maxWaitMs": 500, "minBytes": 1, "topics": [{"topic": "t", "partitions": [partition]}]}
    return usual | more


def answered(records: bytes | None = None, **more: Any) -> dict[str, Any]:
    partition = {"partitionIndex": 0, "highWatermark": 20, "records": records, "abortedTransactions": None} | more
    return {"throttleTimeMs": 0, "responses": [{"topic": "t", "partitions": [partition]}]}


NOTHING: dict[str, Any] = {"throttleTimeMs": 0, "responses": []}


@pytest.mark.parametrize(
    ("question", "answer", "elapsed", "says"),
    [
        (asked(), answered(THREE), 1, f"because min bytes were reached: {len(THREE)} of 1"),
        (asked(minBytes=1000), answered(THREE), 500, f"because the wait of 500 ms was over: {len(THREE)} of 1,000"),
        (asked(minBytes=1000), answered(THREE), 100, "for a reason that the bytes do not show"),
        (asked(), answered(), 470, "because the wait of 500 ms was over: 0 of 1"),
        (asked(), answered(), None, "for a reason that the bytes do not show"),
        (asked(maxWaitMs=0), answered(), 1, "at once: max wait is 0"),
        (asked(minBytes=0), answered(), 1, "at once: min bytes is 0"),
        (asked(topics=[]), NOTHING, 1, "because no partition was requested"),
        (asked(topics=[], sessionId=5, sessionEpoch=-1), NOTHING | {"sessionId": 0}, 1, "because no partition"),
        (asked(topics=[], sessionId=5, sessionEpoch=3), NOTHING | {"sessionId": 0}, 1, "the session is empty"),
        (asked(topics=[], sessionId=5, sessionEpoch=3), NOTHING | {"sessionId": 5}, 500, "because the wait of 500 ms"),
        (asked(), NOTHING | {"errorCode": 70}, 1, "because of error 70 FETCH_SESSION_ID_NOT_FOUND"),
        (asked(), answered(errorCode=1, highWatermark=-1), 1, "because of error 1 OFFSET_OUT_OF_RANGE of t-0"),
        (asked(), answered(divergingEpoch={"epoch": 2, "endOffset": 7}), 1, "because the logs diverge"),
        (asked(), answered(preferredReadReplica=3), 1, "because replica 3 is nearer for t-0"),
    ],
)
def test_why_a_fetch_was_answered(
    question: dict[str, Any], answer: dict[str, Any], elapsed: int | None, says: str
) -> None:
    found = said(1, 12, question, answer, None if elapsed is None else elapsed * MILLISECOND)
    (text,) = texts(found, "answered")
    assert says in text


@pytest.mark.parametrize("version", [0, 3, 4, 6, 11, 12])
def test_a_fetch_of_any_version_has_its_reason(version: int) -> None:
    question, answer = asked(), answered(THREE)
    if version < 4:
        del answer["responses"][0]["partitions"][0]["abortedTransactions"]
    if version == 0:
        del answer["throttleTimeMs"]
    found = said(1, version, question, answer)
    assert texts(found, "answered") == [f"because min bytes were reached: {len(THREE)} of 1"]
    assert texts(found, "lag") == ["t-0: 7, from the next offset 13 to the high watermark 20"]


@pytest.mark.parametrize(
    ("question", "answer", "says"),
    [
        (asked(), answered(), ["t-0: 10, from the next offset 10 to the high watermark 20"]),
        (asked(20), answered(), ["t-0: 0, from the next offset 20 to the high watermark 20"]),
        (asked(25), answered(), ["t-0: 0, from the next offset 25 to the high watermark 20"]),
        # a compacted batch ends before the requested offset
        (asked(15), answered(THREE), ["t-0: 5, from the next offset 15 to the high watermark 20"]),
        (asked(), answered(THREE + THREE[:30]), ["t-0: 7, from the next offset 13 to the high watermark 20"]),
        (asked(topics=[]), answered(), []),
        (asked(topics=[]), answered(THREE), ["t-0: 7, from the next offset 13 to the high watermark 20"]),
        (asked(replicaId=2), answered(THREE), []),
        (asked(), answered(errorCode=1, highWatermark=-1), []),
        (asked(), answered(highWatermark=-1), []),
        (
            asked(isolationLevel=1),
            answered(THREE, lastStableOffset=15),
            ["t-0: 7, from the next offset 13 to the high watermark 20; open transactions hold back 5 of them"],
        ),
        (
            asked(isolationLevel=1),
            answered(THREE, lastStableOffset=20),
            ["t-0: 7, from the next offset 13 to the high watermark 20"],
        ),
    ],
)
def test_lag(question: dict[str, Any], answer: dict[str, Any], says: list[str]) -> None:
    found = [remark for remark in said(1, 12, question, answer) if remark.title == "lag"]
    assert [remark.text for remark in found] == says
    assert {remark.path for remark in found} <= {"responses[0].partitions[0].highWatermark"}


def test_lag_after_a_message_set() -> None:
    records = message(1, 10, None, b"a") + message(1, 11, None, b"b")
    answer = answered(records)
    del answer["responses"][0]["partitions"][0]["abortedTransactions"]
    assert texts(said(1, 2, asked(), answer), "lag") == ["t-0: 8, from the next offset 12 to the high watermark 20"]


def test_a_topic_id_has_its_name_where_it_is_known() -> None:
    question, answer = asked(), answered(THREE)
    del question["replicaId"]
    for topic in (question["topics"][0], answer["responses"][0]):
        del topic["topic"]
        topic["topicId"] = TOPIC
    bodies = body(1, 15, question, "request"), body(1, 15, answer, "response")
    assert texts(remarks(1, *bodies), "lag")[0].startswith("AAECAwQFBgcICQoLDA0ODw-0: 7")
    knowledge = Knowledge()
    knowledge.learn_topic(TOPIC, "orders")
    assert texts(remarks(1, *bodies, None, knowledge), "lag")[0].startswith("orders-0: 7")


def test_replicas() -> None:
    partitions = [
        {"partitionIndex": 0, "leaderId": 1, "replicaNodes": [1, 2, 3], "isrNodes": [3, 1, 2]},
        {"partitionIndex": 1, "leaderId": 2, "replicaNodes": [1, 2, 3], "isrNodes": [2]},
        {"partitionIndex": 2, "leaderId": -1, "replicaNodes": [3], "isrNodes": []},
    ]
    answer = {"brokers": [], "topics": [{"name": "t", "partitions": partitions}]}
    assert [(remark.title, remark.text, remark.path) for remark in said(3, 5, {"topics": None}, answer)] == [
        ("not in sync", "t-1: replicas 1, 3", "topics[0].partitions[1].isrNodes"),
        ("no leader", "t-2 has no leader", "topics[0].partitions[2].leaderId"),
        ("not in sync", "t-2: replicas 3", "topics[0].partitions[2].isrNodes"),
    ]


@pytest.mark.parametrize(
    ("leader", "members", "more", "says"),
    [
        ("m-1", ["m-1", "m-2"], {}, "this member leads the group and assigns for 2 members"),
        ("m-1", ["m-1"], {"skipAssignment": True}, "must not assign again"),
        ("m-2", [], {}, "m-2 leads the group; this member follows"),
        ("", [], {"errorCode": 79}, None),
    ],
)
def test_who_leads_the_group(leader: str, members: list[str], more: dict[str, Any], says: str | None) -> None:
    answer = {"leader": leader, "memberId": "m-1", "members": [{"memberId": one, "metadata": b""} for one in members]}
    found = said(11, 9, {"groupId": "g"}, answer | more)
    assert len(found) == (says is not None)
    assert says is None or says in found[0].text


def test_who_assigns_and_why_no_reply_comes() -> None:
    assignments = [{"memberId": "m-1", "assignment": b""}]
    assert "assigns to 1 member" in said(14, 3, {"assignments": assignments}, None)[0].text
    assert "a follower waits" in said(14, 3, {"assignments": []}, None)[0].text
    assert said(0, 3, {"acks": 0}, None)[0].path == "acks"
    assert said(0, 3, {"acks": 1}, None) == []
    assert remarks(None, None, None) == remarks(18, {}, {}) == []


@pytest.mark.parametrize("release", RELEASES)
def test_every_message_and_version_can_be_asked(release: str) -> None:
    """Kafka's own frames with random values: nothing raises, and remarks are text."""
    for one, decoded in smallest(release):
        side = Side.CLIENT if one.kind == "request" else Side.BROKER
        root = frame_tree(one.frame, side, one.api_key, one.api_version, definitions(release))
        for node in root.walk():
            assert node_meaning(node, one.api_version) != ""
            assert node_help(node, one.api_version) != ""
        if one.api_key in MAKERS:
            bodies = (decoded.body, None) if side is Side.CLIENT else (None, decoded.body)
            assert all(remark.text for remark in remarks(one.api_key, *bodies))


def test_fetches_of_a_real_consumer() -> None:
    """The consumers read both topics to their ends (1500 and 18 records) and then wait."""
    source = open_source([str(traffic.LIBRDKAFKA)])
    known = definitions()
    reasons, lags = [], []
    for item in Reader(source, known):
        if isinstance(item, Exchange) and item.api_key == 1 and item.request is not None and item.response is not None:
            version = item.api_version or 0
            question = decode_request(item.request.data(source), known).body
            answer = decode_response(item.response.data(source), 1, version, known).body
            found = remarks(1, question, answer, item.latency_ns)
            reasons += texts(found, "answered")
            lags += [text.partition(": ")[2] for text in texts(found, "lag")]
    assert len(reasons) == 36
    assert sum("the wait of 500 ms was over: 0 of 1 min bytes" in reason for reason in reasons) == 32
    assert sum("min bytes were reached" in reason for reason in reasons) == 4
    assert set(lags) == {
        "0, from the next offset 1,500 to the high watermark 1,500",
        "0, from the next offset 18 to the high watermark 18",
    }
