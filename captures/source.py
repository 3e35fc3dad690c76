"""Random access to captures: one address space over the files of a reading, which may grow.

The base address of a file is the sum of the sizes of the files before it, so that addresses grow in capture order.
Files are memory-mapped; reading is a slice of the map. A viewer needs only this module to turn spans into bytes; it
does not load numpy.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import stat
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Final

from kproxy.captures import cache
from kproxy.captures.compression import MAGIC_SIZE, is_compressed, least_size, pieces
from kproxy.captures.errors import CaptureError
from kproxy.captures.given import Given
from kproxy.captures.packed import Unpacked, packed_size
from kproxy.captures.pipes import ready
from kproxy.captures.ring import PACKED, RING_FILE, number_of
from kproxy.captures.seekable import Frames
from kproxy.captures.spool import Spool, Spooling
from kproxy.captures.stamps import stamp_of

STANDARD_INPUT: Final = "-"
FIRST_STEP: Final = 1 << 18
LARGEST_STEP: Final = 16 << 20
_HEAD: Final = 64
"""Number of first bytes that are compared to detect that a file was overwritten: they hold the time of the first
packet, or the header of a pcapng section.
"""
REMEMBERED: Final = 32 << 20
"""Decompressed bytes of a seekable file that are kept before the viewed address, because an exchange's bytes lie close
together.
"""
_OVERWRITTEN: Final = (
    "was overwritten after it was opened, as tcpdump -W does; to follow such a ring, read a pipe "
    "(tcpdump -U -w - | kproxy replay -) or let kproxy sniff --ring capture"
)
_NOTHING = memoryview(b"")
RELEASE_BYTES = 16 << 20
"""Bytes of mapped files that are read before their memory is released to the system."""


AND: Final = " + "
"""Separator of the names of files that are read as one part."""


@dataclass(slots=True)
class Part:
    """One file of a source: its bytes have the addresses [base, base + size).

    `view` holds these bytes. It is empty if the file was deleted; `size` stays. `name` is the user's name for the file.
    `path` is the file that is mapped: another one, such as a spool, if the user's file cannot be mapped.
    """

    path: Path
    name: str
    base: int
    size: int
    view: memoryview
    final: bool = False
    """Whether the file is complete: no more bytes will come."""
    packed: bool = False
    """Whether the file is compressed: `view` is empty, `size` is the decompressed size, and `FileSource.view`
    decompresses it.
    """
    spool: Spool | None = None
    """The spool that writes the file at `path`; None if `path` is the user's file."""
    head: bytes = b""
    """The file's first bytes, at most _HEAD."""
    given: Sequence[Given] = ()
    """The files of which this one was made; none for a file that is read as the user gave it."""
    merged: bool = False
    """Whether the file was merged from `given`, so that whoever reads it counts their packets (captures.tally)."""


class FileSource:
    """Files read as one; the last of them may grow. Pipes and compressed files are spooled to temporary files.

    A single file is spooled while it is read. Several are spooled completely before reading starts, because addresses
    depend on the sizes of the files before. Raises CaptureError if a file cannot be opened.
    """

    streams = False
    """Whether bytes arrive slowly, as from standard input, so that they are delivered as soon as they arrive."""
    read_again = False
    """Whether the source will be read a second time."""

    def __init__(
        self, paths: Sequence[Path], spooling: Spooling | None = None, names: Mapping[Path, str] | None = None
    ) -> None:
        """`names` maps paths to the names that the user knows, if they differ."""
        self.spooling = spooling or Spooling()
        self._names = names or {}
        self.parts: list[Part] = []
        self._bases: list[int] = []
        self._files: dict[Path, int] = {}
        """Open file descriptors by path; `close` or the end of the source closes them."""
        self._finalizer = weakref.finalize(self, _close, self._files)
        self._released = 0
        """Address up to which the memory of mapped files was released to the system."""
        for path in paths:
            part = self._open(path)
            if part.spool is not None and len(paths) > 1:
                self._drain(part)
        for part in self.parts[:-1]:
            part.final = part.spool is None or part.spool.error is None

    @property
    def size(self) -> int:
        """The address behind the last mapped byte."""
        return self.parts[-1].base + self.parts[-1].size if self.parts else 0

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end), without a copy. They are fewer at the end of a file, and none where a file was
        deleted.
        """
        if len(self._bases) == 1 and not self._bases[0]:
            return self.parts[0].view[start:end]
        i = bisect_right(self._bases, start) - 1
        if i < 0:
            return b""
        part = self.parts[i]
        return part.view[start - part.base : end - part.base]

    def view(self, part: Part) -> memoryview:
        """The bytes of a part; empty if its file was deleted."""
        return part.view

    def grow(self, *, wait: bool = False) -> bool:  # noqa: ARG002
        """Map the bytes that were appended since the last call; returns whether there were any.

        With `wait`, a stream blocks until bytes arrive or it ends. Raises CaptureError if a file was overwritten.
        """
        for one in self.parts:
            self._refuse_overwritten(one)
        part = next((part for part in self.parts if not part.final), self.parts[-1])
        spool = self._spool_of(part)
        if spool is None:
            return self._remap(part)
        spool.take(self._amount(part))
        grown = self._remap(part)
        if spool.ended and not grown:
            part.final = True
            if spool.error is not None:
                raise spool.error
        return grown

    def catch_up(self) -> None:
        """Map the bytes that the parent process has mapped since this process was forked; only the parent reads
        streams.

        Raises CaptureError if a file was overwritten.
        """
        part = next((part for part in self.parts if not part.final), self.parts[-1])
        self._remap(part)

    def done_with(self, address: int) -> None:
        """Declare that users of `view` no longer need the bytes before an address; `read` may still ask for them."""

    @property
    def gone(self) -> int:
        """The address below which no byte can be read any more, because files were deleted."""
        return self.oldest

    def drop_deleted(self) -> None:
        """Unmap deleted files: the system frees their memory and disk space only when no process maps them."""

    def release(self, address: int) -> None:
        """Release the memory of mapped bytes before an address to the system; reading them pages them in again.

        Called repeatedly with growing addresses, it bounds the resident memory of this process on large files.
        """
        if address - self._released < RELEASE_BYTES:
            return
        for part in self.parts:
            start, end = max(self._released - part.base, 0), min(address - part.base, part.size)
            if isinstance(part.view.obj, mmap.mmap) and start < end:
                start -= start % mmap.PAGESIZE
                part.view.obj.madvise(mmap.MADV_DONTNEED, start, end - start - (end - start) % mmap.PAGESIZE)
        self._released = address

    def ended_early(self, part: Part) -> CaptureError | None:
        """Why the bytes of a part end early, also if `grow` has raised the error before; None if they do not."""
        spool = self._spool_of(part)
        return None if spool is None else spool.error

    def _spool_of(self, part: Part) -> Spool | None:
        """The spool that fills a part while it is read; None for a file that is mapped itself."""
        return part.spool

    def _amount(self, part: Part) -> int:
        """The minimum number of bytes that a step takes from a part's spool.

        The number is small at first, so that the first rows appear soon, and grows with the part. It stays 1 if the
        bytes arrive slowly (`streams`).
        """
        if self.streams:
            return 1
        return min(max(part.size, FIRST_STEP), LARGEST_STEP)

    def written(self) -> int:
        """The address behind the last byte in the files at present; `grow` may not have mapped all of them yet."""
        if not self.parts:
            return 0
        last = self.parts[-1]
        return max(self.size, last.base + _size(last.path))

    @property
    def oldest(self) -> int:
        """The lowest address whose bytes may still exist."""
        return self.parts[0].base if self.parts else 0

    def let_go(self, most: int) -> int:  # noqa: ARG002
        """Forget up to `most` leading parts whose files were deleted; returns how many."""
        return 0

    @property
    def ended(self) -> bool:
        """Whether no more bytes can arrive: all files are streams whose ends were reached. A plain file may always
        grow.
        """
        return all(part.spool is not None and part.spool.ended for part in self.parts)

    def close(self) -> None:
        """Close the files; mapped memory remains as long as a slice of it exists."""
        for part in self.parts:
            if part.spool is not None:
                part.spool.close()
        _close(self._files)
        self.parts = []
        self._bases = []

    def _open(self, path: Path, base: int | None = None) -> Part:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CaptureError(error.strerror or str(error), path) from None
        # A pipe, such as <(...) of a shell, cannot be mapped.
        if not stat.S_ISREG(os.fstat(file).st_mode) or is_compressed(os.pread(file, MAGIC_SIZE, 0)):
            return self._fill(self._spool(file, self._name(path)))
        return self._add(path, file, self._name(path), base)

    def _name(self, path: Path) -> str:
        return self._names.get(path, str(path))

    def _spool(self, file: int, name: str) -> Spool:
        """A spool that takes an open file's bytes, decompressed."""
        stamp = stamp_of(file)
        entry = None if stamp is None else cache.name("decompressed", stamp)
        try:
            spool = Spool(_of_file(file), name, self.spooling, entry=entry, least=least_size(file))
        except CaptureError:
            os.close(file)
            raise
        if spool.lent:
            os.close(file)
        return spool

    def _fill(self, spool: Spool) -> Part:
        """Append a part whose bytes come from a spool."""
        part = self._add(spool.path, os.open(spool.path, os.O_RDONLY | os.O_CLOEXEC), spool.name)
        part.spool = spool
        return part

    def _drain(self, part: Part) -> None:
        """Take all bytes of a part's spool, up to the limit of spools."""
        if part.spool is not None:
            part.spool.take(self.spooling.most)
        self._remap(part)

    def _add(self, path: Path, file: int, name: str, base: int | None = None) -> Part:
        self._files[path] = file
        start = self.size if base is None else base
        part = Part(path, name, start, 0, _NOTHING)
        self.parts.append(part)
        self._bases.append(start)
        self._remap(part)
        return part

    def _remap(self, part: Part) -> bool:
        """Map a part again if the size of its file changed; returns whether it grew. The old map lives as long as
        slices of it.
        """
        file = self._files.get(part.path)
        if file is None:
            return False
        self._refuse_overwritten(part)
        size = os.fstat(file).st_size
        if size == part.size:
            return False
        if len(part.head) < _HEAD:
            part.head = os.pread(file, _HEAD, 0)
        try:
            part.view = memoryview(mmap.mmap(file, size, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise CaptureError(f"cannot be mapped: {error}", part.name) from None
        part.size = size
        return True

    def _overwritten(self, part: Part) -> bool:
        """Whether a part's file shrank or begins with other bytes than before."""
        file = self._files.get(part.path)
        if file is None or self._spool_of(part) is not None:
            return False
        return os.fstat(file).st_size < part.size or os.pread(file, len(part.head), 0) != part.head

    def _refuse_overwritten(self, part: Part) -> None:
        if self._overwritten(part):
            part.view = _NOTHING
            raise CaptureError(_OVERWRITTEN, part.name)


class ViewedSource(FileSource):
    """Files that another process reads or has read; a file that was overwritten since then reads as empty."""

    def read(self, start: int, end: int) -> bytes | memoryview:
        i = bisect_right(self._bases, start) - 1
        if i < 0 or self._overwritten(self.parts[i]):
            return b""
        return super().read(start, end)


class SeekableSource(FileSource):
    """A seekable zstd file, read in place: any address can be read at any time.

    If it is `viewed`, the most recently decompressed bytes are in a temporary file, and `done_with` frees the beginning
    of that file. Otherwise the source supports `read` only, and has its full size from the start.
    """

    def __init__(self, path: Path, frames: Frames, spooling: Spooling | None = None, *, viewed: bool = True) -> None:
        super().__init__((), spooling)
        self._frames = frames
        self._process = os.getpid()
        self._packed = weakref.finalize(self, os.close, frames.descriptor)
        self._spool_here: Spool | None = None
        if viewed:
            spool = self._spool_here = Spool(frames.pieces(), str(path), self.spooling)
            self._add(path, os.open(spool.path, os.O_RDONLY | os.O_CLOEXEC), str(path))
        else:
            self.parts.append(Part(path, str(path), 0, frames.size, _NOTHING, final=True))
            self._bases.append(0)

    def read(self, start: int, end: int) -> bytes:
        spool = self._spool_here
        # the temporary file is used only by the process that made it: another process cannot see which bytes were freed
        if spool is not None and spool.gone <= start and end <= self.size and os.getpid() == self._process:
            return bytes(self.parts[0].view[start:end])
        return self._frames.read(start, end)

    def written(self) -> int:
        return self._frames.size

    @property
    def ended(self) -> bool:
        return self._spool_here is None or self._spool_here.ended

    def done_with(self, address: int) -> None:
        if self._spool_here is not None and not self.read_again:
            self._spool_here.let_go(address - min(REMEMBERED, self.spooling.share))

    def _spool_of(self, part: Part) -> Spool | None:  # noqa: ARG002
        return self._spool_here

    def _amount(self, part: Part) -> int:
        return max(1, min(super()._amount(part), self.spooling.share))

    def close(self) -> None:
        if self._spool_here is not None:
            self._spool_here.close()
        super().close()
        self._packed()


class RingSource(FileSource):
    """A ring: a directory of segments (`captures.ring`) written one after the other, of which the oldest are deleted.

    A complete segment may be replaced by its compressed form. If `ring.json` exists beside the segments, it holds the
    base addresses of segments whose predecessors were deleted, and the number of the first segment that the present run
    wrote: `{"bases": {"seg-00000007-20261121T183638Z.pcapng": 100663296}, "began": 7}`. Raises CaptureError if the
    directory holds no segment.
    """

    def __init__(self, directory: Path, spooling: Spooling | None = None, *, live: bool = False) -> None:
        """With `live`, the segments of earlier runs are left out."""
        super().__init__((), spooling)
        self.directory = directory
        self._unpacked = Unpacked(lambda: self.spooling.place, self.spooling.most)
        self._first = self._began() if live else 0
        self._take_segments()
        if not self.parts:
            raise CaptureError(
                "a directory without recording segments; to read captures in it, give their names", directory
            )

    def read(self, start: int, end: int) -> bytes | memoryview:
        i = bisect_right(self._bases, start) - 1
        if i < 0:
            return b""
        part = self.parts[i]
        try:
            view = self.view(part) if part.packed else part.view
        except CaptureError:
            return b""
        return view[start - part.base : end - part.base]

    def view(self, part: Part) -> memoryview:
        """The bytes of a part. Raises CaptureError if it is compressed and cannot be decompressed."""
        if not part.packed:
            return part.view
        return self._unpacked.view(part.path, part.size) or _NOTHING

    def grow(self, *, wait: bool = False) -> bool:  # noqa: ARG002
        grown = self._take_segments()
        self.drop_deleted()
        return grown

    @property
    def gone(self) -> int:
        gone = self.oldest
        for part in self.parts:
            if part.path in self._files or self._there(part):
                break
            gone = part.base + part.size
        return gone

    def drop_deleted(self) -> None:
        for part in self.parts:
            if part.path not in self._files or part.path.exists():
                continue
            compressed = part.path.with_name(part.path.name + PACKED)
            replaced = compressed.exists()
            if replaced and not part.final:
                continue  # the segment's size is final only once its successor is listed
            os.close(self._files.pop(part.path))
            part.view = _NOTHING
            if replaced:
                part.path, part.packed = compressed, True

    def catch_up(self) -> None:
        self.grow()

    def written(self) -> int:
        # the writer lists the last segment in ring.json before it creates the file
        last = max(self._ring_bases().items(), key=itemgetter(1), default=None)
        if last is None:
            return super().written()
        name, base = last
        return max(self.size, base + _size(self.directory / name))

    def let_go(self, most: int) -> int:
        gone = 0
        while gone < min(most, len(self.parts) - 1) and not self._there(self.parts[gone]):
            gone += 1
        for part in self.parts[:gone]:
            if part.path in self._files:
                os.close(self._files.pop(part.path))
        del self.parts[:gone], self._bases[:gone]
        return gone

    @staticmethod
    def _there(part: Part) -> bool:
        return part.path.exists() or (not part.packed and part.path.with_name(part.path.name + PACKED).exists())

    def close(self) -> None:
        self._unpacked.close()
        super().close()

    def _take_segments(self) -> bool:
        last = number_of(self.parts[-1].path.name) if self.parts else self._first - 1
        try:
            found = {
                number: file.name.removesuffix(PACKED)
                for file in self.directory.iterdir()
                if (number := number_of(file.name)) > last and number
            }
        except OSError as error:
            raise CaptureError(error.strerror or str(error), self.directory) from None
        # The directory was listed before this: a segment with a successor in the listing has its final size.
        grown = self._remap(self.parts[-1]) if self.parts else False
        bases = self._ring_bases() if found else {}
        for _, name in sorted(found.items()):
            before = self.parts[-1] if self.parts else None
            # Segments may have been written and deleted unseen: the next base is then beyond the end of the last part.
            if self._open_segment(name, max(bases.get(name, 0), self.size)):
                grown = True
                # only now: a reader that is at the end of a final part, and finds no part after it, ends
                if before is not None:
                    before.final = True
        return grown

    def _open_segment(self, name: str, base: int) -> bool:
        """Open a segment or its compressed form; False if it was deleted after it was listed."""
        path, compressed = self.directory / name, self.directory / (name + PACKED)
        try:
            self._open(path, base)
        except CaptureError:
            if path.exists():
                raise
        else:
            # the lock lasts as long as the mapping; by it the writer knows that a deleted segment still takes up space
            with contextlib.suppress(OSError):
                fcntl.flock(self._files[path], fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        try:
            size = packed_size(compressed)
        except CaptureError:
            if compressed.exists():
                raise
            return False
        self.parts.append(Part(compressed, str(compressed), base, size, _NOTHING, packed=True))
        self._bases.append(base)
        return True

    def _began(self) -> int:
        began = self._ring().get("began")
        return began if isinstance(began, int) else 0

    def _ring(self) -> dict[str, Any]:
        try:
            held = json.loads((self.directory / RING_FILE).read_bytes())
        except (OSError, ValueError):
            return {}
        return held if isinstance(held, dict) else {}

    def _ring_bases(self) -> dict[str, int]:
        bases = self._ring().get("bases")
        if not isinstance(bases, dict):
            return {}
        return {str(name): base for name, base in bases.items() if isinstance(base, int) and base >= 0}


class SpoolSource(FileSource):
    """A stream (standard input), which is spooled as it arrives, decompressed if it is compressed."""

    streams = True

    def __init__(self, stream: BinaryIO, name: str = STANDARD_INPUT, spooling: Spooling | None = None) -> None:
        super().__init__((), spooling)
        self._stream = stream.fileno()
        self._fill(Spool(pieces(self._stream), name, self.spooling))

    def grow(self, *, wait: bool = False) -> bool:
        if not wait and not self.ended and not ready([self._stream], wait=False):
            return self._remap(self.parts[0])
        return super().grow(wait=wait)


def _of_file(descriptor: int) -> Iterator[bytes]:
    """The decompressed content of a file, in pieces; closes the descriptor at the end."""
    try:
        yield from pieces(descriptor)
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    """The size of a file in bytes; 0 if it was deleted."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _close(files: dict[Path, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def check(paths: Sequence[Path]) -> None:
    """Raise CaptureError if one of these files or directories cannot be opened. Packets are not read."""
    for path in paths:
        if path.is_dir():
            RingSource(path).close()
            continue
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise CaptureError(error.strerror or str(error), path) from None
