"""Stage 1: turns a split into its segments, as Arrow batches.

`read` gives every TCP segment as a row with its bytes, for the data source; captures.spark.read.parcels packs them for
stage 2. The summaries of the split come last. The split reports trouble there if its walk does not end at the split's
end, or if it contains something on which later splits depend (a new section or interface, a packet in IP fragments);
the file is then read again as a whole (captures.spark.plan.order).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kproxy.captures.errors import CaptureError, FormatError
from kproxy.captures.formats import detect
from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.formats.records import Records, Walker
from kproxy.captures.keys import file_id
from kproxy.captures.ports import Ports
from kproxy.captures.source import AND, FileSource
from kproxy.captures.spark.plan import files
from kproxy.captures.spark.plan.order import Summary
from kproxy.captures.spark.plan.slices import Slice
from kproxy.captures.spark.plan.splits import WIDE, Split
from kproxy.captures.spark.read.merging import Merging, merged_sizes
from kproxy.captures.spark.session.uncompiled import compiled
from kproxy.captures.tables.flows import flow_of
from kproxy.captures.tally import Tally
from kproxy.captures.tcp.packets import Ints, Mask, Packets, ports

BATCH: Final = 4096
"""Maximum number of packets in a batch of rows."""

MARKS: Final = 1 << 20
"""Minimum distance, in bytes, of two marks in a survey. It bounds how much of each file the task of a slice skips."""

SEGMENTS: Final = pa.schema([
    ("flow_id", pa.int64()),
    ("position", pa.int64()),
    ("direction", pa.binary()),
    ("ts_ns", pa.int64()),
    ("clock_ns", pa.int64()),
    ("seq", pa.int64()),
    ("ack", pa.int64()),
    ("flags", pa.int64()),
    ("address", pa.int64()),
    ("reached", pa.int64()),
    ("length", pa.int64()),
    ("comment", pa.string()),
    ("payload", pa.binary()),
    ("summary", pa.string()),
])  # fmt: skip
"""Columns of segments; `position` gives the order of a flow's segments.

`direction` is the key of captures.tcp.packets. `clock_ns` and `reached` are the latest time and the highest address in
the split up to the segment. `length` is the segment's size on the wire, `payload` its captured bytes. A row with a
`summary` (captures.spark.plan.order.Summary as JSON) is no segment and belongs to no flow.
"""


@dataclass(frozen=True, slots=True)
class Segments:
    """Some segments of a split, with the columns of SEGMENTS; `flows` are the flow_ids of their directions.

    `real` are addresses in the ranges of addresses that stand for the segments' own files: in a slice those at which
    their payload is read. They are those of the packets if files were not merged. The bytes of `view` have the
    addresses from `base` on; a slice has none. They remain valid if `stays` is true, otherwise only until the next
    segments are read.
    """

    packets: Packets
    flows: Ints
    position: Ints
    reached: Ints
    clock: Ints
    real: Ints
    view: memoryview
    base: int
    stays: bool

    def some(self, directions: Mask) -> Segments:
        """Those segments whose direction is chosen: `directions` is a mask over the packets' directions."""
        some = np.flatnonzero(directions[self.packets.direction])
        columns = (self.position[some], self.reached[some], self.clock[some], self.real[some])
        return Segments(self.packets.some(some), self.flows, *columns, self.view, self.base, self.stays)

    def payload(self) -> list[bytes]:
        """The captured bytes of each segment."""
        starts = (self.packets.at - self.base).tolist()
        return [
            bytes(self.view[start : start + stored])
            for start, stored in zip(starts, self.packets.stored.tolist(), strict=True)
        ]


def read(split: Split, wanted: Ports | None = None) -> Iterator[Any]:
    """The segments and summaries of a split, as batches of SEGMENTS."""
    for found in segments(split, wanted):
        yield summary_row(found) if isinstance(found, Summary) else _batch(found)


def _batch(some: Segments) -> Any:
    packets = some.packets
    columns = (
        packets.time, some.clock, packets.seq, packets.ack, packets.flags, packets.at, some.reached, packets.length,
    )  # fmt: skip
    return pa.record_batch(
        [
            pa.array(some.flows[packets.direction]),
            pa.array(some.position),
            pa.array(packets.directions, pa.binary()).take(pa.array(packets.direction)),
            *map(pa.array, columns),
            pa.array([packets.comments.get(i) for i in range(len(packets))], pa.string()),
            # copy the bytes: pyarrow never releases views of a mapped file, nor therefore the file's descriptor
            pa.array(some.payload(), pa.binary()),
            pa.nulls(len(packets), pa.string()),
        ],
        schema=SEGMENTS,
    )


def summary_row(summary: Summary) -> Any:
    """A batch of SEGMENTS with one row, a summary."""
    columns = [pa.nulls(1, field.type) for field in SEGMENTS]
    columns[-1] = pa.array([summary.json()], pa.string())
    return pa.record_batch(columns, schema=SEGMENTS)


def segments(split: Split, wanted: Ports | None = None) -> Iterator[Segments | Summary]:
    """The segments of a split's connections with a port in `wanted` (None: all), then a summary of each of its files.

    Never raises on the content of files; raises CaptureError if a file cannot be opened.
    """
    if split.walker is not None:
        yield from _cut(split, copy(split.walker), wanted)
        return
    if split.slice is not None:
        yield from _sliced(split, split.slice, wanted)
        return
    with files.opened(split.paths, split.secrets) as source:
        yield from _whole(split, source, wanted)


def surveyed(split: Split) -> list[Summary]:
    """A list with the split's summary, as far as it is known without decoding packets; empty if the split is not part
    of a local file that is cut.

    Never raises on the content of files; raises CaptureError if the file cannot be opened.
    """
    if split.walker is None or files.is_url(split.paths[0]):
        return []
    return [one for one in _cut(split, copy(split.walker), None, survey=True) if isinstance(one, Summary)]


def _cut(split: Split, walker: Walker, wanted: Ports | None, *, survey: bool = False) -> Iterator[Segments | Summary]:
    """The segments and the summary of a split of a file; a `survey` gives only the summary."""
    assert split.stamp is not None  # noqa: S101  # as the split has a walker
    with files.unchanged(split.paths[0], split.stamp, split.start, split.end) as held:
        held.need(split.start, split.end)
        yield from _records(split, walker, held, wanted, survey=survey)


def _sliced(split: Split, part: Slice, wanted: Ports | None) -> Iterator[Segments | Summary]:
    base, name = split.base, AND.join(map(files.shown, split.paths))
    summary = Summary(split.number, base // WIDE, name, base, 0, base, base, base)
    reading = _Reading(summary, LinkLayers(), wanted, {})
    try:
        merging = Merging(part, reading.links)
        summary.start = base + merging.start
        for some in merging:
            reading.take_times(some.time)
            some.packets.at += base
            yield from reading.segments(memoryview(b""), base, some.packets, stays=False, real=some.real)
    except FormatError as error:
        summary.trouble = error.message
    else:
        summary.size = merging.position
        summary.position = summary.end = base + merging.position
        if reading.links.fragmented:
            summary.trouble = "packets in IP fragments"
        summary.given = merging.given
    yield reading.finished(None)


def _records(split: Split, walker: Walker, held: files.Mapped, wanted: Ports | None, *, survey: bool) -> Iterator[Any]:
    base, name, offset = split.base, files.shown(split.paths[0]), held.offset
    summary = Summary(
        split.number, base // WIDE, name, base, held.stamp.size, base + split.start, 0, base + split.end, id=split.id
    )  # fmt: skip
    bound = walker.binding
    reading = _Reading(summary, LinkLayers(), wanted, {})
    view = held.view[: split.end - offset]
    walker.position -= offset
    try:
        while (records := walker.walk(view, BATCH)) is not None:
            reading.take_records(records)
            if survey:
                reading.mark(offset + walker.position)
            else:
                packets = reading.links.segments(view, records, base + offset)
                yield from reading.segments(view, base + offset, packets, stays=True)
    except FormatError as error:
        summary.errors = [(name, error.message, offset + error.offset)]
    walker.position += offset
    summary.position = base + walker.position
    if walker.binding != bound or walker.dropped or reading.links.fragmented:
        summary.link = None
    if not split.alone:
        if walker.binding != bound:
            summary.trouble = "a new section or interface, or a packet without a time of its own"
        elif reading.links.fragmented:
            summary.trouble = "packets in IP fragments"
        elif not split.last and walker.position != split.end:
            summary.trouble = (
                f"its splits do not meet: one ends at byte {walker.position}, the next begins at byte {split.end}"
            )
    if split.last and not summary.errors:
        left = detect.cut(walker, split.end)
        if left is not None:
            summary.errors = [(name, left.message, left.offset)]
    yield reading.finished(walker)


def _whole(split: Split, source: FileSource, wanted: Ports | None) -> Iterator[Segments | Summary]:
    links = LinkLayers()
    index = 0
    bases = iter(split.bases)
    while index < len(source.parts):
        part = source.parts[index]
        base = split.base + part.base
        summary = Summary(split.number, split.base // WIDE, part.name, base, part.size, base, base, 0)
        reading = _Reading(summary, links, wanted, dict(links.unread))
        tally = Tally(part.given) if part.merged else None
        moves = None if tally is None else _moves(tally, bases, base)
        walker: Walker | None = None
        try:
            while True:
                view = source.view(part)
                if walker is None and (view or not part.size):
                    walker = detect.walker(view, whole=part.final)
                records = None if walker is None or not view else walker.walk(view, BATCH)
                if records is not None and walker is not None:
                    reading.take_times(records.time)
                    which, packets = links.numbered(view, records, base)
                    real = None
                    if tally is not None and moves is not None:
                        its = tally.count(walker, view, records, which, packets.time, links.unknown)
                        real = packets.at + moves[its]
                    yield from reading.segments(view, base, packets, stays=False, real=real)
                elif part.final:
                    break
                else:
                    source.done_with(part.base + (0 if walker is None else walker.position))
                    if not source.grow(wait=True):
                        part.final = True
            left = detect.cut(walker, part.size) if source.view(part) else None
            if left is not None:
                summary.errors = [(part.name, left.message, left.offset)]
        except FormatError as error:
            summary.errors = [(part.name, error.message, error.offset or None)]
        except CaptureError as error:
            summary.errors = [(str(one.path), one.message, one.offset) for one in (error, *error.others)]
        summary.size = part.size
        summary.end = base + part.size
        summary.position = base + (0 if walker is None else walker.position)
        summary.given = list(part.given) if tally is None else tally.files
        summary.id = None if summary.given else file_id(source, part)
        yield reading.finished(walker)
        index += 1


def _moves(tally: Tally, bases: Iterator[int], base: int) -> Ints:
    """The distance of each merged file's addresses from those in the merged file, which begin at `base`; then 0, for
    packets of an unknown file.
    """
    for one, its in zip(tally.files, bases, strict=False):
        one.base = its
    return np.array([*(base if one.base is None else one.base for one in tally.files), base], np.int64) - base


@dataclass(slots=True)
class _Reading:
    """The reading of one file of a split."""

    summary: Summary
    links: LinkLayers
    wanted: Ports | None
    unread_before: Mapping[str, int]
    """Numbers of packets of earlier files that `links` could not read, by name."""
    reached: int = 0

    def take_records(self, records: Records) -> None:
        """Note records that may have to be merged with those of other files."""
        summary, link = self.summary, records.link
        single = isinstance(link, int) and (summary.first is None or summary.link == link)
        summary.link = int(link) if single else None
        summary.merged += int(merged_sizes(records).sum())
        self.take_times(records.time)

    def mark(self, offset: int) -> None:
        """Add an offset of the file to Summary.marks, unless it is less than MARKS bytes after the last one."""
        summary = self.summary
        before = summary.marks[-1][0] if summary.marks else summary.start - summary.base
        if offset - before >= MARKS and summary.base + offset < summary.end:
            summary.marks.append((offset, summary.last or 0, summary.merged))

    def take_times(self, time: Any) -> None:
        summary = self.summary
        if summary.first is None:
            summary.first = int(time[0])
        summary.last = max(int(time.max()), summary.first if summary.last is None else summary.last)

    def segments(
        self, view: memoryview, base: int, packets: Packets, *, stays: bool, real: Ints | None = None
    ) -> Iterator[Segments]:
        """Those segments in a batch of packets that are wanted.

        `real` (None: the packets' addresses), `view`, `base` and `stays` are as in Segments.
        """
        summary, count = self.summary, len(packets)
        if not count:
            return
        clock = np.maximum.accumulate(np.maximum(packets.time, summary.clock))
        reached = np.maximum.accumulate(np.maximum(packets.at, self.reached))
        position = np.arange(summary.start + summary.segments, summary.start + summary.segments + count)
        summary.clock, self.reached = int(clock[-1]), int(reached[-1])
        if summary.first_segment is None:
            summary.first_segment = int(packets.time[0])
        summary.last_segment = int(packets.time[-1])
        summary.segments += count
        flows = np.array([flow_of(key) for key in packets.directions], np.int64)
        real = packets.at if real is None else real
        found = Segments(packets, flows, position, reached, clock, real, view, base, stays)
        if self.wanted is not None:
            wanted = [any(port in self.wanted for port in ports(key)) for key in packets.directions]
            found = found if all(wanted) else found.some(np.array(wanted))
        if len(found.packets):
            yield found

    def finished(self, walker: Walker | None) -> Summary:
        """The summary of the file; `walker` is the walker that has read it, None if the file's format could not be
        detected.
        """
        self.summary.unknown = sorted(self.links.take_unknown())
        self.summary.unread = dict(Counter(self.links.unread) - Counter(self.unread_before))
        self.summary.untimed = 0 if walker is None else walker.untimed
        self.summary.compiled = compiled()
        return self.summary


def summaries(batch: Any) -> list[Summary]:
    """The summaries in a batch of SEGMENTS."""
    column = batch.column("summary")
    return [] if column.null_count == len(column) else [Summary.of(text) for text in column.drop_null().to_pylist()]
