"""Combines the summaries of splits: the order of files, totals, and whether the plan must be corrected."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kproxy.captures.errors import CaptureError
from kproxy.captures.formats.odd import not_read
from kproxy.captures.given import Given, only_id
from kproxy.captures.joining import Span, overlapping
from kproxy.captures.spark.plan.files import is_url, shown
from kproxy.captures.spark.plan.slices import Piece, Slice, sliced
from kproxy.captures.spark.plan.splits import WIDE, Plan, moved, of_groups
from kproxy.captures.tables.files import reasons, row
from kproxy.captures.tables.rows import Place, Row
from kproxy.captures.tcp.packets import Ints
from kproxy.decoders.exchange import Health


@dataclass(slots=True)
class Summary:
    """A summary of the part of a file that a split read. Times are nanoseconds since the epoch, None without packets.

    `first` and `last` are the times of the first and last packet; `segments` is the number of TCP segments,
    `first_segment` and `last_segment` are their times; `clock` is the latest time. The split has the addresses from
    `start` to `end`, and was read up to `position`; the file has `size` addresses from `base` on. `trouble` is the
    reason why the file must be read as a whole.
    """

    split: int
    group: int
    name: str
    base: int
    size: int
    start: int
    position: int
    end: int
    first: int | None = None
    last: int | None = None
    clock: int = 0
    segments: int = 0
    first_segment: int | None = None
    last_segment: int | None = None
    errors: list[tuple[str, str, int | None]] = field(default_factory=list)
    """Files that could not be read further, each with the reason and the byte; several if they are read as one."""
    trouble: str | None = None
    unknown: list[int] = field(default_factory=list)
    """Link-layer types in the file that kproxy cannot read."""
    unread: dict[str, int] = field(default_factory=dict)
    """Number of packets of unsupported links and tunnels, by name."""
    untimed: int = 0
    """Number of packets with a time out of range; each got the time of the packet before it."""
    merged: int = 0
    """Size that the records of the split have in a merged file (captures.joining)."""
    marks: list[tuple[int, int, int]] = field(default_factory=list)
    """Offsets of records in the file, each with the latest time and the merged size of the split's records before it;
    only a survey notes them (captures.spark.read.reading.surveyed).
    """
    link: int | None = None
    """The link-layer type of all records; None if they have several, or if only a reader of the whole file can merge
    it.
    """
    id: str | None = None
    """The id of the file (captures.keys); None if it is not known, or if the files `given` are read as one."""
    given: list[Given] = field(default_factory=list)
    """The files that are read as one, with what was counted in each of them; none for a single file."""
    compiled: bool = True
    """Whether the worker had kproxy's compiled modules (captures.spark.session.uncompiled)."""

    def json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Summary:
        return cls.made(json.loads(text))

    @classmethod
    def made(cls, values: Mapping[str, Any]) -> Summary:
        """The Summary that `asdict` turned into these values. Raises TypeError or KeyError for others."""
        return cls(**{**values, "given": [Given(**one) for one in values["given"]]})

    @property
    def all_given(self) -> Sequence[Given]:
        """The files as the user gave them: `given`, or the single file."""
        one = Given(
            self.name, self.size, self.id, self.first_segment, self.last_segment, self.segments, self.unknown
        )  # fmt: skip
        return self.given or [one]

    @property
    def file_id(self) -> str | None:
        """The id of the file; None if it is not known, or if several files are read as one."""
        return only_id(self.all_given)

    @property
    def all_errors(self) -> Iterator[CaptureError]:
        """Why files could not be read further, and of which files packets have unknown link-layer types."""
        yield from (CaptureError(why, name, offset) for name, why, offset in self.errors)
        yield from (CaptureError(not_read(one.unknown), one.name) for one in self.all_given if one.unknown)


@dataclass(frozen=True)
class Order:
    """The summaries of all splits, in the order of addresses."""

    capture: str
    summaries: tuple[Summary, ...]

    @classmethod
    def surveyed(cls, plan: Plan, found: Sequence[Summary], known: Sequence[Summary]) -> Order:
        """The order as a survey `found` it, with the `known` summaries of splits that the survey left out."""
        there = {one.split for one in found}
        return cls.of(plan, [*found, *(one for one in known if one.split not in there)])

    @classmethod
    def of(cls, plan: Plan, summaries: Sequence[Summary]) -> Order:
        return cls(plan.capture, tuple(sorted(summaries, key=lambda one: (one.base, one.start))))

    @cached_property
    def clocks(self) -> tuple[Ints, Ints]:
        """(first address of each split, latest time that the splits before it reached)."""
        starts = np.array([one.start for one in self.summaries], np.int64)
        clocks = np.array([0, *(one.clock for one in self.summaries)], np.int64)
        return starts, np.maximum.accumulate(clocks)[:-1]

    @cached_property
    def counts(self) -> tuple[Ints, Ints]:
        """(first address of each split, number of TCP segments in the splits before it)."""
        starts = np.array([one.start for one in self.summaries], np.int64)
        counts = np.cumsum([0, *(one.segments for one in self.summaries)], dtype=np.int64)
        return starts, counts[:-1]

    def which(self, positions: Ints) -> Ints:
        """The numbers, within the reading, of segments at these positions (captures.spark.read.reading.SEGMENTS)."""
        starts, before = self.counts
        split = np.maximum(np.searchsorted(starts, positions, "right") - 1, 0)
        return before[split] + positions - starts[split]

    @property
    def compiled(self) -> bool:
        """Whether all workers had kproxy's compiled modules."""
        return all(one.compiled for one in self.summaries)

    @cached_property
    def clock(self) -> int:
        return max(one.clock for one in self.summaries)

    @cached_property
    def end(self) -> int:
        """The highest address that any split reached."""
        return max(one.position for one in self.summaries)

    @cached_property
    def files(self) -> list[Summary]:
        """One summary for each file, with the totals of all its splits."""
        found: dict[tuple[int, str], Summary] = {}
        for one in self.summaries:
            place = one.base, one.name  # the file after an empty one has the same base
            before = found.get(place)
            found[place] = one if before is None else _joined(before, one)
        return list(found.values())

    @cached_property
    def silences(self) -> list[tuple[int, int, int]]:
        """Places where packets are missing between files: (address, latest time before it, next segment's time)."""
        found = []
        files = self.files
        for index, (one, following) in enumerate(pairwise(files)):
            hole = one.base // WIDE == following.base // WIDE and one.base + one.size < following.base
            if one.position < one.base + one.size or hole:
                clock = max(each.clock for each in files[: index + 1])
                after = max(clock, following.first_segment or 0)
                found.append((following.base, clock, after))
        return found

    @property
    def health(self) -> Health:
        """The unread and untimed packets of all splits."""
        unread: Counter[str] = Counter()
        for one in self.summaries:
            unread.update(one.unread)
        return Health(unread=dict(unread), untimed=sum(one.untimed for one in self.summaries))

    @property
    def errors(self) -> list[CaptureError]:
        """Why files could not be read to their ends, and their unknown link layers, in the order of reading."""
        return [error for one in self.files for error in one.all_errors]

    def captures(self) -> Iterator[Row]:
        """The rows of the table captures."""
        why = reasons(self.errors)
        for one in self.files:
            for given in one.all_given:
                yield row(self.capture, given, one.name, why)

    def mended(self, plan: Plan, size: int, *, slices: bool = True, surveyed: bool = False) -> Plan | None:
        """The corrected plan, in splits of about `size` bytes; None if `plan` is right.

        A file is read as a whole if one of its splits does not end where the next begins; files that overlap in time
        are read together, with `slices` in slices of time where that is possible. Slices need the summaries of a survey
        (`surveyed`); without them, if slices are possible, returns `plan` with `overlaps` set, which requests a survey.
        """
        whole = {one.group - plan.before for one in self.summaries if one.trouble is not None}
        spans: dict[int, Span] = {}
        for one in self.files:
            if one.first is not None and one.last is not None:
                group = one.base // WIDE - plan.before
                before = spans.get(group)
                first = one.first if before is None else before.first
                spans[group] = Span(first, max(one.last, 0 if before is None else before.last), group)
        timeless = [index for index in range(len(plan.groups)) if index not in spans]
        joined = [[span.index for span in together] for together in overlapping(list(spans.values()))]
        groups = [sorted(group) for group in [*joined, *([index] for index in timeless)]]
        if not whole and all(len(together) == 1 for together in joined):
            return None
        serial = frozenset(number for number, group in enumerate(groups) if whole.intersection(group))
        named = [tuple(path for index in group for path in plan.groups[index]) for group in groups]
        bases = _bases(named, plan.before + len(groups))
        cut: dict[int, tuple[Slice, ...]] = {}
        if slices:
            by_group: dict[int, list[Summary]] = {}
            for one in self.summaries:
                by_group.setdefault(one.group - plan.before, []).append(one)
            for number, together in enumerate(groups):
                files = [_pieces(plan, by_group[index]) for index in together] if len(together) > 1 else []
                if not files or not all(files):
                    continue
                if not surveyed:
                    return replace(plan, overlaps=True)
                cut[number] = sliced(files, bases[number], size)
        made = of_groups(named, size, serial, plan.before, cut, bases)
        return replace(made, whole=(*plan.whole, *self._whole(named, cut)))

    def _whole(
        self, groups: Sequence[tuple[str, ...]], slices: Mapping[int, tuple[Slice, ...]]
    ) -> list[tuple[str, str]]:
        """(file, reason) of the files that one task reads, including files of `groups` that overlap."""
        found: dict[str, str] = {}
        for one in self.summaries:
            if one.trouble is not None:
                found.setdefault(one.name, one.trouble)
        for number, group in enumerate(groups):
            if len(group) > 1 and number not in slices:
                found |= dict.fromkeys(map(shown, group), "its times overlap those of another file")
        return list(found.items())

    def where(self, address: int) -> Place:
        """The Place of an address; without an id if files were merged."""
        bases, names = self._named
        index = max(bisect_right(bases, address) - 1, 0)
        name, number = names[index]
        return Place(name, address - bases[index], number)

    def merged_id(self, address: int) -> str | None:
        """The id of the file that was merged with others and for which an address stands; None if it is unknown."""
        return self._merged.get(address // WIDE)

    @cached_property
    def _merged(self) -> dict[int, str | None]:
        """The ids of merged files; the keys are the indexes (address // WIDE) of the addresses that stand for them."""
        given = (each for one in self.files for each in one.given)
        return {each.base // WIDE: each.id for each in given if each.base is not None}

    @cached_property
    def _named(self) -> tuple[list[int], list[tuple[str, str | None]]]:
        """(base addresses, names and ids) of the files."""
        return [one.base for one in self.files], [(one.name, one.file_id) for one in self.files]


def _bases(groups: Sequence[Sequence[str]], first: int) -> dict[int, range]:
    """By the index of each group of several files, addresses that stand for each file; the index (address // WIDE) of
    the lowest is `first`.
    """
    found = {}
    for index, group in enumerate(groups):
        if len(group) > 1:
            found[index] = range(first * WIDE, (first + len(group)) * WIDE, WIDE)
            first += len(group)
    return found


def _pieces(plan: Plan, summaries: Sequence[Summary]) -> list[Piece]:
    """The stretches of a file at whose borders slices may begin; none if the file cannot be cut into slices.

    `summaries` are those of the file's splits.
    """
    found: list[Piece] = []
    for one in summaries:
        split = plan.splits[one.split]
        odd = one.trouble is not None or one.errors or one.untimed > 0
        if odd or split.walker is None or split.stamp is None or is_url(split.paths[0]) or one.link is None:
            return []
        clock = size = 0
        walker = split.walker
        for offset, latest, merged in [*one.marks, (split.end, one.last or 0, one.merged)]:
            clock = max(clock, latest)
            found.append(
                Piece(split.paths[0], split.stamp, split.id, walker, offset, clock, merged - size, one.link)
            )  # fmt: skip
            walker, size = moved(walker, offset), merged
    return found if len({one.link for one in found}) == 1 else []


def _joined(one: Summary, later: Summary) -> Summary:
    """One summary of two adjacent splits of a file."""
    both = replace(later)
    both.first = later.first if one.first is None else one.first
    both.last = max((time for time in (one.last, later.last) if time is not None), default=None)
    both.clock = max(one.clock, later.clock)
    both.segments = one.segments + later.segments
    both.first_segment = later.first_segment if one.first_segment is None else one.first_segment
    both.last_segment = one.last_segment if later.last_segment is None else later.last_segment
    both.errors = one.errors or later.errors
    both.unknown = sorted({*one.unknown, *later.unknown})
    given = {each.name: replace(each) for each in one.given}
    for each in later.given:
        if each.name in given:
            given[each.name].extend(each)
        else:
            given[each.name] = each
    both.given = list(given.values())
    return both
