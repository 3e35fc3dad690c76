"""The segments of a portion of a split, sorted by flow, so that properties of all flows are computed at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kproxy.captures.spark.read.reading import Segments
from kproxy.captures.tables.flows import Counts, counted
from kproxy.captures.tcp.packets import Ints, Packets, joined, together
from kproxy.captures.tcp.shares import Share


@dataclass(frozen=True)
class Flows:
    """Segments sorted by flow: those of the flow with flow_id `numbers[i]` are [starts[i], starts[i + 1]).

    The flow's directions are [directions[i], directions[i + 1]) of the packets' directions; each has segments. In the
    share, `which` is the index here, and `now` and `time` are not set. `position` is that of
    captures.spark.read.reading.SEGMENTS.
    """

    numbers: list[int]
    starts: Ints
    directions: Ints
    share: Share
    position: Ints
    real: Ints
    """As in captures.spark.read.reading.Segments."""

    @cached_property
    def whose(self) -> Ints:
        """For each segment, the index of its flow."""
        return np.repeat(np.arange(len(self.numbers)), np.diff(self.starts))

    @property
    def counts(self) -> list[list[Counts]]:
        """For each flow, the Counts of its directions; directions are numbered from the flow's first direction, times
        are relative to its first segment.
        """
        found: list[list[Counts]] = [[] for _ in self.numbers]
        flows = np.repeat(np.arange(len(self.numbers)), np.diff(self.directions)).tolist()
        low, begins = self.directions.tolist(), self.share.packets.time[self.starts[:-1]].tolist()
        for direction, first, last, *rest in counted(self.share.packets):
            flow = flows[direction]
            found[flow].append((direction - low[flow], first - begins[flow], last - begins[flow], *rest))
        return found

    @cached_property
    def comments(self) -> dict[int, dict[int, str]]:
        """Packet comments by the index of the flow, then of the segment in it."""
        found: dict[int, dict[int, str]] = {}
        for segment, text in self.share.packets.comments.items():
            flow = int(self.whose[segment])
            found.setdefault(flow, {})[segment - int(self.starts[flow])] = text
        return found


class ByFlow:
    """Collects segments in order (`add`) and sorts them by flow (`groups`); needs at least one segment.

    `size` is the number of bytes of their payload.
    """

    def __init__(self) -> None:
        self.size = 0
        self._count = 0
        self._packets: list[Packets] = []
        self._rest: list[tuple[Ints, Ints, Ints, Ints]] = []
        """(position, reached, clock, real address) of the segments in each element of `_packets`."""
        self._flows: dict[bytes, int] = {}
        """By the key of a direction, the flow_id."""

    def __len__(self) -> int:
        return self._count

    def add(self, some: Segments) -> None:
        packets = some.packets
        self._packets.append(packets)
        self._rest.append((some.position, some.reached, some.clock, some.real))
        self._flows.update(zip(packets.directions, some.flows.tolist(), strict=True))
        self.size += int(packets.stored.sum())
        self._count += len(packets)

    def groups(self, most: int) -> Iterator[Flows]:
        """All segments, in groups of flows of at most `most` segments; a larger flow is a group by itself."""
        packets = joined(self._packets)
        position, reached, clock, real = map(np.concatenate, zip(*self._rest, strict=True))
        known = packets.directions
        used = np.flatnonzero(np.bincount(packets.direction, minlength=len(known))).tolist()
        by_flow = sorted(used, key=lambda i: self._flows[known[i]])
        numbers, first, flow = np.unique(
            [self._flows[known[i]] for i in by_flow], return_index=True, return_inverse=True
        )
        directions = np.append(first, len(by_flow))
        number, whose = np.zeros((2, len(known)), np.int64)
        number[by_flow], whose[by_flow] = np.arange(len(by_flow)), flow
        flows = whose[packets.direction]
        order = together(flows, len(numbers))
        starts = np.append(0, np.cumsum(np.bincount(flows)))
        for one, end in _groups(starts, most):
            here = order[starts[one] : starts[end]]
            low, high = directions[one], directions[end]
            some = packets.some(here)
            some.directions = [known[i] for i in by_flow[low:high]]
            some.direction = number[some.direction] - low
            share = Share(some, np.arange(len(here)), reached[here], clock[here], 0, 0)
            yield Flows(
                numbers[one:end].tolist(), starts[one : end + 1] - starts[one], directions[one : end + 1] - low, share,
                position[here], real[here],
            )  # fmt: skip


def _groups(starts: Ints, most: int) -> Iterator[tuple[int, int]]:
    """(index of the first flow, index behind the last) of each group; the segments of flow i begin at `starts[i]`."""
    first = 0
    for i in range(1, len(starts) - 1):
        if starts[i + 1] - starts[first] > most:
            yield first, i
            first = i
    yield first, len(starts) - 1
