"""Offsets that consumers skip, read again, or never get past: facts in, findings out."""

from __future__ import annotations

from kproxy.captures.findings.model import Impact
from tests.support.facts import Story

# --- consumer.offset_skip ---


def refused(offset: int = 70, **said: int) -> Story:
    """A consumer whose position the broker refuses; it began at 60."""
    story = Story().partition_io("c", "Fetch", offset=60, **said)
    return story.at(1).partition_io("c", "Fetch", offset=offset, error=1, size=0, **said).at(2)


def test_retention_was_faster() -> None:
    story = refused().looked_up("c", -2, 150).partition_io("c", "Fetch", offset=150)
    (finding,) = story.tells("ERROR consumer.offset_skip c@host-c")
    assert finding.summary == (
        "c@host-c skipped up to 80 offsets of topic t (partitions: 1; t-0: 70 was out of range, went on at 150, the "
        "earliest offset)"
    )
    assert finding.impact == Impact("records_at_risk", 80)
    assert [one.role for one in finding.evidence] == ["trigger", "culprit", "symptom"]


def test_two_partitions_are_one_finding() -> None:
    story = refused().looked_up("c", -2, 150).partition_io("c", "Fetch", offset=150)
    story.made += refused(partition=1).looked_up("c", -2, 90, partition=1).made
    (finding,) = story.partition_io("c", "Fetch", offset=90, partition=1).tells("ERROR consumer.offset_skip c@host-c")
    assert finding.impact == Impact("records_at_risk", 100)
    assert finding.numbers["partitions"] == 2


def test_a_position_that_was_committed() -> None:
    story = Story().committed("c", 70).partition_io("c", "Fetch", offset=70, error=1).looked_up("c", -1, 150)
    story.partition_io("c", "Fetch", offset=150).tells("ERROR consumer.offset_skip c@host-c")


def test_a_first_position_that_nobody_held() -> None:
    """Such as offset 0, from which a tool wants to read all that there is."""
    story = Story().partition_io("c", "Fetch", offset=0, error=1).looked_up("c", -2, 150)
    story.partition_io("c", "Fetch", offset=150).tells("WARN consumer.offset_skip c@host-c")


def test_records_are_read_again() -> None:
    story = refused().looked_up("c", -2, 10).partition_io("c", "Fetch", offset=10)
    (finding,) = story.tells("WARN consumer.offset_skip c@host-c")
    assert "reads again up to 60 offsets" in finding.summary


def test_the_log_ends_before_the_position() -> None:
    story = refused().looked_up("c", -1, 65).partition_io("c", "Fetch", offset=65)
    (finding,) = story.tells("WARN consumer.offset_skip c@host-c")
    assert "was beyond the end by up to 5 offsets" in finding.summary
    assert "unclean" in finding.cause


def test_the_offset_of_an_unchanged_fetch_session() -> None:
    """The request of an incremental session does not repeat the position."""
    story = Story().partition_io("c", "Fetch", offset=60).at(1).partition_io("c", "Fetch", offset=None, error=1)
    (finding,) = story.partition_io("c", "Fetch", offset=65).tells("ERROR consumer.offset_skip c@host-c")
    assert "60 was out of range, went on at 65, an offset of the application's choice" in finding.summary


def test_a_follower_that_lacks_the_offset_is_quiet() -> None:
    story = refused().partition_io("c", "Fetch", offset=70, connection=9)
    story.at(20).partition_io("c", "Fetch", offset=500).is_quiet()


def test_a_seek_is_quiet() -> None:
    story = Story().partition_io("c", "Fetch", offset=60).looked_up("c", -1, 150)
    story.partition_io("c", "Fetch", offset=150).is_quiet()


def test_another_consumer_with_the_same_client_id_is_quiet() -> None:
    refused().partition_io("c", "Fetch", offset=900, connection=9).is_quiet()


def test_what_follows_much_later_is_quiet() -> None:
    refused().at(62).partition_io("c", "Fetch", offset=900).is_quiet()


def test_a_follower_of_the_cluster_is_quiet() -> None:
    story = (
        Story()
        .partition_io("b", "Fetch", offset=70, replica=2)
        .partition_io("b", "Fetch", offset=70, replica=2, error=1)
    )
    story.partition_io("b", "Fetch", offset=150, replica=2).is_quiet()


def test_a_group_that_begins_at_the_end() -> None:
    story = Story().committed("c", None).looked_up("c", -1, 150).partition_io("c", "Fetch", offset=150, log_start=80)
    (finding,) = story.tells("NOTE consumer.offset_skip c@host-c")
    assert "never reads up to 70 offsets of topic t" in finding.summary
    assert "group g begins at offset 150 instead of 80, because it has no commit" in finding.summary


def test_a_group_whose_commit_is_gone() -> None:
    story = Story().commit("c", 90).at(1).committed("c", None).looked_up("c", -1, 150)
    story.partition_io("c", "Fetch", offset=150, log_start=80).tells("WARN consumer.offset_skip c@host-c")


def test_a_group_that_begins_with_all_there_is_is_quiet() -> None:
    story = Story().committed("c", None).looked_up("c", -2, 80).partition_io("c", "Fetch", offset=80, log_start=80)
    story.tells(at_least="INFO")
    story = Story().committed("c", None).looked_up("c", -1, 80).partition_io("c", "Fetch", offset=80, log_start=80)
    story.tells(at_least="INFO")


def test_a_commit_before_the_first_fetch_is_quiet() -> None:
    story = Story().committed("c", None).commit("c", 150).looked_up("c", -1, 150)
    story.partition_io("c", "Fetch", offset=150, log_start=80).tells(at_least="INFO")


# --- consumer.poison ---


def starts(times: int, *, every: float = 20, size: int = 100) -> Story:
    """A consumer that begins at offset 70, fetches there, and is restarted."""
    story = Story()
    for number in range(times):
        story.at(number * every).committed("c", 70, connection=number)
        story.partition_io("c", "Fetch", offset=70, size=size, connection=number)
    return story


def test_a_consumer_that_fails_at_a_record() -> None:
    (finding,) = starts(4).tells("WARN consumer.poison c@host-c")
    assert finding.summary == (
        "c@host-c began again at offset 70 of t-0, the commit of group g (times: 3, within 60 s)"
    )


def test_few_restarts_and_fast_ones_are_quiet() -> None:
    starts(3).is_quiet()
    starts(5, every=2).is_quiet()


def test_a_consumer_at_the_end_of_the_partition_is_quiet() -> None:
    starts(10, size=0).is_quiet()


def test_a_tool_that_asks_for_commits_is_quiet() -> None:
    story = Story().partition_io("c", "Fetch", offset=70)
    for second in range(100):
        story.at(second).committed("c", 70)
    story.is_quiet()


def test_commits_that_move_are_quiet() -> None:
    story = Story()
    for number in range(6):
        story.at(number * 20).committed("c", 70).partition_io("c", "Fetch", offset=70).commit("c", 90).commit("c", 70)
    story.is_quiet()


def fetches(times: int, *, size: int = 100, offset: int | None = 70) -> Story:
    story = Story()
    for number in range(times):
        story.at(number * 2).partition_io("c", "Fetch", offset=70 if number == 0 else offset, size=size)
    return story


def test_the_same_fetch_again_and_again() -> None:
    (finding,) = fetches(20).tells("NOTE consumer.poison c@host-c")
    assert finding.summary == "c@host-c fetched offset 70 of t-0 again and again (times: 20, within 38 s)"
    fetches(20, offset=None).tells("NOTE consumer.poison c@host-c")


def test_few_fetches_and_empty_ones_are_quiet() -> None:
    fetches(19).is_quiet()
    fetches(99, size=0).is_quiet()


def test_fetches_that_go_on_are_quiet() -> None:
    story = Story()
    for number in range(100):
        story.at(number).partition_io("c", "Fetch", offset=70 + number // 10)
    story.is_quiet()


def test_two_consumers_that_fetch_the_same_are_quiet() -> None:
    story = Story()
    for number in range(100):
        story.at(number).partition_io("c", "Fetch", offset=70, connection=number % 2)
    story.is_quiet()


# --- offsets.storage_split ---


def test_commits_that_are_looked_for_elsewhere() -> None:
    story = Story().commit("c", 5, version=0).committed("c", None, version=1).commit("c", 6, version=0)
    (finding,) = story.tells("WARN offsets.storage_split g")
    assert finding.summary == "c@host-c of group g commits offsets to ZooKeeper and reads them from Kafka"
    story = Story().committed("c", 5, version=0).commit("c", 5, version=2).commit("c", 6, version=2)
    (finding,) = story.tells("WARN offsets.storage_split g")
    assert finding.summary == "c@host-c of group g commits offsets to Kafka and reads them from ZooKeeper"


def commits(*versions: int, fetched: tuple[int, ...]) -> Story:
    story = Story()
    for version in fetched:
        story.committed("c", 5, version=version)
    for version in versions:
        story.commit("c", 5, version=version)
    return story


def test_one_storage_for_both_is_quiet() -> None:
    commits(0, 0, 0, fetched=(0,)).is_quiet()
    commits(8, 8, 8, fetched=(1,)).is_quiet()


def test_a_migration_is_quiet() -> None:
    commits(0, 1, 0, 1, fetched=(1,)).is_quiet()
    commits(1, 1, 1, fetched=(1, 0)).is_quiet()


def test_a_tool_that_reads_commits_of_others_is_quiet() -> None:
    commits(0, 0, 0, fetched=()).committed("burrow", None, version=1).commit("c", 6, version=0).is_quiet()
