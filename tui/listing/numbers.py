"""A sequence of row numbers that moves into a memory-mapped file when it is long, so that memory stays bounded."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import tempfile
from array import array
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

STEP: Final = 1 << 18
"""Bytes by which the sequence grows; the first ones are always in memory."""
_ONE: Final = struct.Struct("=I")
_SIZE: Final = _ONE.size
_AT_ONCE: Final = STEP // _SIZE


class Numbers:
    """A sequence of numbers below 2**32, which `bisect` can search. Stays in memory if no file can be written.

    The file has no name and lies in `directory`, which should be on a disk, so that the kernel can evict mapped pages.
    One thread may read while another one writes.
    """

    def __init__(self, directory: Path, numbers: Iterable[int] = ()) -> None:
        self._directory = directory
        self._file: int | None = None
        self._map = mmap.mmap(-1, STEP)
        self._first = 0
        """Position of the first number in the map: those before it were dropped."""
        self._end = 0
        self.extend(numbers)

    def __len__(self) -> int:
        return self._end - self._first

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < len(self):
            raise IndexError(at)
        number: int = _ONE.unpack_from(self._map, (self._first + at) * _SIZE)[0]
        return number

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def extend(self, numbers: Iterable[int]) -> None:
        more = iter(numbers)
        while some := array("I", islice(more, _AT_ONCE)):
            end = self._end + len(some)
            self._make_room(end)
            self._map[self._end * _SIZE : end * _SIZE] = some.tobytes()
            self._end = end

    def insert(self, at: int, number: int) -> None:
        """Insert a number at a position from 0 to the length."""
        self._make_room(self._end + 1)
        place = self._first + at
        self._map.move((place + 1) * _SIZE, place * _SIZE, (self._end - place) * _SIZE)
        _ONE.pack_into(self._map, place * _SIZE, number)
        self._end += 1

    def remove(self, at: int) -> None:
        """Remove the number at a position."""
        place = self._first + at
        self._map.move(place * _SIZE, (place + 1) * _SIZE, (self._end - place - 1) * _SIZE)
        self._end -= 1

    def drop(self, count: int) -> None:
        """Remove the first `count` numbers."""
        self._first += count
        if self._first > self._end // 2:
            self._map.move(0, self._first * _SIZE, len(self) * _SIZE)
            self._first, self._end = 0, len(self)

    def index(self, number: int) -> int:
        """The position of a number. Raises ValueError if it is absent."""
        for start in range(self._first, self._end, _AT_ONCE):
            some = array("I", self._map[start * _SIZE : min(start + _AT_ONCE, self._end) * _SIZE])
            with contextlib.suppress(ValueError):
                return start - self._first + some.index(number)
        raise ValueError(number)

    def _make_room(self, end: int) -> None:
        """Grow the map to hold numbers up to `end`; the old map is freed once no other thread reads it."""
        while end * _SIZE > len(self._map):
            size = len(self._map) + STEP
            if not self._in_file(size):
                grown = mmap.mmap(-1, size)
                grown[: len(self._map)] = self._map[:]
                self._map = grown

    def _in_file(self, size: int) -> bool:
        """Map `size` bytes of the file; False if that fails. Writes zeros first, to allocate the disk space."""
        held = len(self._map)
        try:
            if self._file is None:
                if held > STEP:
                    return False  # writing the file failed before
                with tempfile.TemporaryFile(dir=self._directory) as file:
                    self._file = os.dup(file.fileno())
                _write(self._file, self._map[:], 0)
            _write(self._file, bytes(size - held), held)
            self._map = mmap.mmap(self._file, size)
        except OSError:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            return False
        return True


def _write(file: int, data: bytes, at: int) -> None:
    """Write all of `data` or raise OSError: touching a mapped page that the disk has no room for kills the process."""
    if os.pwrite(file, data, at) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
