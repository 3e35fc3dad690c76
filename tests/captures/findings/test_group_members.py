"""Members of groups that stop polling, vanish or clash: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence, Impact
from kproxy.decoders.problems import Code
from tests.support.facts import Story

# --- group.poll_gap ---

GAP = "WARN group.poll_gap g"
EXPIRED = "consumer poll timeout has expired."


def stalled(*, poll: float = 6, left: float = 8) -> Story:
    """A consumer that joins and commits, stalls, leaves, and is about to come back."""
    story = Story().join("c", poll=poll).at(1).member("sync", "c").at(2).member("commit", "c")
    return story.at(left).leave("c")


def test_the_java_client_says_so() -> None:
    story = Story().join("c", poll=6).at(7).leave("c", EXPIRED)
    (finding,) = story.tells(GAP)
    assert finding.confidence is Confidence.PROVEN
    assert "max.poll.interval.ms is 6000" in finding.summary


def test_librdkafka_leaves_and_joins_again_on_its_connection() -> None:
    (finding,) = stalled().at(10).join("c2", connection=1, fresh=True).tells(GAP)
    assert finding.confidence is Confidence.STRONG
    assert "after at least 8.0 s" in finding.summary, "from its last commit to its return"
    assert finding.impact == Impact("ms_lost", 2000)
    assert [one.exchange for one in finding.evidence] == [4, 5]


def test_the_protocol_of_kip_848() -> None:
    story = Story().join("c", poll=6, kind="consumer").at(8).leave("c", kind="consumer")
    story.at(11).join("c", kind="consumer", generation=3).tells(GAP)


def test_a_client_that_does_it_again_and_again() -> None:
    story = Story()
    for turn in range(3):
        story.at(turn * 20).join("c", poll=6).at(turn * 20 + 7).leave("c", EXPIRED)
    (finding,) = story.tells("ERROR group.poll_gap g")
    assert finding.occurrences == 3


def test_close_is_quiet() -> None:
    stalled().at(8.2).closes("c").is_quiet()


def test_a_new_consumer_on_another_connection_is_quiet() -> None:
    stalled().closes("c").at(10).join("c", connection=77, fresh=True).is_quiet()


def test_unsubscribe_is_quiet() -> None:
    stalled(left=4).at(10).join("c", fresh=True).is_quiet()


def test_commits_in_the_background_hide_no_stall() -> None:
    """librdkafka commits every 5 s whether the program polls or not."""
    story = Story().join("c", poll=6).at(1).member("sync", "c")
    for turn in range(2):
        at = 10 * turn
        story.at(at + 5).member("commit", "c").at(at + 7.1).leave("c").at(at + 9).join("c", poll=6, fresh=True)
        story.at(at + 9.1).member("sync", "c")
        (finding,) = story.tells("NOTE group.poll_gap g" if turn == 0 else GAP)
        assert finding.confidence is Confidence.INFERRED


def test_unsubscribe_commits_first_and_is_quiet() -> None:
    story = Story().join("c", poll=6).at(1).member("sync", "c").at(20).member("commit", "c").at(20.1).leave("c")
    story.at(30).join("c", poll=6, fresh=True).is_quiet()


def test_a_member_whose_interval_is_unknown_is_quiet() -> None:
    story = Story().join("c", rebalance_ms=None).at(8).leave("c").at(10)
    story.join("c", rebalance_ms=None, fresh=True).is_quiet()


def test_a_static_member_of_the_java_client_is_no_poll_gap() -> None:
    """It stops its heartbeats without LeaveGroup, and joins again when poll() is called."""
    story = Story().join("c", poll=6, instance="i").at(2).heartbeat("c", instance="i")
    story.at(20).join("c2", 2, poll=6, instance="i", connection=1).is_quiet()


def test_a_pause_between_fetches_proves_nothing() -> None:
    story = Story().join("c", poll=6).at(1).member("sync", "c").fetched("c")
    for second in range(3, 60, 3):
        story.at(second).heartbeat("c")
    story.fetched("c").at(61).closes("c").is_quiet()


# --- group.member_vanished ---

VANISHED = "WARN group.member_vanished g"


def two(*, victim: str = "v") -> Story:
    """Two members, of which the victim is last heard at 3 s; its session is 10 s."""
    story = Story().join(victim).join("s").at(3).heartbeat(victim)
    for second in range(3, 13, 3):
        story.at(second).heartbeat("s")
    return story


def test_a_member_that_was_killed() -> None:
    story = two().at(3.5).closes("v").at(13.5).heartbeat("s", 27)
    (finding,) = story.tells(VANISHED)
    assert finding.confidence is Confidence.PROVEN
    assert "crashed or was killed" in finding.summary
    assert "10.5 s before" in finding.summary
    assert [actor.client_id for actor in finding.actors] == ["v"]


def test_a_member_that_hangs() -> None:
    (finding,) = two().at(13.5).heartbeat("s", 27).tells(VANISHED)
    assert finding.confidence is Confidence.STRONG
    assert "open and silent" in finding.summary


def test_a_member_that_left_is_quiet() -> None:
    two().at(4).leave("v").at(13.5).heartbeat("s", 27).is_quiet()


@pytest.mark.parametrize("error", [22, 25, 82])
def test_a_member_that_was_refused_before_is_quiet(error: int) -> None:
    """It knows that it is none any more."""
    two().at(4).heartbeat("v", error).at(13.5).heartbeat("s", 27).is_quiet()


def test_a_rebalance_for_another_reason_is_quiet() -> None:
    two().at(11).heartbeat("s", 27).is_quiet()


def test_a_rebalance_long_after_the_session_is_quiet() -> None:
    two().at(40).heartbeat("s", 27).is_quiet()


def test_a_member_that_waits_in_join_group_is_quiet() -> None:
    """Its JoinGroup is answered when the last member has come; until then the capture has no more of it."""
    story = Story().join("v").join("s").at(3).heartbeat("v", 27).at(3.1).heartbeat("s", 27)
    story.at(13.5).heartbeat("s", 27).at(3.2).join("v", 2, took=10.9).at(14.1).join("s", 2)
    assert "group.member_vanished" not in {one.rule for one in story.found()}


def test_a_member_that_commits_is_alive() -> None:
    two().at(9).member("commit", "v").at(13.5).heartbeat("s", 27).is_quiet()


def test_a_member_on_a_connection_with_gaps_is_quiet() -> None:
    two().at(5).trouble("v", Code.GAP).at(13.5).heartbeat("s", 27).tells("NOTE capture.health ")


def test_a_static_member_that_comes_back_is_quiet() -> None:
    story = Story().join("v", instance="i").join("s").at(3).heartbeat("v").at(5).join("v2", instance="i")
    story.at(8).heartbeat("v2").at(13.5).heartbeat("s", 27).is_quiet()


# --- group.static_clash ---

FENCED, UNRELEASED = 82, 111


def test_two_members_with_one_instance_id() -> None:
    story = Story().join("old", instance="i").at(1).join("new", instance="i").at(3)
    (finding,) = story.heartbeat("old", FENCED, instance="i").tells("ERROR group.static_clash g")
    assert (
        "old@host-old got FENCED_INSTANCE_ID for instance id i of group g, which new@host-new uses" in finding.summary
    )


def test_the_newcomer_is_refused() -> None:
    story = Story().join("old", instance="i", kind="consumer").at(1)
    story.join("new", instance="i", kind="consumer", error=UNRELEASED).tells("ERROR group.static_clash g")


def test_only_one_of_both_is_in_the_capture() -> None:
    Story().heartbeat("old", FENCED, instance="i").tells("WARN group.static_clash g")


@pytest.mark.parametrize("code", [FENCED, UNRELEASED])
def test_a_restart_at_the_same_host_is_only_an_info(code: int) -> None:
    story = Story().join("old", instance="i", peer="h").at(1).closes("old").at(2)
    story.join("new", instance="i", peer="h", error=code).is_quiet()
