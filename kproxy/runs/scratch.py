"""The directories of a run: for its ring, its index and its state. Files have mode 0600, directories 0700.

A directory is in use while a process holds a lock on the file `lock` in it. The next run removes directories that are
not in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kproxy.captures import private

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (the directories made in it are 0700 and have random names)
MARGIN = 16 << 20
PREFIX = "kproxy-"
LOCK = "lock"


def cache_dir() -> Path:
    """The user's cache directory for recordings and indexes."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("kproxy", appauthor=False)) / "spool"


def runs_dir() -> Path:
    """The directory with this user's run states: in the runtime directory if there is one, else the state directory."""
    import platformdirs

    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK) and Path(runtime).stat().st_uid == os.getuid():
        return Path(runtime) / "kproxy"
    return Path(platformdirs.user_state_dir("kproxy", appauthor=False)) / "runs"


def temporary() -> Path:
    """The system's directory for temporary files. Raises PermissionError if none is writable."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise PermissionError("no directory for temporary files can be written to (TMPDIR names one)") from None


def _room(directory: Path) -> int:
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize if os.access(directory, os.W_OK) else 0


def new(parent: Path, label: str) -> Path:
    """A new directory in `parent` with mode 0700; removes directories there that are no longer in use."""
    if parent in {cache_dir(), runs_dir()}:
        private.folder(parent)
    else:
        private.place(parent)
    remove_stale(parent)
    return private.folder(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{label}-", dir=parent)))


def ring(size: int, spool: Path | None) -> Path:
    """A new directory for a ring of `size` bytes: in shared memory if that has room, else in `spool` or the cache."""
    if _room(SHARED_MEMORY) >= size + MARGIN:
        return new(SHARED_MEMORY, "ring")
    return new(spool or cache_dir(), "ring")


def hold(directory: Path) -> int:
    """Locks a directory as in use; returns the descriptor that holds the lock, which ends with the process."""
    lock = directory / LOCK
    made = None if lock.exists() else directory / f"{LOCK}.{os.getpid()}"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(made or lock, flags, private.FILE_MODE)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    if made is not None:  # renamed after locking, so that no other run finds it unlocked and removes it
        made.rename(lock)
    return descriptor


def is_live(directory: Path) -> bool:
    """Whether a process holds the lock of the directory."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def place(label: str) -> Iterator[Path]:
    """A context with a new directory in the user's cache, which is removed at the end of the block."""
    made = new(cache_dir(), label)
    claim = hold(made)
    try:
        yield made
    finally:
        remove(made)
        os.close(claim)


def remove_stale(parent: Path) -> None:
    """Removes the directories in `parent` that belong to this user and that no process holds."""
    with contextlib.suppress(OSError):
        for directory in parent.glob(f"{PREFIX}*-*"):
            with contextlib.suppress(OSError):
                if private.is_mine(directory) and (directory / LOCK).exists() and not is_live(directory):
                    shutil.rmtree(directory, ignore_errors=True)


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
