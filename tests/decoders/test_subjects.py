"""Subjects of exchanges agree with the bodies that Kafka's own classes printed."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.reader import read
from kproxy.decoders import schema, writer
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.filters import ExchangeRow, Learnt, Unavailable
from kproxy.decoders.message import Decoded, decode_request
from kproxy.decoders.subjects import Role, Subject, subject

CAPTURES = Path(__file__).parents[1] / "data/captures"
OLD = ["kafka-0.8.2.2", "kafka-1.1.1"]
"""Releases without topic ids, so that bodies hold all names."""


def named(value: Any, found: dict[str, set[str]]) -> None:
    """Add topics, groups and transactional ids of a JSON body to `found`, by names of fields only."""
    if isinstance(value, list):
        for element in value:
            named(element, found)
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "topicName" or (name in {"topic", "name"} and any(one.startswith("partition") for one in value)):
                found["topics"].add(inner)
            elif name in {"groupId", "transactionalId"} and inner:
                found["groups" if name == "groupId" else "txns"].add(inner)
            elif name == "topicNames":
                found["topics"].update(inner)
            named(inner, found)


@pytest.mark.parametrize("release", OLD)
def test_names_are_those_in_the_bodies(release: str) -> None:
    expected: dict[tuple[str, str, int], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    asked: dict[tuple[str, str, int], int] = {}
    with gzip.open(CAPTURES / f"{release}.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            place = line["client"], line["broker"], line["correlation_id"]
            asked[place] = line["api_key"]
            named(line["body"], expected[place])
    compared = 0
    with closing(read([CAPTURES / f"{release}.pcap"])) as reader:
        for exchange in reader:
            if not isinstance(exchange, Exchange) or exchange.api_key not in {0, 1, 2, 4, 5, 6, 8, 9, 11, 12, 13, 14}:
                continue
            connection = exchange.connection
            wanted = expected[connection.client, connection.broker, exchange.correlation_id or 0]
            row = ExchangeRow(exchange, reader.source, reader.definitions, Learnt())
            assert set(row.topics) == wanted["topics"], exchange
            assert set(row.groups) == wanted["groups"]
            assert set(row.txns) == wanted["txns"]
            compared += bool(wanted["topics"]) + bool(wanted["groups"])
    assert compared > 20


def asked(api: str, version: int, values: dict[str, Any]) -> Subject:
    """The subject of a request written by kproxy's writer."""
    definitions = schema.definitions()
    key = schema.apis.by_name(api)
    assert key is not None
    message = definitions.request(key, version)
    head = definitions.message("RequestHeader", definitions.request_header_version(key, version))
    assert message is not None
    assert head is not None
    header = {"requestApiKey": key, "requestApiVersion": version, "correlationId": 1, "clientId": "c"}
    header_version = definitions.request_header_version(key, version)
    data = writer.write(head, header_version, header) + writer.write(message, version, values)
    decoded = decode_request(len(data).to_bytes(4, "big") + data, definitions)
    assert isinstance(decoded, Decoded)
    assert not decoded.problems
    return subject(key, decoded, None)


TOPIC_ID = bytes(range(1, 17))


def test_what_other_fields_say() -> None:
    keys = {"keyType": 1, "coordinatorKeys": ["t-1", "t-2"]}
    assert asked("FindCoordinator", 4, keys).txns == ("t-1", "t-2")
    assert asked("FindCoordinator", 4, keys | {"keyType": 0}).groups == ("t-1", "t-2")
    assert asked("FindCoordinator", 0, {"key": "g"}).groups == ("g",)
    share = {"keyType": 2, "coordinatorKeys": ["g:AAAA:3", "g:AAAA:4"]}
    assert asked("FindCoordinator", 6, share).groups == ("g",)
    resources = [{"resourceType": 2, "resourceName": "orders", "configurationKeys": None},
                 {"resourceType": 4, "resourceName": "1", "configurationKeys": None}]  # fmt: skip
    shown = asked(
        "DescribeConfigs", 4, {"resources": resources, "includeSynonyms": False, "includeDocumentation": False}
    )
    assert shown.topics == ("orders",)


def fetch(version: int, **values: Any) -> Subject:
    topics = values.pop("topics", [])
    fields = {"maxWaitMs": 1, "minBytes": 1, "topics": topics, "forgottenTopicsData": [], **values}
    return asked("Fetch", version, fields)


def test_who_fetches() -> None:
    assert fetch(12, replicaId=-1).role is Role.CONSUMER
    assert fetch(12, replicaId=3).role is Role.FOLLOWER
    assert fetch(17, replicaState={"replicaId": 3, "replicaEpoch": 1}).role is Role.FOLLOWER
    assert fetch(17).role is Role.CONSUMER


def test_topics_by_id() -> None:
    found = fetch(17, topics=[{"topicId": TOPIC_ID, "partitions": []}])
    assert (found.topics, found.ids) == ((), (TOPIC_ID,))
    named_too = {"name": "orders", "topicId": TOPIC_ID}
    assert asked("Metadata", 12, {"topics": [named_too]}) == Subject(topics=("orders",))


@given(
    st.builds(
        Subject,
        st.lists(st.text(), max_size=3).map(tuple),
        st.lists(st.binary(min_size=16, max_size=16), max_size=2).map(tuple),
        st.lists(st.text(), max_size=3).map(tuple),
        st.lists(st.text(), max_size=3).map(tuple),
        st.one_of(st.none(), st.integers(-1, 1)),
        st.one_of(st.none(), st.sampled_from(Role)),
    )
)
def test_text_and_back(found: Subject) -> None:
    assert Subject.from_text(found.to_text()) == found


def test_an_id_without_a_name_is_not_known() -> None:
    from kproxy.decoders.exchange_row import topics_of

    learnt = Learnt()
    found = Subject(topics=("a",), ids=(TOPIC_ID,))
    names = iter(topics_of(found, learnt.knowledge))
    assert next(names) == "a"
    with pytest.raises(Unavailable):
        next(names)
    learnt.knowledge.learn_topic(TOPIC_ID, "orders")
    assert list(topics_of(found, learnt.knowledge)) == ["a", "orders"]
