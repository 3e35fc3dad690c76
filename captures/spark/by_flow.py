"""The segments of a portion, flow by flow, without a step for each flow and column where many flows take turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from captures.spark.reading import Segments
from captures.tcp.packets import COLUMNS, Ints, Packets, together
from captures.tcp.reassembly import Share

_SEGMENTS: Final = ("position", "reached", "clock")
_COLUMNS: Final = ("direction", *COLUMNS, *_SEGMENTS)


@dataclass(slots=True)
class _Flow:
    """Its directions with their numbers, and its segments: of each batch a table, which has a row for each column."""

    directions: dict[bytes, int] = field(default_factory=dict)
    tables: list[Ints] = field(default_factory=list)

    def number(self, key: bytes) -> int:
        return self.directions.setdefault(key, len(self.directions))


class ByFlow:
    """Takes segments in their order (`add`); iterates over each flow's flow_id and its segments in that order.

    `size` is how many bytes of payload they have.
    """

    def __init__(self) -> None:
        self.size = 0
        self._count = 0
        self._flows: dict[int, _Flow] = {}
        self._comments: dict[int, str] = {}
        """By the position of the segment."""

    def __len__(self) -> int:
        return self._count

    def add(self, some: Segments) -> None:
        packets = some.packets
        flows, which = np.unique(some.flows, return_inverse=True)
        held = [self._flows.setdefault(flow, _Flow()) for flow in flows.tolist()]
        numbers = [held[i].number(key) for i, key in zip(which.tolist(), packets.directions, strict=True)]
        columns = [np.array(numbers, np.int64)[packets.direction]]
        columns += [getattr(packets, name) for name in COLUMNS] + [getattr(some, name) for name in _SEGMENTS]
        flow = which[packets.direction]
        order = together(flow, len(flows))
        table = np.empty((len(columns), len(packets)), np.int64)
        for row, column in zip(table, columns, strict=True):
            row[:] = column[order]
        start = 0
        for one, count in zip(held, np.bincount(flow, minlength=len(flows)).tolist(), strict=True):
            if count:
                one.tables.append(table[:, start : start + count])
                start += count
        self._comments |= {int(some.position[i]): text for i, text in packets.comments.items()}
        self.size += int(packets.stored.sum())
        self._count += len(packets)

    def __iter__(self) -> Iterator[tuple[int, Share]]:
        for number, flow in sorted(self._flows.items()):
            if flow.tables:
                columns = dict(zip(_COLUMNS, np.concatenate(flow.tables, axis=1), strict=True))
                position, reached, clock = (columns.pop(name) for name in _SEGMENTS)
                packets = Packets(list(flow.directions), **columns, comments=self._said(position))
                yield number, Share(packets, position, reached, clock, 0, 0)

    def _said(self, positions: Ints) -> dict[int, str]:
        if not self._comments:
            return {}
        return {i: self._comments[one] for i, one in enumerate(positions.tolist()) if one in self._comments}
