from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.knowledge import TEACHING, Fact, Knowledge, _teaching
from kproxy.decoders.learning import learn
from kproxy.decoders.records.internal import Body, decoded_json
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import PLAIN, View
from tests.decoders.embedded.support import lines
from tests.support.scripts import Script, eyes, play, request, response

ORDERS, OTHER = bytes(range(1, 17)), bytes(range(2, 18))
TOPICS = [
    {"name": "orders", "topicId": ORDERS},
    {"name": None, "topicId": OTHER},
    {"name": "new", "topicId": bytes(16)},
]
ASSIGNED = {"topicId": ORDERS, "topicName": "orders"}


def test_the_apis_that_teach_are_those_whose_messages_have_both() -> None:
    teaching = {
        message.api_key
        for message in definitions().messages()
        if message.api_key is not None
        if any(_teaching(message, version) for version in range(message.versions.low, message.versions.high + 1))
    }
    assert teaching == TEACHING


@pytest.mark.parametrize(
    ("key", "version", "asked", "answered"),
    [
        (3, 12, {}, {"topics": TOPICS}),
        (3, 12, {"topics": TOPICS[:1]}, {}),
        (19, 7, {}, {"topics": TOPICS[:1]}),
        (20, 6, {}, {"responses": TOPICS[:2]}),
        (75, 0, {}, {"topics": TOPICS}),
        (
            69, 1, {},
            {"groups": [{"members": [{"assignment": {"topicPartitions": [ASSIGNED]}}]}]},
        ),
        (90, 0, {}, {"groups": [{"topics": [ASSIGNED]}]}),
    ],
)  # fmt: skip
def test_topic_ids(key: int, version: int, asked: dict[str, Any], answered: dict[str, Any]) -> None:
    script = Script().client(request(key, version, 1, **asked)).broker(response(key, version, 1, **answered))
    played = play(script.end())
    told: list[tuple[Fact, str, str]] = []
    knowledge = Knowledge(lambda *fact: told.append(fact))
    for exchange in (*played.exchanges, *played.exchanges):
        learn(exchange, played.tape, eyes(), knowledge)
    assert knowledge.topic(ORDERS) == "orders"
    assert knowledge.topic(OTHER) is None
    assert knowledge.topic(bytes(16)) is None
    assert told == [(Fact.TOPIC, ORDERS.hex(), "orders")]


def test_only_what_teaches_is_decoded() -> None:
    class Counting:
        asked = 0

        def read(self, start: int, end: int) -> bytes:
            self.asked += 1
            return played.tape.read(start, end)

    source = Counting()
    script = Script().client(request(1, 16, 1)).broker(response(1, 16, 1))
    played = play(script.client(request(3, 12, 2)).broker(response(3, 12, 2)).end())
    counts = []
    for exchange in played.exchanges:
        learn(exchange, source, eyes(), Knowledge())
        counts.append(source.asked)
    assert counts == [0, 2]


def test_groups() -> None:
    connect = {"groupId": "b", "protocolType": "connect", "protocolData": "x"}
    frames = [
        (request(11, 5, 1, groupId="a", protocolType="consumer"), response(11, 5, 1, protocolName="range")),
        (request(15, 5, 2), response(15, 5, 2, groups=[connect])),
        (request(16, 4, 3), response(16, 4, 3, groups=[{"groupId": "c", "protocolType": "consumer"}])),
        (request(14, 5, 4, groupId="d", protocolType="consumer", protocolName="stream"), response(14, 5, 4)),
    ]  # fmt: skip
    view = View()
    lines(*frames, view=view)
    known = view.knowledge
    assert [known.protocol_type(group) for group in "abcde"] == ["consumer", "connect", "consumer", "consumer", None]
    assert [known.protocol(group) for group in "abcde"] == ["range", "x", None, "stream", None]


def test_so_many_are_kept_and_no_more() -> None:
    knowledge = Knowledge(most=2)
    for number in range(5):
        knowledge.learn_protocol_type(str(number), "consumer")
    knowledge.learn_protocol_type("1", "connect")
    assert [knowledge.protocol_type(str(number)) for number in range(5)] == ["consumer", "connect", None, None, None]
    PLAIN.knowledge.learn_topic(ORDERS, "orders")
    assert PLAIN.knowledge.topic(ORDERS) is None


def test_an_exchange_names_the_topic_ids_in_it() -> None:
    fetch = (
        request(1, 16, 2, topics=[{"topicId": ORDERS}, {"topicId": OTHER}]),
        response(1, 16, 2, responses=[{"topicId": ORDERS}]),
    )
    metadata = (request(3, 12, 1, topics=None), response(3, 12, 1, topics=TOPICS[:1]))
    before, told, after = lines(fetch, metadata, fetch)
    assert "topics" not in before
    assert told["topics"] == after["topics"] == {"AQIDBAUGBwgJCgsMDQ4PEA": "orders"}
    assert list(after)[-1] == "topics"


def test_the_tree_names_topic_ids() -> None:
    view = View()
    view.knowledge.learn_topic(ORDERS, "orders")
    frame = request(1, 16, 2, topics=[{"topicId": ORDERS}, {"topicId": OTHER}])
    root = frame_tree(frame, Side.CLIENT, None, None, eyes(), view=view)
    assert [node.label for node in root.walk() if node.name == "topicId"] == ["orders", None]


def test_a_record_of_the_cluster_s_metadata_teaches() -> None:
    message = definitions().message("TopicRecord", 0)
    assert message is not None
    view = View()
    decoded_json(Body(message, 0, 0), b"", {"name": "orders", "topicId": ORDERS}, body_json, view)
    assert view.knowledge.topic(ORDERS) == "orders"
