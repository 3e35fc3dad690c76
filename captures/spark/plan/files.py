"""Opens captures by path or by URL (s3://, gs://, hdfs://, file://).

A path is mapped into memory; tasks map only the part that they read, because a file may be larger than the space
that Spark allows its workers. For a URL, pyarrow's file systems read the ranges that are needed into a sparse
temporary file, which is mapped instead. Credentials come from the environment, as these file systems define; a URL may
have their options (`s3://bucket/a.pcap?endpoint_override=localhost:9000&scheme=http`).
"""

from __future__ import annotations

import mmap
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from errno import ENOMEM
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, BinaryIO, Final, NamedTuple

from kproxy.captures import keys, private
from kproxy.captures.compression import CompressionError, is_compressed, pieces
from kproxy.captures.decrypted import open_capture
from kproxy.captures.errors import CaptureError
from kproxy.captures.formats.magic import is_capture
from kproxy.captures.source import FileSource
from kproxy.captures.tables import origin
from kproxy.captures.tls.keylog import Secrets

BLOCK: Final = 1 << 18
"""Minimum number of bytes that are read from a URL at a time."""
COPIED: Final = 16 << 20
"""Number of bytes that are copied at a time."""
PACKED: Final = 8 << 20
"""Number of compressed bytes that are read in addition, so that the decompressor certainly yields the wanted number.

It is the maximum size of a compressed block.
"""
PAGE: Final = 1 << 16
"""Number of bytes of the blocks in which files at URLs are read by address."""
BETWEEN: Final = 4
"""Maximum number of unwanted blocks between wanted ones that are read with them, because two requests take longer."""
KEPT: Final = 1024
"""Maximum number of blocks that a task keeps; together they have 64 MiB. Only the blocks of a longer read exceed it."""
AT_ONCE: Final = 64
"""Maximum number of blocks that one request reads; together they have 4 MiB."""
HEAD: Final = 1 << 12
"""Number of leading bytes whose digest shows that a file has only grown."""
_SAME: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of file systems, with the names that pyarrow has for them."""
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?]*)([^?]*)(\?[a-z_]+=.*)?", re.DOTALL)
_PATTERN: Final = re.compile(r"[*\[]")


def is_url(path: object) -> bool:
    return _URL.fullmatch(str(path)) is not None


def shown(path: str) -> str:
    """The name of a file for messages: a URL loses its options and user information, which may be secrets."""
    match = _URL.fullmatch(path)
    return path if match is None else f"{match[1]}://{match[2].rpartition('@')[2]}{match[3]}"


class Stamp(NamedTuple):
    """Identifies the content of a file that several tasks read.

    `modified` is in nanoseconds; the digest is that of the first bytes, empty for a URL.
    """

    size: int
    time: int
    head: bytes

    def check(self, path: str, found: Stamp) -> None:
        """Raise CaptureError if the file at `path`, now with the stamp `found`, was changed other than by growing."""
        if self != found and not (self.head and found.size > self.size and found.head == self.head):
            raise CaptureError("was changed while it was read", shown(path))


class Mapped:
    """The bytes of a file from `offset` on as `view`; only ranges for which `need` was called are present."""

    stamp: Stamp

    def __init__(
        self, view: memoryview, offset: int, stamp: Stamp, read: Callable[[int, int], bytes], file: BinaryIO
    ) -> None:
        self.view = view
        self.offset = offset
        self.stamp = stamp
        self._read = read
        self._file = file
        self._there: set[int] = set()

    def need(self, start: int, end: int) -> None:
        """Make the bytes of the file from `start` to `end` present. Raises OSError if they cannot be read."""
        blocks = range(max(start, 0) // BLOCK, -(-min(end, self.stamp.size) // BLOCK))
        missing = [block for block in blocks if block not in self._there]
        while missing:
            count = next((i for i, block in enumerate(missing) if block != missing[0] + i), len(missing))
            first = missing[0] * BLOCK
            os.pwrite(self._file.fileno(), self._read(first, count * BLOCK), first)
            self._there.update(missing[:count])
            del missing[:count]


class Local(Mapped):
    """A local file, all of whose bytes are present."""

    def __init__(self, view: memoryview, offset: int, stamp: Stamp) -> None:
        self.view = view
        self.offset = offset
        self.stamp = stamp

    def need(self, start: int, end: int) -> None:
        pass


@contextmanager
def mapped(path: str, start: int = 0, end: int | None = None) -> Iterator[Mapped | None]:
    """A context with the bytes of a file; None if it is compressed, empty or cannot be mapped.

    They begin at `start` or a little before, and end at `end` (None: where the file ends), or earlier if the file does.
    A local file's view stays valid after the context.

    Raises CaptureError if it cannot be opened or read, or if the address space has no room for the bytes.
    """
    if is_url(path):
        with as_capture_errors(path), _input(path) as file:
            size = file.size()
            if not size or is_compressed(file.read_at(4, 0)):
                yield None
                return
            with TemporaryFile(buffering=0) as held:
                held.truncate(size)
                found = _mapped(held.fileno(), size, start, end)
                yield found and Mapped(*found, _stamp_of_url(path), lambda at, count: file.read_at(count, at), held)
        return
    with _opened(path) as descriptor:
        stamp = _stamp(descriptor)
        try:
            found = None if is_compressed(os.pread(descriptor, 4, 0)) else _mapped(descriptor, stamp.size, start, end)
        except OSError as error:
            if error.errno == ENOMEM:
                raise CaptureError(f"cannot be mapped into memory: {error.strerror}", path) from None
            found = None
        yield found and Local(*found, stamp)


class Blocks:
    """The bytes of files at URLs, in blocks that are kept while there is room."""

    def __init__(self) -> None:
        self._files: dict[str, Any] = {}
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    @property
    def kept(self) -> int:
        """Number of blocks that are kept."""
        return len(self._kept)

    def need(self, url: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Read the blocks of some ranges (start, end), and blocks between ranges that are close together.

        Raises CaptureError if they cannot be read.
        """
        wanted = sorted({block for start, end in ranges for block in range(start // PAGE, -(-end // PAGE))})
        missing = [block for block in wanted if (url, block) not in self._kept]
        for first, last in _stretches(missing):
            self._fetch(url, first, last)

    def read(self, url: str, start: int, end: int) -> bytes:
        """The bytes [start, end) of a file; fewer if it ends before. Raises CaptureError if they cannot be read."""
        if end <= start:
            return b""
        first, last = start // PAGE, (end - 1) // PAGE
        self.need(url, [(start, end)])
        blocks = [self._kept[url, block] for block in range(first, last + 1)]
        for block in range(first, last + 1):
            self._kept.move_to_end((url, block))
        while len(self._kept) > max(KEPT, last + 1 - first):
            self._kept.popitem(last=False)
        begin = first * PAGE
        whole = b"".join(blocks) if len(blocks) > 1 else blocks[0]
        return whole[start - begin : end - begin]

    def _fetch(self, url: str, first: int, last: int) -> None:
        with as_capture_errors(url):
            file = self._files.get(url)
            if file is None:
                file = self._files[url] = _input(url)
            data = file.read_at((last - first) * PAGE, first * PAGE)
        for block in range(first, last):
            start = (block - first) * PAGE
            self._kept[url, block] = data[start : start + PAGE]


def _stretches(blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, end) of runs of blocks, each read at once: at most AT_ONCE blocks, at most BETWEEN unwanted in a row."""
    i = 0
    while i < len(blocks):
        first, last = blocks[i], blocks[i]
        while i < len(blocks) and blocks[i] - last <= 1 + BETWEEN and blocks[i] - first < AT_ONCE:
            last = blocks[i]
            i += 1
        yield first, last + 1


@contextmanager
def unchanged(path: str, stamp: Stamp, start: int, end: int) -> Iterator[Mapped]:
    """As `mapped`, of a file that had the stamp `stamp`. Raises CaptureError also if it was changed since then."""
    with mapped(path, start, end) as held:
        if held is None:
            raise CaptureError("was changed while it was read", shown(path))
        stamp.check(path, held.stamp)
        yield held


def check_url(url: str, stamp: Stamp) -> None:
    """Raise CaptureError if the file at a URL is gone or was changed since `stamp`."""
    with as_capture_errors(url):
        found = _stamp_of_url(url)
    stamp.check(url, found)


def _stamp(descriptor: int) -> Stamp:
    status = os.fstat(descriptor)
    return Stamp(status.st_size, status.st_mtime_ns, blake2b(os.pread(descriptor, HEAD, 0), digest_size=8).digest())


def _stamp_of_url(url: str) -> Stamp:
    system, path, _ = _system(url)
    found = system.get_file_info(path)
    return Stamp(int(found.size or 0), int(found.mtime_ns or 0), b"")


def head(path: str, size: int) -> bytes:
    """The first `size` bytes of a file's decompressed content. Raises CaptureError if it cannot be opened."""
    if not is_url(path):
        with _opened(path) as descriptor:
            return _head(descriptor, size)
    with as_capture_errors(path), _input(path) as file:
        first: bytes = file.read_at(size, 0)
        if not is_compressed(first):
            return first
        with TemporaryFile(buffering=0) as held:
            os.pwrite(held.fileno(), file.read_at(size + PACKED, 0), 0)
            return _head(held.fileno(), size)


def heads(paths: Iterable[str]) -> list[tuple[str, bytes]]:
    """As captures.tables.origin.heads, of files at URLs too. Raises CaptureError if one of these cannot be read."""
    given: list[tuple[str, bytes]] = []
    for path in paths:
        given += [(shown(path), head(path, keys.HEAD))] if is_url(path) else origin.heads([path])
    return [one for one in given if one[1]]


def found(url: str) -> list[str]:
    """The captures at a URL, in order: a file, the files of a folder, or those that match a pattern (`*` and `[…]`).

    Raises CaptureError if there is none.
    """
    from pyarrow import fs

    with as_capture_errors(url):
        system, path, name = _system(url)
        kind = fs.FileType.NotFound if _PATTERN.search(path) else system.get_file_info(path).type
        if kind == fs.FileType.File:
            return [url]
        if kind == fs.FileType.Directory:
            inside = (one.path for one in system.get_file_info(fs.FileSelector(path)) if one.type == fs.FileType.File)
            captures = [name(one) for one in sorted(inside) if is_capture(head(name(one), 4))]
            if not captures:
                raise CaptureError("a folder without captures", shown(url))
            return captures
        matching = [name(one) for one in sorted(_matching(system, path))]
    if not matching:
        raise CaptureError("No such file or directory", shown(url))
    return matching


def size(path: str) -> int:
    """Size in bytes of a file, or of all files in a folder together. Raises CaptureError if a URL cannot be opened."""
    if not is_url(path):
        here = Path(path)
        return sum(one.stat().st_size for one in (here.iterdir() if here.is_dir() else [here]) if one.is_file())
    with as_capture_errors(path):
        system, inner, _ = _system(path)
        return int(system.get_file_info(inner).size or 0)


@contextmanager
def opened(paths: Sequence[str], secrets: Secrets | None = None) -> Iterator[FileSource]:
    """A context with the source of captures, as captures.decrypted.open_capture gives it.

    Files at URLs are copied to this machine first.
    """
    with TemporaryDirectory(prefix="kproxy-") if any(map(is_url, paths)) else nullcontext("") as folder:
        local = [Path(folder) / str(i) if is_url(path) else Path(path) for i, path in enumerate(paths)]
        names = {here: shown(path) for here, path in zip(local, paths, strict=True) if is_url(path)}
        for here, path in zip(local, paths, strict=True):
            if here in names:
                _copy(path, here)
        source = open_capture(local if len(local) > 1 else local[0], secrets=secrets, names=names)
        try:
            yield source
        finally:
            source.close()


def _copy(url: str, to: Path) -> None:
    with as_capture_errors(url), _input(url) as file, private.output(to) as out:
        for at in range(0, file.size(), COPIED):
            out.write(file.read_at(COPIED, at))


def file_system(url: str) -> tuple[Any, str]:
    """(pyarrow.fs.FileSystem of a URL, path in it). Raises OSError or pyarrow's exceptions if it cannot be reached."""
    system, path, _ = _system(url)
    return system, path


def _matching(system: Any, path: str) -> Iterator[str]:
    from pyarrow import fs

    levels = path.split("/")
    fixed = next((i for i, level in enumerate(levels) if _PATTERN.search(level)), len(levels))
    if fixed == len(levels):
        return
    folder = "/".join(levels[:fixed]) or "/"
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=fixed + 1 < len(levels))
    for one in system.get_file_info(selector):
        parts = one.path.split("/")
        if one.type == fs.FileType.File and len(parts) == len(levels) and all(map(fnmatchcase, parts, levels)):
            yield one.path


def _system(url: str) -> tuple[Any, str, Callable[[str], str]]:
    """(file system of a URL, path in it, function that makes a URL of another path)."""
    match = _URL.fullmatch(url)
    assert match is not None  # noqa: S101  # nobody asks of a path
    scheme, host, rest, options = match.groups(default="")
    system, base = _root(_SAME.get(scheme, scheme), host, options)
    base = base.rstrip("/")

    def name(path: str) -> str:
        return f"{scheme}://{host}{path.removeprefix(base)}{options}"

    return system, base + rest, name


@lru_cache(maxsize=16)
def _root(scheme: str, host: str, options: str) -> tuple[Any, str]:
    from pyarrow import fs

    system, base = fs.FileSystem.from_uri(f"{scheme}://{host}{'' if host and scheme != 'hdfs' else '/'}{options}")
    return system, base


def _input(url: str) -> Any:
    system, path, _ = _system(url)
    return system.open_input_file(path)


@contextmanager
def as_capture_errors(url: str) -> Iterator[None]:
    """A context that turns pyarrow's exceptions into CaptureError."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise CaptureError("No such file or directory", shown(url)) from None
    except (OSError, pa.ArrowException) as error:
        raise CaptureError(str(error).partition("\n")[0], shown(url)) from None


@contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CaptureError(error.strerror or str(error), path) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mapped(descriptor: int, size: int, start: int, end: int | None) -> tuple[memoryview, int] | None:
    """The bytes of a file of `size` bytes from `start`, or a little before, to `end`, and the offset of the first; None
    if there are none.

    Raises OSError if they cannot be mapped.
    """
    offset = start - start % mmap.ALLOCATIONGRANULARITY
    length = (size if end is None else min(size, end)) - offset
    if length <= 0:
        return None
    return memoryview(mmap.mmap(descriptor, length, access=mmap.ACCESS_READ, offset=offset)), offset


def _head(descriptor: int, size: int) -> bytes:
    if not is_compressed(os.pread(descriptor, 4, 0)):
        return os.pread(descriptor, size, 0)
    held = bytearray()
    try:
        for piece in pieces(descriptor):
            held += piece
            if len(held) >= size:
                break
    except CompressionError:
        pass  # the reading will report the error
    return bytes(held[:size])
