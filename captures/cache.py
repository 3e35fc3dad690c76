"""What was made of captures and is kept for the next time: indexes, and captures that had to be spooled.

A store is a directory of entries, an entry a directory of files. Its name is a digest of all that they were made of, so
that what is found is right, and what changed is not found. An entry comes whole, by a rename, and nobody writes into
its files: who uses them links them to a place of his own, where they stay when the entry goes. So any number of
processes may make, use and remove the same one at the same time. Its files are on the disk before it has its name, so
that a machine that loses power forgets an entry or has it whole. Where the file system knows no hard links, nothing is
kept.

The store must be the user's own folder (captures.private). It is used through its descriptor and no link is followed,
so that nobody can direct it to another folder meanwhile.
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
"""In an entry: size and digest of each file, because a disk or a person may have damaged them."""
_SAMPLES: Final = 64
_SAMPLE: Final = 4096
"""Number of places within a file whose bytes are in its digest, and how many bytes each."""
_HALF: Final = ".half-"
"""What the names of entries that are not whole yet begin with."""
_ENTRY: Final = re.compile(r"[0-9a-f]{40}")
"""Nothing else is removed from a store, which may lie where the user says."""
_HALF_SECONDS: Final = 600.0
"""An entry that is not whole after this will never be."""


def directory() -> Path:
    """The user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("kproxy")


# --- what something was made of --------------------------------------------------------------------------------------


def name(*made_of: Any) -> str:
    """The name of what these (JSON values) make, read by the code that is installed."""
    return hashlib.sha256(json.dumps([_code(), *made_of]).encode()).hexdigest()[:40]


@cache
def _code() -> str:
    """A digest of which files read captures: another release reads otherwise."""
    from kproxy import decoders

    digest = hashlib.sha256()
    for package in (Path(__file__).parent, Path(str(decoders.__file__)).parent):
        for one in sorted(_files(str(package))):
            digest.update(repr(one).encode())
    return digest.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of change of all files below a folder, but for what Python caches."""
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
    """Entries below `directory`, no more than `most` bytes of them but for the newest: what was used last stays."""

    def __init__(self, directory: Path, most: int) -> None:
        self._directory = directory
        self._most = most

    def lend(self, entry: str, files: Mapping[str, Path]) -> bool:
        """Link files of an entry to where `files` says; False where it is not there (whole), and nothing is linked."""
        try:
            # by the descriptor, so that all are of one entry though another may take its place
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
        """Link complete files, which nobody writes to any more, into an entry; why not, where they cannot be kept."""
        why = None
        try:
            with self._opened(make=True) as store:
                # one that is there is as good, but not where it was damaged
                if not _is_whole(entry, store):
                    _make(entry, files, store)
        except OSError as error:
            why = f"{error.filename or self._directory}: {error.strerror or error}"
        self.trim(self._most, spare=entry)
        return why

    def trim(self, most: int, *, spare: str | None = None) -> None:
        """Remove the entries that were not used for longest until `most` bytes are left."""
        with suppress(OSError), self._opened() as store:
            total = 0
            for _, found, size in sorted(_entries(store), reverse=True):
                total += size
                if total > most and found != spare:
                    shutil.rmtree(found, ignore_errors=True, dir_fd=store)

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int]:
        """The store's folder as a descriptor. Raises OSError, also where it is missing and not to be made."""
        if not make:
            self._directory.lstat()
        descriptor = private.opened(self._directory)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _folder(name: str, parent: int) -> Iterator[int]:
    """A folder of this user as a descriptor. Raises OSError where it is a link, or not this user's."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(name)
        yield descriptor
    finally:
        os.close(descriptor)


def _make(entry: str, files: Mapping[str, Path], store: int) -> None:
    """Link files into an entry, in the place of one that may be there. Raises OSError."""
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
    """When each was last used, its name, and the bytes it takes; removes those that were never made whole."""
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
    """Whether the open directory of an entry holds these files, and all as they were when they were kept."""
    try:
        with os.fdopen(_opened_file(SEALS, folder), "rb") as file:
            seals = json.load(file)
        return bool(seals.keys() >= set(files)) and all(_seal(held, folder) == seals[held] for held in seals)
    except (OSError, ValueError, AttributeError):
        return False


def _seal(name: str, folder: int, *, flush: bool = False) -> list[Any]:
    """Size of a file, and a digest of both ends and of samples between them. Raises OSError."""
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
    """A regular file of this user, to be read. Raises OSError."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        os.close(descriptor)
        raise PermissionError(name)
    return descriptor
