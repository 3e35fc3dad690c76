"""Latency, split by its causes: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.data_facts import READERS
from kproxy.captures.findings.making import FactMaker
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import BROKER, Story
from tests.support.scripts import Script, eyes, play, request, response

SLOW = f"WARN latency.broker_slow {BROKER}"


def many(story: Story, api: str = "Produce", *, took: float, number: int = 60, client: str = "p") -> Story:
    """Requests one after the other, within a minute; the first one of the connection is fast."""
    story.exchange(client, api)
    began = story.now
    for place in range(number):
        story.at(began + (place + 1) * 0.9).exchange(client, api, took=took)
    return story


# --- latency.broker_slow ---


def test_a_slow_broker() -> None:
    (finding,) = many(Story(), took=0.7).tells(SLOW)
    assert "60 of 60 Produce requests within a minute took the broker 500 ms or more, up to 700 ms" in finding.summary
    assert finding.evidence[0].note == "700 ms: queue 0 ms, throttle 0 ms, wait 0 ms, broker 700 ms"


def test_what_other_requests_say_of_the_cause() -> None:
    story = many(Story(), took=0.7)
    assert "followers" in many(story.at(1), "Metadata", took=0.01, client="m").tells(SLOW)[0].cause
    slow = many(many(Story(), took=0.7).at(1), "Metadata", took=0.6, client="m").found()
    assert {one.cause for one in slow} == {
        "Other APIs of this broker are slow as well: its request threads, garbage collection, or the network."
    }


def test_a_single_slow_request() -> None:
    story = Story().exchange("p", "Produce").at(1)
    story.exchange("p", "Produce", took=6).tells(SLOW)
    story.at(9).exchange("p", "Produce", took=25).tells(SLOW.replace("WARN", "ERROR"))


def test_a_few_slow_requests_are_quiet() -> None:
    many(many(Story(), took=0.01), took=0.7, number=4).is_quiet()
    many(Story(), took=0.7, number=20).is_quiet()


def paused(took: float, *, pauses: int = 1) -> Story:
    """Ten clients ask a broker that pauses, each on its own connection: 60 requests within a minute."""
    story = Story()
    clients = [f"p{number}" for number in range(10)]
    for turn in range(6):
        for number, client in enumerate(clients):
            slow = 1 <= turn <= pauses
            story.at(turn * 8 + number / 100).exchange(client, "Produce", took=took if slow else 0.001)
    return story


def test_one_short_pause_of_the_broker_is_a_note() -> None:
    (finding,) = paused(0.9).tells(SLOW.replace("WARN", "NOTE"))
    assert "10 of 50 Produce requests" in finding.summary
    assert "all of them at the same moment" in finding.summary
    paused(2.1).tells(SLOW)
    paused(0.9, pauses=2).tells(SLOW)


def test_the_first_request_of_a_connection_is_quiet() -> None:
    Story().exchange("p", "Produce", took=20).is_quiet()


def test_what_waits_for_others_is_quiet() -> None:
    story = Story().exchange("c", "Fetch")
    story.at(1).exchange("c", "Fetch", took=9).at(11).join("c", took=200)
    story.made.append(facts.Exchange(story.where("c", took=200, key=11), Status.OK, 100, 100))
    story.is_quiet()


@pytest.mark.parametrize("key", [11, 14, 36, 78])
def test_each_request_that_waits_for_others_is_quiet(key: int) -> None:
    story = Story().exchange("c")
    for turn in range(60):
        at = story.at(1 + turn * 0.9).where("c", took=0.8, key=key)
        story.made.append(facts.Exchange(at, Status.OK, 100, 100))
    story.made.append(facts.Exchange(story.at(100).where("c", took=30, key=key), Status.OK, 100, 100))
    story.is_quiet()


def test_a_fetch_that_exceeds_its_wait() -> None:
    story = Story().exchange("c", "Fetch").at(1).exchange("c", "Fetch", took=6)
    late = story.made[-1].at
    story.made.append(facts.Overdue(late, 5000))
    story.is_quiet()
    story.made[-1] = facts.Overdue(late, 500)
    (finding,) = story.tells(SLOW)
    assert finding.evidence[0].note == "6000 ms: queue 0 ms, throttle 0 ms, wait 500 ms, broker 5500 ms"


def test_lengthy_work_is_a_note() -> None:
    story = Story().exchange("a")
    story.made.append(facts.Exchange(story.at(1).where("a", took=30, key=19), Status.OK, 100, 100))
    story.tells(SLOW.replace("WARN", "NOTE"))


def test_a_large_response_is_quiet() -> None:
    story = Story().exchange("c").at(1).exchange("c", took=9)
    story.made[-1] = story.made[-1]._replace(response_bytes=100_000)
    story.is_quiet()


def test_a_connection_with_missing_bytes_is_quiet() -> None:
    story = Story().exchange("p", "Produce").trouble("p", Code.GAP).at(1).exchange("p", "Produce", took=9)
    assert not [one for one in story.found() if one.rule == "latency.broker_slow"]


def test_a_throttled_connection() -> None:
    """A quota delays the next request; in old versions, the same one."""
    story = Story().exchange("p", "Produce", number=2)
    story.made.append(facts.Throttle(story.made[-1].at, 9_000))
    story.at(0.1).exchange("p", "Produce", took=9.5)
    assert {one.rule for one in story.found()} == {"latency.throttled"}
    old = Story().exchange("p", "Produce", version=3).at(1).exchange("p", "Produce", version=3, took=9.5)
    old.made.append(facts.Throttle(old.made[-1].at, 9_000))
    assert {one.rule for one in old.found()} == {"latency.throttled"}


def restarted(story: Story, second: float, broker: str = "10.0.0.2:9092") -> Story:
    """Another broker closes its connections."""
    mine, story.broker = story.broker, broker
    for number in range(3):
        story.at(second + number / 10).closes(f"x{number}", closer="broker")
    story.broker = mine
    return story


def test_requests_that_wait_for_a_broker_that_restarts_are_a_note() -> None:
    story = restarted(Story().exchange("p", "Produce"), 1).at(2).exchange("p", "Produce", took=8)
    story.tells(SLOW.replace("WARN", "NOTE"))
    story = restarted(Story().exchange("p", "Metadata"), 1).at(2).exchange("p", "Metadata", took=8)
    story.tells(SLOW)
    story = restarted(Story().exchange("p", "Produce"), 1).at(62).exchange("p", "Produce", took=8)
    story.tells(SLOW)
    many(restarted(Story(), 0), took=0.7).tells(SLOW.replace("WARN", "NOTE"))
    many(restarted(Story(), 0, BROKER), took=0.7).tells(SLOW)


def test_pipelined_requests_wait_in_the_queue() -> None:
    story = Story().exchange("p", "Produce").at(1)
    for place in range(20):
        story.exchange("p", "Produce", took=4 + place * 0.3)
    story.is_quiet()


@pytest.mark.parametrize(("took", "brokers", "quiet"), [(0.2, 3, False), (0.2, 2, True), (0.06, 3, True)])
def test_a_broker_that_is_slower_than_others(took: float, brokers: int, quiet: bool) -> None:
    story = Story()
    for broker in range(brokers):
        story.broker = f"10.0.0.{broker + 1}:9092"
        many(story.at(0.001 * broker), took=0.03 if broker else took, client=f"p{broker}")
    if quiet:
        story.is_quiet()
    else:
        (finding,) = story.tells(SLOW.replace("WARN", "NOTE"))
        assert "and 2 other brokers" in finding.summary


# --- latency.hol ---


def behind(story: Story, key: int = 12, times: int = 3, api: str = "Fetch") -> Story:
    for turn in range(times):
        story.at(turn * 10).exchange("c", api, took=4)
        at = story.at(turn * 10 + 1).where("c", took=3.001, key=key)
        story.made.append(facts.Exchange(at, Status.OK, 100, 100))
    return story


def test_heartbeats_behind_fetches() -> None:
    (finding,) = behind(Story()).tells("WARN latency.hol c@host-c")
    assert "had 3 Heartbeat requests wait behind Fetch on one connection" in finding.summary
    assert [one.role for one in finding.evidence] == ["culprit", "symptom"]


def test_once_or_behind_other_requests_is_quiet() -> None:
    behind(Story(), times=2).is_quiet()
    behind(Story(), 0, api="Produce").is_quiet()
    behind(Story(), 3).is_quiet()


def test_a_wait_that_is_less_than_half_of_the_latency_is_quiet() -> None:
    """The broker itself is slow: other rules tell of it."""
    story = Story()
    for turn in range(3):
        story.at(turn * 10).exchange("c", "Fetch", took=1)
        at = story.at(turn * 10 + 0.5).where("c", took=1.2, key=12)
        story.made.append(facts.Exchange(at, Status.OK, 100, 100))
    assert not [one for one in story.found() if one.rule == "latency.hol"]


# --- client.ignores_throttle ---


def throttled(wait: float, version: int = 9) -> Story:
    story = Story()
    for turn in range(5):
        story.at(turn * 2).exchange("p", "Produce", version=version)
        story.made.append(facts.Throttle(story.made[-1].at, 500))
        story.at(turn * 2 + wait).exchange("p", "Produce", version=version, took=max(0, 0.5 - wait))
    return story


def impatient(story: Story) -> list[str]:
    return [one.severity.name for one in story.found() if one.rule == "client.ignores_throttle"]


def test_a_client_that_does_not_wait() -> None:
    assert impatient(throttled(0.1)) == ["NOTE"]


def test_a_client_that_waits_is_quiet() -> None:
    assert not impatient(throttled(0.5))
    assert not impatient(throttled(0.0))
    assert not impatient(throttled(0.1, version=3))


# --- the fact ---


@pytest.mark.parametrize(("took", "expected"), [(0.55, []), (0.7, [500])])
def test_a_late_fetch_is_a_fact(took: float, expected: list[int]) -> None:
    at = Story().where("c", took=took, key=1)
    script = Script().client(request(1, 12, 1, "app", maxWaitMs=500)).broker(response(1, 12, 1))
    played = play(script.end())
    exchange = played.exchanges[0]
    assert exchange.request is not None
    assert exchange.response is not None
    exchange.response.time = exchange.request.time + at.latency
    maker = FactMaker(played.tape, eyes(), (facts.Overdue,))
    assert [one.wait_ms for one in maker.make(played.exchanges) if isinstance(one, facts.Overdue)] == expected
    assert facts.Overdue in READERS[1].makes
