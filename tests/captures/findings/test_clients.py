"""How clients use connections, commits and acknowledgements: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.decoders.batches.support import batch, record
from tests.support.facts import BROKER, Story
from tests.support.scripts import Script, eyes, play, request, response

# --- client.leak ---


def clients(number: int, *, every: float = 1, life: float = 0.5, peer: str = "h", **more: Any) -> Story:
    """Producers one after the other, each with a connection to bootstrap and one for its work."""
    story = Story()
    ends: list[tuple[float, str, int]] = []
    for turn in range(number):
        began = turn * every
        for time, name, connection in [one for one in ends if one[0] <= began]:
            ends.remove((time, name, connection))
            story.at(time).closes(name, connection=connection, peer=peer, opened=more.get("opened", True))
        name = f"producer-{turn}"
        story.at(began).exchange(name, "ApiVersions", connection=2 * turn + 1, peer=peer)
        story.exchange(name, more.get("api", "Produce"), connection=2 * turn + 2, peer=peer)
        ends += [(began + life, name, 2 * turn + 1), (began + life, name, 2 * turn + 2)]
    for time, name, connection in ends:
        story.at(time).closes(name, connection=connection, peer=peer, opened=more.get("opened", True))
    return story


def test_a_producer_for_each_message() -> None:
    (finding,) = clients(40).tells("WARN client.leak producer-#@h")
    assert "began and ended 40 clients within a minute, which lived 0.5 s (median)" in finding.summary
    clients(350, every=0.15, life=0.1).tells("ERROR client.leak producer-#@h")


def test_other_clients_are_quiet() -> None:
    clients(29).is_quiet()
    clients(40, every=4).is_quiet()
    clients(60, life=15).is_quiet()
    clients(40, api="Metadata").is_quiet()
    clients(40, opened=False).is_quiet()


def test_clients_with_missing_bytes_are_quiet() -> None:
    story = Story()
    for turn in range(40):
        at = story.where("p", exchange=0, connection=2 * turn + 1)
        story.made.append(facts.Trouble(at, Code.GAP, "broker", 0, 1, "a gap"))
    story.made += clients(40).made
    assert not [one for one in story.found() if one.rule == "client.leak"]


# --- client.conn_pool ---


def pool(client: str, number: int, api: str = "Produce") -> Story:
    story = Story()
    for connection in range(number):
        story.at(connection).exchange(client, api, connection=connection + 1)
    return story


def test_a_pool_of_producers() -> None:
    (finding,) = pool("shop", 6).tells("NOTE client.conn_pool shop@host-shop")
    assert finding.summary == f"shop@host-shop uses 6 connections to {BROKER} at once"


def test_no_pool_is_quiet() -> None:
    pool("shop", 4).is_quiet()
    pool("rdkafka", 9).is_quiet()
    pool("shop", 9, "Metadata").is_quiet()
    story = Story()
    for connection in range(9):
        story.at(connection * 5).exchange("shop", "Produce", connection=connection + 1)
        story.at(connection * 5 + 1).closes("shop", connection=connection + 1)
    story.is_quiet()


# --- consumer.commit_storm ---


def commits(rate: float, advance: int, seconds: float = 70, members: tuple[str, ...] = ("c",)) -> Story:
    story = Story()
    for turn in range(int(rate * seconds)):
        story.at(turn / rate).commit(members[turn % len(members)], turn * advance)
    return story


@pytest.mark.parametrize(("rate", "advance", "severity"), [(10, 1, "NOTE"), (10, 0, "NOTE"), (60, 1, "WARN")])
def test_a_commit_for_each_record(rate: float, advance: int, severity: str) -> None:
    (finding,) = commits(rate, advance).tells(f"{severity} consumer.commit_storm g")
    assert f"commits {rate} times a second in group g" in finding.summary


def test_commits_of_batches_are_quiet() -> None:
    commits(10, 100).is_quiet()
    commits(0.2, 1, 600).is_quiet()
    commits(10, 1, 50).is_quiet()
    commits(10, 1, members=("a", "b", "d")).is_quiet()


# --- producer.weak_acks ---


def weak(acks: int, number: int) -> Story:
    story = Story()
    for turn in range(number):
        story.at(turn).produced("p", acks=acks)
    return story


def test_weak_acks() -> None:
    weak(1, 200).tells("NOTE producer.weak_acks p@host-p")
    weak(0, 20).tells("NOTE producer.weak_acks p@host-p")
    (finding,) = weak(0, 100).tells("WARN producer.weak_acks p@host-p")
    assert "asks for no acknowledgement (acks=0) in 100 Produce requests, 10000 bytes" in finding.summary


def test_a_few_requests_with_weak_acks_are_quiet() -> None:
    weak(0, 19).is_quiet()


def test_acks_of_all_replicas_are_quiet() -> None:
    weak(-1, 200).is_quiet()


# --- producer.tiny_batches ---


def tiny(rate: float, share: float = 1, seconds: float = 12) -> Story:
    story = Story()
    for turn in range(int(rate * seconds)):
        story.at(turn / rate).exchange("p", "Produce", took=0.001)
        if (turn % 10) < share * 10:
            story.produced("p", tiny=1, size=80)
    return story


@pytest.mark.parametrize(("rate", "severity"), [(120, "NOTE"), (600, "WARN")])
def test_tiny_requests(rate: float, severity: str) -> None:
    (finding,) = tiny(rate).tells(f"{severity} producer.tiny_batches p@host-p")
    assert "with one or two records: 1.0 records and 80 bytes on average" in finding.summary


def test_few_tiny_requests_are_quiet() -> None:
    tiny(50, seconds=60).is_quiet()
    tiny(200, share=0.3).is_quiet()
    tiny(200, seconds=8).is_quiet()


# --- join.id_retry, group.abandoned_member_id ---


def asks(story: Story, issued: str, **more: Any) -> Story:
    return story.join("c", None, member=issued, fresh=True, error=79, **more)


def test_a_client_that_never_uses_its_member_id() -> None:
    story = Story()
    for turn in range(3):
        asks(story.at(turn), f"id-{turn}")
    (finding,) = [one for one in story.found() if one.rule == "join.id_retry"]
    assert finding.summary == "c@host-c joined group g 3 times in a row without the member id that it was given"
    assert finding.severity.name == "ERROR"


def test_members_that_use_their_id_are_quiet() -> None:
    story = asks(Story(), "one").at(0.1).join("c", 1, member="one").at(100)
    story = asks(story, "two").at(100.1).join("c", 2, member="two").at(200)
    asks(story, "three").at(200.1).join("c", 3, member="three").at(300).heartbeat("c").is_quiet()


def test_a_new_connection_begins_anew() -> None:
    story = Story()
    for turn in range(3):
        asks(story.at(turn), f"id-{turn}", connection=turn + 1)
    assert not [one for one in story.found() if one.rule == "join.id_retry"]


def test_a_member_id_that_is_given_up() -> None:
    story = asks(asks(Story(), "one").at(0.1), "two").at(0.2).join("c", 1, member="two").at(10).heartbeat("d")
    (finding,) = [one for one in story.found() if one.rule == "group.abandoned_member_id"]
    assert finding.summary == "c@host-c was given the member id one in group g, and joined as two"
    assert finding.severity.name == "WARN"


def test_an_id_that_is_used_later_or_by_nobody_is_quiet() -> None:
    used = asks(asks(Story(), "one").at(0.1), "two").at(0.2).join("c", 1, member="two")
    used.at(1).heartbeat("c", member="one").at(20).heartbeat("d")
    gone = asks(Story(), "one").at(20).heartbeat("d")
    for story in (used, gone):
        assert not [one for one in story.found() if one.rule == "group.abandoned_member_id"]


def test_a_client_that_went_away_abandons_nothing() -> None:
    story = asks(asks(Story(), "one").at(0.1), "two").at(0.2).join("c", 1, member="two")
    story.at(1).closes("c").at(20).heartbeat("d")
    assert not [one for one in story.found() if one.rule == "group.abandoned_member_id"]


def test_an_id_whose_use_the_capture_may_lack_is_quiet() -> None:
    story = asks(asks(Story(), "one").at(0.1), "two").at(0.2).join("c", 1, member="two").trouble("c")
    assert not [one for one in story.at(20).heartbeat("d").found() if one.rule == "group.abandoned_member_id"]


# --- the facts ---


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_produce_without_records(acks: int) -> None:
    script = Script().client(request(0, 9, 1, "app", acks=acks))
    played = play(script.broker(response(0, 9, 1)).end() if acks else script.end())
    maker = FactMaker(played.tape, eyes(), (facts.Produced,))
    (found,) = [one for one in maker.make(played.exchanges) if isinstance(one, facts.Produced)]
    assert found[1:] == (acks, 0, 0, None, 0, ())
    assert played.exchanges[0].status is (Status.OK if acks else Status.NO_REPLY_EXPECTED)


ONE = batch(record(0, None, b"v"), 1)


@pytest.mark.parametrize(
    ("records", "tiny"),
    [([ONE], 1), ([ONE, ONE], 1), ([ONE] * 3, 0), ([batch(record(0, None, b"v"), 1, attributes=16, producer=7)], 0)],
    ids=["one", "two", "one for each of three partitions", "of a transaction"],
)
def test_tiny_requests_are_a_fact(records: list[bytes], tiny: int) -> None:
    partitions = [{"index": number, "records": one} for number, one in enumerate(records)]
    asked: dict[str, Any] = {"acks": -1, "topicData": [{"name": "t", "partitionData": partitions}]}
    script = Script().client(request(0, 8, 1, "app", **asked)).broker(response(0, 8, 1))
    played = play(script.end())
    maker = FactMaker(played.tape, eyes(), (facts.Produced,))
    (found,) = [one for one in maker.make(played.exchanges) if isinstance(one, facts.Produced)]
    assert bool(found.tiny) == bool(tiny)
