"""Reads Kafka's log segments and snapshots: files that brokers store and that hold nothing but record batches.

A segment is named by its first offset, its directory by topic and partition: orders-0/00000000000000000042.log.
Segments hold batches, not exchanges. The index files beside them are ignored.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kproxy.captures.errors import CaptureError
from kproxy.captures.formats.magic import is_capture
from kproxy.captures.source import FileSource, Part
from kproxy.decoders.batches.batch import Trouble, parse
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.records.internal import fits
from kproxy.decoders.view import View

METADATA_TOPIC: Final = "__cluster_metadata"
_NAME: Final = re.compile(r"\d{20}(?:-\d{10})?\.(?:log|checkpoint)(?:\.\w+)*", re.ASCII)
"""Pattern of the names of segments (.log) and snapshots (.checkpoint, with an epoch). Compressed files, and files about
to be deleted, have a further suffix.
"""
_DIRECTORY: Final = re.compile(r"([\w.-]+)-(\d+)(?:\.[0-9a-f]+-(?:delete|future|stray))?", re.ASCII)
_PREFIX: Final = struct.Struct(">qiIb")
"""The fields at the same place in every format of batches: base offset, size of the rest, four other bytes, magic."""
_OVERHEAD: Final = 12
"""Size in bytes of the base offset and the size field; the size field counts the bytes after these."""
_LARGEST: Final = 64 << 20
"""Maximum size in bytes of the first batch of a stream for the stream to count as a segment."""
_LOOKED_AT: Final = 64
"""Number of batches at a file's start whose first records decide whether the file holds cluster metadata."""
_ZEROS: Final = bytes(1 << 20)


@dataclass(slots=True)
class Segment:
    """The totals of one segment file, complete once its batches were read.

    `topic` and `partition` come from the directory's name; None if it has another form. `first` and `last` are offsets.
    `times` are the lowest base timestamp and the highest timestamp, in milliseconds. Each is None if no batch has one.
    `uncompressed` is in bytes; None if a batch cannot be decompressed. `tail` is the number of bytes at the end that
    are not a whole batch; zeros that brokers write in advance do not count.
    """

    file: str
    topic: str | None
    partition: int | None
    size: int
    batches: int = 0
    records: int = 0
    first: int | None = None
    last: int | None = None
    times: tuple[int, int] | None = None
    uncompressed: int | None = 0
    compression: Counter[str] = field(default_factory=Counter)
    tail: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    """Problems of the batch at which the reading stopped; their offsets are positions in the file, their paths are
    empty.
    """

    def _add(self, header: dict[str, Any]) -> None:
        self.batches += 1
        self.compression[header["compression"]] += 1
        size = header["uncompressedSizeInBytes"]
        self.uncompressed = None if size is None or self.uncompressed is None else self.uncompressed + size
        records = header["records"] or ()
        self.records += header.get("recordCount", len(records))
        base = header.get("baseOffset")
        if base is not None:
            self.first = base if self.first is None else self.first
            last = header.get("lastOffsetDelta")
            self.last = base + last if last is not None else records[-1]["offset"] if records else base
        highest = header.get("maxTimestamp", -1)
        if highest >= 0:
            lowest = min([header.get("baseTimestamp", highest), *([self.times[0]] if self.times else ())])
            self.times = lowest, max(highest, self.times[1] if self.times else highest)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch of a segment: its `position` in bytes, and its JSON form.

    The offsets of `troubles` are positions in the file; `left_out` counts further troubles, beyond the bound on their
    number.
    """

    segment: Segment
    position: int
    form: dict[str, Any]
    troubles: list[Trouble]
    left_out: int = 0


def partition_files(paths: Sequence[Path]) -> list[Path]:
    """The same paths; each directory of a partition is replaced by its segments, in the order of their offsets."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(each for each in path.glob("*.log") if _NAME.fullmatch(each.name)) if path.is_dir() else []
        found += inside or [path]
    return found


def holds_segments(source: FileSource) -> bool:
    """Whether a source's files are log segments. Of a stream, reads as many bytes as that needs."""
    part = source.parts[0]
    if _NAME.fullmatch(_name(part)):
        return not is_capture(bytes(source.view(part)[:4]))
    wanted = _PREFIX.size
    while part.size < wanted and not part.final and _grow(source):
        pass
    view = source.view(part)
    if len(view) < wanted or is_capture(bytes(view[:4])):
        return False
    offset, size, _, magic = _PREFIX.unpack_from(view)
    wanted = _OVERHEAD + size
    if offset < 0 or magic not in {0, 1, 2} or not _PREFIX.size <= wanted <= _LARGEST:
        return False
    while part.size < wanted and not part.final and _grow(source):
        pass
    batches = parse(source.view(part)[:wanted]).batches
    return bool(batches) and batches[0].header["crcValid"]


def _grow(source: FileSource) -> bool:
    try:
        return source.grow(wait=True)
    except CaptureError:
        return False  # the error is reported when the source is read


def _name(part: Part) -> str:
    return part.name.rpartition("/")[2]


class SegmentReader:
    """Iterates over the batches of a source's segments, file after file; after the last batch of a file comes its
    Segment.

    Afterwards `error` is the first error, or None if all files could be read to their ends. If no directory names the
    topic, records of the cluster's metadata are recognised by their content, because they may hold secrets.
    """

    def __init__(self, source: FileSource, view: View) -> None:
        self.source = source
        self.error: CaptureError | None = None
        self._view = view

    def __iter__(self) -> Iterator[StoredBatch | Segment]:
        for part in self.source.parts:
            try:
                while not part.final and self.source.grow(wait=True):
                    pass
            except CaptureError as error:
                self.error = self.error or error
            part.final = True
            yield from self._read(part, self.source.view(part))

    def _read(self, part: Part, view: memoryview) -> Iterator[StoredBatch | Segment]:
        match = _DIRECTORY.fullmatch(Path(part.name).absolute().parent.name)
        topic, partition = (match[1], int(match[2])) if match else (None, None)
        segment = Segment(part.name, topic, partition, len(view))
        if topic is None and _is_metadata(view):
            topic = METADATA_TOPIC
        position = 0
        while position < len(view):
            form = RecordsForm(view[position : _end(view, position)])
            if not form["batches"]:
                self._stop(segment, view, position, form.troubles)
                break
            form.open(body_json, self._view, topic)
            header = form["batches"][0]
            segment._add(header)  # noqa: SLF001  # the reader's own counts
            troubles = [_moved(one, position) for one in form.troubles]
            yield StoredBatch(segment, position, header, troubles, form.left_out)
            position += header["sizeInBytes"]
        yield segment

    def _stop(self, segment: Segment, view: memoryview, position: int, troubles: list[Trouble]) -> None:
        """Note that the reading stops at `position`, where no whole batch begins, unless only zeros follow."""
        if _is_zero(view, position):
            return
        segment.tail = len(view) - position
        segment.troubles = [_moved(one, position) for one in troubles]
        tail = segment.tail
        why = (
            troubles[0].message
            if troubles
            else f"ends inside a batch ({counted(tail, 'byte')} of it {are(tail)} there)"
        )
        self.error = self.error or CaptureError(why, segment.file, position)


def _end(view: memoryview, position: int) -> int:
    """End of the batch at `position`, by its own size field; at most the end of `view`."""
    if position + _PREFIX.size > len(view):
        return len(view)
    return min(position + max(_OVERHEAD + int(_PREFIX.unpack_from(view, position)[1]), _PREFIX.size), len(view))


def _is_metadata(view: memoryview) -> bool:
    """Whether the first record of one of the first _LOOKED_AT batches decodes as cluster metadata."""
    position = 0
    for _ in range(_LOOKED_AT):
        data = view[position : _end(view, position)]
        batches = parse(data, check=False).batches
        if not batches:
            return False
        records = open_batch(data, batches[0], most=1).records
        if records and records[0][2] is None and fits(METADATA_TOPIC, None, records[0][3]):
            return True
        position += len(data)
    return False


def _moved(trouble: Trouble, position: int) -> Trouble:
    path = trouble.path.removeprefix("batches[0]").removeprefix(".")
    return Trouble(position + trouble.offset, trouble.code, trouble.message, path)


def _is_zero(view: memoryview, position: int) -> bool:
    """Whether all bytes from `position` on are zero."""
    return all(
        view[start : start + len(_ZEROS)] == _ZEROS[: len(view) - start]
        for start in range(position, len(view), len(_ZEROS))
    )
