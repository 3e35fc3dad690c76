"""Replicas, leaders, records and coordinators that are lost: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence, Impact
from tests.support.facts import Story

# --- isr.shrunk ---


def short(*seconds: float, partition: int = 0, story: Story | None = None) -> Story:
    """A partition whose replica 3 is down since second 0, after all were in sync."""
    story = story or Story()
    for second in seconds:
        story.at(second).partition("c", partition=partition, isr=(1, 2), offline=(3,))
    return story


def test_a_broker_that_is_down() -> None:
    (finding,) = short(0, 30, 61).tells("WARN isr.shrunk node 3")
    assert finding.summary == ("node 3 is missing in ISRs for 61 s (partitions: 1; t-0: replicas 1, 2, 3, ISR 1, 2)")
    assert finding.scope.kind == "broker"
    assert finding.confidence is Confidence.STRONG


def test_its_partitions_are_one_finding() -> None:
    story = short(0)
    short(1, partition=1, story=story)
    short(61, story=story)
    (finding,) = short(62, partition=1, story=story).tells("WARN isr.shrunk node 3")
    assert finding.numbers["partitions"] == 2


def test_two_outages_are_two_findings() -> None:
    story = short(0, 61).at(70).partition("c")
    short(100, 170, story=story).tells("WARN isr.shrunk node 3", "WARN isr.shrunk node 3")


def test_a_planned_restart() -> None:
    short(0, 45).tells("INFO isr.shrunk node 3", at_least="INFO")
    short(0, 20).at(50).partition("c").tells(at_least="INFO")


def test_a_replica_that_lags() -> None:
    story = Story().partition("c").at(1).partition("c", isr=(1, 2))
    story.at(70).partition("c", isr=(1, 2)).tells("WARN isr.shrunk node 3")


def test_a_new_replica() -> None:
    story = Story().partition("c", isr=(1, 2)).at(70).partition("c", isr=(1, 2))
    story.tells("NOTE isr.shrunk node 3")


def test_what_was_in_sync_between_is_quiet() -> None:
    story = short(0, 20).at(25).partition("c")
    short(30, 50, story=story).tells(at_least="INFO")


@pytest.mark.parametrize(("last", "severity"), [(6, "WARN"), (31, "ERROR")])
def test_a_partition_without_leader(last: float, severity: str) -> None:
    story = Story().partition("c", leader=None, error=5, isr=(1,), offline=(1, 2, 3))
    story.at(last).partition("c", leader=None, error=5, isr=(1,), offline=(1, 2, 3))
    story.made = [one._replace(replicas=(1,)) for one in story.made]  # of missing replicas other stories tell
    (finding,) = story.tells(f"{severity} isr.shrunk t")
    assert "topic t has partitions without leader for" in finding.summary
    assert finding.scope.kind == "topic"


def test_elections_are_quiet() -> None:
    story = Story().partition("c", leader=None, error=5).at(3).partition("c", leader=None, error=5).at(4).partition("c")
    story.at(8).partition("c", leader=None, error=5).is_quiet()


def test_a_listener_that_is_missing_is_quiet() -> None:
    Story().partition("c", leader=None, error=72).at(60).partition("c", leader=None, error=72).is_quiet()


@pytest.mark.parametrize(("last", "severity"), [(6, "WARN"), (31, "ERROR")])
def test_too_few_replicas_for_producers(last: float, severity: str) -> None:
    story = Story().partition_io("p", error=19).at(1).partition_io("p", error=19).at(last).partition_io("p", error=19)
    (finding,) = story.tells(f"{severity} isr.shrunk t")
    assert "topic t refuses records with NOT_ENOUGH_REPLICAS for" in finding.summary


def test_refusals_with_a_success_between_are_quiet() -> None:
    story = Story().partition_io("p", error=19).at(4).partition_io("p", error=19).at(5).partition_io("p")
    story.at(8).partition_io("p", error=19).is_quiet()


def test_two_refusals_are_quiet() -> None:
    Story().partition_io("p", error=20).at(40).partition_io("p", error=20).is_quiet()


def test_a_producer_that_does_not_wait_for_replicas_proves_nothing() -> None:
    story = Story().partition_io("p", error=19).at(4).partition_io("p", error=19).at(5).partition_io("q", acks=1)
    story.at(8).partition_io("p", error=19).tells("WARN isr.shrunk t")


# --- log.truncated ---


def high(story: Story, second: float, mark: int, epoch: int, **said: int) -> Story:
    return story.at(second).partition_io("c", "Fetch", high_watermark=mark, leader_epoch=epoch, **said)


def test_a_new_leader_with_a_lower_high_watermark() -> None:
    story = high(high(high(Story(), 0, 100, 5), 1, 90, 6), 42, 95, 6)
    (finding,) = story.tells("WARN log.truncated t-0")
    assert finding.summary == "t-0: the high watermark fell from 100 to 95; offsets lost: 5"
    assert finding.impact == Impact("records_at_risk", 5)


def test_a_new_leader_that_catches_up_is_quiet() -> None:
    high(high(high(high(Story(), 0, 100, 5), 1, 90, 6), 20, 100, 6), 50, 90, 6).is_quiet()


def test_the_high_watermark_of_a_follower_is_quiet() -> None:
    high(high(high(Story(), 0, 100, 5), 1, 90, 5), 60, 90, 5).is_quiet()


def test_a_position_beyond_the_end_of_its_epoch() -> None:
    story = Story().partition_io("c", "Fetch", offset=120).at(5).epoch_end("c", 100)
    (finding,) = story.tells("ERROR log.truncated t-0")
    assert finding.summary == "t-0: leader epoch 5 ends at 100, c@host-c had read to 120; offsets lost: 20"
    assert finding.confidence is Confidence.PROVEN


def test_a_fetch_that_diverges() -> None:
    Story().epoch_end("c", 100, position=120).tells("ERROR log.truncated t-0")


def test_a_position_on_another_connection_is_inferred() -> None:
    story = Story().partition_io("c", "Fetch", offset=120).at(5).epoch_end("c", 100, connection=9)
    (finding,) = story.at(6).partition_io("c", "Fetch", offset=100, connection=9).tells("WARN log.truncated t-0")
    assert finding.confidence is Confidence.INFERRED


def test_a_consumer_that_goes_on_elsewhere_is_quiet() -> None:
    story = Story().partition_io("c", "Fetch", offset=120).at(5).epoch_end("c", 100, connection=9)
    story.at(6).partition_io("c", "Fetch", offset=90, connection=9).is_quiet()


def test_a_consumer_that_was_restarted_is_quiet() -> None:
    story = Story().partition_io("c", "Fetch", offset=120).at(5).committed("c", 100).epoch_end("c", 100, connection=9)
    story.at(6).partition_io("c", "Fetch", offset=100, connection=9).is_quiet()


def test_two_consumers_with_one_client_id_are_quiet() -> None:
    story = Story().partition_io("c", "Fetch", offset=100, connection=8)
    story.partition_io("c", "Fetch", offset=120, connection=7).partition_io("c", "Fetch", offset=100, connection=8)
    story.partition_io("c", "Fetch", offset=130, connection=7).at(5).epoch_end("c", 100, connection=9)
    story.at(6).partition_io("c", "Fetch", offset=100, connection=9).is_quiet()


def test_positions_within_the_epoch_are_quiet() -> None:
    story = Story().partition_io("c", "Fetch", offset=100).epoch_end("c", 100).epoch_end("c", None)
    story.epoch_end("c", 50, error=6).is_quiet()


def test_followers_that_truncate_are_quiet() -> None:
    Story().epoch_end("b", 100, position=120, replica=2).is_quiet()


def test_a_topic_that_was_created_anew() -> None:
    (finding,) = Story().topic("c", "t", topic_id="A").topic("c", "t", topic_id="B").tells("NOTE log.truncated t")
    assert "deleted and recreated, its id is B now" in finding.summary


def test_two_clusters_with_a_topic_of_one_name_are_quiet() -> None:
    story = Story().topic("c", "t", topic_id="A")
    story.broker = "10.0.0.9:9092"
    story.topic("c", "t", topic_id="B").topic("c", "t", topic_id="B").is_quiet()


# --- coord.moved ---


def test_a_coordinator_that_moved() -> None:
    story = Story().coordinator("c").heartbeat("c").at(11).heartbeat("c", 16).at(12).coordinator("c", 2)
    (finding,) = story.tells("INFO coord.moved 10.0.0.1:9092", at_least="INFO")
    assert finding.summary == "1 coordinator moved away from 10.0.0.1:9092: group g: NOT_COORDINATOR from 10.0.0.1:9092"


def test_a_broker_that_died() -> None:
    (finding,) = (
        Story().coordinator("c").at(30).coordinator("c", 2).tells("INFO coord.moved 10.0.0.1:9092", at_least="INFO")
    )
    assert "FindCoordinator answers 10.0.0.2:9092" in finding.summary


def test_groups_that_move_together_are_one_finding() -> None:
    story = Story().coordinator("c").coordinator("p", kind="transaction")
    story.at(30).coordinator("c", 2).coordinator("p", 3, kind="transaction")
    (finding,) = story.tells("INFO coord.moved 10.0.0.1:9092", at_least="INFO")
    assert finding.numbers["count"] == 2


def test_a_coordinator_that_moves_often() -> None:
    story = Story()
    for turn in range(4):
        story.at(turn * 100).coordinator("c", turn % 2)
    (finding,) = story.tells("WARN coord.moved g")
    assert finding.summary.startswith("the coordinator of group g moved 3 times within 10 minutes")


def moves(*stops: int, times: int = 4) -> Story:
    """A coordinator that moves between two brokers; those numbered stop after the move."""
    story = Story()
    for turn in range(times + 1):
        story.at(turn * 100).coordinator("c", turn % 3)
        if turn in stops:
            story.broker = f"10.0.0.{(turn - 1) % 3}:9092"
            for number in range(3):
                story.closes(f"x{number}", closer="broker")
    return story


def test_a_rolling_restart_moves_a_coordinator_again_and_again() -> None:
    moves(1, 2, 3).at(900).exchange("d").is_quiet()
    moves(1).tells("WARN coord.moved g")
    moves(1, 2, 3, 4, 5, 6, times=6).tells("WARN coord.moved g")


def test_the_first_requests_of_a_group_are_quiet() -> None:
    story = Story().heartbeat("c", 16).at(1).join("c", error=15).at(2).join("c", error=14).at(3).join("c")
    story.at(5).heartbeat("c", 16).tells(at_least="INFO")


def test_an_answer_of_another_broker_is_quiet() -> None:
    story = Story().heartbeat("c").at(20)
    story.broker = "10.0.0.9:9092"
    story.heartbeat("c", 16).tells(at_least="INFO")


def test_a_coordinator_that_loads() -> None:
    story = Story().heartbeat("c", 14).at(6).heartbeat("c", 14).at(12).heartbeat("c", 14)
    (finding,) = story.tells("WARN coord.moved 10.0.0.1:9092")
    assert finding.summary.startswith("10.0.0.1:9092 has been loading for 12 s (groups and ids: 1)")
    story = Story().heartbeat("c", 14).at(6).heartbeat("c").at(12).heartbeat("c", 14)
    story.tells(at_least="INFO")


def test_no_coordinator_for_long() -> None:
    story = Story().coordinator("c", None, 15).at(31).coordinator("c", None, 15)
    (finding,) = story.tells("WARN coord.moved g")
    assert finding.summary.startswith("group g has had no coordinator for 31 s")
    story = Story().coordinator("c", None, 15).at(20).coordinator("c").at(31).coordinator("c", None, 15)
    story.tells(at_least="INFO")


def test_no_coordinator_for_a_producer() -> None:
    story = Story().txn("p", "init", 15).at(31).txn("p", "init", 15)
    (finding,) = story.tells("WARN coord.moved tx")
    assert finding.scope.kind == "transaction"
