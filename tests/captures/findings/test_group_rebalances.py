"""Rebalances, their causes and who holds them up: facts in, findings out."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Impact
from tests.support.facts import Story

CAUSE = "INFO group.rebalance_cause g"
EXPIRED = "consumer poll timeout has expired."


def test_a_new_member() -> None:
    story = Story().join("a").at(20).join("b", 2, took=1).at(20.5).join("a", 2, took=0.5)
    (finding,) = story.tells(CAUSE, at_least="INFO")
    assert finding.summary == "group g rebalanced (rebalances: 1, the longest 1.0 s): b@host-b joined (1x)"


def test_a_member_that_left() -> None:
    story = Story().join("a").join("b").at(20).leave("b").at(20.5).join("a", 2)
    (finding,) = story.tells(CAUSE, at_least="INFO")
    assert "b@host-b left (1x)" in finding.summary


def test_each_rebalance_counts_once_however_many_join() -> None:
    story = Story()
    for generation in (1, 2, 3):
        for client in "abc":
            story.at(20 * generation).join(client, generation, took=0.1)
        story.at(20 * generation + 10).leave("c")
    (finding,) = story.tells(CAUSE, at_least="INFO")
    assert finding.numbers["rebalances"] == 2


def test_rebalances_that_poll_gaps_cause_stand_below_them() -> None:
    story = Story().join("a", poll=6)
    for generation in (2, 3, 4):
        story.at(generation * 20).leave("a", EXPIRED).at(generation * 20 + 5).join("a", generation, poll=6)
    gap, rebalances = story.tells("ERROR group.poll_gap g", "WARN group.rebalance_cause g")
    assert rebalances.parent == gap.id


def test_a_group_that_starts_is_quiet() -> None:
    Story().join("a").join("b").tells(at_least="INFO")


def test_deployments_are_quiet() -> None:
    story = Story().join("a").join("b")
    for generation in range(2, 10):
        story.at(generation * 10).leave("b").at(generation * 10 + 1).join("a", generation)
    story.is_quiet()


def test_a_join_whose_answer_is_missing_tells_no_duration() -> None:
    story = Story().join("a").at(20).join("b", None, took=60, answered=False).heartbeat("a", generation=2)
    (finding,) = story.tells(CAUSE, at_least="INFO")
    assert finding.numbers["longest_s"] == 0


# --- group.slow_rejoin ---

SLOW = "WARN group.slow_rejoin g"


def held(*, late: float = 6.9, generation: int = 2, first: int = 1) -> Story:
    """A and b are members, c joins at 20 s; b rejoins late, and then all are answered."""
    story = Story().join("a", first).join("b", first).at(3).heartbeat("a").heartbeat("b")
    story.at(20).join("c", generation, took=late)
    story.at(21).heartbeat("a", 27).heartbeat("b", 27).join("a", generation, took=late - 1)
    return story.at(20 + late).join("b", generation, took=0.001)


def test_a_member_that_rejoins_late() -> None:
    found = held().tells(SLOW)
    assert found[0].confidence is Confidence.PROVEN
    assert found[0].summary == "2 members of group g waited up to 6.9 s for b@host-b"
    assert found[0].impact == Impact("ms_lost", 6900 + 5900)
    assert next(one.note for one in found[0].evidence if one.role == "culprit") == "b@host-b joins last"


def test_one_that_is_very_late() -> None:
    story = held(late=40)
    story.tells("ERROR group.slow_rejoin g", "WARN group.rebalance_cause g")


def test_a_member_that_never_comes() -> None:
    story = Story().join("a").join("b").at(20).join("a", 2, took=8)
    (finding,) = story.tells(SLOW)
    assert finding.summary.endswith("for b@host-b, which did not rejoin in time")


def test_a_member_outside_the_capture_is_a_note() -> None:
    Story().join("a", 5).at(20).join("a", 6, took=8).tells("NOTE group.slow_rejoin g")


def test_a_new_member_that_joins_last_holds_up_nobody() -> None:
    story = Story().join("a", 5).at(20).join("a", 6, took=8).at(28).join("new", 6, took=0.001)
    found = story.tells("NOTE group.slow_rejoin g")
    assert found[0].summary.endswith("for a member outside the capture")
    assert not found[0].actors


def test_a_quick_rebalance_is_quiet() -> None:
    held(late=3).is_quiet()


def test_an_empty_group_that_waits_for_members_is_quiet() -> None:
    Story().join("a", 1, took=6).is_quiet()
