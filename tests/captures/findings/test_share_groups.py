"""Share groups whose records nobody accepts, and Streams groups that are hindered: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.model import Confidence
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

# --- share.poison ---

POISON = "WARN share.poison g"


def got(story: Story, deliveries: int, first: int = 7, last: int | None = None, partition: int = 0) -> Story:
    at = story.where("c", key=78)
    last = first if last is None else last
    story.made.append(facts.Redelivered(at, "g", "t", partition, first, last, deliveries, 30_000))
    return story


def gave_up(story: Story, first: int = 7, how: str = "release", error: int = 0, last: int | None = None) -> Story:
    story.made.append(
        facts.Released(story.where("c", key=79), "g", "t", 0, first, first if last is None else last, how, error)
    )
    return story


def deliveries(up_to: int, how: str | None = "release") -> Story:
    """Record 7 again and again, until its delivery number `up_to`, each time released."""
    story = Story()
    for number in range(2, up_to + 1):
        got(story.at(number), number)
        if how is not None:
            gave_up(story.at(number + 0.5), how=how)
    return story


def beats(story: Story, since: int, until: int) -> Story:
    for second in range(since, until):
        story.at(second).heartbeat("c", kind="share")
    return story


def test_a_record_that_is_released_again_and_again() -> None:
    (finding,) = deliveries(4).tells(POISON)
    assert finding.summary == "group g got offsets 7 of t-0 4 times"
    assert "releases" in finding.cause


def test_a_record_that_is_released_at_the_limit_is_gone() -> None:
    (finding,) = beats(deliveries(5), 6, 20).tells("ERROR share.poison g")
    assert finding.summary == "group g got offsets 7 of t-0 5 times, and nobody gets them again"
    assert finding.confidence is Confidence.STRONG


def test_a_record_at_which_members_crash() -> None:
    (finding,) = beats(deliveries(5, how=None), 6, 20).tells(POISON)
    assert "do not acknowledge" in finding.cause


def test_few_deliveries_are_quiet() -> None:
    deliveries(3).is_quiet()
    story = Story()
    for number in range(2, 6):
        got(story.at(number), number, first=number * 100)
    story.is_quiet()


def test_a_single_delivery_of_a_high_number_is_quiet() -> None:
    got(got(Story(), 30).at(1), 5, partition=1).is_quiet()


def test_rejected_records_are_not_lost() -> None:
    beats(deliveries(5, how="reject"), 6, 20).tells(POISON)


def test_a_release_that_fails_is_none() -> None:
    story = deliveries(5, how=None)
    beats(gave_up(story, error=121), 6, 20).tells(POISON)


def test_an_inactive_group_may_get_the_record_later() -> None:
    story = deliveries(5).at(60)
    story.exchange("other").tells(POISON)


def test_a_group_with_a_higher_limit_loses_nothing() -> None:
    story = beats(got(deliveries(5).at(5.7), 6), 6, 20)
    (finding,) = story.tells(POISON)
    assert finding.numbers["deliveries"] == 6


def test_a_delivery_after_the_release_at_the_limit() -> None:
    story = deliveries(5)
    beats(got(story.at(8), 5), 9, 30).tells(POISON)


# --- streams.status ---


def says(codes: list[int], *, every: float = 5, start: float = 0, error: int = 0) -> Story:
    story = Story()
    for turn, code in enumerate(codes):
        at = story.at(start + turn * every).where("s", key=88)
        story.made.append(facts.StreamsStatus(at, "g", None if error else code, error, "topic in is missing"))
    return story


@pytest.mark.parametrize(
    ("code", "seconds", "severity"),
    [(1, 10, "WARN"), (2, 10, "WARN"), (3, 60, "WARN"), (5, 60, "WARN"), (6, 10, "NOTE"), (0, 600, "WARN")],
)
def test_a_status_that_lasts(code: int, seconds: int, severity: str) -> None:
    (finding,) = says([code] * (seconds // 5 + 1)).tells(f"{severity} streams.status g")
    assert f"for {seconds} s" in finding.summary
    assert "topic in is missing" in finding.summary


def test_what_is_told_at_once() -> None:
    says([4]).tells("WARN streams.status g")
    says([0], error=130).tells("ERROR streams.status g")
    says([0]).tells("NOTE streams.status g")
    says([0], error=132).tells("NOTE streams.status g")


@pytest.mark.parametrize(("code", "seconds"), [(1, 5), (2, 5), (3, 55), (5, 55), (6, 5), (99, 600)])
def test_a_status_that_passes_is_quiet(code: int, seconds: int) -> None:
    says([code] * (seconds // 5 + 1)).is_quiet()


def test_a_status_that_comes_again_counts_anew() -> None:
    says([1, 1], every=130).is_quiet()


# --- the facts ---


def made(key: int, version: int, asked: dict[str, Any], answered: dict[str, Any]) -> list[facts.Fact]:
    script = Script().client(request(key, version, 1, "app", **asked)).broker(response(key, version, 1, **answered))
    played = play(script.end())
    wanted = (facts.Redelivered, facts.Released, facts.StreamsStatus)
    maker = FactMaker(played.tape, eyes(), wanted)
    return [one for one in maker.make(played.exchanges) if isinstance(one, wanted)]


def test_acquired_and_acknowledged_records_are_facts() -> None:
    """A first delivery is none; types of acknowledgement stand for a batch or for each of its records."""
    batches = [
        {"firstOffset": 1, "lastOffset": 3, "acknowledgeTypes": [2]},
        {"firstOffset": 4, "lastOffset": 9, "acknowledgeTypes": [1]},
        {"firstOffset": 10, "lastOffset": 13, "acknowledgeTypes": [1, 2, 2, 3]},
    ]
    asked = {"groupId": "g", "topics": [{"topicId": b"\1" * 16, "partitions": [
        {"partitionIndex": 2, "acknowledgementBatches": batches}
    ]}]}  # fmt: skip
    runs = [(20, 20, 1), (21, 25, 2), (40, 30, 9), (50, 50, 30_000)]
    acquired = [{"firstOffset": first, "lastOffset": last, "deliveryCount": count} for first, last, count in runs]
    answered = {"responses": [{"topicId": b"\1" * 16, "partitions": [
        {"partitionIndex": 2, "acquiredRecords": acquired, "acknowledgeErrorCode": 121}
    ]}]}  # fmt: skip
    found = made(78, 1, asked, answered)
    released = [(one.first, one.last, one.how, one.error) for one in found if isinstance(one, facts.Released)]
    assert released == [(1, 3, "release", 121), (11, 12, "release", 121), (13, 13, "reject", 121)]
    again = [
        (one.partition, one.first, one.last, one.deliveries) for one in found if isinstance(one, facts.Redelivered)
    ]
    assert again == [(2, 21, 25, 2)]


def test_a_status_is_a_fact() -> None:
    answered = {"status": [{"statusCode": 1, "statusDetail": "in"}]}
    found = [one for one in made(88, 0, {"groupId": "g"}, answered) if isinstance(one, facts.StreamsStatus)]
    assert [(one.group, one.status, one.error, one.detail) for one in found] == [("g", 1, 0, "in")]
    found = [one for one in made(88, 0, {"groupId": "g"}, {"errorCode": 130}) if isinstance(one, facts.StreamsStatus)]
    assert [(one.status, one.error) for one in found] == [(None, 130)]
    assert not made(88, 0, {"groupId": "g"}, {})
