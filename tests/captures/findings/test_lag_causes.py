"""Lag that grows, and what limits the consumer: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings.model import Confidence, Finding, Severity
from kproxy.decoders.problems import Code
from tests.support.facts import Story

CAUSE = "consumer.lag_cause"
INFLOW = 1000
"""Offsets a second that come into the partition."""


def reads(
    story: Story | None = None, *, every: float = 1, took: float = 0.1, share: float = 0.5, seconds: float = 120,
    behind: float = 20_000, inflow: float = INFLOW, **part: Any,
) -> Story:  # fmt: skip
    """A consumer that gets a share of what comes in, an answer now and then."""
    story = story or Story()
    client, began = part.pop("client", "c"), story.now
    for number in range(round(seconds / every)):
        passed = number * every
        end = round(100_000 + inflow * passed)
        story.at(began + passed)
        story.fetched(client, round(100_000 - behind + share * inflow * passed), end=end, took=took, **part)
    return story


def causes(story: Story) -> list[Finding]:
    return [one for one in story.found() if one.rule == CAUSE]


def limiter(story: Story) -> str:
    (finding,) = causes(story)
    return str(finding.numbers["limiter"])


# --- what limits ---


def test_a_consumer_that_does_not_ask() -> None:
    (finding,) = reads().tells(f"WARN {CAUSE} c@host-c")
    assert finding.confidence is Confidence.STRONG
    assert "limited by processing: lag 60000" in finding.summary
    assert "1000 offsets a second come in, 500 are read" in finding.summary
    assert "asked for nothing 91%" in finding.summary
    assert "processing them takes its time" in finding.cause


def test_answers_that_are_full() -> None:
    assert limiter(reads(took=0.9, size=1000, most=1000)) == "fetch size"


def test_an_answer_that_is_full_as_a_whole() -> None:
    assert limiter(reads(took=0.9, size=1000, max_bytes=1000)) == "fetch size"


def test_answers_that_come_late() -> None:
    (finding,) = causes(reads(took=0.9))
    assert finding.numbers["limiter"] == "broker or network"
    assert finding.confidence is Confidence.INFERRED


def test_a_quota() -> None:
    story = Story()
    for number in range(120):
        story.at(number).throttle("c", 500, "Fetch")
        reads(story, every=1, seconds=1, behind=20_000 + 500 * number, inflow=0).made[-1:] = []
        story.fetched("c", 80_000 + 500 * number, end=100_000 + 1000 * number, took=0.1)
    assert limiter(story) == "quota"


def test_an_open_transaction() -> None:
    """The consumer gets nothing behind the last stable offset."""
    story = Story()
    for number in range(120):
        end = 100_000 + INFLOW * number
        story.at(number).fetched("c", 90_000, 0, end=end, last_stable=90_000, took=0.5)
    assert limiter(story) == "open transaction"


def test_records_that_are_fetched_and_not_committed() -> None:
    """librdkafka fetches ahead: the fetch offset is near the end, while commits fall behind."""
    story = Story()
    for number in range(120):
        end = 100_000 + INFLOW * number
        story.at(number).partition_io("c", "Fetch", high_watermark=end)
        story.fetched("c", end - 100, end=end, took=0.9)
        if number % 5 == 0:
            story.commit("c", 90_000 + 100 * number)
    (finding,) = causes(story)
    assert finding.numbers["limiter"] == "processing"
    assert finding.scope == ("group", "g")
    assert "c@host-c of group g" in finding.summary
    assert any(one.rule == "group.lag_state" and one.parent == finding.id for one in story.found())


# --- guards ---


def test_a_lag_that_falls_or_stays_is_quiet() -> None:
    reads(share=1.1).is_quiet()
    reads(share=1).is_quiet()


def test_a_lag_that_grows_for_a_minute_is_quiet() -> None:
    reads(seconds=75).is_quiet()


def test_a_lag_that_grows_a_little_is_quiet() -> None:
    reads(share=0.99, behind=200_000).is_quiet()


def test_a_small_lag_is_quiet() -> None:
    reads(behind=0, inflow=10, share=0).is_quiet()


def test_a_small_lag_of_a_slow_topic_counts_after_a_minute_of_inflow() -> None:
    assert limiter(reads(behind=0, inflow=40, share=0.05)) == "processing"
    reads(behind=2000, inflow=40, share=0.99).is_quiet()


def test_steps_of_commits_and_answers_are_quiet() -> None:
    """A consumer that keeps up, and is far behind before each of its answers."""
    story = Story()
    for number in range(24):
        end = 100_000 + 5 * INFLOW * number
        story.at(5 * number).fetched("c", end - 15_000 - number % 3 * 1000, end=end)
    story.is_quiet()


def test_a_consumer_that_was_away() -> None:
    story = Story()
    for number in range(10):
        reads(story, seconds=1, behind=20_000 * (number + 1), inflow=0).at(400 * (number + 1))
    story.is_quiet()


def test_a_new_connection_begins_anew() -> None:
    story = Story()
    for number in range(6):
        reads(story, seconds=40, behind=20_000 * (number + 1), connection=number + 1).at(40 * (number + 1))
    story.is_quiet()


def test_a_damaged_connection_tells_nothing() -> None:
    story = Story().trouble("c", Code.GAP)
    assert not causes(reads(story))


def test_unknown_positions_tell_nothing() -> None:
    story = reads()
    story.made = [one._replace(parts=(one.parts[0]._replace(offset=None),)) for one in story.made]
    story.is_quiet()


def test_two_groups_of_one_client_id() -> None:
    """Which of them reads is not known, so the finding is the client's."""
    story = reads(seconds=1)
    for group in ("g", "h"):
        story.group = group
        story.heartbeat("c")
    (finding,) = causes(reads(story))
    assert finding.scope.kind == "client"
    (finding,) = causes(reads(reads(seconds=1).heartbeat("c")))
    assert finding.scope == ("group", "g")


# --- nobody reads ---


def unowned(*, others: bool = True, alive: bool = True, reads_on: bool = False) -> Story:
    """A group commits to partition 0 for a while, then only to partition 1."""
    story = Story().join("c")
    for number in range(60):
        story.at(5 * number)
        if alive:
            story.heartbeat("c")
        end = 5000 * (number + 1)
        story.produce("p", end - 1)
        if number < 12:
            story.fetched("c", end - 100, end=end).commit("c", end - 100)
        elif reads_on:
            story.fetched("c", end - 100, end=end)
        if others:
            story.fetched("c", number, partition=1).commit("c", number, partition=1)
    return story


def test_a_partition_that_no_member_reads() -> None:
    (finding,) = causes(unowned())
    assert finding.numbers["limiter"] == "no reader"
    assert finding.scope == ("group", "g")
    assert (finding.severity, finding.confidence) == (Severity.WARN, Confidence.INFERRED)
    assert "group g falls behind, limited by no reader" in finding.summary
    assert "most in t-0" in finding.summary
    assert "assigned to none of them" in finding.cause


@pytest.mark.parametrize("unlike", [{"others": False}, {"alive": False}, {"reads_on": True}])
def test_a_partition_of_which_that_cannot_be_said(unlike: dict[str, bool]) -> None:
    assert not causes(unowned(**unlike))
