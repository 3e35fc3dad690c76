"""Timestamps, sizes and payloads of records: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence
from tests.support.facts import BEGAN, Story

NOW = BEGAN // 1_000_000
"""The story's begin in milliseconds."""
HOUR = 3_600_000

# --- record.clock_skew ---


def stamped(client: str, newest: float, *, count: int = 3, story: Story | None = None) -> Story:
    story = story or Story()
    for _ in range(count):
        story.sample(client, newest=round(newest))
    return story


def test_a_producer_whose_clock_is_ahead() -> None:
    (finding,) = stamped("p", NOW + 2 * HOUR).tells("WARN record.clock_skew p@host-p")
    assert finding.summary == (
        "p@host-p sends records to topic t whose timestamps are ahead of the capture's clock (by 2 h; samples: 3, in "
        "line with the capture: 0)"
    )
    assert finding.confidence is Confidence.INFERRED
    assert "clock of the producer's host is wrong" in finding.cause


@pytest.mark.parametrize(("factor", "unit"), [(1e-3, "seconds"), (1e3, "microseconds"), (1e6, "nanoseconds")])
def test_timestamps_in_another_unit(factor: float, unit: str) -> None:
    (finding,) = stamped("p", NOW * factor).tells("WARN record.clock_skew p@host-p")
    assert f"are in {unit} instead of milliseconds" in finding.summary
    assert "another unit" in finding.cause


def test_replays_are_an_info() -> None:
    story = stamped("p", NOW - 48 * HOUR)
    story.is_quiet()
    (finding,) = story.tells("INFO record.clock_skew p@host-p", at_least="INFO")
    assert "are long past (by 2 days;" in finding.summary


def test_timestamps_near_the_time_of_sending_are_quiet() -> None:
    for away in (0, 4 / 60, -20):
        stamped("p", NOW + away * HOUR, count=9).tells(at_least="INFO")


def test_few_samples_are_quiet() -> None:
    stamped("p", NOW + 2 * HOUR, count=2).is_quiet()


def test_mostly_right_timestamps_are_quiet() -> None:
    stamped("p", NOW + 2 * HOUR, story=stamped("p", NOW, count=3)).is_quiet()


def test_the_clock_of_the_capture_is_wrong() -> None:
    story = stamped("q", NOW + 2 * HOUR, story=stamped("p", NOW + 2 * HOUR, count=1))
    story.is_quiet()
    stamped("r", NOW, story=stamped("p", NOW + 2 * HOUR, count=1), count=1)
    story = stamped("p", NOW + 2 * HOUR, story=stamped("r", NOW, count=1))
    stamped("q", NOW + 2 * HOUR, story=story).tells(*[f"WARN record.clock_skew {one}@host-{one}" for one in "pq"])


def test_a_topic_without_producers_times_is_quiet() -> None:
    story = Story()
    for _ in range(9):
        story.sample("p", newest=None)
    story.is_quiet()


# --- record.size ---

SIZE = "NOTE record.size p@host-p"


def test_large_records() -> None:
    (finding,) = Story().sample("p", largest=600_000).tells(SIZE)
    assert finding.summary == "p@host-p sends large records to topic t (a record of 600k; samples: 1)"
    Story().sample("p", largest=500_000).is_quiet()


def test_headers_that_outweigh_records() -> None:
    (finding,) = Story().sample("p", plain=50_000, header_bytes=30_000).tells(SIZE)
    assert "headers larger than the rest to topic t (300 bytes a record, 60%;" in finding.summary
    Story().sample("p", plain=90_000, header_bytes=30_000).is_quiet()
    Story().sample("p", plain=30_000, header_bytes=20_000).is_quiet()


def test_large_keys() -> None:
    (finding,) = Story().sample("p", key_bytes=200_000).tells(SIZE)
    assert "large keys to topic t (2000 bytes a record;" in finding.summary
    Story().sample("p", key_bytes=100_000).is_quiet()


def test_few_records_have_no_average() -> None:
    Story().sample("p", read=90, plain=50_000, header_bytes=30_000, key_bytes=190_000).is_quiet()


def compressed(ratio: float, *, count: int = 5, codec: str = "gzip", size: int = 10_000) -> Story:
    story = Story()
    for _ in range(count):
        story.sample("p", codec=codec, ratio=ratio)
        story.made[-1] = story.made[-1]._replace(size=size)
    return story


def test_a_codec_that_saves_nothing() -> None:
    (finding,) = compressed(1.05).tells(SIZE)
    assert "compressed batches that do not shrink to topic t (gzip makes them 1.05 times smaller;" in finding.summary


def test_batches_of_which_nothing_can_be_said_are_quiet() -> None:
    compressed(1.2).is_quiet()
    compressed(1.05, count=4).is_quiet()
    compressed(1.05, codec="none").is_quiet()
    compressed(1.05, size=4_000).is_quiet()


# --- payload.schema ---


def framed(story: Story, ids: dict[int, int], *, raw: int = 0, client: str = "p") -> Story:
    return story.sample(client, framed=tuple(ids.items()), raw=raw)


def test_values_with_and_without_an_id() -> None:
    story = framed(framed(Story(), {7: 20}), {}, raw=20, client="q")
    (finding,) = story.tells("NOTE payload.schema t")
    assert finding.summary == (
        "Topic t has values with and without the id of a schema (values with an id: 20, without: 20)"
    )
    assert [one.note for one in finding.evidence] == [
        "p@host-p sends values with a schema id",
        "q@host-q sends values without one",
    ]


def test_few_values_of_either_kind_are_quiet() -> None:
    framed(framed(Story(), {7: 500}), {}, raw=19).is_quiet()
    framed(framed(Story(), {7: 19}), {}, raw=500).is_quiet()


def test_bytes_that_are_no_ids_are_quiet() -> None:
    framed(framed(Story(), dict.fromkeys(range(1, 18), 9)), {}, raw=500).is_quiet()


def test_a_new_schema() -> None:
    story = framed(framed(Story(), {7: 100}).at(61), {7: 50, 9: 50})
    story.is_quiet()
    (finding,) = story.tells("INFO payload.schema t", at_least="INFO")
    assert "a schema id that is new there: 9, from p@host-p" in finding.summary


def test_ids_at_the_beginning_are_not_new() -> None:
    for story in (
        framed(framed(Story(), {7: 100}).at(59), {9: 50}),
        framed(framed(Story(), {7: 99}).at(61), {9: 50}),
        framed(framed(Story(), {7: 100}, raw=19).at(61), {9: 50}),
        framed(framed(Story(), dict.fromkeys(range(1, 17), 100)).at(61), {90: 50}),
    ):
        story.tells(at_least="INFO")
