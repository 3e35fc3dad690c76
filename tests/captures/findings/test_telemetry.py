"""Telemetry of clients that is rejected or pointless: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

REJECTED = "NOTE telemetry.rejected c@host-c"


def push(story: Story, error: int = 0, size: int = 900, *, terminating: bool = False, **places: Any) -> Story:
    at = story.where("c", key=72, **places)
    story.made.append(facts.Telemetry(at, "push", error, None, size, None, terminating))
    return story


def subscribe(story: Story, metrics: int, error: int = 0) -> Story:
    at = story.where("c", key=71)
    story.made.append(facts.Telemetry(at, "subscribe", error, metrics, 0, 1 << 20, terminating=False))
    return story


def pushes(number: int, error: int = 0, *, every: float = 60, metrics: int = 5, **more: Any) -> Story:
    story = subscribe(Story(), metrics)
    for turn in range(number):
        push(story.at(turn * every), error, **more)
    return story


@pytest.mark.parametrize("error", [76, 89, 117, 118])
def test_pushes_that_are_rejected(error: int) -> None:
    (finding,) = pushes(3, error).tells(REJECTED)
    assert "3 times within 10 minutes, the last one with 900 bytes" in finding.summary


def test_pushes_that_nobody_asked_for() -> None:
    (finding,) = pushes(3, metrics=0).tells(REJECTED)
    assert "although its subscription has none" in finding.summary


@pytest.mark.parametrize(
    "story",
    [
        pushes(2, 117),
        pushes(5, 117, every=301),
        pushes(9),
        pushes(2, metrics=0),
        pushes(9, metrics=0, size=0),
        pushes(9, metrics=0, connection=7),
        pushes(9, 89, terminating=True),
        pushes(9, 35),
    ],
)
def test_other_pushes_are_quiet(story: Story) -> None:
    story.is_quiet()


def test_the_steps_of_telemetry_are_facts() -> None:
    script = Script().client(request(71, 0, 1, "app"))
    script.broker(response(71, 0, 1, requestedMetrics=["a", "b"], telemetryMaxBytes=1000))
    script.client(request(72, 0, 2, "app", terminating=True, metrics=b"12345"))
    played = play(script.broker(response(72, 0, 2, errorCode=118)).end())
    maker = FactMaker(played.tape, eyes(), (facts.Telemetry,))
    found = [one[1:] for one in maker.make(played.exchanges) if isinstance(one, facts.Telemetry)]
    assert found == [("subscribe", 0, 2, 0, 1000, False), ("push", 118, None, 5, None, True)]
