"""Answers that say what is not so: the client sees it in the right place, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.batches.batch import crc_valid
from kproxy.decoders.batches.batch import parse as parse_batches
from kproxy.decoders.batches.writing import batch
from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.message import decode_response
from kproxy.faults.parsing import parse
from kproxy.faults.trouble import RuleError
from tests.kproxy.core.frames import DEFINITIONS, response
from tests.kproxy.faults.support import FETCH, METADATA, PRODUCE, Tale, answered, asked, asking
from tests.support.playbook import ANYTHING, PASSES, to_client

API_VERSIONS, FIND_COORDINATOR, DESCRIBE_CLUSTER = 18, 10, 60
OFFERED = [(0, 3, 13), (1, 4, 18), (3, 0, 13), (18, 0, 4)]


def offers(*offered: tuple[int, int, int]) -> dict[str, Any]:
    return {"apiKeys": [{"apiKey": key, "minVersion": low, "maxVersion": high} for key, low, high in offered]}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("versions Fetch 4-12", [(0, 3, 13), (1, 4, 12), (3, 0, 13), (18, 0, 4)]),
        ("versions Fetch 5", [(0, 3, 13), (1, 5, 5), (3, 0, 13), (18, 0, 4)]),
        ("versions none Produce", [(1, 4, 18), (3, 0, 13), (18, 0, 4)]),
    ],
)
def test_versions_are_offered_as_the_rule_says(version: int, action: str, expected: list[tuple[int, int, int]]) -> None:
    tale = Tale(f"api == ApiVersions => {action}")
    tale.story.client(asking(API_VERSIONS, version, 1, {}), PASSES)
    tale.story.broker(
        response(API_VERSIONS, version, 1, offers(*OFFERED)),
        to_client(response(API_VERSIONS, version, 1, offers(*expected))),
    ).counted()
    assert tale.hits == [1]


def topics(*leaders: int, name: str = "orders") -> dict[str, Any]:
    partitions = [
        {"partitionIndex": index, "leaderId": leader, "replicaNodes": [1, 2, 3], "isrNodes": [1, 2, 3]}
        for index, leader in enumerate(leaders)
    ]
    return {"brokers": [], "topics": [{"name": name, "partitions": partitions}]}


@pytest.mark.parametrize("version", [1, 5, 9, 12, 13])
def test_another_leader_is_named(version: int) -> None:
    tale = Tale("api == Metadata => leader orders-1 = 3")
    tale.story.client(asking(METADATA, version, 1, {"topics": []}), PASSES)
    tale.story.broker(
        response(METADATA, version, 1, topics(1, 2)), to_client(response(METADATA, version, 1, topics(1, 3)))
    )
    decoded = decode_response(response(METADATA, version, 1, topics(1, 3)), METADATA, version, DEFINITIONS)
    assert not decoded.problems
    assert tale.hits == [1]


def test_answers_about_other_topics_pass_without_a_word() -> None:
    tale = Tale("api == Metadata => leader orders-1 = 3")
    frame = response(METADATA, 9, 1, topics(1, 2, name="other"))
    tale.story.client(asking(METADATA, 9, 1, {"topics": []}), PASSES).broker(frame, to_client(frame))
    assert (tale.hits, tale.said) == ([0], [])


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("api == Fetch => versions Fetch 4-12", "versions is for answers of ApiVersions"),
        ("api == Heartbeat => leader orders-1 = 3", "leader is for answers of Produce or Fetch or Metadata or"),
        ("api == ApiVersions => versions Fetc 4-12", "did you mean Fetch?"),
        ("api == ApiVersions => versions Fetch 12-4", "expected versions, such as 4-12, not '12-4'"),
        ("api == ApiVersions => versions Fetch", "the versions that are offered"),
        ("api == Metadata => leader orders = 3", "expected TOPIC-PARTITION"),
        ("api == Metadata => leader orders-1", "expected = and the id of a broker"),
        ("api == Metadata => leader orders-1 = x", "the id of a broker"),
        ("api == Metadata => coordinator g = 2", "coordinator is for answers of FindCoordinator"),
        ("api == FindCoordinator => coordinator g", "expected = and the id of a broker"),
        ("api == FindCoordinator => coordinator g = -2", "the id of a broker, or -1 for none"),
        ("api == FindCoordinator => coordinatr g = 2", "did you mean coordinator?"),
        ("api == Metadata => brokers = [a]", "expected a list of broker ids"),
        ("api == Metadata => brokers []", "expected = and the ids of the brokers"),
        ("api == Metadata => topic-id orders = abc", "expected a topic id"),
        ("api == Produce => crc", "crc is for answers of Fetch or ShareFetch"),
        ("api == Fetch => crc request", "crc is for requests of Produce"),
    ],
)
def test_a_wrong_rule_is_refused(rule: str, why: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(rule)
    assert why in str(caught.value)


ADDRESSES = {2: ("two", 9092)}
NAMED = {"nodeId": 2, "host": "two", "port": 9092}
TRUE = {"nodeId": 1, "host": "one", "port": 9092}


def telling(rule: str, api_key: int, version: int, request: dict[str, Any], *answers: dict[str, Any]) -> Tale:
    """A story in which a broker's answer (the first) becomes the second."""
    tale = Tale(rule, addresses=ADDRESSES)
    tale.story.client(asking(api_key, version, 1, request), PASSES)
    tale.story.broker(response(api_key, version, 1, answers[0]), ANYTHING)
    found = answered(tale.story.to_client, api_key, version).body
    expected = answered(response(api_key, version, 1, answers[1]), api_key, version).body
    assert _without_addresses(found) == _without_addresses(expected)
    return tale


def _without_addresses(value: Any) -> Any:
    """Without hosts and ports, which the relay replaces by its own."""
    if isinstance(value, dict):
        return {name: _without_addresses(one) for name, one in value.items() if name not in {"host", "port"}}
    return [_without_addresses(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_named_in_all_versions(version: int) -> None:
    batched = version > 3
    asks: dict[str, Any] = {"coordinatorKeys": ["other", "g"]} if batched else {"key": "g"}
    given, told = (
        {"coordinators": [{"key": "other", **TRUE}, {"key": "g", **one}]} if batched else one for one in (TRUE, NAMED)
    )
    tale = telling("api == FindCoordinator => coordinator g = 2", FIND_COORDINATOR, version, asks, given, told)
    assert (tale.hits, tale.said) == ([1], [])
    assert 2 in tale.story.book.nodes  # so the client is led to the listener of that broker


@pytest.mark.parametrize("version", [2, 4])
def test_no_coordinator_is_named(version: int) -> None:
    none = {"nodeId": -1, "host": "", "port": -1, "errorCode": 15}
    batched = version > 3
    asks: dict[str, Any] = {"coordinatorKeys": ["g"]} if batched else {"key": "g"}
    given, told = ({"coordinators": [{"key": "g", **one}]} if batched else one for one in (TRUE, none))
    telling("api == FindCoordinator => coordinator g = -1", FIND_COORDINATOR, version, asks, given, told)


def test_coordinators_of_others_pass_and_an_unknown_broker_is_reported() -> None:
    tale = Tale("api == FindCoordinator => coordinator g = 7")
    for key in ("other", "g"):
        tale.story.client(asking(FIND_COORDINATOR, 2, 1, {"key": key}), PASSES)
        tale.story.broker(response(FIND_COORDINATOR, 2, 1, TRUE), ANYTHING)
    assert tale.hits == [0]
    assert ["kproxy has not seen the address of broker 7 yet" in one for one in tale.said] == [True]


@pytest.mark.parametrize(("nodes", "left"), [("[]", []), ("[2]", [NAMED])])
def test_brokers_are_missing_wherever_they_are_listed(nodes: str, left: list[Any]) -> None:
    rule = f"client.id == app => brokers = {nodes}"
    for version in (0, 1, 12):
        answers = (
            {"brokers": one, **({"controllerId": to} if version else {})}
            for one, to in (([TRUE, NAMED], 1), (left, -1))
        )
        telling(rule, METADATA, version, {"topics": []}, *answers)
    ids = [{"brokerId": one["nodeId"], "host": one["host"], "port": one["port"]} for one in (TRUE, NAMED)]
    kept = [one for one in ids if one["brokerId"] in [other["nodeId"] for other in left]]
    clusters = ({"brokers": one, "controllerId": to} for one, to in ((ids, 1), (kept, -1)))
    telling(rule, DESCRIBE_CLUSTER, 1, {}, *clusters)
    answers = ({"responses": [], "nodeEndpoints": one} for one in ([TRUE, NAMED], left))
    telling(rule, PRODUCE, 10, {"acks": -1, "topicData": []}, *answers)


def test_errors_that_name_the_leader_agree_with_the_metadata() -> None:
    def refusing(leader: int, *nodes: dict[str, Any]) -> dict[str, Any]:
        current = {"leaderId": leader, "leaderEpoch": 5}
        partition = {"index": 1, "errorCode": 6, "baseOffset": -1, "currentLeader": current}
        answer: dict[str, Any] = {"responses": [{"name": "orders", "partitionResponses": [partition]}]}
        return {**answer, "nodeEndpoints": list(nodes)}

    rule = "topic == orders => leader orders-1 = 2"
    data = [{"name": "orders", "partitionData": [{"index": 1, "records": b""}]}]
    asks = {"acks": -1, "topicData": data}
    tale = telling(rule, PRODUCE, 10, asks, refusing(1, TRUE), refusing(2, TRUE, NAMED))
    assert (tale.hits, tale.said) == ([1], [])


@pytest.mark.parametrize("version", [10, 12, 13])
def test_another_topic_id_is_told(version: int) -> None:
    true, wrong = bytes(range(16)), bytes(range(1, 17))
    given, told = ({"topics": [{"name": "orders", "topicId": one, "partitions": []}]} for one in (true, wrong))
    rule = f"api == Metadata => topic-id orders = {uuid_json(wrong)}"
    tale = telling(rule, METADATA, version, {"topics": []}, given, told)
    assert tale.hits == [1]


def test_rules_know_a_topic_by_the_id_that_the_client_was_told() -> None:
    true, wrong = bytes(range(16)), bytes(range(1, 17))
    tale = Tale(
        f"api == Metadata => topic-id orders = {uuid_json(wrong)}", "api == Fetch and topic == orders => drop request"
    )
    tale.story.client(asking(METADATA, 12, 1, {"topics": []}), PASSES)
    topic = {"name": "orders", "topicId": true, "partitions": []}
    tale.story.broker(response(METADATA, 12, 1, {"topics": [topic]}), ANYTHING)
    partitions = [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1}]
    tale.story.client(asking(FETCH, 13, 2, {"topics": [{"topicId": wrong, "partitions": partitions}]}))
    assert tale.hits == [1, 1]


@pytest.mark.parametrize("side", ["request", "response"])
def test_a_batch_gets_a_wrong_crc(side: str) -> None:
    records = batch({"records": [{"key": "k", "value": "v"}]})
    tale = Tale(f"api == {'Produce' if side == 'request' else 'Fetch'} => crc {side}")
    if side == "request":
        data = [{"name": "t", "partitionData": [{"index": index, "records": records * 2} for index in (0, 1)]}]
        tale.story.client(asking(PRODUCE, 9, 1, {"acks": -1, "topicData": data}), ANYTHING)
        body = asked(tale.story.to_broker).body
        assert body is not None
        topics = body["topicData"]
        sent = [one["records"] for one in topics[0]["partitionData"]]
    else:
        partitions = [{"partitionIndex": 0, "records": records * 2}, {"partitionIndex": 1, "records": b""}]
        tale.story.client(asking(FETCH, 11, 1, {"topics": []}), PASSES)
        tale.story.broker(response(FETCH, 11, 1, {"responses": [{"topic": "t", "partitions": partitions}]}), ANYTHING)
        body = answered(tale.story.to_client, FETCH, 11).body
        assert body is not None
        topics = body["responses"]
        sent = [one["records"] for one in topics[0]["partitions"][:1]]
    for one in sent:
        assert [crc_valid(one, found) for found in parse_batches(one).batches] == [False, True]
        assert len(one) == 2 * len(records)
    assert (tale.hits, tale.said) == ([1], [])


def test_frames_without_batches_do_not_count() -> None:
    tale = Tale("api == Fetch => crc")
    frame = response(FETCH, 11, 1, {"responses": [{"topic": "t", "partitions": [{"records": b""}]}]})
    tale.story.client(asking(FETCH, 11, 1, {"topics": []}), PASSES).broker(frame, PASSES)
    assert (tale.hits, tale.said) == ([0], [])


def test_bytes_after_the_body_are_kept() -> None:
    """librdkafka's mock cluster sends some after Metadata v13."""
    tale = Tale("api == Metadata => leader orders-0 = 3")
    frame, expected = (response(METADATA, 13, 1, topics(leader)) for leader in (1, 3))
    longer, told = ((len(one) - 3).to_bytes(4, "big") + one[4:] + b"\0" for one in (frame, expected))
    tale.story.client(asking(METADATA, 13, 1, {"topics": []}), PASSES).broker(longer, to_client(told))
    assert (tale.hits, tale.said) == ([1], [])
