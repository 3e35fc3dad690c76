"""Records and their partitions: facts in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kproxy.captures.findings.model import Confidence, Severity
from kproxy.captures.partitioner import crc32, fnv1a, murmur2
from tests.support.facts import Story

# --- partition.hot ---


def window(sizes: Sequence[int], *, story: Story | None = None, seconds: int = 310, batches: int = 30) -> Story:
    """More than five minutes in which each partition gets so many bytes a slot."""
    story = story or Story()
    for second in range(0, seconds, 10):
        story.at(second)
        for partition, size in enumerate(sizes):
            if size:
                story.volume("p", size, partition, batches=batches)
    return story


EVEN = [100_000] * 8


def test_a_partition_with_most_of_a_topic() -> None:
    (finding,) = window([600_000, *EVEN[1:]]).tells("WARN partition.hot t-0")
    assert finding.summary == (
        "t-0 got 46% of the bytes of topic t within 300 s, 6.0 times the median of 8 partitions; p@host-p sent 100% of "
        "them"
    )


def test_a_partition_with_a_multiple_of_the_others_is_a_note() -> None:
    window([400_000, *EVEN[1:]]).tells("NOTE partition.hot t-0")


def test_even_partitions_are_quiet() -> None:
    window(EVEN).is_quiet()
    window([200_000, *EVEN[1:]]).is_quiet()


def test_few_partitions_are_quiet() -> None:
    window([600_000, *EVEN[1:7]]).is_quiet()
    window([600_000, *EVEN[1:7], 0, 0], story=Story().topic("p", "t", partitions=9)).is_quiet()


def test_little_traffic_is_quiet() -> None:
    window([6_000, *[1_000] * 7]).is_quiet()
    window([600_000, *EVEN[1:]], batches=0).is_quiet()


def test_a_short_time_is_quiet() -> None:
    window([600_000, *EVEN[1:]], seconds=200).is_quiet()


# --- key.skew ---


def keyed(story: Story, counts: dict[bytes, int], *, samples: int = 10, nulls: int = 0) -> Story:
    for number in range(samples):
        keys = [key for key, count in counts.items() for _ in range(count)]
        read = len(keys) + nulls
        story.at(10 * number).sample("p", number % 2, keys=keys, read=read, records=read, weight=read)
    return story


def distinct(count: int) -> dict[bytes, int]:
    return {b"k%d" % number: 1 for number in range(count)}


def test_a_key_with_many_records() -> None:
    (finding,) = keyed(Story(), {b"tenant-1": 30} | distinct(70)).tells("NOTE key.skew t")
    assert finding.summary == "30% of the records of topic t have the key tenant-1 (partition 1; records read: 1000)"


def test_samples_stand_for_what_was_sent() -> None:
    """A busy partition counts for more than a quiet one."""
    story = Story()
    for second in range(6):
        story.at(10 * second).sample("p", 0, keys=[b"busy"] * 30 + [b"n%d" % n for n in range(70)], weight=9_000)
        story.sample("p", 1, keys=[b"%d.%d" % (second, number) for number in range(100)], weight=100)
    (finding,) = story.tells("NOTE key.skew t")
    assert finding.numbers["key"] == "busy"
    assert 0.29 < float(finding.numbers["share"]) < 0.3


def test_many_keys_are_quiet() -> None:
    story = Story()
    for number in range(20):
        story.at(10 * number).sample("p", number % 2, keys=[b"%d.%d" % (number, one) for one in range(100)])
    story.is_quiet()


def test_a_key_below_a_fifth_is_quiet() -> None:
    keyed(Story(), {b"tenant-1": 19} | distinct(81)).is_quiet()


def test_few_records_are_quiet() -> None:
    keyed(Story(), {b"tenant-1": 30} | distinct(70), samples=9).is_quiet()
    story = Story()
    for number in range(9):
        story.at(10 * number).sample("p", number % 2, keys=[b"only"] * 30, read=30, weight=10_000)
    story.is_quiet()


def test_records_without_keys_are_quiet() -> None:
    keyed(Story(), {b"tenant-1": 10}, nulls=90).is_quiet()


def test_a_topic_with_one_partition_is_quiet() -> None:
    story = Story().topic("p", "t", partitions=1)
    for number in range(20):
        story.at(10 * number).sample("p", keys=[b"only"] * 100)
    story.is_quiet()


def test_keys_are_shown_as_text_or_hexadecimal() -> None:
    for key, text in ((b"\xff\x00", "ff 00"), (b"x" * 50, "x" * 40 + "…"), ("é".encode(), "é")):
        (finding,) = keyed(Story(), {key: 100}).tells("NOTE key.skew t")
        assert finding.numbers["key"] == text


# --- key.partitioner_mix ---


def sends(
    story: Story, client: str, how: Callable[[bytes], int], *, partitions: int = 6, count: int = 30, begin: int = 0
) -> Story:
    for number in range(begin, begin + count):
        key = b"order-%d" % number
        story.sample(client, how(key) % partitions, keys=[key])
    return story


def both(one: Callable[[bytes], int], other: Callable[[bytes], int], **how: int) -> Story:
    story = Story().topic("java", "t", partitions=6)
    return sends(sends(story, "java", one, count=how.get("count", 30)), "other", other, **how)


def test_two_partitioners_in_one_topic() -> None:
    (finding,) = both(murmur2, crc32, count=40, begin=20).tells("WARN key.partitioner_mix t")
    assert "java@host-java chooses partitions by murmur2, other@host-other by CRC32" in finding.summary
    assert int(finding.numbers["apart"]) > 0


def test_producers_with_keys_of_their_own_are_a_note() -> None:
    (finding,) = both(murmur2, crc32, begin=100).tells("NOTE key.partitioner_mix t")
    assert finding.confidence is Confidence.STRONG
    story = both(murmur2, crc32, begin=100)
    sends(story, "other", crc32, count=9).tells("WARN key.partitioner_mix t")


def test_keys_in_two_partitions_prove_it() -> None:
    (finding,) = both(murmur2, fnv1a).tells("WARN key.partitioner_mix t")
    assert finding.confidence is Confidence.PROVEN
    assert int(finding.numbers["apart"]) >= 3


def test_a_partitioner_of_its_own() -> None:
    def own(key: bytes) -> int:
        return sum(key)

    both(murmur2, own, begin=100).is_quiet()
    (finding,) = both(murmur2, own).tells("WARN key.partitioner_mix t")
    assert "other@host-other by a function of its own" in finding.summary


def test_one_partitioner_is_quiet() -> None:
    both(murmur2, murmur2).is_quiet()
    both(crc32, crc32, begin=100).is_quiet()


def test_few_keys_are_quiet() -> None:
    both(murmur2, crc32, count=19).is_quiet()


def test_partitions_so_few_that_both_functions_fit_are_quiet() -> None:
    keys = [key for number in range(500) if murmur2(key := b"order-%d" % number) % 2 == crc32(key) % 2][:40]
    story = Story().topic("java", "t", partitions=2)
    for client in ("java", "other"):
        for key in keys:
            story.sample(client, murmur2(key) % 2, keys=[key])
    story.is_quiet()


def test_a_producer_that_ignores_keys_is_quiet() -> None:
    story = Story().topic("java", "t", partitions=6)
    for turn in range(2):
        sends(story, "other", lambda key, turn=turn: crc32(key) + turn)  # type: ignore[misc]
    sends(story, "java", murmur2).is_quiet()


def test_a_topic_that_grows_is_quiet() -> None:
    story = sends(Story().topic("java", "t", partitions=6), "java", murmur2)
    sends(story.topic("java", "t", partitions=9), "other", murmur2, partitions=9).is_quiet()


def test_a_topic_of_unknown_size_is_quiet() -> None:
    sends(sends(Story(), "java", murmur2), "other", crc32).is_quiet()


def test_no_severity_of_these_rules_is_an_error() -> None:
    found = both(murmur2, crc32).found()
    assert max(one.severity for one in found) <= Severity.WARN
