"""The destinations of a recording: one pcapng file, or a ring of files of which the oldest is deleted."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kproxy.captures import private
from kproxy.captures.formats.pcapng_writer import LINKTYPE_RAW, file_header, statistics
from kproxy.captures.ring import PACKED, RING_FILE, number_of, segment_name
from kproxy.captures.source import RingSource
from kproxy.decoders.plurals import counted

IOV_MAX = 1000
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk; after these errors, writing is tried again."""
STATISTICS_BYTES = 512
"""Number of bytes kept free in a ring segment for the statistics block at its end."""

UNBOUNDED = sys.maxsize

Buffers = list[bytes | bytearray | memoryview]


@dataclass(slots=True)
class Batch:
    """Whole pcapng blocks to write: `packets` packets in `size` bytes.

    A batch also counts the packets and exchanges that were not recorded since the previous batch.
    """

    buffers: Buffers = field(default_factory=list)
    size: int = 0
    packets: int = 0
    dropped: int = 0
    """Number of packets that could not be recorded."""
    excluded: int = 0
    """Number of exchanges that the recording's filter left out."""

    def join(self, later: Batch) -> None:
        """Appends the blocks and counts of a later batch to this one."""
        self.buffers += later.buffers
        self.size += later.size
        self.packets += later.packets
        self.dropped += later.dropped
        self.excluded += later.excluded


class Sink(Protocol):
    """A destination for batches; only the writer's thread calls it."""

    def write(self, batch: Batch) -> None:
        """Writes a batch. On an error, counts the batch's packets as dropped and raises OSError.

        After an error in FULL the caller may write again; after any other error it may only call `close`.
        """

    def room(self) -> int:
        """Number of free bytes on the disk; UNBOUNDED if the sink cannot tell."""

    def close(self) -> None:
        """Ends the recording; further calls do nothing."""


class File:
    """One pcapng file with mode 0600.

    Its last block counts the packets that were dropped while the file was written.
    """

    def __init__(self, path: Path, header: bytes) -> None:
        """Empties the file. Raises OSError, also for a pipe or a device: the recording is read while it grows."""
        _refuse_special(path)
        self.path = path
        self._descriptor = private.emptied(path)
        private.restrict(self._descriptor)
        self._total = Batch()
        self._failure = ""
        self.size = 0
        try:
            self._append([header], len(header))
        except OSError:
            os.close(self._descriptor)
            path.unlink(missing_ok=True)
            raise

    def write(self, batch: Batch) -> None:
        """Appends a batch. Raises OSError, also if the file has been removed."""
        self._total.packets += batch.packets
        self._total.dropped += batch.dropped
        self._total.excluded += batch.excluded
        try:
            if batch.size:
                self._append(batch.buffers, batch.size)
            if batch.dropped or self._failure:
                self._append_statistics("packets are missing before this")
                self._failure = ""
            if not os.fstat(self._descriptor).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "the file has been removed")
        except OSError as error:
            self._failure = error.strerror or str(error)
            self._total.packets -= batch.packets
            self._total.dropped += batch.packets
            if error.errno in FULL:
                with contextlib.suppress(OSError):
                    self._cut()
                    self._append_statistics()
                with contextlib.suppress(OSError):
                    self._cut()
            raise

    def room(self) -> int:
        disk = os.fstatvfs(self._descriptor)
        return disk.f_bavail * disk.f_frsize

    def _append(self, buffers: Buffers, size: int) -> None:
        written = os.writev(self._descriptor, buffers) if len(buffers) <= IOV_MAX else 0
        if written < size:  # too many buffers for writev, or a short write
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self.size += size

    def _append_statistics(self, failed: str = "recording stopped here") -> None:
        total = self._total
        comments = []
        if total.excluded:
            comments.append(f"{counted(total.excluded, 'exchange')} left out by --record")
        if self._failure:
            comments.append(f"{failed}: {self._failure}")
        block = statistics(time.time_ns(), total.packets + total.dropped, total.dropped, comments)
        self._append([block], len(block))

    def close(self) -> None:
        """Ends the file with a statistics block, or on a full disk with its last whole block."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._cut()
            self._append_statistics()
        with contextlib.suppress(OSError):
            self._cut()
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1

    def _cut(self) -> None:
        """Removes a partly written block from the file's end: a reader of the growing file would wait for its rest."""
        if os.fstat(self._descriptor).st_size > self.size:
            os.ftruncate(self._descriptor, self.size)
            os.lseek(self._descriptor, self.size, os.SEEK_SET)


def _refuse_special(path: Path) -> None:
    """Raises OSError if there is a pipe or a device at the path, before it is opened: opening a pipe may block."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            why = "it is a pipe or a device, but kproxy reads the recording while it writes it: name a file"
            raise OSError(errno.EINVAL, why, str(path))


class Ring:
    """A ring of at most `keep` segments in a directory; the oldest segment is deleted first.

    Segments are named seg-00000001-20261121T183638Z.pcapng: a number and the time of creation. A segment ends with a
    whole block before it exceeds `segment_bytes`, or once it is `seconds` old. Segments that an earlier run left in the
    directory belong to the ring and are deleted in their turn. `closed` is called with the path of each complete
    segment and may replace the file by a compressed one (`captures.ring.PACKED`).

    A deleted segment that a reader still has open takes up space, so it counts towards `keep`. Readers hold a shared
    lock on each segment that they have open (`captures.source.RingSource`).

    The file `ring.json` holds each segment's address in the address space of the whole ring, and the number of the
    first segment of this run: {"bases": {"seg-00000007-….pcapng": 100663296}, "began": 7}.
    """

    def __init__(
        self,
        directory: Path,
        header: bytes,
        segment_bytes: int,
        keep: int,
        *,
        seconds: float | None = None,
        closed: Callable[[Path], None] | None = None,
    ) -> None:
        """Creates the first segment.

        Raises OSError, and CaptureError if the directory's existing segments cannot be read.
        """
        self._directory = directory
        self._header = header
        self._segment_bytes = segment_bytes
        self._keep = keep
        self._seconds = seconds
        self._closed = closed
        self._number = 0
        self._bases: dict[str, int] = {}
        self._held: list[int] = []
        """Descriptors of deleted segments that a reader still had open at the last check."""
        self._live: set[int] = set()
        """Numbers of the segments in the directory, without the one that is being created."""
        self._missed = 0
        """Number of packets dropped because no new segment could be created."""
        self._ended: Path | None = None
        """Path of the last complete segment, for which `closed` was not called yet."""
        self._claim = self._lock()
        try:
            self._base = self._take_over()
            self._began = self._number + 1
            self._file: File | None = self._next()
        except BaseException:
            os.close(self._claim)
            raise

    def _lock(self) -> int:
        claim = private.kept(self._directory)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(claim)
            raise FileExistsError(errno.EEXIST, "another kproxy records there", str(self._directory)) from None
        return claim

    def _take_over(self) -> int:
        """Adds the segments of an earlier run to this ring; returns the address at which the next segment begins."""
        for left in self._directory.glob(f"*{PACKED}.new"):
            left.unlink(missing_ok=True)
        if not any(number_of(path.name) for path in self._directory.iterdir()):
            return 0
        held = RingSource(self._directory)
        try:
            for part in held.parts:
                self._number = number_of(part.path.name)
                self._bases[part.path.name.removesuffix(PACKED)] = part.base
                if not part.packed:
                    self._complete(part.path)
            return held.size
        finally:
            held.close()

    def _next(self) -> File:
        """Deletes old segments, then creates and returns the next one. After an OSError it may be called again."""
        number = self._number + 1
        self._since = time.monotonic()  # the clock may be set meanwhile
        name = segment_name(number, time.time())
        self._make_room()
        self._bases = {name: base for name, base in self._bases.items() if number_of(name) in self._live}
        self._bases[name] = self._base
        private.replace(self._directory / RING_FILE, json.dumps({"bases": self._bases, "began": self._began}))
        file = File(self._directory / name, self._header)
        self._number = number
        return file

    def _make_room(self) -> None:
        """Deletes the oldest segments until one more fits within `keep`.

        Deleted segments that readers still have open count as well.
        """
        self._held = [file for file in self._held if not _unused(file)]
        found = sorted((number, path) for path in self._directory.iterdir() if (number := number_of(path.name)))
        oldest = self._number - self._keep + 1
        gone = 0
        for number, path in found:
            if number > oldest and len(found) - gone + len(self._held) < self._keep:
                break
            self._delete(path)
            gone += 1
        self._live = {number for number, _ in found[gone:]}

    def _delete(self, path: Path) -> None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        path.unlink(missing_ok=True)
        if not _unused(file):
            self._held.append(file)

    def _complete(self, path: Path) -> None:
        if self._closed is not None:
            self._closed(path)

    def write(self, batch: Batch) -> None:
        file = self._file
        if (
            file is not None
            and file.size > len(self._header)
            and (
                file.size + batch.size + STATISTICS_BYTES > self._segment_bytes
                or (self._seconds is not None and time.monotonic() - self._since >= self._seconds)
            )
        ):
            file.close()  # before the next segment is created: readers take this one for complete once it exists
            self._base += file.size
            self._ended, self._file = file.path, None
        self._open_next(batch).write(batch)

    def room(self) -> int:
        return UNBOUNDED if self._file is None else self._file.room()

    def _open_next(self, batch: Batch) -> File:
        """The segment to write `batch` to; creates one if the last is complete. Raises OSError if that fails."""
        if self._file is None:
            try:
                self._file = self._next()
            except OSError:
                self._missed += batch.packets + batch.dropped
                raise
            batch.dropped, self._missed = batch.dropped + self._missed, 0
        if self._ended is not None:
            self._complete(self._ended)
            self._ended = None
        return self._file

    def close(self) -> None:
        if self._claim < 0:
            return
        if self._file is not None:
            self._file.close()
            self._ended = self._file.path
        if self._ended is not None:
            self._complete(self._ended)
        for file in (*self._held, self._claim):
            os.close(file)
        self._held, self._claim = [], -1


def _unused(file: int) -> bool:
    """Whether no reader has this deleted segment open or mapped; if so, closes the descriptor `file`."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks: the segment counts as unused
    os.close(file)
    return True


def pcapng_header(interface: str, comments: Sequence[str] = (), link: int = LINKTYPE_RAW) -> bytes:
    """The blocks at the start of each file of a recording; `link` is the LINKTYPE_ number of its packets."""
    return file_header("kproxy", interface, comments, link)
