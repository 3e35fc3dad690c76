"""Controllers of KRaft and the brokers that they fence: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence
from kproxy.decoders.problems import Code
from tests.support.cluster_story import ClusterStory

# --- kraft.elections, controller.failover ---


def led(epoch: int = 3) -> ClusterStory:
    """A quorum of nodes 1, 2, 3 that node 1 leads."""
    return ClusterStory().quorum("begin", 1, epoch).quorum("fetch", 2, epoch).quorum("fetch", 3, epoch)


def fails(story: ClusterStory, second: float, node: int, epoch: int) -> ClusterStory:
    """The leader fails, and a node is elected."""
    story.at(second).quorum("pre-vote", node, epoch - 1).quorum("vote", node, epoch)
    return story.at(second + 0.1).quorum("begin", node, epoch).quorum("fetch", 3, epoch)


def test_one_election_is_an_info() -> None:
    (finding,) = fails(led(), 10, 2, 4).tells("INFO controller.failover c1", at_least="INFO")
    assert finding.summary == (
        "node 2 is the active controller since epoch 4; node 1 did not step down: it failed, or was cut off"
    )


def test_a_new_leader_whose_name_comes_after_the_first_fetch() -> None:
    story = led().at(10).quorum("fetch", 3, 4).quorum("begin", 2, 4)
    (finding,) = story.tells("INFO controller.failover c1", at_least="INFO")
    assert finding.summary.startswith("node 2 is the active controller since epoch 4; node 1 ")


def test_elections_again_and_again() -> None:
    story = fails(fails(fails(led(), 10, 2, 4), 60, 1, 5), 120, 2, 6)
    found = story.tells("WARN kraft.elections c1")
    assert found[0].summary == "3 elections in 110 s, the latest of epoch 6"
    everything = story.found()
    assert {one.parent for one in everything if one.rule == "controller.failover"} == {everything[0].id}


def test_elections_that_are_far_apart_are_quiet() -> None:
    fails(fails(fails(led(), 10, 2, 4), 200, 1, 5), 400, 2, 6).is_quiet()


def test_a_rolling_restart_is_quiet() -> None:
    """Each leader steps down; the next one is elected at the second attempt."""
    story = led(3)
    for number, second in enumerate((10, 40, 70)):
        epoch = 3 + 2 * number
        story.at(second).quorum("end", 1 + number % 2, epoch)
        story.at(second + 1).quorum("vote", 3, epoch + 1).quorum("vote", 2, epoch + 2)
        story.at(second + 2).quorum("begin", 2 - number % 2, epoch + 2)
    (first, *_), infos = story.found(), [one for one in story.found() if one.rule == "controller.failover"]
    assert first.summary.endswith("stepped down")
    assert len(infos) == 3
    story.is_quiet()


def test_the_start_of_a_cluster_is_quiet() -> None:
    story = ClusterStory()
    for epoch in range(1, 6):
        story.at(3 * epoch).quorum("vote", 1 + epoch % 3, epoch)
    story.at(20).quorum("begin", 1, 5).at(60).quorum("fetch", 2, 5).tells(at_least="INFO")


def test_no_leader() -> None:
    """Two nodes ask for votes; nobody gets a majority."""
    story = led().at(10).quorum("pre-vote", 2, 3).at(12).quorum("pre-vote", 3, 3)
    (finding,) = story.at(16).beat(1).tells("WARN kraft.elections c1")
    assert finding.summary == "no leader for 6 s since epoch 3; votes asked for by 2, 3"
    assert finding.confidence is Confidence.STRONG
    story.at(41).beat(1).tells("ERROR kraft.elections c1")


def test_a_leader_within_seconds_is_quiet() -> None:
    story = led().at(10).quorum("pre-vote", 2, 3).at(11).quorum("vote", 3, 4).at(14).quorum("begin", 3, 4)
    story.at(60).beat(1).is_quiet()


def test_a_node_that_was_away_itself_is_quiet() -> None:
    story = led().at(10).quorum("pre-vote", 3, 3).at(10.5).quorum("fetch", 2, 3)
    story.at(60).beat(1).tells(at_least="INFO")


def test_one_node_that_asks_in_vain_may_be_cut_off() -> None:
    story = led().at(10).quorum("pre-vote", 3, 3).at(20).quorum("pre-vote", 3, 3)
    (finding,) = story.at(60).beat(1).tells("WARN kraft.elections c1")
    assert finding.confidence is Confidence.INFERRED


def test_a_silence_on_a_connection_with_gaps_is_quiet() -> None:
    story = led().at(10).quorum("pre-vote", 2, 3).quorum("pre-vote", 3, 3)
    story.trouble("2")
    story.at(60).beat(1)
    assert [one.rule for one in story.found() if one.rule == "kraft.elections"] == []


def test_a_vote_that_is_told_of_late_is_quiet() -> None:
    story = led().at(10).quorum("pre-vote", 2, 3).at(20).quorum("fetch", 2, 3).at(60).quorum("fetch", 3, 3)
    story.made.append(story.made.pop(3))
    story.at(100).beat(1).is_quiet()


def test_a_capture_of_requests_alone_shows_no_silence() -> None:
    story = ClusterStory().quorum("begin", 1, 3).at(10).quorum("pre-vote", 2, 3).at(12).quorum("pre-vote", 3, 3)
    story.at(60).beat(1).is_quiet()


def test_a_refused_fetch_shows_no_leader() -> None:
    story = led().at(10).quorum("pre-vote", 2, 3).quorum("pre-vote", 3, 3).at(11).quorum("fetch", 2, 3, 6)
    story.at(16).beat(1).tells("WARN kraft.elections c1")


# --- kraft.broker_fenced ---


def test_a_broker_that_stands_still() -> None:
    """Its heartbeats stop, the controller fences it, it comes back."""
    story = ClusterStory().every(2, 10, 1, 2, 3).every(2, 50, 1, 2)
    story.at(18).record(3, fenced=True)
    story.made.sort(key=lambda one: one.at.time)
    (finding,) = story.at(51).beat(3).tells("WARN kraft.broker_fenced node 3")
    assert finding.summary == "node 3 sent no heartbeat for 43 s"
    assert finding.confidence is Confidence.PROVEN
    assert finding.occurrences == 2
    assert finding.scope.kind == "broker"


def test_a_silence_without_a_record() -> None:
    story = ClusterStory().every(2, 10, 1, 2, 3).every(2, 30, 1, 2).at(31).beat(3)
    (finding,) = story.tells("WARN kraft.broker_fenced node 3")
    assert finding.confidence is Confidence.STRONG


def test_a_record_alone() -> None:
    story = ClusterStory().record(3, fenced=False).at(90).record(3, fenced=True)
    (finding,) = story.tells("WARN kraft.broker_fenced node 3")
    assert finding.summary == "node 3 is fenced"


def test_an_answer_that_says_fenced() -> None:
    (finding,) = ClusterStory().beat(3).at(2).beat(3, fenced=True).tells("WARN kraft.broker_fenced node 3")
    assert finding.summary == "node 3 is fenced"
    ClusterStory().beat(3).at(2).beat(3, fenced=True, wants_fence=True).is_quiet()


def test_a_shutdown_is_quiet() -> None:
    story = ClusterStory().every(2, 10, 1, 2, 3).beat(3, wants_shutdown=True).beat(3, fenced=True, wants_shutdown=True)
    story.record(3, fenced=True).every(2, 40, 1, 2).at(41).beat(3).is_quiet()


def test_a_shutdown_that_only_the_log_tells_of_is_quiet() -> None:
    ClusterStory().record(3, fenced=False).at(90).record(3, leaving=True).at(99).record(3, fenced=True).is_quiet()


def test_a_start_is_quiet() -> None:
    story = ClusterStory().record(3, fenced=True, registered=True).beat(3, fenced=True, wants_fence=True)
    story.at(1).beat(3, fenced=True).at(2).beat(3).record(3, fenced=False).is_quiet()


def test_refused_heartbeats_say_nothing() -> None:
    ClusterStory().beat(3).at(2).beat(3, fenced=None, error=41).at(4).beat(3).is_quiet()


def test_a_controller_that_stands_still_is_quiet() -> None:
    """Nobody's heartbeat is answered."""
    story = ClusterStory().every(2, 10, 1, 2, 3).beat(1, took=20).at(30.5).beat(3).beat(2)
    assert not [one for one in story.found() if one.rule == "kraft.broker_fenced"]


def test_a_broker_that_registered_anew_is_quiet() -> None:
    ClusterStory().every(2, 10, 1, 2, 3).every(2, 40, 1, 2).at(41).beat(3, broker_epoch=500).is_quiet()


def test_a_silence_with_gaps_is_quiet() -> None:
    story = ClusterStory().every(2, 10, 1, 2, 3).every(2, 40, 1, 2)
    story.trouble("3")
    story.at(41).beat(3)
    assert not [one for one in story.found() if one.rule == "kraft.broker_fenced"]


def test_records_of_the_past_are_quiet() -> None:
    story = ClusterStory().record(2, fenced=False).at(90).record(3, fenced=True, past=True)
    story.record(3, fenced=False, past=True).record(3, fenced=True, past=True).is_quiet()


def test_a_capture_that_begins_during_a_shutdown_is_quiet() -> None:
    ClusterStory().at(3).record(3, fenced=True).is_quiet()


@pytest.mark.parametrize(("offset", "told"), [(0, True), (1_500, False), (4_500, False)])
def test_a_broker_that_does_not_follow_the_metadata_log(offset: int, told: bool) -> None:
    """The last two catch up."""
    story = ClusterStory()
    for number in range(20):
        story.at(2 * number).beat(1, offset=5_000 + 10 * number).beat(3, offset=100 + number * offset // 10)
    found = [one.summary for one in story.found() if one.severity]
    assert [text.partition(",")[0][:30] for text in found] == ["node 3 lacks 5090 records of t"[:30]] * told


def test_a_fenced_broker_may_lack_records() -> None:
    story = ClusterStory()
    for number in range(20):
        story.at(2 * number).beat(1, offset=5_000).beat(3, offset=100, fenced=True, wants_fence=True)
    story.is_quiet()


def test_a_lost_log_directory() -> None:
    (finding,) = (
        ClusterStory()
        .beat(3)
        .at(2)
        .beat(3, offline_dirs=1)
        .at(4)
        .beat(3, offline_dirs=1)
        .tells("WARN kraft.broker_fenced node 3")
    )
    assert finding.summary == "node 3 has 1 log directories offline"
    assert finding.occurrences == 1


def test_two_processes_with_one_id() -> None:
    story = ClusterStory()
    for second in range(0, 24, 2):
        story.at(second).registers(3, 101)
    (finding,) = story.tells("WARN kraft.broker_fenced node 3")
    assert finding.summary == "node 3 is refused with DUPLICATE_BROKER_REGISTRATION for 22 s (12 times)"


def test_a_restart_after_a_crash_is_quiet() -> None:
    story = ClusterStory()
    for second in range(0, 10, 2):
        story.at(second).registers(3, 101)
    story.at(11).registers(3).at(40).registers(3, 101).is_quiet()


def test_damage_lowers_no_other_story() -> None:
    """Guard of this module's stories: trouble is told by capture.health, and nothing else."""
    story = ClusterStory().beat(3)
    story.trouble("3", Code.GAP)
    assert {one.rule for one in story.found()} == {"capture.health"}
