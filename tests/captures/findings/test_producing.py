"""Small transactions, and records that brokers drop without an answer: facts in, findings out."""

from __future__ import annotations

from kproxy.captures.findings import facts
from kproxy.captures.findings.model import Confidence
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import BROKER, Story

# --- txn.tiny ---


def transactions(rate: float, records: int = 1, *, seconds: int = 11, error: int = 0, committed: bool = True) -> Story:
    story = Story()
    for number in range(round(rate * seconds)):
        story.at(number / rate).txn("p", "partitions")
        if records:
            story.produced("p", producer_id=1, records=records)
        story.txn("p", "end", error, committed=committed)
    return story


def test_transactions_of_a_record() -> None:
    (finding,) = transactions(20).tells("NOTE txn.tiny p@host-p")
    assert finding.summary == (
        "p@host-p ends 20 transactions a second, with 1.0 records each; 67% of its requests carry none"
    )


def test_larger_transactions_are_quiet() -> None:
    transactions(20, 2).tells("NOTE txn.tiny p@host-p")
    transactions(20, 3).is_quiet()


def test_streams_that_commit_every_100_ms_are_quiet() -> None:
    transactions(10).is_quiet()


def test_transactions_without_records_or_with_errors_are_quiet() -> None:
    transactions(20, 0).is_quiet()
    assert not [one for one in transactions(20, error=47).found() if one.rule == "txn.tiny"]


def test_most_transactions_must_be_small() -> None:
    story = transactions(20, 9)
    small = transactions(20)
    story.made = sorted(story.made + story.made + small.made, key=lambda fact: fact.at.time)
    assert not [one for one in story.found() if one.rule == "txn.tiny"]


# --- producer.acks0_dropped ---

DROPPED = "producer.acks0_dropped p@host-p"


def produce(story: Story, client: str = "p") -> Story:
    story.made.append(facts.Unacknowledged(story.where(client, key=0), 900))
    return story


def refused(after: float = 0.004, *, closer: str | None = "broker", how: str = "FIN") -> Story:
    """A Produce without acknowledgement at 1 s, and a close."""
    return produce(Story().at(1)).at(1 + after).closes("p", how, closer=closer)


def served(story: Story, second: float = 1.5) -> Story:
    return story.at(second).exchange("p", "Produce", connection=9)


def test_a_refused_batch() -> None:
    (finding,) = served(refused()).tells(f"ERROR {DROPPED}")
    assert finding.summary == (
        f"{BROKER} closed the connection of p@host-p 4 ms after a Produce with acks=0 (times: 1, bytes of the last "
        "one: 900)"
    )
    assert finding.confidence is Confidence.STRONG
    served(refused(how="RST")).tells(f"ERROR {DROPPED}")


def test_a_broker_that_is_not_seen_again_may_shut_down() -> None:
    (finding,) = refused().tells(f"NOTE {DROPPED}")
    assert "or shuts down" in finding.cause
    served(refused(), 9).tells(f"NOTE {DROPPED}")


def test_a_broker_that_keeps_other_connections() -> None:
    story = produce(Story().exchange("c", "Fetch").at(1)).at(1.004).closes("p", closer="broker")
    story.tells(f"ERROR {DROPPED}")
    story.at(2).closes("c", closer="broker")
    story.is_quiet()
    story = produce(Story().exchange("c", "Fetch").at(1)).at(1.004).closes("p", closer="broker")
    story.at(9).closes("c", "end of capture", closer=None).tells(f"ERROR {DROPPED}")


def test_a_producer_that_ends_is_quiet() -> None:
    for closer in ("client", None):
        served(refused(closer=closer)).is_quiet()
    served(refused(closer="broker", how="end of capture")).is_quiet()


def test_an_idle_connection_is_quiet() -> None:
    served(refused(1.1), 3).is_quiet()


def test_a_broker_that_shuts_down_is_quiet() -> None:
    story = refused().at(1.2).closes("c", closer="broker")
    story.is_quiet()
    served(story).tells(f"ERROR {DROPPED}")


def test_two_producers_that_a_stopping_broker_leaves_are_quiet() -> None:
    story = produce(produce(Story().at(1)), "q")
    story.at(1.01).closes("p", closer="broker").closes("q", closer="broker").is_quiet()


def test_another_request_without_an_answer_is_quiet() -> None:
    story = produce(Story().at(1)).at(1.004).exchange("p", "Metadata", Status.NO_RESPONSE)
    served(story.closes("p", closer="broker")).is_quiet()


def test_answers_are_no_loss() -> None:
    served(Story().at(1).produce("p", 5, acks=1).at(1.004).closes("p", closer="broker")).is_quiet()


def test_missing_bytes_are_quiet() -> None:
    story = produce(Story().trouble("p", Code.GAP).at(1)).at(1.004).closes("p", closer="broker")
    assert not [one for one in served(story).found() if one.rule == "producer.acks0_dropped"]
