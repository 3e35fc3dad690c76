"""How consumers fetch: facts in, findings out."""

from __future__ import annotations

from typing import Any

from tests.support.facts import Story

NOT_FOUND, BAD_EPOCH = 70, 71


def asking(story: Story, *granted: int, every: float = 1, **said: Any) -> Story:
    """Full requests one after the other, each with the session that it gets."""
    for session in granted:
        story.fetch_session("c", session, **said).at(story.now + every)
    return story


# --- fetch.session_refused ---


def test_no_session_time_after_time() -> None:
    (finding,) = asking(Story(), *[0] * 7).tells("NOTE fetch.session_refused c@host-c")
    assert finding.numbers["count"] == 7
    assert finding.numbers["partitions"] == 50
    assert "its cache" not in finding.cause


def test_a_session_that_is_granted_in_the_end() -> None:
    asking(Story(), 0, 0, 0, 0, 9, 0, 0, 0, 0).is_quiet()


def test_each_broker_counts_for_itself() -> None:
    story = Story()
    for number in range(8):
        story.broker = f"10.0.0.{number % 2 + 1}:9092"
        story.fetch_session("c")
    story.is_quiet()


def test_sessions_that_the_broker_does_not_know() -> None:
    (finding,) = asking(Story(), 0, 0, 0, 0, error=NOT_FOUND).tells("NOTE fetch.session_refused c@host-c")
    assert finding.numbers["count"] == 4
    assert "FETCH_SESSION_ID_NOT_FOUND" in finding.summary
    assert finding.evidence[0].path == "response.errorCode=70"
    assert "dropped the client's session" in finding.cause


def test_one_unknown_session_after_a_restart() -> None:
    story = Story()
    for number in range(3):
        story.broker = f"10.0.0.{number}:9092"
        story.fetch_session("c", error=NOT_FOUND).fetch_session("c", 5)
    story.is_quiet()


def test_unknown_sessions_now_and_then() -> None:
    asking(Story(), *[0] * 9, error=BAD_EPOCH, every=40).is_quiet()


# --- fetch.tiny_polls ---


def polls(size: int = 200, *, rate: int = 40, seconds: int = 70, min_bytes: int = 1) -> Story:
    story = Story()
    for number in range(rate * seconds):
        story.at(number / rate).fetched("c", number, size, min_bytes=min_bytes)
    return story


def test_many_answers_of_a_few_bytes() -> None:
    (finding,) = polls().tells("NOTE fetch.tiny_polls c@host-c")
    assert finding.summary == (
        "c@host-c gets 40 responses to Fetch a second with 200 bytes of records on average; fetch.min.bytes=4000 would "
        "save 38 requests a second"
    )


def test_few_answers_are_quiet() -> None:
    polls(rate=10).is_quiet()


def test_answers_for_less_than_a_minute_are_quiet() -> None:
    polls(seconds=40).is_quiet()


def test_larger_answers_are_quiet() -> None:
    polls(2000).is_quiet()


def test_a_client_that_waits_for_more_is_quiet() -> None:
    polls(min_bytes=1000).is_quiet()


def test_answers_without_records_are_quiet() -> None:
    polls(0).is_quiet()


# --- fetch.size_bound ---


def bound(*, step: int = 90, grows: int = 100, most: int = 10_000, size: int = 10_000, **more: Any) -> Story:
    """A consumer that gets 10 answers a second for 40 s."""
    story = Story()
    for number in range(400):
        story.at(number / 10)
        story.fetched("c", step * number, size, end=5000 + grows * number, most=most, took=0.08, pause=0.02, **more)
    return story


def test_full_answers_of_a_consumer_that_falls_behind() -> None:
    (finding, *_) = bound(most=1 << 20, size=1 << 20).found()
    assert finding.rule == "fetch.size_bound"
    assert finding.numbers["full"] == finding.numbers["count"] == 301
    assert "1048576 bytes, t-0; the limit cuts them" in finding.summary
    assert "80 ms each" in finding.summary


def test_a_small_limit_counts_while_it_catches_up() -> None:
    (finding,) = bound(step=100, grows=90).tells("NOTE fetch.size_bound c@host-c")
    assert finding.numbers["most"] == 10_000


def test_one_batch_is_larger_than_the_limit() -> None:
    (finding, *_) = bound(size=30_000).found()
    assert "one batch alone is larger" in finding.summary


def test_the_limit_of_the_whole_answer() -> None:
    (finding, *_) = bound(most=1 << 20, max_bytes=10_500).found()
    assert finding.numbers["most"] == 10_500


def test_catching_up_with_an_ordinary_limit_is_quiet() -> None:
    bound(most=1 << 20, size=1 << 20, step=110, grows=100).is_quiet()


def test_a_consumer_that_is_not_behind_is_quiet() -> None:
    story = Story()
    for number in range(400):
        story.at(number / 10).fetched("c", 90 * number, 10_000, most=10_000, took=0.08)
    story.is_quiet()


def test_answers_below_the_limit_are_quiet() -> None:
    bound(step=100, grows=90, size=8000).is_quiet()


def slow(*, pause: float = 0.02, took: float = 0.08, throttled: int = 0) -> Story:
    story = Story()
    for number in range(100):
        story.at(number / 2.5)
        if throttled:
            story.throttle("c", throttled, "Fetch")
        story.fetched("c", 100 * number, 10_000, end=50_000, most=10_000, took=took, pause=pause)
    return story


def test_a_consumer_that_processes_is_not_held_up_by_the_limit() -> None:
    slow(took=0.38).tells("NOTE fetch.size_bound c@host-c")
    slow(pause=0.38).is_quiet()


def test_a_quota_is_not_a_limit_of_size() -> None:
    assert "fetch.size_bound" not in {one.rule for one in slow(took=0.38, throttled=300).found()}


# --- fetch.refetch ---


def reading(*offsets: int, size: int = 20_000, every: float = 1) -> Story:
    story = Story()
    for offset in offsets:
        story.fetched("c", offset, size).at(story.now + every)
    return story


AGAIN = [offset for start in range(20) for offset in (start, start)]


def test_records_that_are_fetched_twice() -> None:
    (finding,) = reading(*AGAIN).tells("NOTE fetch.refetch c@host-c")
    assert finding.numbers["count"] == 20
    assert tuple(finding.impact) == ("bytes_wasted", 400_000)
    assert "50% of all" in finding.summary
    assert "offset 15 of t-0 again" in {one.note.partition(",")[0] for one in finding.evidence}


def test_a_topic_that_is_read_again_from_its_start() -> None:
    reading(*range(30), *range(30)).is_quiet()


def test_a_small_share_is_quiet() -> None:
    reading(*range(100, 200), *AGAIN[:40]).is_quiet()


def test_a_short_time_is_quiet() -> None:
    reading(*AGAIN[:28]).is_quiet()


def test_few_bytes_are_quiet() -> None:
    reading(*AGAIN, size=500).is_quiet()


def test_few_answers_are_no_refetch() -> None:
    reading(*AGAIN[:18], size=1 << 20, every=4).is_quiet()


def test_another_connection_begins_anew() -> None:
    story = Story()
    for number, offset in enumerate(AGAIN):
        story.fetched("c", offset, 20_000, connection=number % 2 + 1).at(number)
    story.is_quiet()


def test_long_polls_at_one_offset_are_quiet() -> None:
    reading(*[7] * 40, size=0).is_quiet()
