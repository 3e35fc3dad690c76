"""Row numbers of an index, as many as there may be: in a mapped file once they are many, so that memory stays."""

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
"""Bytes by which there is more room; so many stay in memory."""
_ONE: Final = struct.Struct("=I")
_SIZE: Final = _ONE.size
_AT_ONCE: Final = STEP // _SIZE


class Numbers:
    """A sequence of numbers below 2**32, for which `bisect` works. In memory also where no file can be written.

    The file has no name and stands in `directory`, which should be on a disk: of what is mapped from there the kernel
    takes back what nobody looks at. One thread may read while another one writes.
    """

    def __init__(self, directory: Path, numbers: Iterable[int] = ()) -> None:
        self._directory = directory
        self._file: int | None = None
        self._map = mmap.mmap(-1, STEP)
        self._first = 0
        """The place of the first one: those before it were dropped."""
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
        """Put a number before the one at a place from 0 to the length."""
        self._make_room(self._end + 1)
        place = self._first + at
        self._map.move((place + 1) * _SIZE, place * _SIZE, (self._end - place) * _SIZE)
        _ONE.pack_into(self._map, place * _SIZE, number)
        self._end += 1

    def remove(self, at: int) -> None:
        """Take out the number at a place."""
        place = self._first + at
        self._map.move(place * _SIZE, (place + 1) * _SIZE, (self._end - place - 1) * _SIZE)
        self._end -= 1

    def drop(self, count: int) -> None:
        """Take out the first `count` numbers."""
        self._first += count
        if self._first > self._end // 2:
            self._map.move(0, self._first * _SIZE, len(self) * _SIZE)
            self._first, self._end = 0, len(self)

    def index(self, number: int) -> int:
        """The place of a number. Raises ValueError where it is not there."""
        for start in range(self._first, self._end, _AT_ONCE):
            some = array("I", self._map[start * _SIZE : min(start + _AT_ONCE, self._end) * _SIZE])
            with contextlib.suppress(ValueError):
                return start - self._first + some.index(number)
        raise ValueError(number)

    def _make_room(self, end: int) -> None:
        """Map another piece; the old map goes when no other thread reads from it."""
        while end * _SIZE > len(self._map):
            size = len(self._map) + STEP
            if not self._in_file(size):
                grown = mmap.mmap(-1, size)
                grown[: len(self._map)] = self._map[:]
                self._map = grown

    def _in_file(self, size: int) -> bool:
        """Map `size` bytes of the file; False where it is not to be had. What is mapped is written before."""
        held = len(self._map)
        try:
            if self._file is None:
                if held > STEP:
                    return False  # it was refused before
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
    """Raises OSError where not all of it could be written: a page that the disk has no room for ends the process."""
    if os.pwrite(file, data, at) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
