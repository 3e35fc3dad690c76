"""Joins several captures to one in the order of their times; their names and the order in which they are given are
ignored.

Files that follow one another (a rotated ring) are read one after the other. Files whose times overlap (two interfaces,
two hosts, the two directions of a tap) are merged into a temporary pcapng file, because addresses must grow with time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kproxy.captures import cache
from kproxy.captures.errors import CaptureError, FormatError
from kproxy.captures.formats import detect, pcapng_writer
from kproxy.captures.formats.records import Records, Walker
from kproxy.captures.given import Given
from kproxy.captures.keys import HEAD, named
from kproxy.captures.source import AND, FileSource, Part
from kproxy.captures.spool import Spool, Spooling
from kproxy.captures.stamps import stamp
from kproxy.captures.tcp.packets import Ints
from kproxy.captures.tls import keylog

BATCH: Final = 32_768
DISORDER: Final = 1_000_000
"""Maximum overlap, in nanoseconds, of consecutive files that are not merged: packets within one file may be out of
order by as much.
"""
PIECE: Final = 1 << 20
SECTION: Final = pcapng_writer.section("kproxy")
"""The beginning of the merged file."""


@dataclass(frozen=True, slots=True)
class Span:
    """Times of a file's first and last packet, in nanoseconds since the epoch; `index` is the file's position in the
    input.
    """

    first: int
    last: int
    index: int


class JoinedSource(FileSource):
    """Several captures as one source, in the order of time. Raises CaptureError if a file cannot be opened."""

    def __init__(
        self, paths: Sequence[Path], spooling: Spooling | None = None, names: Mapping[Path, str] | None = None
    ) -> None:
        """`names` maps paths to the names that the user knows, if they differ."""
        # stamped before opening: if a file grows meanwhile, its cache entry has a name that nobody asks for
        self._stamps = {(names or {}).get(path, str(path)): stamp(path) for path in paths}
        super().__init__(paths, spooling, names)
        self.secrets = keylog.embedded(part.view for part in self.parts)
        """TLS secrets that the files hold, collected here because a merged file lacks them."""
        spans = [span(self.view(part), index) for index, part in enumerate(self.parts)]
        groups = overlapping([one for one in spans if one is not None])
        given, self.parts, self._bases = self.parts, [], []
        for group in groups:
            together = [given[one.index] for one in group]
            if len(together) == 1:
                self._append(together[0])
            else:
                self._merge(together)
        for part, found in zip(given, spans, strict=True):
            if found is None:  # no packets, or not a capture: the reader reports it
                self._append(part)
        for part in self.parts:
            part.final = part is not self.parts[-1] and (part.spool is None or part.spool.error is None)

    def _append(self, part: Part) -> None:
        part.base = self.size
        self.parts.append(part)
        self._bases.append(part.base)

    def _merge(self, parts: list[Part]) -> None:
        stamps = [[part.name, self._stamps[part.name]] for part in parts]
        entry = cache.name("merged", stamps) if all(found for _, found in stamps) else None
        name, size = AND.join(part.name for part in parts), sum(part.size for part in parts)
        given = [Given(part.name, part.size, named(bytes(part.view[:HEAD]))) for part in parts]
        whole = self._fill(Spool(merged(parts), name, self.spooling, entry=entry, least=size))
        whole.given, whole.merged = given, True
        self._drain(whole)
        for part in parts:
            part.view = memoryview(b"")
            os.close(self._files.pop(part.path))
            if part.spool is not None:
                part.spool.close()


def span(view: memoryview, index: int) -> Span | None:
    """The times of a file's packets; None if it has no packets or is not a capture."""
    stream = Stream(view)
    first = last = None
    while stream.fill():
        first = int(stream.keys[0]) if first is None else first
        last = int(stream.keys[-1])
        stream.drop(len(stream.keys))
    return None if first is None or last is None else Span(first, last, index)


def overlapping(spans: Sequence[Span]) -> list[list[Span]]:
    """Groups of files in the order of their first packets; the files of a group overlap and must be merged."""
    groups: list[list[Span]] = []
    last = 0
    for one in sorted(spans, key=lambda one: one.first):
        if groups and (one.first < last - DISORDER or one.last < last):
            groups[-1].append(one)
        else:
            groups.append([one])
        last = max(last, one.last)
    return groups


def merged(parts: Sequence[Part]) -> Iterator[bytes]:
    """The packets of several files in the order of time, as pieces of a pcapng file.

    Packets of one file keep their order; of packets with the same time, those of the first file come first. If files
    could not be read to their ends, raises at the end the CaptureError of the first such file; its `others` are the
    errors of the rest.
    """
    streams = [Stream(part.view) for part in parts]
    interfaces: dict[tuple[int, int, bool], int] = {}
    out = bytearray(SECTION)
    while active := [(number, stream) for number, stream in enumerate(streams) if stream.fill()]:
        counts = known([stream.keys for _, stream in active])
        keys = np.concatenate([stream.keys[:count] for (_, stream), count in zip(active, counts, strict=True)])
        whose = np.repeat(np.arange(len(active)), counts)
        which = np.concatenate([np.arange(count) for count in counts])
        for i in np.argsort(keys, kind="stable").tolist():
            number, stream = active[int(whose[i])]
            link, time, data, wire, comment = stream.packet(int(which[i]))
            name = (number, link, stream.walker.nanoseconds)
            if name not in interfaces:
                interfaces[name] = len(interfaces)
                out += interface(parts[number].name, link, nanoseconds=name[2])
            units = time if name[2] else time // 1000
            before, after = pcapng_writer.packet(units, data, wire, interfaces[name], comment)
            out += before
            out += data
            out += after
            if len(out) >= PIECE:
                yield bytes(out)
                out.clear()
        for (_, stream), count in zip(active, counts, strict=True):
            stream.drop(count)
    dropped = sum(stream.dropped for stream in streams)
    if dropped:
        out += pcapng_writer.statistics(0, 0, dropped)
    yield bytes(out)
    errors = [error for one in zip(parts, streams, strict=True) if (error := _error(*one)) is not None]
    if errors:
        errors[0].others = errors[1:]
        raise errors[0]


def _error(part: Part, stream: Stream) -> CaptureError | None:
    """Why a file could not be read to its end; None if it could."""
    early = None if part.spool is None else part.spool.error
    if stream.error is None and early is not None:
        return early
    error = stream.error or detect.cut(stream.reading, len(part.view))
    return None if error is None else CaptureError.of(error, part.name)


def known(keys: Sequence[Ints]) -> list[int]:
    """For each file, how many of its next packets can be merged before further packets of any file are read.

    `keys` are the times of these packets, in order. Of packets with the same time, those of the first file come first.
    """
    limit, last = min((int(times[-1]), number) for number, times in enumerate(keys))
    return [
        int(np.searchsorted(times, limit, "right" if number <= last else "left")) for number, times in enumerate(keys)
    ]


def interface(name: str, link: int, *, nanoseconds: bool) -> bytes:
    """The block that describes a file in the merged file, before the first of its packets."""
    return pcapng_writer.interface(name, link, 9 if nanoseconds else 6)


class Stream:
    """The packets of one file; `keys` are their times in nanoseconds, raised if needed so that they never decrease."""

    def __init__(self, view: memoryview) -> None:
        self.keys: Ints = np.empty(0, np.int64)
        self.error: FormatError | None = None
        self.reading: Walker | None = None
        self._view = view
        self._records: Records | None = None
        self._taken = 0
        self._last = 0
        try:
            self.reading = detect.walker(view, whole=True)
        except FormatError as error:
            self.error = error

    @property
    def walker(self) -> Walker:
        assert self.reading is not None  # noqa: S101 (it has given packets)
        return self.reading

    @property
    def dropped(self) -> int:
        return 0 if self.reading is None else self.reading.dropped

    def fill(self) -> bool:
        """Whether packets are left; reads the next batch of packets into `keys` if none are."""
        while not len(self.keys) and self.reading is not None and self.error is None:
            try:
                self._records = self.reading.walk(self._view, BATCH)
            except FormatError as error:
                self.error = error
                self._records = None
            if self._records is None:
                break
            self._taken = 0
            self.keys = np.maximum.accumulate(np.maximum(self._records.time, self._last))
            self._last = int(self.keys[-1])
        return len(self.keys) > 0

    def drop(self, count: int) -> None:
        """Drop the first `count` packets of `keys`."""
        self.keys = self.keys[count:]
        self._taken += count

    def packet(self, index: int) -> tuple[int, int, memoryview, int, str | None]:
        """(link-layer type, time in ns, captured bytes, length on the wire, comment or None) of the packet at
        `keys[index]`.
        """
        records = self._records
        assert records is not None  # noqa: S101 (there is a packet)
        i = self._taken + index
        data, link = int(records.data[i]), records.link
        return (
            link if isinstance(link, int) else int(link[i]),
            int(records.time[i]),
            self._view[data : data + int(records.captured[i])],
            int(records.wire[i]),
            records.comments.get(i),
        )
