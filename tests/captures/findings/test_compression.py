"""Batches that are not compressed, or compressed anew: facts in, findings out."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.model import Impact
from tests.support.facts import Story

UNCOMPRESSED = "NOTE producer.uncompressed p@host-p"
MANY = 1_000_000

# --- producer.uncompressed ---


def minute(story: Story, ratio: float | None = 3.0, *, size: int = MANY, **said: Any) -> Story:
    """A minute in which the client sends so many bytes in six slots, of which batches are opened."""
    begin = story.now
    codec = said.pop("codec", "none")
    for slot in range(6):
        story.at(begin + 10 * slot).volume("p", size // 6 + 1, codec=codec).sample(
            "p", ratio=ratio, codec=codec, **said
        )
    return story.at(begin + 60)


def test_a_producer_without_compression() -> None:
    (finding,) = minute(Story().at(40)).tells(UNCOMPRESSED)
    assert finding.summary == (
        "p@host-p sends topic t uncompressed (1000002 bytes in a minute); LZ4 would make it 3.0 times smaller (bytes "
        "that could be saved so far: 662601)"
    )
    assert finding.impact == Impact("bytes_wasted", 662601)
    assert "compression.type is none" in finding.cause


def test_each_minute_adds_to_what_could_be_saved() -> None:
    (finding,) = minute(minute(Story().at(40))).tells(UNCOMPRESSED)
    assert finding.occurrences == 2
    assert finding.numbers["wasted"] == 1325203


def test_little_traffic_is_quiet() -> None:
    minute(minute(Story().at(40), size=MANY // 2), size=MANY // 2).is_quiet()


def test_payloads_that_do_not_shrink_are_quiet() -> None:
    minute(Story().at(40), 1.2).is_quiet()
    minute(Story().at(40), None).is_quiet()


def test_headers_of_small_batches_do_not_shrink() -> None:
    for size, told in ((180, []), (400, [UNCOMPRESSED])):
        story = Story().at(40).volume("p", 2 * MANY).sample("p", ratio=2.0)
        story.made[-1] = story.made[-1]._replace(size=size)
        story.tells(*told)


def test_a_client_that_compresses_is_quiet() -> None:
    minute(Story().at(40), codec="lz4").is_quiet()
    minute(Story().at(40)).at(99).volume("p", codec="lz4").is_quiet()


@pytest.mark.parametrize(
    ("software", "lowest", "told"),
    [
        ("librdkafka 2.10.1", 3, True),
        ("confluent-kafka-python 2.10.1-librdkafka-2.10.1", 3, True),
        ("librdkafka 2.11.1", 3, False),
        ("librdkafka 2.10.1", 0, False),
        ("apache-kafka-java 4.4.0", 3, False),
    ],
)
def test_a_library_that_cannot_compress_for_this_broker(software: str, lowest: int, told: bool) -> None:
    (finding,) = minute(Story().at(40).offered("p", software, Produce=(lowest, 13))).tells(UNCOMPRESSED)
    assert ("no Produce below version 3" in finding.cause) == told


# --- broker.recompress ---


def recoded(*, codec: str = "zstd", magic: int = 2) -> Story:
    story = Story()
    produced = story.where("p", key=0)
    at = story.at(1).where("c", key=1)
    story.made.append(facts.Recoded(at, "t", 0, 67, produced, "lz4", 2, 900, codec, magic, 700))
    return story


def test_a_broker_that_compresses_anew() -> None:
    (finding,) = recoded().tells("NOTE broker.recompress t")
    assert finding.summary == (
        "Batches of topic t that p@host-p sends as lz4 reach c@host-c as zstd (samples: 1; t-0 at offset 67)"
    )
    assert [one.note for one in finding.evidence] == [
        "t-0 at offset 67: sent as lz4, 900 bytes",
        "t-0 at offset 67: fetched as zstd, 700 bytes",
    ]


def test_a_broker_that_converts_for_an_old_consumer() -> None:
    (finding,) = recoded(codec="none", magic=1).tells("NOTE broker.recompress t")
    assert "lz4, magic 2 reach c@host-c as none, magic 1" in finding.summary
    assert "old version of Fetch" in finding.cause
