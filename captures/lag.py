"""Consumer lag by capture time: the committed offset of each partition, compared with the partition's end offset.

The end offset comes from Fetch and ListOffsets responses to any client, so it is as recent as those. The states of a
partition are those of Burrow, evaluated in Burrow's order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple, overload

WINDOW: Final = 10
"""Number of latest commits of a partition from which its state is judged."""
LEAST_COMMITS: Final = 3
"""Minimum number of commits for which a state is given; without lag, one commit suffices."""
SAMPLES: Final = 128
"""Maximum number of (end offset, time) samples of a partition; beyond it, every second one of the older half is
dropped.
"""
POINTS: Final = 32
"""Maximum number of points of a lag over time; beyond it, the older half is thinned."""
LATEST: Final = -1
"""The timestamp that asks ListOffsets for the end of a partition."""
_UNKNOWN: Final = -1 << 63
HIGHEST: Final = (1 << 63) - 1
"""Higher ends, which damaged batches seem to have, count as this offset."""
MOST: Final = 100_000
"""Maximum number of partitions, and of pairs of group and partition with commits; further ones are ignored."""


class State(StrEnum):
    """The state of a group's commits to one partition: the first of these that applies, in this order.

    CAUGHT_UP: no lag; or no lag at an earlier commit of the window, if neither STOPPED nor REWOUND applies. STOPPED:
    since the last commit, more time has passed than between the first and last commit of the window. REWOUND: a commit
    has a lower offset than the commit before. STALLED: all commits have the same offset. GROWING: the lag never
    decreased. BEHIND: none of these.
    """

    CAUGHT_UP = "caught up"
    STOPPED = "stopped"
    REWOUND = "rewound"
    STALLED = "stalled"
    GROWING = "growing"
    BEHIND = "behind"


class CommitAt(NamedTuple):
    """A commit: its time in ns since the epoch, its offset, and the partition's end offset at that time (None if
    unknown).
    """

    time: int
    offset: int
    end: int | None


class PartitionLag(NamedTuple):
    """The lag of a group in a partition.

    `committed` and `end` are offsets. `records` is their difference; it is larger than the number of records where
    compaction removed some or transactions left markers. `seconds` is how long, at least, the first uncommitted record
    has existed. If the end is unknown, `end`, `records`, `seconds` and `state` are None; `state` is None also if there
    is a lag and fewer than LEAST_COMMITS commits. `rate` is the growth of the committed offset per second over the
    latest commits; None if no time lies between the first and the last of them.
    """

    topic: str
    partition: int
    committed: int
    end: int | None
    records: int | None
    seconds: float | None
    state: State | None
    rate: float | None


class Points:
    """Values over time, each with its time in ns since the epoch, in order. Of two neighbours that are merged to save
    memory, the one with the larger value stays.
    """

    __slots__ = ("_times", "_values")

    def __init__(self) -> None:
        self._times = array("q")
        self._values = array("q")

    def add(self, time: int, value: int) -> None:
        times, values = self._times, self._values
        times.append(max(time, times[-1]) if times else time)
        values.append(value)
        if len(times) > POINTS:
            kept = [max(one, one + 1, key=values.__getitem__) for one in range(0, POINTS // 2, 2)]
            kept += range(POINTS // 2, len(times))
            self._times = array("q", [times[one] for one in kept])
            self._values = array("q", [values[one] for one in kept])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._times, self._values, strict=True)


class Window(Sequence[CommitAt]):
    """The latest commits of a group to a partition, at most WINDOW, oldest first."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")
        """Three numbers for each commit, because a tuple of three takes five times the memory."""

    def add(self, commit: CommitAt) -> None:
        numbers = self._numbers
        numbers.extend((commit.time, commit.offset, _UNKNOWN if commit.end is None else commit.end))
        if len(numbers) > 3 * WINDOW:
            del numbers[:3]

    def __len__(self) -> int:
        return len(self._numbers) // 3

    @overload
    def __getitem__(self, index: int) -> CommitAt: ...
    @overload
    def __getitem__(self, index: slice) -> list[CommitAt]: ...
    def __getitem__(self, index: int | slice) -> CommitAt | list[CommitAt]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = 3 * (index if index >= 0 else index + len(self))
        if not 0 <= at < len(self._numbers):
            raise IndexError(index)
        time, offset, end = self._numbers[at : at + 3]
        return CommitAt(time, offset, None if end == _UNKNOWN else end)


class Ends:
    """The end offset of one partition over time: growing offsets, each with the time (ns) when it was first seen."""

    __slots__ = ("_offsets", "_times")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._times: list[int] = []

    @property
    def newest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def add(self, offset: int, time: int) -> None:
        offsets = self._offsets
        if offsets and offset <= offsets[-1]:
            return
        offsets.append(offset)
        self._times.append(time)
        if len(offsets) > SAMPLES:
            kept = SAMPLES // 2
            del self._offsets[1:kept:2], self._times[1:kept:2]

    def points(self) -> list[tuple[int, int]]:
        """At most POINTS pairs (time in ns, end offset) in order of time; the first and the last are among them."""
        last = len(self._offsets) - 1
        chosen = range(last + 1) if last < POINTS else [at * last // (POINTS - 1) for at in range(POINTS)]
        return [(self._times[at], self._offsets[at]) for at in chosen]

    def seen(self, offset: int) -> int | None:
        """The time (ns) at which the record at an offset was first known to exist; None while the known end is not
        beyond it.
        """
        at = bisect_right(self._offsets, offset)
        return self._times[at] if at < len(self._times) else None


class Lag:
    """The lag of all groups, from end offsets and commits; times are nanoseconds since the epoch.

    `now` is the latest time of anything added; the caller may set it to a later one.
    """

    def __init__(self) -> None:
        self.now = 0
        self._ends: dict[tuple[str, int], Ends] = {}
        self._commits: dict[str, dict[tuple[str, int], Window]] = {}
        self._points: dict[str, dict[tuple[str, int], Points]] = {}
        self._count = 0

    def end(self, topic: str, partition: int, offset: int, time: int) -> None:
        """Note that a response gave `offset` as the end of a partition."""
        self.now = max(self.now, time)
        offset = min(offset, HIGHEST)
        ends = self._ends.get((topic, partition))
        if ends is None:
            if len(self._ends) >= MOST:
                return
            ends = self._ends[topic, partition] = Ends()
        ends.add(offset, time)

    def newest_end(self, topic: str, partition: int) -> int | None:
        """The greatest known end offset of a partition; None if no response gave one."""
        ends = self._ends.get((topic, partition))
        return None if ends is None else ends.newest

    def ends(self, topic: str, partition: int) -> list[tuple[int, int]]:
        """At most POINTS pairs (time in ns, end offset) of a partition, in the order of time."""
        ends = self._ends.get((topic, partition))
        return [] if ends is None else ends.points()

    def over_time(self, group: str, topic: str, partition: int) -> list[tuple[int, int]]:
        """Pairs (time in ns, records of lag) of a group in a partition: at some commits in order, then at `now`."""
        found = list(self._points.get(group, {}).get((topic, partition)) or ())
        latest = self.partition(group, topic, partition) if found else None
        if latest is not None and latest.records is not None and self.now > found[-1][0]:
            found.append((self.now, latest.records))
        return found

    def commit(self, group: str, topic: str, partition: int, offset: int, time: int) -> None:
        """Note that a group committed an offset."""
        self.now = max(self.now, time)
        place = topic, partition
        commits = self._commits.setdefault(group, {}) if self._count < MOST else self._commits.get(group, {})
        window = commits.get(place)
        if window is None:
            if self._count >= MOST:
                return
            self._count += 1
            window = commits[place] = Window()
        ends = self._ends.get(place)
        end = None if ends is None else ends.newest
        window.add(CommitAt(time, offset, end))
        if end is not None:
            points = self._points.setdefault(group, {})
            if place not in points:
                points[place] = Points()
            points[place].add(time, min(max(0, end - offset), HIGHEST))

    def window(self, group: str, topic: str, partition: int) -> Sequence[CommitAt]:
        """The latest commits of a group to a partition, at most WINDOW, oldest first."""
        return self._commits.get(group, {}).get((topic, partition), ())

    def of(self, group: str, allowed: int = 0) -> Iterator[PartitionLag]:
        """The lag in each partition to which a group has committed; a lag of at most `allowed` records counts as caught
        up.
        """
        for topic, partition in self._commits.get(group, {}):
            found = self.partition(group, topic, partition, allowed)
            if found is not None:
                yield found

    def by_topic(self) -> dict[str, dict[str, list[PartitionLag]]]:
        """The lag by topic, then by group: one element for each partition."""
        found: dict[str, dict[str, list[PartitionLag]]] = {}
        for group in self._commits:
            for one in self.of(group):
                found.setdefault(one.topic, {}).setdefault(group, []).append(one)
        return found

    def partition(self, group: str, topic: str, partition: int, allowed: int = 0) -> PartitionLag | None:
        """The lag of a group in one partition, None without a commit; at most `allowed` records count as caught up."""
        window = self.window(group, topic, partition)
        if not window:
            return None
        ends, committed = self._ends.get((topic, partition)), window[-1].offset
        end = None if ends is None else ends.newest
        if ends is None or end is None:
            return PartitionLag(topic, partition, committed, None, None, None, None, _rate(window))
        records = max(0, end - committed)
        seen = ends.seen(committed)
        seconds = 0.0 if seen is None else max(0, self.now - seen) / 1e9
        state = _state(window, end, self.now, allowed) if len(window) >= LEAST_COMMITS or not records else None
        return PartitionLag(topic, partition, committed, end, records, seconds, state, _rate(window))


def _rate(window: Sequence[CommitAt]) -> float | None:
    first, newest = window[0], window[-1]
    took = newest.time - first.time
    return (newest.offset - first.offset) * 1e9 / took if took > 0 else None


def _state(window: Sequence[CommitAt], end: int, now: int, allowed: int) -> State:
    first, newest = window[0], window[-1]
    if end - newest.offset <= allowed:
        return State.CAUGHT_UP
    if now - newest.time > newest.time - first.time:
        return State.STOPPED
    if any(after.offset < before.offset for before, after in pairwise(window)):
        return State.REWOUND
    if any(one.end is not None and one.end - one.offset <= allowed for one in window):
        return State.CAUGHT_UP
    if first.offset == newest.offset:
        return State.STALLED
    lags = [one.end - one.offset for one in window if one.end is not None]
    if len(lags) == len(window) and all(after >= before for before, after in pairwise(lags)):
        return State.GROWING
    return State.BEHIND
