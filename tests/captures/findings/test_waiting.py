"""Time that clients lose: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND
from kproxy.captures.findings.model import Impact
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import BEGAN, Story

# --- latency.throttled ---


def test_a_long_throttling() -> None:
    (finding,) = Story().throttle("p", 1404).tells("WARN latency.throttled p@host-p")
    assert "(producer_byte_rate): 1.4 s in all, up to 1404 ms at once" in finding.summary
    assert finding.impact == Impact("ms_lost", 1404)


@pytest.mark.parametrize(("ms", "severity"), [(500, "INFO"), (900, "WARN")])
def test_many_short_ones(ms: int, severity: str) -> None:
    story = Story()
    for second in range(10):
        story.at(second).throttle("c", ms, "Fetch")
    story.tells(f"{severity} latency.throttled c@host-c", at_least="INFO")


def test_most_of_the_time() -> None:
    story = Story()
    for second in range(40):
        story.at(second).throttle("c", 900, "Fetch")
    story.tells("ERROR latency.throttled c@host-c")


def test_a_throttle_time_that_no_quota_has_is_quiet() -> None:
    Story().throttle("c", 700_000).tells(at_least="INFO")


def test_what_lies_minutes_apart_is_quiet() -> None:
    story = Story()
    for minute in range(20):
        story.at(minute * 61).throttle("c", 900)
    story.is_quiet()


# --- leader.stale ---


def test_a_client_that_stays_with_the_old_leader() -> None:
    story = Story()
    for second in (0, 2, 6):
        story.at(second).partition_io("p", error=6)
    (finding,) = story.tells("WARN leader.stale t-0")
    assert "got NOT_LEADER_OR_FOLLOWER for t-0 from 10.0.0.1:9092 3 times in 6.0 s" in finding.summary
    story.at(31).partition_io("p", error=6)
    story.tells("ERROR leader.stale t-0")


def test_an_election_is_quiet() -> None:
    story = Story()
    for second in (0, 0.1, 0.3, 0.7):
        story.at(second).partition_io("p", error=6)
    story.at(1).partition_io("p").at(9).partition_io("p", error=6).is_quiet()


def test_two_clients_after_an_election_are_quiet() -> None:
    story = Story()
    for second, client in ((0, "a"), (3, "b"), (6, "d")):
        story.at(second).partition_io(client, error=6)
    story.is_quiet()


# --- conn.abandoned ---


def abandoned(api: str = "Produce", *, waited: float = 30, number: int = 1, how: str = "FIN") -> Story:
    story = Story().at(waited).closes("p", how).at(0)
    return story.exchange("p", api, Status.NO_RESPONSE, number=number, took=waited)


def test_a_produce_that_was_given_up() -> None:
    (finding,) = abandoned().tells("WARN conn.abandoned 1")
    assert "lost 1 request to 10.0.0.1:9092 with connection 1: 1 Produce; the oldest" in finding.summary


def answered_late(left: float, *, api: str = "Produce", how: str = "RST") -> Story:
    """A request that the broker, which stood still, answers after 19 s; the client leaves before or after that."""
    story = Story().exchange("p", api).at(1).exchange("p", api, took=19).at(20.1).closes("p", how)
    story.made[-1] = story.made[-1]._replace(left=BEGAN + round(left * SECOND))
    return story


def test_an_answer_that_comes_when_the_client_has_closed() -> None:
    (finding,) = [one for one in answered_late(7).found() if one.rule == "conn.abandoned"]
    assert finding.severity.name == "WARN"
    assert "1 Produce; the oldest had waited 6.0 s" in finding.summary
    assert finding.scope == ("connection", "1")
    for story in (answered_late(20.05), answered_late(3), answered_late(7, api="Fetch"), answered_late(7, how="end")):
        assert not [one for one in story.found() if one.rule == "conn.abandoned"]


def test_other_requests() -> None:
    abandoned("Metadata").tells("NOTE conn.abandoned 1")
    abandoned("Metadata", number=3).tells("WARN conn.abandoned 1")


def test_long_polls_and_young_requests_are_quiet() -> None:
    abandoned("Fetch").is_quiet()
    abandoned(waited=4).is_quiet()


@pytest.mark.parametrize("key", [1, 11, 14, 78])
def test_each_long_poll_may_stay_unanswered(key: int) -> None:
    story = Story().at(30).closes("c").at(0)
    at = story.where("c", took=30, key=key)
    story.made.append(facts.Exchange(at, Status.NO_RESPONSE, 100, 0))
    story.is_quiet()


def test_the_end_of_the_capture_is_quiet() -> None:
    Story().exchange("p", "Produce", Status.NO_RESPONSE, took=30).is_quiet()
    abandoned(how="end").is_quiet()


def test_a_connection_with_missing_bytes_is_quiet() -> None:
    story = Story().trouble("p", Code.GAP)
    story.made += abandoned().made
    found = [one for one in story.found() if one.rule == "conn.abandoned"]
    assert not found


# --- txn.fenced ---


def test_another_producer_takes_the_id() -> None:
    story = Story().txn("a", "init", timeout_ms=60_000).at(1).txn("a", "partitions")
    story.at(5).txn("b", "init").at(6).txn("a", "end", 90)
    (finding,) = story.tells("INFO txn.fenced tx", at_least="INFO")
    assert "b@host-b took the id over" in finding.summary
    assert [one.role for one in finding.actors] == ["culprit", "victim"]


def test_two_producers_that_fight() -> None:
    story = Story()
    for turn in range(4):
        new, old = ("a", "b") if turn % 2 else ("b", "a")
        story.at(turn * 10).txn(old, "init").at(turn * 10 + 1).txn(new, "init").at(turn * 10 + 2).txn(old, "end", 47)
    story.tells("ERROR txn.fenced tx")


def test_a_transaction_that_timed_out() -> None:
    story = Story().txn("a", "init", timeout_ms=10_000).at(1).txn("a", "partitions").at(20).txn("a", "end", 47)
    (finding,) = story.tells("INFO txn.fenced tx", at_least="INFO")
    assert "open for 19.0 s, transaction.timeout.ms is 10000" in finding.summary


def test_the_other_producer_is_not_in_the_capture() -> None:
    (finding,) = Story().txn("a", "init").at(5).txn("a", "end", 90).tells("INFO txn.fenced tx", at_least="INFO")
    assert "not in this capture" in finding.summary


def test_restarts_hours_apart_are_no_fight() -> None:
    story = Story()
    for hour in range(5):
        story.at(hour * 3600).txn(f"a{hour}", "init").txn(f"b{hour}", "init").txn(f"a{hour}", "end", 90)
    story.is_quiet()


def test_commits_are_quiet() -> None:
    story = Story().txn("a", "init")
    for second in range(10):
        story.at(second).txn("a", "partitions").txn("a", "end", committed=True, producer_epoch=second)
    story.tells(at_least="INFO")


def test_controllers_that_ask_each_other_for_the_leader_of_the_metadata_log_are_quiet() -> None:
    story = Story()
    for second in range(20):
        story.at(second).partition_io("raft-client-1", "Fetch", error=6, topic="__cluster_metadata")
    story.is_quiet()
