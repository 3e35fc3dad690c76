"""How groups share partitions, and which protocol they use: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings.model import Finding
from tests.support.facts import Story

TOPICS = "range 1234"


def later(story: Story, seconds: float = 100) -> Story:
    """Time passes: somebody else asks for metadata."""
    return story.at(story.now + seconds).exchange("other")


def group(assignor: str | None = "range", subscriptions: dict[str, str] | None = None, /, **partitions: int) -> Story:
    """Members join, and the first one, the leader, sends the assignment."""
    story = Story()
    for member in partitions:
        story.join(member, protocol="range", subscription=(subscriptions or {}).get(member, TOPICS))
    for member in partitions:
        story.member("sync", member)
    return story.assigned(next(iter(partitions)), assignor, **partitions)


# --- group.idle_members ---


def test_more_members_than_partitions() -> None:
    (finding,) = later(group(a=1, b=1, c=0)).tells("NOTE group.idle_members g")
    assert finding.summary == "group g: 1 of 3 members have no partition (3 members, 2 partitions, range)"
    assert "3 members, and its topics have 2 partitions" in finding.cause
    assert [one.member for one in finding.actors] == ["c"]


def test_an_assignor_that_deals_unevenly() -> None:
    (finding,) = later(group(a=4, b=2)).tells("NOTE group.idle_members g")
    assert "its members have from 2 to 4 partitions each" in finding.summary
    assert "range" in finding.cause


@pytest.mark.parametrize(
    "story",
    [
        group(a=2, b=1, c=1),
        group(a=3),
        group(a=0, b=0),
        group("stream", a=4, b=0),
        group(None, a=4, b=0),
        group("range", {"b": "range 9999"}, a=4, b=0),
    ],
    ids=["even", "alone", "no partitions", "Streams", "assignor unknown", "other topics"],
)
def test_healthy_groups(story: Story) -> None:
    later(story).is_quiet()


def test_an_assignment_that_was_short() -> None:
    story = group(a=2, b=0)
    later(story, 20)
    for member in ("a", "b"):
        story.join(member, 2, protocol="range", subscription=TOPICS)
    later(story.assigned("a", a=1, b=1)).is_quiet()


def test_an_assignment_is_over_when_a_member_joins() -> None:
    """The next one is not in the capture: its leader was never seen."""
    later(later(group(a=2, b=0), 20).join("c", 2, protocol="range")).is_quiet()


def test_a_member_that_left_does_not_count() -> None:
    later(group(a=2, b=0).leave("b")).is_quiet()
    story = Story().told("a", 2).told("b", 0).leave("b", kind="consumer")
    later(story).is_quiet()


def test_a_member_whose_connection_ended_does_not_count() -> None:
    later(group(a=2, b=0).closes("b")).is_quiet()


def test_a_connection_that_only_the_capture_ended_counts() -> None:
    later(group(a=2, b=0).closes("b", "evicted")).tells("NOTE group.idle_members g")


def test_members_of_the_newer_protocol() -> None:
    story = Story()
    for member, number in (("a", 0), ("b", 0), ("a", 1), ("b", 1), ("c", 0)):
        story.told(member, number).at(story.now + 1)
    (finding,) = later(story).tells("NOTE group.idle_members g")
    assert "1 of 3 members have no partition" in finding.summary
    assert "the broker's assignor" in finding.summary


def test_members_of_the_newer_protocol_that_come_one_after_the_other() -> None:
    story = Story()
    for number in range(10):
        story.told("a", 4).told("b", 0).at(story.now + 30).told("b", 2).told("a", 2).at(story.now + 20 + number)
    later(story).is_quiet()


# --- group.protocol_upgrade ---


def cluster(story: Story | None = None, *, level: int = 1, offers: bool = True) -> Story:
    """A broker that offers the newer protocol."""
    apis: dict[str, Any] = {"ConsumerGroupHeartbeat": (0, 1)} if offers else {"Fetch": (4, 18)}
    return (story or Story()).offered("a", **apis).finalized("a", level=level)


def upgrades(story: Story) -> list[Finding]:
    return [one for one in story.found() if one.rule == "group.protocol_upgrade"]


def generation(story: Story, number: int, *members: str, stop: float = 0.1, protocol: str = "range") -> Story:
    """Members join, and are assigned their partitions some time later."""
    for member in members:
        story.join(member, number, protocol=protocol)
    story.at(story.now + stop)
    for member in members:
        story.member("sync", member, protocol=protocol, generation=number)
    return story.at(story.now + 30)


def test_a_classic_group_at_a_broker_with_the_newer_protocol() -> None:
    (finding,) = upgrades(generation(cluster(), 1, "a", "b"))
    assert finding.severity == 0
    assert "offers that of KIP-848" in finding.summary


def test_rebalances_that_stop_all_members() -> None:
    story = generation(cluster(), 1, "a", "b")
    for number in (2, 3):
        generation(story, number, "a", "b", stop=4 + number)
    (finding,) = upgrades(story)
    assert finding.severity == 1
    assert "a member stood still for 7.0 s in a rebalance, all members together for 26.0 s" in finding.summary
    assert tuple(finding.impact) == ("ms_lost", 26_000)


@pytest.mark.parametrize("unlike", [{"level": 0}, {"offers": False}])
def test_brokers_that_do_not_offer_it(unlike: dict[str, Any]) -> None:
    assert not upgrades(generation(cluster(**unlike), 1, "a", "b"))


def test_a_short_stop_is_an_info() -> None:
    story = generation(generation(cluster(), 1, "a", "b"), 2, "a", "b", stop=2)
    assert [one.severity for one in upgrades(story)] == [0]


def test_members_that_join_first_have_nothing_to_stop() -> None:
    story = generation(cluster(), 1, "a", "b", stop=20)
    assert [one.severity for one in upgrades(story)] == [0]


def test_cooperative_members_do_not_stop() -> None:
    story = cluster()
    for number in (1, 2):
        generation(story, number, "a", "b", stop=20, protocol="cooperative-sticky")
    assert [one.severity for one in upgrades(story)] == [0]


def test_streams_and_connect_are_exempt() -> None:
    story = cluster()
    for number in (1, 2):
        generation(story, number, "a", "b", stop=20, protocol="stream")
    assert not upgrades(story)


def test_a_group_that_migrates() -> None:
    story = generation(cluster(), 1, "a", "b").join("c", 2, kind="consumer")
    found = upgrades(story)
    assert {one.severity.name for one in found} == {"INFO"}
    assert any("it has members of both, so it migrates" in one.summary for one in found)
    later = generation(cluster(), 1, "a", "b").at(2000).join("c", 2, kind="consumer")
    assert not any("migrates" in one.summary for one in upgrades(later))
