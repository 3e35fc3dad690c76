"""Consumer lag from commits and the ends of partitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.lag import HIGHEST, POINTS, SAMPLES, WINDOW, CommitAt, Lag, PartitionLag, Points, State

SECOND = 1_000_000_000


def lag(*steps: tuple[float, str, int]) -> PartitionLag:
    """The lag after commits ("c") and ends ("e") at these seconds."""
    made = Lag()
    for second, what, offset in steps:
        if what == "c":
            made.commit("g", "t", 0, offset, round(second * SECOND))
        else:
            made.end("t", 0, offset, round(second * SECOND))
    (found,) = made.of("g")
    return found


def every(seconds: float, *offsets: int, end: int = 0) -> list[tuple[float, str, int]]:
    """Commits at regular times; before each, the partition ends at `end` more than before."""
    steps: list[tuple[float, str, int]] = []
    for number, offset in enumerate(offsets):
        steps += [(number * seconds, "e", 1000 + number * end), (number * seconds, "c", offset)]
    return steps


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        (every(1, 1000, 1010, 1020, end=10), State.CAUGHT_UP),
        (every(1, 1000, 1000, 1000, 1000, end=0), State.CAUGHT_UP),
        (every(1, 900, 910, 920, 930, end=10), State.GROWING),
        (every(1, 900, 905, 910, 915, end=10), State.GROWING),
        (every(1, 900, 920, 940, 960, end=10), State.BEHIND),
        (every(1, 900, 900, 900, 900, end=10), State.STALLED),
        (every(1, 900, 950, 940, 960, end=10), State.REWOUND),
        ([*every(1, 900, 910, 920, end=10), (60, "e", 2000)], State.STOPPED),
        # caught up once within the window: not behind in Burrow's sense
        (every(1, 1000, 1005, 1010, end=10), State.CAUGHT_UP),
        # too few commits
        (every(1, 900, 910, end=10), None),
    ],
)
def test_the_states_of_burrow(steps: list[tuple[float, str, int]], state: State | None) -> None:
    assert lag(*steps).state == state


def test_records_and_seconds() -> None:
    found = lag((0, "e", 100), (10, "e", 200), (20, "c", 150), (30, "e", 300))
    assert (found.records, found.seconds) == (150, 20.0)
    assert lag((0, "e", 100), (5, "c", 100)).seconds == 0
    assert lag((0, "c", 100)).records is None
    # an end that is older than the commit, such as a follower's
    assert lag((0, "e", 90), (5, "c", 100)).records == 0


def test_lag_by_topic_and_group() -> None:
    made = Lag()
    for topic in ("a", "b"):
        made.end(topic, 0, 10, 0)
        made.commit("g", topic, 0, 4, 1)
    made.commit("h", "b", 0, 1, 2)
    found = made.by_topic()
    assert {topic: {group: one[0].records for group, one in groups.items()} for topic, groups in found.items()} == {
        "a": {"g": 6},
        "b": {"g": 6, "h": 9},
    }


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from("ce"), st.integers(0, 10**6)), max_size=400))
def test_any_order_gives_a_bounded_state_and_no_negative_lag(steps: list[tuple[int, str, int]]) -> None:
    made = Lag()
    for second, what, offset in steps:
        if what == "c":
            made.commit("g", "t", 0, offset, second)
        else:
            made.end("t", 0, offset, second)
    for found in made.of("g"):
        assert found.records is None or found.records >= 0
        assert found.seconds is None or found.seconds >= 0
    assert len(made.window("g", "t", 0)) <= WINDOW
    assert all(len(ends._offsets) <= SAMPLES for ends in made._ends.values())


@given(st.lists(st.tuples(st.integers(-5, 1 << 62), st.integers(-5, HIGHEST), st.integers(0, 1 << 64)), max_size=30))
def test_the_window_has_the_latest_commits(steps: list[tuple[int, int, int]]) -> None:
    made, wanted = Lag(), list[CommitAt]()
    for number, (time, offset, end) in enumerate(steps):
        if number >= 3:
            made.end("t", 0, end, 1)
        made.commit("g", "t", 0, offset, time)
        known = made.newest_end("t", 0)
        wanted.append(CommitAt(time, offset, known))
        assert known is None or known <= HIGHEST
    window = made.window("g", "t", 0)
    assert list(window) == wanted[-WINDOW:]
    assert len(window) == len(wanted[-WINDOW:])
    assert [window[-1], *window[-3:]] == [wanted[-1], *wanted[-3:]] if wanted else not window
    with pytest.raises(IndexError):
        window[len(window)]


def test_the_rate_of_commits() -> None:
    assert lag((0, "e", 100), (1, "c", 10), (3, "c", 30), (5, "c", 90)).rate == 20
    assert lag((0, "c", 10), (2, "c", 0)).rate == -5
    assert lag((0, "c", 10)).rate is None
    assert lag((1, "c", 10), (1, "c", 20)).rate is None
    # of the latest commits alone
    assert lag(*((number, "c", 7 * number * (number > 5)) for number in range(30))).rate == 7


def test_lag_over_time_ends_now() -> None:
    made = Lag()
    made.commit("g", "t", 0, 0, 0)
    assert not made.over_time("g", "t", 0)
    made.end("t", 0, 10, 1)
    made.commit("g", "t", 0, 4, 2)
    made.commit("g", "t", 0, 10, 3)
    assert made.over_time("g", "t", 0) == [(2, 6), (3, 0)]
    made.end("t", 0, 30, 9)
    assert made.over_time("g", "t", 0) == [(2, 6), (3, 0), (9, 20)]
    assert made.ends("t", 0) == [(1, 10), (9, 30)]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_points_are_few_and_keep_the_largest_value(values: list[int]) -> None:
    points = Points()
    for time, value in enumerate(values):
        points.add(time, value)
    kept = list(points)
    assert len(kept) <= POINTS
    assert kept == sorted(kept)
    assert all(values[time] == value for time, value in kept)
    assert max(value for _, value in kept) == max(values)
    assert kept[-1] == (len(values) - 1, values[-1])


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=600))
def test_ends_over_time_have_the_first_and_the_last(steps: list[int]) -> None:
    made, end = Lag(), 0
    for time, step in enumerate(steps):
        end += step
        made.end("t", 0, end, time)
    found = made.ends("t", 0)
    assert 1 <= len(found) <= POINTS
    assert found == sorted(found)
    assert (found[0], found[-1]) == ((0, steps[0]), (len(steps) - 1, end))
