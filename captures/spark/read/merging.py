"""Merges the records of a slice of several files, in the order and with the addresses of captures.joining."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np

from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.formats.pcapng_writer import DATA_OFFSET, packet_size
from kproxy.captures.formats.records import Records
from kproxy.captures.given import Given
from kproxy.captures.joining import known
from kproxy.captures.spark.plan.files import shown, unchanged
from kproxy.captures.spark.plan.slices import Range, Slice
from kproxy.captures.tcp.packets import Ints, Packets, joined

BATCH: Final = 4096
"""Maximum number of records of a file that are read together."""


def merged_sizes(records: Records) -> Ints:
    """The size that each record has in a merged file."""
    sizes: Ints = packet_size(0) + records.captured + (-records.captured & 3)
    for index, comment in records.comments.items():
        sizes[index] = packet_size(int(records.captured[index]), comment)
    return sizes


@dataclass(slots=True)
class Merged:
    """Some merged records: their times, and the TCP segments in them with addresses in the merged file.

    `real` are the segments' addresses in their own files.
    """

    time: Ints
    packets: Packets
    real: Ints


class Merging:
    """Reads a slice. `position` is the address in the merged file behind what was read; `start` that of its first
    record.
    """

    def __init__(self, part: Slice, links: LinkLayers) -> None:
        """Raises CaptureError if a file cannot be opened, and FormatError as walkers do."""
        self._streams = [_Stream(one, part, links) for one in part.ranges]
        for stream in self._streams:
            stream.fill()
        self.start = self.position = part.before + sum(stream.passed for stream in self._streams)

    @property
    def given(self) -> list[Given]:
        """The files of the slice, with what was counted of them so far."""
        return [stream.given for stream in self._streams]

    def __iter__(self) -> Iterator[Merged]:
        """The records in batches. Raises FormatError as walkers do."""
        while active := [stream for stream in self._streams if stream.fill()]:
            counts = known([stream.keys for stream in active])
            parts = [stream.take(count) for stream, count in zip(active, counts, strict=True)]
            keys = np.concatenate([part.keys for part in parts])
            order = np.argsort(keys, kind="stable")
            sizes = np.concatenate([part.sizes for part in parts])
            ends = np.empty_like(order)
            ends[order] = self.position + np.cumsum(sizes[order])
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            at = ends - np.concatenate([part.own for part in parts]) + DATA_OFFSET
            before = np.cumsum([0, *(len(part.keys) for part in parts)])
            which = np.concatenate([part.which + first for part, first in zip(parts, before, strict=False)])
            packets = joined([part.packets for part in parts])
            real, within = packets.at, np.concatenate([part.within for part in parts])
            packets.at = at[which] + within
            sorted_ = np.argsort(rank[which], kind="stable")
            self.position += int(sizes.sum())
            yield Merged(np.concatenate([part.time for part in parts])[order], packets.some(sorted_), real[sorted_])


@dataclass(slots=True)
class _Part:
    """The next records of one file.

    `keys` are their times as raised for merging (_Stream), `time` their times in the file. `own` are their sizes in the
    merged file; `sizes` are the same, plus that of the interface block for a record that it precedes. Of the TCP
    segments in them, `which` are the indexes of their records, `within` the distance of their payload from its record's
    first captured byte.
    """

    keys: Ints
    time: Ints
    own: Ints
    sizes: Ints
    packets: Packets
    which: Ints
    within: Ints


class _Stream:
    """The records of a range that are in the slice; `keys` are the times of those that are next, raised if needed so
    that they never decrease.
    """

    def __init__(self, given: Range, part: Slice, links: LinkLayers) -> None:
        self.given = Given(shown(given.path), given.stamp.size, given.id, base=given.base)
        self.keys: Ints = np.empty(0, np.int64)
        self.passed = 0
        """Size, in the merged file, of the skipped records before the slice and the interface block before them."""
        self.walker = copy(given.walker)
        with unchanged(given.path, given.stamp, given.walker.position, given.end) as held:
            self._view, self._base = held.view, given.base + held.offset
            self.walker.position -= held.offset
        self._since, self._until = part.since, part.until
        self._clock = given.clock
        self._interface = given.interface
        self._links = links
        self._over = False
        self._records: Records | None = None

    def fill(self) -> bool:
        """Whether records are left; reads the next ones into `keys` if none are."""
        while not len(self.keys) and not self._over:
            records = self.walker.walk(self._view, BATCH)
            if records is None:
                self._over = True
                break
            keys = np.maximum.accumulate(np.maximum(records.time, self._clock))
            self._clock = int(keys[-1])
            first = int(np.searchsorted(keys, self._since))
            end = len(keys) if self._until is None else int(np.searchsorted(keys, self._until))
            if first:
                self.passed += int(merged_sizes(_some(records, 0, first)).sum()) + self._interface
                self._interface = 0
            self._over = end < len(keys)
            self._records, self.keys = _some(records, first, end), keys[first:end]
        return len(self.keys) > 0

    def take(self, count: int) -> _Part:
        """The first `count` records of `keys`, which are dropped there."""
        records = self._records
        assert records is not None  # noqa: S101 (`fill` has read some)
        taken, self._records = _some(records, 0, count), _some(records, count, len(records))
        keys, self.keys = self.keys[:count], self.keys[count:]
        own = merged_sizes(taken)
        sizes = own
        if count and self._interface:
            sizes = own.copy()
            sizes[0] += self._interface
            self._interface = 0
        which, packets = self._links.numbered(self._view, taken, self._base)
        self.given.count(packets.time)
        if count and taken.link in self._links.unknown:
            self.given.note_unknown([int(taken.link)])
        return _Part(keys, taken.time, own, sizes, packets, which, packets.at - self._base - taken.data[which])


def _some(records: Records, start: int, end: int) -> Records:
    """The records [start, end)."""
    link = records.link if isinstance(records.link, int) else records.link[start:end]
    comments = {index - start: text for index, text in records.comments.items() if start <= index < end}
    return Records(
        records.data[start:end], records.captured[start:end], records.wire[start:end], records.time[start:end], link,
        comments,
    )  # fmt: skip
