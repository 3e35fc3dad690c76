"""Followers, leaders out of sync, partitions that move: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence
from tests.support.cluster_story import LEADER_AND_ISR, UPDATE_METADATA, ClusterStory

# --- replica.lag ---


def both(until: float) -> ClusterStory:
    """Followers 2 and 3 fetch every half second."""
    story = ClusterStory()
    for number in range(round(2 * until)):
        story.at(number / 2).follows(2).follows(3)
    return story


def alone(story: ClusterStory, replica: int, begin: float, until: float) -> ClusterStory:
    for number in range(round(2 * begin), round(2 * until)):
        story.at(number / 2).follows(replica)
    return story


def test_a_follower_that_stands_still() -> None:
    """The leader answers the other one, so it is not the leader; and the connection is open."""
    (finding,) = alone(both(10), 2, 10, 45).tells("WARN replica.lag node 3")
    assert finding.summary == "node 3 sent no Fetch to 10.0.0.1:9092 for 30 s, and kept the connection"
    assert finding.scope.kind == "broker"


def test_it_comes_back() -> None:
    (finding,) = alone(both(10), 2, 10, 60).follows(3).tells("WARN replica.lag node 3")
    assert finding.summary.startswith("node 3 sent no Fetch to 10.0.0.1:9092 for 50 s")
    assert len(finding.evidence) == 2


def test_the_only_follower_comes_back() -> None:
    ClusterStory().follows(3).at(40).follows(3).tells("WARN replica.lag node 3")


def test_a_follower_that_comes_back_on_another_connection_is_quiet() -> None:
    """Nobody shows that its leader answered: it may have been the leader that stood still, and did not close."""
    story = ClusterStory().follows(3).at(45)
    story.closes("fetcher 3")
    story.at(46).follows(3, connection=99).is_quiet()


def test_a_leader_that_leads_again_is_quiet() -> None:
    """It stood still, so its followers' connections were closed late; then all come back."""
    story = both(5)
    for follower in (2, 3):
        story.at(50).closes(f"fetcher {follower}")
    for number in range(20):
        story.at(70 + number).follows(2, connection=90).follows(3, connection=91)
    story.is_quiet()


def test_a_restart_is_quiet() -> None:
    story = ClusterStory().follows(3).at(1)
    story.closes("fetcher 3")
    story.at(46).follows(3, connection=99).is_quiet()


def test_a_pause_is_quiet() -> None:
    alone(both(10), 2, 10, 35).follows(3).is_quiet()


def test_a_leader_that_stands_still_is_quiet() -> None:
    """The follower's request waits for it."""
    ClusterStory().follows(3).at(0.1).follows(3, took=45).at(46).follows(3).is_quiet()
    ClusterStory().follows(2).follows(3).at(60).beat(1).is_quiet()


def test_a_follower_whose_connection_is_closed_is_quiet() -> None:
    story = both(10)
    story.closes("fetcher 3")
    alone(story, 2, 10, 60).is_quiet()


def test_a_follower_that_fetches_on_another_connection_is_quiet() -> None:
    """It was restarted, and the capture lacks the packet that closed the first one."""
    story = both(10)
    for number in range(20, 120):
        story.at(number / 2).follows(2).follows(3, connection=77)
    story.is_quiet()


def test_a_silence_with_gaps_is_quiet() -> None:
    story = both(10)
    story.trouble("fetcher 3")
    found = alone(story, 2, 10, 60).follows(3).found()
    assert not [one for one in found if one.rule == "replica.lag"]


def lags(*lags: int, step: float = 5) -> ClusterStory:
    """A follower behind by these numbers of offsets."""
    story = ClusterStory()
    for number, lag in enumerate(lags):
        story.at(step * number).follows(3, ("t", 0, lag))
    return story


def test_a_follower_that_copies_too_slowly() -> None:
    (finding,) = lags(*[5_000] * 14).tells("WARN replica.lag node 3")
    assert finding.summary == (
        "node 3 lags behind 10.0.0.1:9092 for 60 s (partitions: 1; t-0: 5000 offsets behind, 5000 before)"
    )


def test_a_follower_that_catches_up_is_quiet() -> None:
    lags(*range(50_000, 1_000, -1_500)).is_quiet()


def test_a_few_offsets_are_no_lag() -> None:
    lags(*[900] * 14).is_quiet()


def test_a_lag_of_short_duration_is_quiet() -> None:
    lags(*[5_000] * 6).is_quiet()


def test_lags_now_and_then_are_quiet() -> None:
    lags(*[5_000] * 14, step=11).is_quiet()


def test_a_fenced_broker_explains_its_lag() -> None:
    story = ClusterStory().every(2, 10, 1, 2, 3)
    for second in range(10, 60):
        story.at(second).beat(1, 2).follows(2)
        if second < 12:
            story.follows(3)
    story.at(60).beat(3).follows(3)
    found = story.found()
    assert [one.rule for one in found] == ["kraft.broker_fenced", "replica.lag"]
    assert found[1].parent == found[0].id


# --- leader.unclean ---


def test_an_unclean_election_in_the_metadata_log() -> None:
    story = ClusterStory().state(leader=1, isr=(1,), replicas=(1, 2), leader_epoch=5)
    (finding,) = story.at(5).state(leader=2, isr=(2,), recovering=True).tells("ERROR leader.unclean t-0")
    assert finding.summary == "t-0: node 2 became leader, and the ISR was 1"
    assert finding.confidence is Confidence.PROVEN


def test_it_is_told_once() -> None:
    story = ClusterStory().state(leader=2, leader_epoch=6, isr=(2,), recovering=True)
    story.at(1).state(leader=2, leader_epoch=6, isr=(2,), recovering=True)
    (finding,) = story.tells("ERROR leader.unclean t-0")
    assert finding.occurrences == 1


def test_records_of_the_past_are_quiet() -> None:
    ClusterStory().state(leader=2, isr=(2,), recovering=True, past=True).is_quiet()


def test_clean_elections_are_quiet() -> None:
    story = ClusterStory().state(leader=1, isr=(1, 2), replicas=(1, 2), recovering=False)
    story.at(5).state(leader=2, isr=(2,), recovering=False).is_quiet()
    story = ClusterStory().zookeeper().at(5).zookeeper(leader=2, isr=(2,), leader_epoch=6, version=8)
    story.is_quiet()


@pytest.mark.parametrize("key", [LEADER_AND_ISR, UPDATE_METADATA])
def test_an_unclean_election_with_zookeeper(key: int) -> None:
    story = ClusterStory().zookeeper(isr=(1,)).at(5)
    story.zookeeper(leader=2, isr=(2,), leader_epoch=6, version=8, key=key)
    (finding,) = story.tells("ERROR leader.unclean t-0")
    assert finding.confidence is Confidence.STRONG


def test_an_isr_that_may_have_changed_between() -> None:
    story = ClusterStory().zookeeper(isr=(1,)).at(5).zookeeper(leader=2, isr=(2,), leader_epoch=6, version=9)
    (finding,) = story.tells("NOTE leader.unclean t-0")
    assert finding.confidence is Confidence.INFERRED


def test_the_first_sight_of_a_partition_is_quiet() -> None:
    ClusterStory().zookeeper(leader=2, isr=(2,), leader_epoch=6).is_quiet()


def test_states_that_come_late_are_quiet() -> None:
    story = ClusterStory().zookeeper(leader=2, isr=(2,), leader_epoch=6, version=8)
    story.at(1).zookeeper(leader=1, isr=(1,), leader_epoch=5).is_quiet()


def test_a_topic_that_is_created_anew_is_quiet() -> None:
    story = ClusterStory().zookeeper(leader=1, isr=(1,), leader_epoch=5)
    story.at(5).zookeeper(leader=2, isr=(2,), replicas=(2,), leader_epoch=0, version=0)
    story.at(6).zookeeper(leader=2, isr=(2,), replicas=(2,), leader_epoch=1, version=1).is_quiet()


def test_a_leader_from_outside_of_the_isr_in_metadata() -> None:
    story = ClusterStory()
    story.partition("c", isr=(1,)).at(1).partition("c", leader=None, error=5, isr=(1,))
    story.at(3).partition("c", leader=2, leader_epoch=6, isr=(2,))
    (finding,) = [one for one in story.found() if one.rule == "leader.unclean"]
    assert (finding.severity.name, finding.confidence) == ("WARN", Confidence.INFERRED)


@pytest.mark.parametrize("isr", [(), (1, 2)])
def test_eligible_leaders_in_metadata_are_quiet(isr: tuple[int, ...]) -> None:
    """Without an ISR others may lead (KIP-966); from within the ISR all may."""
    story = ClusterStory()
    story.partition("c", leader=None, error=5, isr=isr).at(3).partition("c", leader=2, leader_epoch=6, isr=(2,))
    assert not [one for one in story.found() if one.rule == "leader.unclean"]


# --- isr.shrunk: the controller names no leader (#71) ---


@pytest.mark.parametrize(("last", "severity"), [(6, "WARN"), (31, "ERROR")])
def test_a_partition_that_the_controller_leaves_without_leader(last: float, severity: str) -> None:
    story = ClusterStory().state(leaderless=True, isr=(1,)).at(last).beat(1)
    (finding,) = story.tells(f"{severity} isr.shrunk t")
    assert finding.summary.startswith("topic t has partitions without leader for ")
    assert "the controller finds no leader, ISR 1" in finding.summary


def test_partitions_of_a_topic_are_one_finding() -> None:
    story = ClusterStory().state(leaderless=True).at(1).state(leaderless=True, partition=1)
    story.at(2).state(leaderless=True, partition=1).at(20).beat(1)
    (finding,) = story.tells("WARN isr.shrunk t")
    assert finding.numbers["partitions"] == 2


def test_both_vantages_are_one_finding() -> None:
    story = ClusterStory().state(leaderless=True)
    story.at(1).partition("c", leader=None, error=5, isr=(1,), replicas=(1,))
    story.at(7).partition("c", leader=None, error=5, isr=(1,), replicas=(1,)).tells("WARN isr.shrunk t")


def test_elections_and_deletions_are_quiet() -> None:
    ClusterStory().state(leaderless=True).at(4).state(leader=2, isr=(2,)).at(60).beat(1).is_quiet()
    ClusterStory().state(leaderless=True).at(4).state(deleting=True).at(60).beat(1).is_quiet()
    ClusterStory().state(leaderless=True, past=True).at(60).beat(1).is_quiet()
    ClusterStory().state(leaderless=True).at(1).state(isr=(1,)).at(2).state(leader=1).at(60).beat(1).is_quiet()


def test_a_controller_on_a_connection_with_gaps_is_quiet() -> None:
    story = ClusterStory().state(leaderless=True)
    story.trouble("controller")
    assert {one.rule for one in story.at(60).beat(1).found()} == {"capture.health"}


# --- partition.reassign ---


def moving(**said: int) -> ClusterStory:
    """t-0 moves from 1, 2 to 1, 3."""
    story = ClusterStory().state(leader=1, replicas=(1, 2), isr=(1, 2), adding=(), removing=())
    return story.at(1).state(replicas=(3, 1, 2), adding=(3,), removing=(2,), **said)


def test_a_move() -> None:
    story = moving().asks_to_move(3, 1)
    story.at(5).state(replicas=(3, 1), isr=(3, 1), adding=(), removing=())
    (finding,) = story.at(400).beat(1).tells("INFO partition.reassign t", at_least="INFO")
    assert finding.summary == "t: partitions begun: 1, done: 1; t-0 is moved, after 4.0 s"
    assert [one.client_id for one in finding.actors] == ["admin"]
    assert "t-0: replicas 3, 1, 2; adds 3, removes 2" in [one.note for one in finding.evidence]


def test_a_move_before_kafka_2_4() -> None:
    story = ClusterStory().zookeeper().at(1).zookeeper(replicas=(3, 1, 2), version=8)
    story.at(9).zookeeper(replicas=(3, 1), isr=(3, 1), version=10)
    (finding,) = story.tells("INFO partition.reassign t", at_least="INFO")
    assert finding.summary == "t: partitions begun: 1, done: 1; t-0 is moved, after 8.0 s"


def test_a_state_that_comes_late_does_not_end_a_move() -> None:
    story = ClusterStory().zookeeper().at(1).zookeeper(replicas=(3, 1, 2), version=8).at(2).zookeeper()
    (finding,) = story.tells("INFO partition.reassign t", at_least="INFO")
    assert "done: 0" in finding.summary


def test_a_move_that_is_stuck() -> None:
    story = moving()
    for second in range(10, 320, 10):
        story.at(second).follows(3)
    found = story.tells("WARN partition.reassign t")
    assert "t-0 makes no progress for 309 s, not in sync yet: 3" in found[0].summary


def test_copying_that_cannot_be_seen() -> None:
    moving().at(320).beat(1).tells("NOTE partition.reassign t")


def test_a_move_that_copies_is_quiet() -> None:
    story = moving()
    for second in range(10, 700, 10):
        story.at(second).follows(3, ("t", 0, 900_000 - second))
    assert not [one for one in story.found() if one.rule == "partition.reassign" and one.severity]


def test_a_new_replica_that_joined_is_quiet() -> None:
    moving().at(10).state(isr=(1, 2, 3)).at(400).beat(1).is_quiet()


def test_a_move_that_only_an_administrator_sees_is_quiet() -> None:
    ClusterStory().state(key=46, replicas=(1, 2, 3), adding=(3,), removing=()).at(400).beat(1).is_quiet()


def test_a_move_of_the_past_is_not_told() -> None:
    moving(past=True).at(9).beat(1).tells(at_least="INFO")


def test_a_refused_or_cancelled_move_is_not_told() -> None:
    ClusterStory().asks_to_move(3, 1, error=39).asks_to_move().tells(at_least="INFO")


def test_a_stuck_move_on_a_connection_with_gaps_is_quiet() -> None:
    story = moving()
    story.trouble("controller")
    story.at(400).beat(1)
    assert not [one for one in story.found() if one.rule == "partition.reassign" and one.severity]
