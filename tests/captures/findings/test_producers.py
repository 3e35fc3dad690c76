"""Batches that producers send again: facts in, findings out."""

from __future__ import annotations

from typing import Any

from kproxy.captures.findings.model import Confidence, Impact
from kproxy.decoders.problems import Code
from tests.support.facts import Story

RULE = "producer.retry_dup p@host-p"
SEQUENCE = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 5}


def test_an_answer_was_lost() -> None:
    story = Story().produce("p", answered=False, records=3).at(1).produce("p", 67, records=3, connection=9)
    (finding,) = story.tells(f"WARN {RULE}")
    assert finding.summary == (
        "p@host-p: batches for topic t may be written twice (batches: 1, records: 3; t-0: no response, then written at "
        "offset 67)"
    )
    assert finding.impact == Impact("records_at_risk", 3)
    assert [one.role for one in finding.evidence] == ["culprit", "symptom"]


def test_an_idempotent_producer_writes_once() -> None:
    story = Story().produce("p", answered=False, **SEQUENCE).at(1).produce("p", 67, connection=9, **SEQUENCE)
    (finding,) = story.tells(f"NOTE {RULE}")
    assert "were sent twice and written once" in finding.summary


def late(closes: float | None, connection: int = 9) -> Story:
    """A batch that is answered after five seconds, and sent again after one."""
    story = Story().at(1).produce("p", 69, connection=connection).at(0).produce("p", 67, took=5)
    if closes is not None:
        story.at(closes).closes("p")
    return story.at(20).exchange("p", connection=connection)


def test_both_answers_name_an_offset() -> None:
    """The first answer came after the producer had given up and sent the batch again."""
    (finding,) = late(closes=5.1).tells(f"ERROR {RULE}")
    assert finding.confidence is Confidence.PROVEN
    assert "t-0: written at offset 67, then written at offset 69" in finding.summary


def test_an_answer_that_comes_after_the_client_has_closed() -> None:
    """The connection ends when the answer comes; the client left long before."""
    story = Story().at(1).produce("p", 69, connection=9).at(0).produce("p", 67, took=19).at(19.1).closes("p", "RST")
    story.made[-1] = story.made[-1]._replace(left=story.made[0].at.asked)
    story.at(40).exchange("p", connection=9)
    story.tells(f"ERROR {RULE}")
    story = Story().produce("p", 67, took=19).at(19.1).closes("p", "RST")
    story.made[-1] = story.made[-1]._replace(left=story.made[0].at.asked + 6_000_000_000)
    story.at(20).produce("p", 69, connection=9)
    story.tells(f"ERROR {RULE}")


def test_equal_batches_of_two_producers_are_quiet() -> None:
    late(closes=None).is_quiet()
    late(closes=15).is_quiet()


def test_the_producer_id_of_another_cluster_is_quiet() -> None:
    Story().produce("p", 67, **SEQUENCE).at(1).produce("p", 900, connection=9, **SEQUENCE).is_quiet()


def test_equal_batches_in_flight_are_quiet() -> None:
    late(closes=5.1, connection=1).is_quiet()


def test_an_error_after_the_batch_was_written() -> None:
    Story().produce("p", error=20).at(1).produce("p", 69).tells(f"ERROR {RULE}")
    Story().produce("p", error=7).at(1).produce("p", 69).tells(f"WARN {RULE}")


def test_the_broker_knows_the_batch() -> None:
    (finding,) = Story().produce("p", error=46, **SEQUENCE).tells(f"NOTE {RULE}")
    assert "DUPLICATE_SEQUENCE_NUMBER, the first one is not in this capture" in finding.summary
    Story().produce("p", error=7, **SEQUENCE).at(1).produce("p", error=46, **SEQUENCE).tells(f"NOTE {RULE}")


def test_topics_are_findings_of_their_own_and_partitions_are_not() -> None:
    story = Story()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        place: dict[str, Any] = {"topic": topic, "partition": partition}
        story.at(0).produce("p", answered=False, **place).at(1).produce("p", 67, **place)
    first, second = story.tells(f"WARN {RULE}", f"WARN {RULE}")
    assert {(one.numbers["topic"], one.numbers["count"]) for one in (first, second)} == {("t", 2), ("u", 1)}


def test_equal_records_that_are_sent_on_purpose_are_quiet() -> None:
    Story().produce("p", 67).at(1).produce("p", 68).is_quiet()


def test_other_batches_are_quiet() -> None:
    Story().produce("p", answered=False).at(1).produce("p", 67, crc=78).at(2).produce("q", 68).is_quiet()
    first = {**SEQUENCE, "producer_epoch": 1}
    Story().produce("p", answered=False, **first).at(1).produce("p", 67, **SEQUENCE).is_quiet()


def test_errors_that_write_nothing_are_quiet() -> None:
    for error in (3, 6, 19):
        Story().produce("p", error=error).at(1).produce("p", 67).is_quiet()


def test_a_producer_that_wants_no_answers_is_quiet() -> None:
    Story().produce("p", acks=0).at(1).produce("p", acks=0).is_quiet()


def test_a_connection_with_missing_bytes_is_quiet() -> None:
    story = Story().trouble("p", Code.GAP).produce("p", answered=False).at(1).produce("p", 67, connection=9)
    assert not [one for one in story.found() if one.rule == "producer.retry_dup"]


def test_a_broker_that_lacks_what_it_acknowledged() -> None:
    story = Story().produce("p", 50, records=2, producer_id=7, base_sequence=3)
    (finding,) = story.at(1).produce("p", error=45, producer_id=7, base_sequence=5).tells(f"ERROR {RULE}")
    assert "the broker has lost the batches before them" in finding.summary
    assert "sequence 5 follows what was acknowledged at offset 50" in finding.summary


def test_sequences_begin_again_at_zero() -> None:
    story = Story().produce("p", 50, records=2, producer_id=7, base_sequence=(1 << 31) - 2)
    story.at(1).produce("p", error=45, producer_id=7, base_sequence=0).tells(f"ERROR {RULE}")


def test_what_follows_a_failed_batch_is_quiet() -> None:
    story = Story().produce("p", 50, records=2, producer_id=7, base_sequence=3)
    story.at(1).produce("p", error=6, producer_id=7, base_sequence=5, crc=1)
    story.at(1).produce("p", error=45, producer_id=7, base_sequence=6, crc=2).is_quiet()


def test_a_sequence_whose_predecessor_is_not_in_the_capture_is_quiet() -> None:
    Story().produce("p", error=45, producer_id=7, base_sequence=5).is_quiet()
    story = Story().produce("p", 50, records=2, producer_id=7, base_sequence=1)
    story.at(1).produce("p", error=45, producer_id=7, base_sequence=5).is_quiet()


def minute(story: Story, begin: float, retries: int) -> Story:
    """Thirty batches of an idempotent producer, of which some are sent again after an error."""
    for number in range(30):
        sequence = {"producer_id": 7, "base_sequence": int(begin) * 100 + number}
        if number < retries:
            story.at(begin + number).produce("p", error=6, **sequence)
        story.at(begin + number + 0.5).produce("p", number, **sequence)
    return story


def test_many_retries() -> None:
    story = minute(minute(Story(), 0, 5), 61, 5).at(125).produce("p", 900, producer_id=7, base_sequence=1)
    (finding,) = story.tells(f"WARN {RULE}")
    assert "were sent again" in finding.summary
    assert "5 of 35 sends within a minute; t-0: NOT_LEADER_OR_FOLLOWER, then written at offset 4" in finding.summary


def test_a_minute_of_many_retries_is_a_note() -> None:
    minute(Story(), 0, 5).at(125).produce("p", 900).tells(f"NOTE {RULE}")


def test_few_retries_are_quiet() -> None:
    minute(minute(Story(), 0, 2), 61, 2).at(125).produce("p", 900).is_quiet()
