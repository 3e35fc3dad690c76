"""Clients that go on with an old topic id: facts in, findings out."""

from __future__ import annotations

import pytest

from tests.support.facts import Story


def refused(story: Story, *seconds: float, error: int = 100) -> Story:
    for second in seconds:
        story.at(second).partition_io("c", "Fetch", error=error)
    return story


@pytest.mark.parametrize(("error", "name"), [(100, "UNKNOWN_TOPIC_ID"), (103, "INCONSISTENT_TOPIC_ID")])
def test_an_id_that_stays_unknown(error: int, name: str) -> None:
    (finding,) = refused(Story(), 0, 2, 6, error=error).tells("WARN topic.recreated_commit t")
    assert f"c@host-c got {name} for topic t 3 times in 6.0 s" in finding.summary
    assert finding.evidence[0].path == f"response.errorCode={error}"


def test_a_refresh_is_quiet() -> None:
    refused(Story(), 0, 6).is_quiet()


def test_many_errors_within_a_moment_are_quiet() -> None:
    refused(Story(), 0, 0.1, 0.2, 0.3).is_quiet()


def test_a_success_ends_the_count() -> None:
    story = refused(Story(), 0, 2)
    refused(story.at(3).partition_io("c", "Fetch"), 5, 7).is_quiet()


def test_two_clients_are_not_added_up() -> None:
    story = refused(Story(), 0, 6)
    story.at(7).partition_io("d", "Fetch", error=100).is_quiet()
