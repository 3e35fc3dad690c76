"""Responses that lack something of their request: from messages to findings."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.decoders.problems import Code
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response


def answered(fact: dict[str, Any], number: int = 1, **places: Any) -> Story:
    story = Story()
    for turn in range(number):
        at = story.at(turn).where("c", key=1, version=12, **places)
        story.made.append(facts.Incomplete(at, **fact))
    return story


LACKS: dict[str, Any] = {"what": "t-3", "number": 2, "asked": 5, "answered": 3, "twice": False}


def test_a_response_that_lacks_partitions() -> None:
    (finding,) = answered(LACKS).tells("ERROR response.incomplete c@host-c")
    assert finding.summary.startswith("Fetch v12 of 10.0.0.1:9092: of 5 in the request the response lacks 2, t-3 among")


def test_a_response_with_something_twice() -> None:
    (finding,) = answered(LACKS | {"twice": True, "answered": 7}).tells("ERROR response.incomplete c@host-c")
    assert "has 2 twice" in finding.summary


def test_responses_with_nothing_in_them() -> None:
    empty = LACKS | {"number": 5, "answered": 0}
    answered(empty, 3).tells("ERROR response.incomplete c@host-c")
    answered(empty, 2).is_quiet()


def test_a_connection_with_missing_bytes_is_quiet() -> None:
    story = Story().trouble("c", Code.GAP)
    story.made += answered(LACKS).made
    assert not [one for one in story.found() if one.rule == "response.incomplete"]


# --- the facts ---


def parts(names: tuple[str, str, str], topic: str, numbers: list[int], **more: Any) -> dict[str, Any]:
    topics, partitions, number = names
    return {topics: [{topic: "t", partitions: [{number: one} | more for one in numbers]}]}


def made(key: int, version: int, asked: dict[str, Any], answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    script = Script().client(request(key, version, 1, "app", **asked)).broker(response(key, version, 1, **answer))
    played = play(script.end())
    maker = FactMaker(played.tape, eyes(), (facts.Incomplete,))
    return [one[1:] for one in maker.make(played.exchanges) if isinstance(one, facts.Incomplete)]


PRODUCED = ("topicData", "partitionData", "index"), ("responses", "partitionResponses", "index")
FETCHED = ("topics", "partitions", "partition"), ("responses", "partitions", "partitionIndex")
LISTED = ("topics", "partitions", "partitionIndex"), ("topics", "partitions", "partitionIndex")
APIS = [
    (0, 8, *PRODUCED, {"acks": -1}),
    (1, 11, *FETCHED, {"sessionEpoch": -1}),
    (1, 11, *FETCHED, {"sessionEpoch": 0}),
    (1, 5, *FETCHED, {}),
    (2, 5, *LISTED, {}),
    (8, 7, *LISTED, {}),
    (23, 3, ("topics", "partitions", "partition"), ("topics", "partitions", "partition"), {}),
]


@pytest.mark.parametrize(("key", "version", "theirs", "ours", "more"), APIS)
def test_partitions_that_are_missing_or_twice(
    key: int, version: int, theirs: tuple[str, str, str], ours: tuple[str, str, str], more: dict[str, Any]
) -> None:
    topic = "topic" if key in {1, 23} else "name"
    asked = parts(theirs, topic, [0, 1, 2]) | more
    assert made(key, version, asked, parts(ours, topic, [0])) == [("t-1", 2, 3, 1, False)]
    assert made(key, version, asked, parts(ours, topic, [0, 1, 1, 2])) == [("t-1", 1, 3, 4, True)]
    assert made(key, version, asked, parts(ours, topic, [])) == [("t-0", 3, 3, 0, False)]
    assert not made(key, version, asked, parts(ours, topic, [2, 1, 0]))
    assert not made(key, version, asked, parts(ours, topic, [7, 8])), "bodies that do not belong together"
    assert not made(key, version, parts(theirs, topic, [0, -5]) | more, parts(ours, topic, [0])), "nonsense"


def test_who_leaves_partitions_out_rightly() -> None:
    asked = parts(FETCHED[0], "topic", [0, 1])
    one = parts(FETCHED[1], "topic", [0])
    assert not made(1, 11, asked | {"sessionId": 7, "sessionEpoch": 3}, one), "an incremental session"
    assert not made(1, 11, asked | {"sessionEpoch": 0}, {"errorCode": 71}), "an error of the session"
    assert not made(1, 11, asked | {"sessionEpoch": 0}, {"throttleTimeMs": 500}), "throttled"
    assert made(1, 11, asked | {"sessionEpoch": 0}, {})


def test_produce_without_acks_has_no_answer_that_lacks_anything() -> None:
    asked = request(0, 8, 1, "app", acks=0, **parts(PRODUCED[0], "name", [0, 1]))
    played = play(Script().client(asked).client(request(3, 9, 2, "app")).broker(response(3, 9, 2)).end())
    maker = FactMaker(played.tape, eyes(), (facts.Incomplete,))
    assert not [one for one in maker.make(played.exchanges) if isinstance(one, facts.Incomplete)]


def test_topics_of_metadata() -> None:
    asked = {"topics": [{"name": "a"}, {"name": "b"}]}
    assert made(3, 9, asked, {"topics": [{"name": "a"}]}) == [("b", 1, 2, 1, False)]
    assert made(3, 9, asked, {"topics": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}) == [("a", 1, 2, 3, True)]
    assert not made(3, 9, asked, {"topics": [{"name": "b", "errorCode": 3}, {"name": "a"}]})
    assert not made(3, 9, {"topics": None}, {"topics": [{"name": "a"}]})


def test_a_frame_that_is_cut_proves_nothing() -> None:
    asked = request(1, 11, 1, "app", **parts(FETCHED[0], "topic", [0, 1]), sessionEpoch=-1)
    answer = response(1, 11, 1, **parts(FETCHED[1], "topic", [0]))
    played = play(Script().client(asked).broker(answer, stored=len(answer) - 3).end())
    maker = FactMaker(played.tape, eyes(), (facts.Incomplete,))
    assert not [one for one in maker.make(played.exchanges) if isinstance(one, facts.Incomplete)]
