"""Transactions that stay open: facts in, findings out."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence
from tests.support.facts import Story

# --- txn.lso_stall ---


def reads(story: Story, *seconds: float, stable: int = 2, high: int = 4, **said: int) -> Story:
    """A consumer at the last stable offset that gets nothing."""
    for second in seconds:
        story.at(second).partition_io(
            "c", "Fetch", offset=stable, last_stable=stable, high_watermark=high, size=0, **said
        )
    return story


def opened(timeout: float = 60, **said: int) -> Story:
    """A producer with an open transaction, whose first batch has offset 2."""
    story = Story().txn("p", "init", timeout_ms=round(timeout * 1000), producer_id=7)
    return story.at(1).produce("p", 2, transactional=True, producer_id=7, **said)


def test_a_transaction_that_is_never_ended() -> None:
    story = reads(opened(), 2, 30, 62)
    (finding,) = story.tells("WARN txn.lso_stall tx")
    assert finding.summary == (
        "transactional id tx (p@host-p) keeps a transaction open for 61 s: 2 offsets held back (partitions: 1, "
        "consumers waiting: 1; t-0: last stable offset 2, high watermark 4)"
    )
    assert finding.confidence is Confidence.PROVEN
    assert [(one.role, one.peer) for one in finding.actors] == [("culprit", "host-p")]
    reads(story, 90).tells("ERROR txn.lso_stall tx")


def test_its_partitions_are_one_finding() -> None:
    story = reads(opened(), 2)
    story.at(3).produce("p", 5, transactional=True, producer_id=7, partition=1)
    reads(story, 4, stable=5, high=9, partition=1)
    reads(story, 64)
    (finding,) = reads(story, 65, stable=5, high=9, partition=1).tells("WARN txn.lso_stall tx")
    assert "for 64 s: 6 offsets held back (partitions: 2" in finding.summary


def test_two_transactions_of_one_producer_are_two_findings() -> None:
    story = reads(opened(), 2, 62).txn("p", "end", producer_id=7)
    story.at(63).produce("p", 8, transactional=True, producer_id=7)
    reads(story, 64, 130, stable=8, high=9).tells("WARN txn.lso_stall tx", "WARN txn.lso_stall tx")


def test_a_long_transaction_within_its_timeout() -> None:
    reads(opened(timeout=900), 2, 100, 400).tells("NOTE txn.lso_stall tx")


def test_the_producer_is_not_in_the_capture() -> None:
    (finding,) = reads(Story(), 0, 61).tells("WARN txn.lso_stall t-0")
    assert "a producer outside this capture keeps a transaction open for 61 s" in finding.summary
    assert finding.confidence is Confidence.STRONG
    reads(Story(), 0, 30).tells("NOTE txn.lso_stall t-0")
    reads(Story(), 0, 600, 1201).tells("ERROR txn.lso_stall t-0")


def test_markers_that_never_come() -> None:
    story = reads(opened(), 2).txn("p", "end", producer_id=7)
    (finding,) = reads(story, 8, 14).tells("WARN txn.lso_stall tx")
    assert "ended its transaction, but its markers are missing for 12 s" in finding.summary


def test_a_partition_that_nobody_waits_for() -> None:
    story = Story()
    for second in (0, 61):
        story.at(second).partition_io("c", "Fetch", offset=4, last_stable=2, high_watermark=4, size=0)
    story.tells("NOTE txn.lso_stall t-0")


def test_one_answer_and_a_producer_that_is_silent() -> None:
    """An incremental fetch session does not repeat what is unchanged."""
    (finding,) = reads(opened(), 2).at(13).exchange("c").tells("NOTE txn.lso_stall tx")
    assert finding.confidence is Confidence.STRONG


def test_a_consumer_that_is_told_before_the_producer() -> None:
    story = Story().txn("p", "init", timeout_ms=60_000, producer_id=7)
    reads(story, 2).at(1).produce("p", 2, took=1.1, transactional=True, producer_id=7)
    story.at(13).exchange("c").tells("NOTE txn.lso_stall tx")
    reads(story, 62).tells("WARN txn.lso_stall tx")


def test_one_answer_without_the_producer_is_quiet() -> None:
    reads(Story(), 2).at(90).exchange("c").is_quiet()


def test_one_answer_before_the_end_of_a_transaction_is_quiet() -> None:
    reads(opened(), 2).at(3).txn("p", "end", producer_id=7).at(90).exchange("c").is_quiet()


def test_markers_on_their_way_are_quiet() -> None:
    story = reads(opened(), 2).at(3).txn("p", "end", producer_id=7)
    reads(story, 4, 12.5).at(90).exchange("c").is_quiet()


def test_live_transactions_are_quiet() -> None:
    story = Story()
    for second in range(100):
        reads(story, second, stable=second * 2, high=second * 2 + 9)
    story.is_quiet()


def test_a_short_stall_is_quiet() -> None:
    reads(reads(Story(), 0, 4, 9), 9.5, stable=4).at(30).exchange("c").is_quiet()
