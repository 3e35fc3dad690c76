"""Answers that say what is not so: the client sees it in the right place, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.decoders.message import decode_response
from kproxy.faults.parsing import parse
from kproxy.faults.trouble import RuleError
from tests.kproxy.core.frames import DEFINITIONS, response
from tests.kproxy.faults.support import METADATA, Tale, asking
from tests.support.playbook import PASSES, to_client

API_VERSIONS = 18
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
        ("api == Produce => leader orders-1 = 3", "leader is for answers of Metadata or DescribeTopicPartitions"),
        ("api == ApiVersions => versions Fetc 4-12", "did you mean Fetch?"),
        ("api == ApiVersions => versions Fetch 12-4", "expected versions, such as 4-12, not '12-4'"),
        ("api == ApiVersions => versions Fetch", "the versions that are offered"),
        ("api == Metadata => leader orders = 3", "expected TOPIC-PARTITION"),
        ("api == Metadata => leader orders-1", "expected = and the id of a broker"),
        ("api == Metadata => leader orders-1 = x", "the id of a broker"),
    ],
)
def test_a_wrong_rule_is_refused(rule: str, why: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(rule)
    assert why in str(caught.value)


def test_bytes_after_the_body_are_kept() -> None:
    """librdkafka's mock cluster sends some after Metadata v13."""
    tale = Tale("api == Metadata => leader orders-0 = 3")
    frame, expected = (response(METADATA, 13, 1, topics(leader)) for leader in (1, 3))
    longer, told = ((len(one) - 3).to_bytes(4, "big") + one[4:] + b"\0" for one in (frame, expected))
    tale.story.client(asking(METADATA, 13, 1, {"topics": []}), PASSES).broker(longer, to_client(told))
    assert (tale.hits, tale.said) == ([1], [])
