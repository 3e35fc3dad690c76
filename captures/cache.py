"""Cache of indexes and spools, for later readings of the same captures.

A store is a directory of entries, and an entry is a directory of files. The name of an entry is a digest of everything
that its content depends on, so an entry that is found is valid, and a stale one is not found. Entries appear
atomically, by a rename, and their files are never written again: a process that uses them makes hard links in a folder
of its own, where they stay when the entry is removed. So any number of processes may make, use and remove the same
entry at the same time. Files are synced before the rename, so a power failure leaves a complete entry or none. Without
hard links on the file system nothing is kept.

The store must be the user's own folder (captures.private). It is used through its descriptor and without following
links, so that no other user can redirect it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from kproxy.captures import private
from kproxy.captures.stamps import ends

SEALS: Final = "seals.json"
"""Name of a file in each entry, which holds the size and digest of its other files, to detect damage."""
_SAMPLES: Final = 64
_SAMPLE: Final = 4096
"""A file's digest covers _SAMPLES samples of _SAMPLE bytes each, and both ends of the file."""
_HALF: Final = ".half-"
"""Prefix of the names of incomplete entries."""
_ENTRY: Final = re.compile(r"[0-9a-f]{40}")
"""Pattern of entry names. The user may choose the store's folder, so nothing else in it is removed."""
_HALF_SECONDS: Final = 600.0
"""Seconds after which an incomplete entry counts as abandoned."""


def directory() -> Path:
    """The user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("kproxy")


# --- names of entries --------------------------------------------------------------------------------------


def name(*made_of: Any) -> str:
    """The entry's name: 40 hex digits of a digest of the installed code and of `made_of` (JSON values), everything else
    that the content depends on.
    """
    return hashlib.sha256(json.dumps([_code(), *made_of]).encode()).hexdigest()[:40]


@cache
def _code() -> str:
    """A digest of the code that reads captures, because another release may read differently."""
    from kproxy import decoders

    digest = hashlib.sha256()
    for package in (Path(__file__).parent, Path(str(decoders.__file__)).parent):
        for one in sorted(_files(str(package))):
            digest.update(repr(one).encode())
    return digest.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and modification time of all files below a folder, except Python's bytecode."""
    with os.scandir(folder) as found:
        for one in found:
            if one.is_dir():
                if one.name != "__pycache__":
                    yield from _files(one.path)
            else:
                status = one.stat()
                yield one.path, status.st_size, status.st_mtime_ns


# --- the store -------------------------------------------------------------------------------------------------------


class Store:
    """Entries below `directory`, of at most `most` bytes in all; the least recently used ones are removed, never the
    newest.
    """

    def __init__(self, directory: Path, most: int) -> None:
        self._directory = directory
        self._most = most

    def lend(self, entry: str, files: Mapping[str, Path]) -> bool:
        """Make hard links to an entry's files: `files` maps their names in the entry to the paths of the links.

        Returns False, and leaves no link, if the entry is missing or damaged.
        """
        try:
            # relative to the folder's descriptor, so that all files are of one entry even if the entry is replaced
            # meanwhile
            with self._opened() as store, _folder(entry, store) as folder:
                if not _whole(folder, files):
                    return False
                for held, path in files.items():
                    os.link(held, path, src_dir_fd=folder, follow_symlinks=False)
                os.utime(folder)
        except OSError:
            for path in files.values():
                path.unlink(missing_ok=True)
            return False
        return True

    def keep(self, entry: str, files: Mapping[str, Path]) -> str | None:
        """Make an entry of hard links to finished files: `files` maps names in the entry to the files' paths.

        Returns None, or the reason why they cannot be kept.
        """
        why = None
        try:
            with self._opened(make=True) as store:
                # an existing entry has the same content unless it is damaged
                if not _is_whole(entry, store):
                    _make(entry, files, store)
        except OSError as error:
            why = f"{error.filename or self._directory}: {error.strerror or error}"
        self.trim(self._most, spare=entry)
        return why

    def trim(self, most: int, *, spare: str | None = None) -> None:
        """Remove the least recently used entries, except `spare`, until at most `most` bytes are left."""
        with suppress(OSError), self._opened() as store:
            total = 0
            for _, found, size in sorted(_entries(store), reverse=True):
                total += size
                if total > most and found != spare:
                    shutil.rmtree(found, ignore_errors=True, dir_fd=store)

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the store's folder, which `make` makes if it is missing. Raises OSError."""
        if not make:
            self._directory.lstat()
        descriptor = private.opened(self._directory)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _folder(name: str, parent: int) -> Iterator[int]:
    """A descriptor of a folder below the folder `parent`. Raises OSError if it is a link or belongs to another user."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(name)
        yield descriptor
    finally:
        os.close(descriptor)


def _make(entry: str, files: Mapping[str, Path], store: int) -> None:
    """Make an entry in the folder `store` from hard links to `files`, or replace the entry. Raises OSError."""
    half = f"{_HALF}{secrets.token_hex(8)}"
    os.mkdir(half, private.FOLDER_MODE, dir_fd=store)
    try:
        with _folder(half, store) as folder:
            os.fchmod(folder, private.FOLDER_MODE)
            for held, path in files.items():
                os.link(path, held, dst_dir_fd=folder, follow_symlinks=False)
            seals = {held: _seal(held, folder, flush=True) for held in files}
            with os.fdopen(private.create(SEALS, dir_fd=folder), "wb") as file:
                file.write(json.dumps(seals).encode())
                file.flush()
                os.fsync(file.fileno())
            os.fsync(folder)
        shutil.rmtree(entry, ignore_errors=True, dir_fd=store)
        os.rename(half, entry, src_dir_fd=store, dst_dir_fd=store)
    finally:
        shutil.rmtree(half, ignore_errors=True, dir_fd=store)


def _entries(store: int) -> Iterator[tuple[float, str, int]]:
    """(time of last use, name, size in bytes) of each entry; incomplete entries that were abandoned are removed."""
    for name in os.listdir(store):
        with suppress(OSError):
            used = os.stat(name, dir_fd=store, follow_symlinks=False).st_mtime
            if name.startswith(_HALF) and time.time() - used > _HALF_SECONDS:
                shutil.rmtree(name, ignore_errors=True, dir_fd=store)
            elif _ENTRY.fullmatch(name):
                with _folder(name, store) as folder, os.scandir(folder) as files:
                    size = sum(one.stat(follow_symlinks=False).st_blocks * 512 for one in files)
                yield used, name, size


def _is_whole(entry: str, store: int) -> bool:
    try:
        with _folder(entry, store) as folder:
            return _whole(folder)
    except OSError:
        return False


def _whole(folder: int, files: Iterable[str] = ()) -> bool:
    """Whether the entry in the open directory `folder` has these files, and all its files match their seals."""
    try:
        with os.fdopen(_opened_file(SEALS, folder), "rb") as file:
            seals = json.load(file)
        return bool(seals.keys() >= set(files)) and all(_seal(held, folder) == seals[held] for held in seals)
    except (OSError, ValueError, AttributeError):
        return False


def _seal(name: str, folder: int, *, flush: bool = False) -> list[Any]:
    """[size in bytes, digest] of a file; the digest covers both ends and samples between them. Raises OSError.

    With `flush`, the file is first synced to disk.
    """
    descriptor = _opened_file(name, folder)
    try:
        if flush:
            os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
        digest = hashlib.sha256(ends(descriptor, size).encode())
        for i in range(_SAMPLES):
            digest.update(os.pread(descriptor, _SAMPLE, size * i // _SAMPLES))
        return [size, digest.hexdigest()]
    finally:
        os.close(descriptor)


def _opened_file(name: str, folder: int) -> int:
    """The descriptor of a file opened for reading. Raises OSError if it is not a regular file of this user."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        os.close(descriptor)
        raise PermissionError(name)
    return descriptor
