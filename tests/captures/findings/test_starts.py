"""Clients that are stuck at a step of their start-up: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

STUCK = "WARN client.stuck_start c@host-c"
KEYS = {"metadata": 3, "coordinator": 10, "join": 11, "producer id": 22}


def step(story: Story, what: str, error: int = 0, name: str = "shop") -> Story:
    story.made.append(facts.StartStep(story.where("c", key=KEYS[what]), what, name, error))
    return story


def tries(what: str, error: int, seconds: float = 31, number: int = 10) -> Story:
    story = Story().exchange("c", "ApiVersions")
    for turn in range(number):
        step(story.at(turn * seconds / (number - 1)), what, error)
    return story


@pytest.mark.parametrize(("what", "error"), [("coordinator", 15), ("producer id", 14), ("join", 81), ("metadata", 8)])
def test_a_step_that_is_never_passed(what: str, error: int) -> None:
    (finding,) = tries(what, error).tells(STUCK)
    assert "of shop for 31 s: 10 times" in finding.summary


def test_a_short_or_rare_failure_is_quiet() -> None:
    tries("coordinator", 15, seconds=29).is_quiet()
    tries("coordinator", 15, number=2).is_quiet()


def test_a_step_that_was_passed_before_is_quiet() -> None:
    story = step(Story().exchange("c", "ApiVersions"), "coordinator")
    story.made += tries("coordinator", 15).made
    story.is_quiet()


def test_a_success_ends_the_failures() -> None:
    story = tries("coordinator", 15, seconds=20)
    step(step(step(story.at(21), "coordinator"), "producer id", 14).at(60), "coordinator", 15).is_quiet()


def test_a_client_that_works_has_started() -> None:
    story = Story().exchange("c", "Fetch")
    story.made += tries("coordinator", 15).made
    story.is_quiet()
    story = step(Story(), "join")
    story.made += tries("producer id", 14).made
    story.is_quiet()


def test_a_join_that_fails_is_no_work() -> None:
    story = Story()
    story.made.append(facts.Beginning(story.where("c", key=11), work=True))
    story.made += tries("join", 81).made
    story.tells(STUCK)


def test_the_steps_are_facts() -> None:
    talk: list[tuple[int, int, dict[str, Any], dict[str, Any]]] = [
        (3, 9, {}, {"brokers": []}),
        (3, 9, {}, {"brokers": [{"nodeId": 1, "host": "b", "port": 9}]}),
        (10, 2, {"key": "g"}, {"errorCode": 15}),
        (10, 4, {"coordinatorKeys": ["g", "h"]}, {"coordinators": [{"key": "g"}, {"key": "h", "errorCode": 16}]}),
        (11, 5, {"groupId": "g"}, {"errorCode": 79}),
        (11, 5, {"groupId": "g"}, {"errorCode": 25}),
        (22, 1, {"transactionalId": "tx"}, {"errorCode": 51}),
    ]
    script = Script()
    for number, (key, version, asked, answered) in enumerate(talk):
        script.client(request(key, version, number, "app", **asked)).broker(response(key, version, number, **answered))
    played = play(script.end())
    maker = FactMaker(played.tape, eyes(), (facts.StartStep,))
    assert [one[1:] for one in maker.make(played.exchanges) if isinstance(one, facts.StartStep)] == [
        ("metadata", "", 8),
        ("metadata", "", 0),
        ("coordinator", "g", 15),
        ("coordinator", "g", 0),
        ("coordinator", "h", 16),
        ("join", "g", 25),
        ("producer id", "tx", 51),
    ]
