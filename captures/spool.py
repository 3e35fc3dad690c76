"""Spools: temporary files with the content of compressed, piped or generated streams.

A spool is 0600 and is deleted when its readers end; the next spool deletes those that killed processes left behind. The
spool of an unchanged file is kept in a cache (captures.cache) for the next reading. In a folder where others can write,
spools go to a private folder (captures.private).
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kproxy.captures import cache, private
from kproxy.captures.compression import CompressionError
from kproxy.captures.errors import CaptureError
from kproxy.captures.holes import punch
from kproxy.captures.text import size_text

MOST: Final = 20 << 30
"""Default maximum size of a spool in bytes: a small compressed stream may expand enormously."""
MARGIN: Final = 16 << 20
"""Number of bytes that spools leave free on their file system."""
STEP: Final = 64 << 20
"""Number of bytes written between two checks of the free space."""
KEPT: Final = "kproxy-kept"
"""Name of the cache of kept spools, a folder in the spools' directory."""
_HELD: Final = "capture"
_SUFFIX: Final = ".spool"
_NEW: Final = "new-"
_OURS: Final = re.compile(r"(?:new|capture)-[0-9a-f]{16}\.spool")
"""Pattern of the names of spools. The user may choose any directory, so nothing else in it is deleted."""
_NEW_SECONDS: Final = 60.0


def _nothing(_: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Spooling:
    """Settings of spools.

    `directory` is where they are (None: in the user's cache directory). `most` is the maximum size in bytes of one
    spool, and of all kept ones together. `say` is called with one message about each large spool.
    """

    directory: Path | None = None
    most: int = MOST
    say: Callable[[str], None] = _nothing

    @property
    def share(self) -> int:
        """Maximum bytes that a reader keeps or adds at a time, if a stream's beginning is deleted while the stream is
        read.
        """
        return self.most // 4

    @property
    def place(self) -> Path:
        """The folder of spools, made if missing. Raises OSError; PermissionError if it is not the user's own."""
        if self.directory is None:
            return private.folder(cache.directory() / "spool")
        return private.within(self.directory)

    @property
    def store(self) -> cache.Store:
        return cache.Store(self.place / KEPT, self.most)


class Spool:
    """Writes a stream to a temporary file, so that readers can go back in it.

    `name` is the stream's name in messages. `entry` (captures.cache.name) identifies a stream that can be made again:
    its spool is kept in the cache, and if the cache has one already, `lent` is true and the stream is not read. `least`
    is the known minimum size of the stream in bytes. Raises CaptureError if the file cannot be made.
    """

    def __init__(
        self,
        stream: Iterator[bytes],
        name: str,
        spooling: Spooling | None = None,
        *,
        entry: str | None = None,
        least: int = 0,
    ) -> None:
        self._spooling = spooling or Spooling()
        self._stream = stream
        self.name = name
        self.entry = entry
        self.size = 0
        self.gone = 0
        """Number of bytes at the beginning that were replaced by a hole (`let_go`)."""
        self.error: CaptureError | None = None
        """Why the stream ended early; None if it did not."""
        self._looked = 0
        place = self._spooling.directory
        try:
            self._place = place = self._spooling.place
            _remove_stale(place)
            self.lent = entry is not None and self._hold(self._lend)
            self.ended = self.lent
            if self.lent:
                self.size = self.path.stat().st_size
                return
            if (short := self._no_room(max(least, 1))) is not None:
                raise CaptureError(short, name)
            self._hold(_create)
        except OSError as error:
            where = error.filename or place or "the cache"
            raise CaptureError(f"cannot be spooled to {where}: {error.strerror} (--spool-dir)", self.name) from None

    def take(self, least: int = 1) -> None:
        """Append bytes of the stream, at least `least` unless it ends before; blocks until they have arrived."""
        wanted = self.size + least
        while self.size < wanted and not self.ended:
            self._take()

    def let_go(self, end: int) -> None:
        """Free the disk space of the bytes before `end`, if the file system can."""
        if end - self.gone >= min(STEP, self._spooling.share) and punch(self._descriptor, 0, self.gone, end):
            self.gone = end

    def close(self) -> None:
        self.ended = True
        self._finalizer()

    # --- taking -----------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        try:
            data = next(self._stream, b"")
        except CompressionError as error:
            self._end(str(error))
        except CaptureError as error:
            self.ended, self.error = True, error
        except OSError as error:
            self._end(f"cannot be read: {error.strerror}")
        else:
            if not data:
                self.ended = True
                if self.entry is not None:
                    why = self._spooling.store.keep(self.entry, {_HELD: self.path})
                    if why is not None:
                        self._spooling.say(f"{self.name} is not kept unpacked for the next reading: {why}")
            else:
                fits = self._spooling.most - (self.size - self.gone)
                self._append(data[:fits])
                if len(data) > fits and not self.ended:
                    self._end(self._too_large())

    def _append(self, data: bytes) -> None:
        if self.size - self._looked >= STEP:
            if not self._looked:
                self._say()
            self._looked = self.size
            left = self._spooling.most - (self.size - self.gone)
            if (short := self._no_room(min(STEP, left))) is not None:
                self._end(short)
                return
        rest = memoryview(data)
        try:
            while rest:
                written = os.write(self._descriptor, rest)
                self.size += written
                rest = rest[written:]
        except OSError as error:
            self._end(f"cannot be spooled: {error.strerror}")

    def _end(self, why: str) -> None:
        self.ended = True
        self.error = CaptureError(why, self.name)

    # --- room -------------------------------------------------------------------------------------------------------

    def _say(self) -> None:
        most = size_text(self._spooling.most)
        self._spooling.say(f"{self.name} is unpacked to {self._place} while it is read ({most}B at most)")

    def _too_large(self) -> str:
        return f"holds more than {self._spooling.most} bytes, the limit of --spool-max"

    def _no_room(self, wanted: int) -> str | None:
        """Make room for `wanted` more bytes by deleting kept spools; None, or the message that there is no room."""
        place, most, held = self._place, self._spooling.most, self.size - self.gone
        if wanted > most:
            return self._too_large()
        store = self._spooling.store
        store.trim(max(0, most - held - wanted))
        if _free(place) < wanted + MARGIN:
            store.trim(0)
        free = _free(place)
        if free >= wanted + MARGIN:
            return None
        room = f"{size_text(free)}B are free, {size_text(MARGIN)}B of which are reserved"
        return f"cannot be spooled to {place}: {room} (--spool-dir)"

    # --- the file ---------------------------------------------------------------------------------------------------

    def _lend(self, path: Path) -> bool:
        return self.entry is not None and self._spooling.store.lend(self.entry, {_HELD: path})

    def _hold(self, make: Callable[[Path], bool]) -> bool:
        """Make the file by `make`, and lock it until this process and its forks have ended; False if `make`
        fails.
        """
        place, token = self._place, secrets.token_hex(8)
        # the file is locked before it gets its name: otherwise another process could delete it as a leftover
        half, self.path = place / f"{_NEW}{token}{_SUFFIX}", place / f"capture-{token}{_SUFFIX}"
        if not make(half):
            return False
        self._descriptor = os.open(half, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        half.rename(self.path)
        self._finalizer = weakref.finalize(self, _remove, self._descriptor, str(self.path))
        return True


def lent(entry: str, name: str, spooling: Spooling) -> Spool | None:
    """The complete spool that the cache has for `entry`; None if there is none."""
    try:
        spool = Spool(iter(()), name, spooling, entry=entry)
    except CaptureError:
        return None
    if spool.lent:
        return spool
    spool.close()
    return None


def _create(path: Path) -> bool:
    os.close(private.create(path))
    return True


def _free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def _remove(descriptor: int, path: str) -> None:
    os.close(descriptor)
    Path(path).unlink(missing_ok=True)


def _remove_stale(place: Path) -> None:
    """Delete this user's spools that no process has locked."""
    for path in place.glob(f"*{_SUFFIX}"):
        if not _OURS.fullmatch(path.name):
            continue
        with suppress(OSError):
            status = path.lstat()
            if status.st_uid != os.getuid():
                continue
            if path.name.startswith(_NEW):
                if time.time() - status.st_ctime > _NEW_SECONDS:
                    path.unlink()
                continue
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)
