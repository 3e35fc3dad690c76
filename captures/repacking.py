"""Copies packets of captures to other files: merges several captures into one file, or splits one into several.

Packets keep their bytes, link layers and comments. The files are pcapng with times in nanoseconds.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from kproxy.captures import private
from kproxy.captures.errors import CaptureError, FormatError
from kproxy.captures.formats import detect
from kproxy.captures.formats.link import LinkLayers
from kproxy.captures.formats.pcapng_writer import file_header, interface, packet, statistics
from kproxy.captures.formats.records import Records
from kproxy.captures.outputs import create
from kproxy.captures.source import FileSource, Part
from kproxy.captures.tcp.packets import endpoints, turned

_BATCH: Final = 8192
_OPEN: Final = 64
"""Maximum number of files that are open at a time."""
APPLICATION: Final = "kproxy"


@dataclass(slots=True)
class Packet:
    """One packet: time in ns since the epoch, LINKTYPE_ number, length on the wire (`wire`), captured bytes, comment.

    `flow` is the key of its connection's pair of hosts and ports; None if flows were not asked for or it is no TCP
    segment.
    """

    time: int
    link: int
    wire: int
    data: memoryview
    comment: str | None
    flow: bytes | None = None


class Packets:
    """Iterates over the packets of a source. Afterwards `error` says why the source could not be read to its end, or is
    None.

    With `flows`, packets get the key of their flow.
    """

    def __init__(self, source: FileSource, *, flows: bool = False) -> None:
        self.error: CaptureError | None = None
        self.dropped = 0
        """Packets that the capturing program reports as dropped."""
        self.untimed = 0
        """Packets with an implausible time; each got the time of the packet before it."""
        self._source = source
        self._links = LinkLayers() if flows else None

    def __iter__(self) -> Iterator[Packet]:
        index = 0
        while index < len(self._source.parts):
            part = self._source.parts[index]
            try:
                yield from self._part(part)
            except FormatError as error:
                self.error = self.error or CaptureError.of(error, part.name)
            except CaptureError as error:
                self.error = self.error or error
            index += 1

    def _part(self, part: Part) -> Iterator[Packet]:
        walker = None
        before, untimed = self.dropped, self.untimed
        while True:
            view = self._source.view(part)
            ended = part.final or self._source.parts[-1] is not part
            if walker is None:
                walker = detect.walker(view, whole=ended)
            records = None if walker is None else walker.walk(view, _BATCH)
            if records is not None and walker is not None:
                self.dropped, self.untimed = before + walker.dropped, untimed + walker.untimed
                yield from self._packets(view, records, part.base)
            elif ended:
                break
            elif not self._source.grow(wait=True):
                part.final = True
        if error := detect.cut(walker, part.size):
            raise error

    def _packets(self, view: memoryview, records: Records, base: int) -> Iterator[Packet]:
        flows = self._flows(view, records, base)
        links = [records.link] * len(records) if isinstance(records.link, int) else records.link.tolist()
        for index, (at, size, wire, time, link) in enumerate(
            zip(
                records.data.tolist(),
                records.captured.tolist(),
                records.wire.tolist(),
                records.time.tolist(),
                links,
                strict=True,
            )
        ):
            comment = records.comments.get(index)
            yield Packet(time, link, wire, view[at : at + size], comment, flows.get(index))

    def _flows(self, view: memoryview, records: Records, base: int) -> dict[int, bytes]:
        """The flow keys of the records that are TCP segments, by position in `records`."""
        if self._links is None:
            return {}
        found = self._links.segments(view, records, base)
        # The payload of a TCP segment lies within its own record, or begins where the record ends if it is empty.
        places = np.searchsorted(records.data, found.at - base, side="right") - 1
        flows = [min(key, turned(key)) for key in found.directions]
        return {place: flows[number] for place, number in zip(places.tolist(), found.direction.tolist(), strict=True)}


class PacketFile:
    """Writes a pcapng file of packets of any link layer."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._interfaces: dict[int, int] = {}
        self._last = 0
        self.size = 0
        self.packets = 0

    def add(self, one: Packet) -> None:
        number = self._interfaces.get(one.link)
        if number is None:
            number = self._interfaces[one.link] = len(self._interfaces)
            name = f"link{one.link}"
            self._write(interface(name, one.link) if number else file_header(APPLICATION, name, (), one.link))
        before, after = packet(one.time, one.data, one.wire, number, one.comment)
        self._write(before, one.data, after)
        self._last = one.time
        self.packets += 1

    def close(self, dropped: int = 0) -> None:
        """End the file; if `dropped` packets were lost by the capturing program, write their number."""
        if not self._interfaces:
            self._write(file_header(APPLICATION, "none"))
        if dropped:
            self._write(statistics(self._last, self.packets + dropped, dropped))
        self._out.flush()

    def to(self, out: BinaryIO) -> None:
        """Continue writing through another handle of the same file."""
        self._out = out

    def _write(self, *parts: bytes | memoryview) -> None:
        self._out.writelines(parts)
        self.size += sum(map(len, parts))


def merge(readings: Sequence[Packets], out: BinaryIO) -> int:
    """Write the packets of several captures to one file, in the order of their times; returns the number of packets.

    Packets of the same capture keep their order.
    """
    file = PacketFile(out)
    for one in heapq.merge(*readings, key=attrgetter("time")):
        file.add(one)
    file.close(sum(reading.dropped for reading in readings))
    return file.packets


Choose = Callable[[Packet, PacketFile | None], str | None]
"""Returns the name of the file for a packet, given the packet and the present file; None keeps the present file."""


def by_size(stem: str, most: int) -> Choose:
    """A function that starts another file when the next packet would make a file longer than `most` bytes."""
    number = 0

    def choose(one: Packet, current: PacketFile | None) -> str | None:
        nonlocal number
        if current is not None and current.size + len(one.data) + 64 <= most:
            return None
        number += 1
        return f"{stem}-{number:06}"

    return choose


def by_time(stem: str, span: int) -> Choose:
    """A function that puts `span` nanoseconds of capture time, counted from the epoch, in each file.

    A span without packets has no file.
    """
    number = until = 0

    def choose(one: Packet, current: PacketFile | None) -> str | None:
        nonlocal number, until
        if current is not None and one.time < until:
            return None
        number += 1
        until = (one.time // span + 1) * span
        return f"{stem}-{number:06}"

    return choose


def by_connection(stem: str) -> Choose:
    """A function that puts each flow in a file; packets that are not TCP segments go to a file whose name ends with
    "-other".
    """
    numbers: dict[bytes, str] = {}

    def choose(one: Packet, current: PacketFile | None) -> str:  # noqa: ARG001 (a packet's flow alone decides)
        if one.flow is None:
            return f"{stem}-other"
        name = numbers.get(one.flow)
        if name is None:
            ends = "-".join(end.replace("[", "").replace("]", "").replace(":", "_") for end in endpoints(one.flow))
            name = numbers[one.flow] = f"{stem}-{len(numbers) + 1:06}-{ends}"
        return name

    return choose


def split(packets: Iterable[Packet], directory: Path, choose: Choose, *, overwrite: bool = False) -> dict[str, int]:
    """Write packets to files in `directory`, for each packet the one that `choose` names.

    Returns the number of packets by file name. Raises OutputExists if a file has content, unless `overwrite`; other
    OSErrors if a file cannot be written.
    """
    private.place(directory)
    files: dict[str, PacketFile] = {}
    handles: OrderedDict[str, BinaryIO] = OrderedDict()
    current: str | None = None
    try:
        for one in packets:
            name = choose(one, None if current is None else files[current])
            current = current if name is None else f"{name}.pcapng"
            if current is None:
                continue
            if current not in handles:
                _open(directory, current, files, handles, overwrite=overwrite)
            files[current].add(one)
        for name, file in files.items():
            if name not in handles:
                _open(directory, name, files, handles, overwrite=overwrite)
            file.close()
    finally:
        for handle in handles.values():
            handle.close()
    return {name: file.packets for name, file in files.items()}


def _open(
    directory: Path, name: str, files: dict[str, PacketFile], handles: OrderedDict[str, BinaryIO], *, overwrite: bool
) -> None:
    """The file with this name, opened for the first time or again.

    If _OPEN files are open, the one that was opened first is closed.
    """
    while len(handles) >= _OPEN:
        handles.popitem(last=False)[1].close()
    path = directory / name
    handle = handles[name] = private.appended(path) if name in files else create(path, overwrite=overwrite)
    if name in files:
        files[name].to(handle)
    else:
        files[name] = PacketFile(handle)
