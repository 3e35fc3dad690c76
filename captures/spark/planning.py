"""What is to be read, cut into splits: which files, in which order, and where each is cut.

Addresses of a reading (decoders.conversation.stream) grow in capture order: a file has WIDE of them, whatever its size,
so that nobody must know the sizes of the files before it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Final

from captures.compression import MAGIC_SIZE, is_compressed, pieces
from captures.errors import CaptureError, FormatError
from captures.formats import detect
from captures.formats.magic import begins_as_capture
from captures.formats.records import Walker
from captures.ring import number_of
from captures.spark.edges import edges
from captures.tables.keys import HEAD, capture_id
from captures.tls import keylog
from captures.tls.opening import open_capture

WIDE: Final = 1 << 44
"""Addresses that a file has."""
SPLIT_SIZE: Final = 64 << 20
"""Bytes of a split, unless others are wanted."""


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: the records of a file from `start` to `end`, whose addresses begin at `base`.

    `walker` is the file's as it stands at `start`. None says that all of `paths` is read as one, from its beginning to
    its end: a compressed file, those that must be merged, what is encrypted.
    """

    number: int
    paths: tuple[str, ...]
    base: int
    start: int
    end: int
    walker: Walker | None
    last: bool = True
    """No other split of the file is behind it."""
    alone: bool = True
    """There is no other split of the file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`capture` names the reading (captures.tables.keys); `groups` are its files, those read as one together.

    `before` groups have been read before.
    """

    capture: str
    groups: tuple[tuple[str, ...], ...]
    splits: tuple[Split, ...]
    before: int = 0


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    first: int | None
    """When its first packet was captured; None where it has none that can be read."""
    whole: bool
    """It cannot be cut."""


def expand(paths: Sequence[Path | str]) -> list[str]:
    """The captures that are meant: patterns and folders of captures become their files, each once, in order."""
    found: list[str] = []
    for path in map(str, paths):
        if Path(path).exists():
            found += _of_folder(Path(path)) if Path(path).is_dir() and not _is_ring(Path(path)) else [path]
        elif matching := sorted(glob(path)):  # noqa: PTH207  # a pattern may begin at the root
            found += matching
        else:
            raise CaptureError("No such file or directory", path)
    return list(dict.fromkeys(found))


def _is_ring(folder: Path) -> bool:
    return any(number_of(path.name) for path in folder.iterdir())


def _of_folder(folder: Path) -> list[str]:
    found = sorted(str(path) for path in folder.iterdir() if path.is_file() and begins_as_capture(path))
    if not found:
        raise CaptureError("a folder without captures", folder)
    return found


def plan(paths: Sequence[Path | str], size: int = SPLIT_SIZE, before: int = 0) -> Plan:
    """The plan of reading these captures, of which no split is much longer than `size` bytes, `before` groups behind.

    Raises CaptureError where one of them cannot be opened.
    """
    given = expand(paths)
    if len(given) == 1 and Path(given[0]).is_dir():
        return of_groups([tuple(given)], size, before=before)
    files = [_look(path) for path in given]
    if any(map(_has_secrets, given)):
        return of_groups([tuple(given)], size, before=before)
    with_time = sorted((one for one in files if one.first is not None), key=lambda one: one.first or 0)
    ordered = [*with_time, *(one for one in files if one.first is None)]
    return of_groups([(one.path,) for one in ordered], size, before=before)


def of_groups(
    groups: Sequence[tuple[str, ...]], size: int, serial: frozenset[int] = frozenset(), before: int = 0
) -> Plan:
    """The plan of files in this order, those of one group read as one, and those of the groups `serial` not cut."""
    splits: list[Split] = []
    for index, group in enumerate(groups):
        for split in _splits(group, size, cut=index not in serial):
            splits.append(replace(split, number=len(splits), base=(before + index) * WIDE))
    return Plan(_capture(groups[0]), tuple(groups), tuple(splits), before)


def _splits(group: tuple[str, ...], size: int, *, cut: bool) -> Iterator[Split]:
    path = group[0]
    whole = Split(0, group, 0, 0, 0, None)
    if len(group) > 1 or not cut or Path(path).is_dir():
        yield whole
        return
    with _mapped(path) as view:
        walker = None if view is None else _at_first_packet(view)
        if view is None or walker is None:
            yield whole
            return
        starts = [walker.position, *edges(view, walker, range(walker.position + size, len(view), max(size, 1)))]
        starts = sorted(set(starts))
        for start, end in zip(starts, [*starts[1:], len(view)], strict=True):
            at = moved(walker, start)
            yield Split(0, group, 0, start, end, at, last=end == len(view), alone=len(starts) == 1)


def moved(walker: Walker, position: int) -> Walker:
    """The same walker at another place."""
    other = copy(walker)
    other.position = position
    return other


def _at_first_packet(view: memoryview) -> Walker | None:
    """The walker of a file that has taken up all that stands before its first packet; None where that cannot be cut."""
    try:
        walker = detect.walker(view, whole=True)
        if walker is None:
            return None
        records = walker.walk(view, 1)
    except FormatError:
        return None
    if records is None:
        return None
    before = detect.walker(view, whole=True)
    assert before is not None  # noqa: S101  # it was there before
    with contextlib.suppress(FormatError):
        before.walk(view[: int(records.data[0])], 1)
    return before if before.position <= int(records.data[0]) else None


@contextlib.contextmanager
def _mapped(path: str) -> Iterator[memoryview | None]:
    """The bytes of a file; None where it is compressed, empty or no file that can be mapped."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CaptureError(error.strerror or str(error), path) from None
    try:
        if is_compressed(os.pread(file, MAGIC_SIZE, 0)):
            yield None
            return
        try:
            mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            yield None
            return
        yield memoryview(mapped)
    finally:
        os.close(file)


def _look(path: str) -> _File:
    """When a file begins."""
    for size in (1 << 16, 1 << 20, 1 << 24):
        first = head(path, size)
        view = memoryview(first)
        try:
            walker = detect.walker(view, whole=True)
            records = None if walker is None else walker.walk(view, 1)
        except FormatError:
            break
        if records is not None:
            return _File(path, int(records.time[0]), whole=False)
        if len(first) < size:
            break
    return _File(path, None, whole=True)


def began(path: str) -> int | None:
    """When a file's first packet was captured; None where it has none. Raises CaptureError as `plan`."""
    return _look(path).first


def head(path: str, size: int) -> bytes:
    """The first `size` bytes of a file, decompressed. Raises CaptureError where it cannot be opened."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CaptureError(error.strerror or str(error), path) from None
    found = bytearray()
    try:
        if not is_compressed(os.pread(file, MAGIC_SIZE, 0)):
            return os.pread(file, size, 0)
        for piece in pieces(file):
            found += piece
            if len(found) >= size:
                break
    except ValueError:
        pass  # the reading says what is wrong with it
    finally:
        os.close(file)
    return bytes(found[:size])


def _has_secrets(path: str) -> bool:
    """Whether a capture holds secrets of TLS, so that it is decrypted while it is read."""
    with _mapped(path) as view:
        return bool(keylog.embedded([memoryview(head(path, HEAD)) if view is None else view]))


def _capture(group: tuple[str, ...]) -> str:
    """As captures.tables.keys.capture_id of the reading that begins with these files."""
    source = open_capture(group)
    try:
        while source.size - source.parts[0].base < HEAD and source.grow(wait=True):
            pass
        return capture_id(source, source.parts[0].base)
    finally:
        source.close()
