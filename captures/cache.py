"""What was made of captures and is kept for the next time: indexes, and captures that had to be spooled.

A store is a directory of entries, an entry a directory of files. Its name is a digest of all that they were made of, so
that what is found is right, and what changed is not found. An entry comes whole, by a rename, and nobody writes into
its files: who uses them links them to a place of his own, where they stay when the entry goes. So any number of
processes may make, use and remove the same one at the same time. Its files are on the disk before it has its name, so
that a machine that loses power forgets an entry or has it whole. Where the file system knows no hard links, nothing is
kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

SIZES: Final = "sizes.json"
"""In an entry: how long its files are, because somebody may have damaged them."""
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
    import decoders

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
            folder = os.open(self._directory / entry, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # by the descriptor, so that all are of one entry though another may take its place
            if os.fstat(folder).st_uid != os.getuid() or not _whole(folder, files):
                return False
            for held, path in files.items():
                os.link(held, path, src_dir_fd=folder)
            os.utime(folder)
        except OSError:
            for path in files.values():
                path.unlink(missing_ok=True)
            return False
        finally:
            os.close(folder)
        return True

    def keep(self, entry: str, files: Mapping[str, Path]) -> str | None:
        """Link complete files, which nobody writes to any more, into an entry; why not, where they cannot be kept."""
        why = None
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = Path(tempfile.mkdtemp(prefix=_HALF, dir=self._directory))
            try:
                for held, path in files.items():
                    os.link(path, half / held)
                sizes = {held: (half / held).stat().st_size for held in files}
                (half / SIZES).write_text(json.dumps(sizes), "utf-8")
                # one that is there is as good, but not where it was damaged
                if not self._is_whole(entry):
                    for path in (*half.iterdir(), half):
                        _flush(path)
                    shutil.rmtree(self._directory / entry, ignore_errors=True)
                    half.rename(self._directory / entry)
            finally:
                shutil.rmtree(half, ignore_errors=True)
        except OSError as error:
            why = f"{self._directory}: {error.strerror or error}"
        self.trim(self._most, spare=entry)
        return why

    def trim(self, most: int, *, spare: str | None = None) -> None:
        """Remove the entries that were not used for longest until `most` bytes are left."""
        entries = sorted(self._entries(), reverse=True)
        total = 0
        for _, found, size in entries:
            total += size
            if total > most and found != spare:
                shutil.rmtree(self._directory / found, ignore_errors=True)

    def _is_whole(self, entry: str) -> bool:
        try:
            folder = os.open(self._directory / entry, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return _whole(folder)
        finally:
            os.close(folder)

    def _entries(self) -> Iterator[tuple[float, str, int]]:
        """When each was last used, its name, and the bytes it takes; removes those that were never made whole."""
        for path in self._directory.glob("*"):
            with suppress(OSError):
                used = path.stat().st_mtime
                if path.name.startswith(_HALF) and time.time() - used > _HALF_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
                elif _ENTRY.fullmatch(path.name):
                    yield used, path.name, sum(one.stat().st_blocks * 512 for one in path.iterdir())


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole(folder: int, files: Iterable[str] = ()) -> bool:
    """Whether the open directory of an entry holds these files, and all at their length."""
    try:
        with os.fdopen(os.open(SIZES, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
            sizes = json.load(file)
        there = {held: os.stat(held, dir_fd=folder).st_size for held in sizes}
        return bool(there == sizes and sizes.keys() >= set(files))
    except (OSError, ValueError):
        return False
