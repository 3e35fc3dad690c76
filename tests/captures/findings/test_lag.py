"""Groups that fall behind: facts in, findings out."""

from __future__ import annotations

from tests.support.facts import Story


def consuming(story: Story, *offsets: int, every: float = 10, end: int = 1000, grows: int = 0) -> Story:
    """Commits at regular times by a member that sends heartbeats, while the partition's end grows."""
    for offset in offsets:
        story.partition_io("p", "Fetch", high_watermark=end).heartbeat("c").commit("c", offset)
        story.at(story.now + every)
        end += grows
    return story


def test_commits_that_stop_while_the_group_lives() -> None:
    story = consuming(Story(), *range(0, 500, 50), end=1000)
    for _ in range(30):
        story.heartbeat("c").at(story.now + 10)
    (finding,) = story.tells("WARN group.lag_state g")
    assert "no longer commits" in finding.summary
    assert "lag 550, most in t-0" in finding.summary


def test_a_group_that_has_left_is_quiet() -> None:
    story = consuming(Story(), *range(0, 500, 50)).leave("c")
    for _ in range(30):
        story.partition_io("p", "Fetch", high_watermark=2000).at(story.now + 10)
    story.is_quiet()


def test_a_group_of_which_nothing_is_heard_is_quiet() -> None:
    """Its members crashed, or the capture lost sight of them."""
    story = consuming(Story(), *range(0, 500, 50))
    for _ in range(30):
        story.partition_io("p", "Fetch", high_watermark=2000).at(story.now + 10)
    story.is_quiet()


def test_an_offset_that_is_set_back_is_a_note() -> None:
    (finding,) = consuming(Story(), *range(500, 900, 50), 200, 250).tells("NOTE group.lag_state g")
    assert "commits a lower offset than before" in finding.summary


def test_commits_of_one_offset_while_records_wait() -> None:
    (finding,) = consuming(Story(), *[400] * 12).tells("WARN group.lag_state g")
    assert "commits the same offset again and again" in finding.summary
    assert finding.evidence[0].path == "request.committedOffset"


def test_one_offset_without_new_records_is_quiet() -> None:
    consuming(Story(), *[1000] * 12).is_quiet()


def test_lag_that_grows_is_a_note() -> None:
    (finding,) = consuming(Story(), *range(0, 600, 50), grows=100).tells("NOTE group.lag_state g")
    assert "falls behind further" in finding.summary


def test_lag_that_falls_is_quiet() -> None:
    consuming(Story(), *range(0, 600, 50), grows=10).is_quiet()


def test_many_commits_within_a_moment_are_quiet() -> None:
    consuming(Story(), *[400] * 12, every=0.1).is_quiet()


def test_a_little_lag_is_quiet() -> None:
    consuming(Story(), *[950] * 12).is_quiet()


def test_partitions_of_a_group_are_one_finding() -> None:
    story = Story()
    for number in range(12):
        for partition in range(3):
            story.partition_io("p", "Fetch", high_watermark=1000, partition=partition)
            story.commit("c", 400 - partition, partition=partition)
        story.heartbeat("c").at(10 * number)
    (finding,) = story.tells("WARN group.lag_state g")
    assert finding.numbers["partitions"] == 3
