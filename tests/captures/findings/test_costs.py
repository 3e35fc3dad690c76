"""Traffic between racks, and metadata that is read too often: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.model import Confidence
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

# --- cost.cross_rack ---

RACK = "NOTE cost.cross_rack c@host-c"
MEBIBYTE = 1 << 20


def racks(*names: str | None) -> Story:
    """A cluster with a broker in each of these racks, which leads one partition and follows the others."""
    story = Story()
    nodes = tuple(range(1, len(names) + 1))
    for node, name in zip(nodes, names, strict=True):
        story.made.append(facts.Broker(story.where("c", key=3), node, f"10.0.0.{node}", 9092, name))
    for node in nodes:
        story.partition("c", partition=node, leader=node, replicas=nodes, isr=nodes)
    return story


def fetches(story: Story, partitions: tuple[int, ...], rack: str = "", mebibytes: int = 12, **more: Any) -> Story:
    for turn in range(mebibytes):
        story.at(turn)
        node = partitions[turn % len(partitions)]
        story.broker = f"{more.get('host', '10.0.0.')}{node}:9092"
        at = story.where("c", key=1, version=more.get("version", 16))
        sizes = (("t", node, MEBIBYTE),)
        story.made.append(facts.FetchedFrom(at, rack, more.get("preferred", False), sizes))
    return story


def test_a_client_that_names_no_rack() -> None:
    (finding,) = fetches(racks("a", "b", "c"), (1, 2, 3)).tells(RACK)
    assert finding.summary == "c@host-c fetched 10 MiB from 3 racks; it names no rack"
    assert finding.confidence is Confidence.INFERRED
    (finding,) = fetches(racks("a", "b", "c"), (1, 2, 3), version=10).tells(RACK)
    assert "Fetch v10 of its library cannot name a rack" in finding.summary


def test_leaders_are_known_where_brokers_have_other_addresses() -> None:
    fetches(racks("a", "b"), (1, 2), host="kafka-").tells(RACK)


def test_brokers_that_choose_no_replica_by_rack() -> None:
    (finding,) = fetches(racks("a", "b"), (1, 2), rack="a", mebibytes=24).tells(RACK)
    assert "names its rack a, which has replicas of 10 MiB of these" in finding.summary
    assert "replica.selector.class" in finding.cause


def test_no_cost_is_quiet() -> None:
    fetches(racks("a", "a", "a"), (1, 2, 3)).is_quiet()
    fetches(racks(None, None), (1, 2)).is_quiet()
    fetches(racks("a", "b", "c"), (1,)).is_quiet()
    fetches(racks("a", "b", "c"), (1, 2, 3), mebibytes=9).is_quiet()


def test_who_fetches_in_its_rack_is_quiet() -> None:
    fetches(racks("a", "b"), (1,), rack="a", mebibytes=40).is_quiet()
    fetches(racks("a", "b"), (1, 1, 1, 1, 1, 2), rack="a", mebibytes=90).is_quiet()
    fetches(racks("a", "b"), (1, 2), rack="z", mebibytes=40).is_quiet()


def test_who_was_sent_to_another_replica_is_quiet() -> None:
    fetches(racks("a", "b"), (1, 2), rack="a", mebibytes=40, preferred=True).is_quiet()


def test_a_broker_that_may_be_a_follower_is_quiet() -> None:
    fetches(racks("a", "b"), (1, 2), rack="a", mebibytes=40, host="kafka-").is_quiet()


# --- meta.heavy ---

HEAVY = "NOTE meta.heavy c@host-c"


def reads(number: int, size: int, *, every: float = 1, topics: bool = True, **more: Any) -> Story:
    story = Story()
    for turn in range(number):
        connections = more.get("connections", (1,))
        at = story.at(turn * every).where("c", key=3, connection=connections[turn % len(connections)])
        story.made.append(facts.MetadataRead(at, topics, 5000, more.get("failed", 0), size))
    return story


def test_a_minute_with_much_metadata() -> None:
    (finding,) = reads(12, MEBIBYTE - 1024, every=4).tells(HEAVY)
    assert "read 12 MiB of metadata about all topics within a minute" in finding.summary


def test_large_answers_again_and_again() -> None:
    (finding,) = reads(4, 2 * MEBIBYTE, every=200).tells(HEAVY)
    assert "asked 4 times within 15 minutes for 5000 topics, 2097152 bytes" in finding.summary


def test_metadata_every_second() -> None:
    (finding,) = reads(80, 500, topics=False).tells(HEAVY)
    assert "asked for metadata 60 times within a minute on one connection" in finding.summary


@pytest.mark.parametrize(
    "story",
    [
        reads(50, 5000, every=0.1),
        reads(3, 4 * MEBIBYTE, every=120),
        reads(9, 2 * MEBIBYTE, every=400),
        reads(80, MEBIBYTE, every=1, topics=False, failed=1),
        reads(80, 500, topics=False, failed=1),
        reads(80, 500, topics=False, connections=(1, 2)),
        reads(59, 500, topics=False),
    ],
)
def test_other_metadata_is_quiet(story: Story) -> None:
    story.is_quiet()


# --- the facts ---


def made(key: int, version: int, asked: dict[str, Any], answered: dict[str, Any]) -> list[facts.Fact]:
    script = Script().client(request(key, version, 1, "app", **asked)).broker(response(key, version, 1, **answered))
    played = play(script.end())
    wanted = (facts.FetchedFrom, facts.MetadataRead)
    maker = FactMaker(played.tape, eyes(), wanted)
    return [one for one in maker.make(played.exchanges) if isinstance(one, wanted)]


def test_racks_of_a_fetch_are_a_fact() -> None:
    partitions: list[dict[str, Any]] = [{"partitionIndex": 0, "records": b"12345"}, {"partitionIndex": 1}]
    answered: dict[str, Any] = {"responses": [{"topic": "t", "partitions": partitions}]}
    (fact,) = made(1, 11, {"replicaId": -1, "rackId": "a"}, answered)
    assert isinstance(fact, facts.FetchedFrom)
    assert (fact.rack, fact.preferred, fact.sizes) == ("a", False, (("t", 0, 5),))
    assert not made(1, 11, {"replicaId": 2, "rackId": "a"}, answered), "a follower"
    assert not made(1, 11, {"replicaId": -1}, {}), "no records"
    partitions[1]["preferredReadReplica"] = 3
    (fact,) = made(1, 11, {"replicaId": -1}, answered)
    assert isinstance(fact, facts.FetchedFrom)
    assert fact.preferred


@pytest.mark.parametrize(
    ("version", "topics", "every"), [(0, [], True), (1, [], False), (1, None, True), (9, [{"name": "t"}], False)]
)
def test_metadata_of_all_topics_is_a_fact(version: int, topics: list[Any] | None, every: bool) -> None:
    answered = {"topics": [{"name": "t", "errorCode": 3}, {"name": "u"}]}
    (fact,) = made(3, version, {"topics": topics}, answered)
    assert isinstance(fact, facts.MetadataRead)
    assert (fact.every, fact.topics, fact.failed) == (every, 2, 1)
    assert fact.size > 20
