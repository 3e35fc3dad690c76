"""Makes and opens the folders and files that kproxy writes: private to the user, and never through another user's link.

Folders are 0700 and new files 0600, whatever the umask; only files of tables have the mode of their folder. A folder of
kproxy's own must belong to this user and must not be a link. In a world-writable folder, such as /tmp, files and
folders are refused that belong to neither this user nor root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TextIO

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_INHERITED: Final = stat.S_ISGID | 0o755
"""Mode bits that a folder of tables takes over from its parent."""


# --- folders ---------------------------------------------------------------------------------------------------------


def folder(path: Path) -> Path:
    """A folder of kproxy's own, made with its parents if missing: owned by this user, 0700, and not a link.

    Raises PermissionError if it belongs to another user or is a link; OSError if it cannot be made.
    """
    os.close(opened(path))
    return path


def opened(path: Path) -> int:
    """Like `folder`, but returns a descriptor of the folder, which the caller closes."""
    place(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise _refused(path, "it is a link, which kproxy does not follow here") from None
        raise error from None
    try:
        status = os.fstat(descriptor)
        _refuse_others(path, status)
        if stat.S_IMODE(status.st_mode) != FOLDER_MODE:
            os.fchmod(descriptor, FOLDER_MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def within(path: Path) -> Path:
    """The private folder to use for a path that the user named.

    It is the folder at that path, made if missing; if others can write there too, a private folder below it. Raises the
    errors of `folder`.
    """
    status = place(path).stat()
    if status.st_uid == os.getuid() and not status.st_mode & _OTHERS_WRITE:
        return path
    return folder(path / f"kproxy-{os.getuid()}")


def place(path: Path) -> Path:
    """The folder at a path that the user named, made 0700 with its parents if missing; an existing one keeps its mode.

    Raises PermissionError if another user may have planted a part of the path: it is in a world-writable folder and
    belongs to neither this user nor root. Raises OSError if the folder cannot be made.
    """
    return _made(path, lambda _: FOLDER_MODE)


def inherited(path: Path) -> Path:
    """A folder of tables, made with its parents if missing, with the read permissions of its parent.

    Others never get write permission. Raises the errors of `place`.
    """
    return _made(path, lambda above: above & _INHERITED)


def inherit(path: Path) -> None:
    """Give a file of a table the read permissions of its folder. Raises OSError."""
    path.chmod(path.parent.stat().st_mode & _INHERITED & 0o666)


def _made(path: Path, mode: Callable[[int], int]) -> Path:
    missing = []
    here = path.absolute()
    while not os.path.lexists(here):
        missing.append(here)
        here = here.parent
    _refuse_planted(here)
    for one in reversed(missing):
        with suppress(FileExistsError):
            one.mkdir(FOLDER_MODE)
            one.chmod(mode(one.parent.stat().st_mode))
    if missing:
        _refuse_planted(path.absolute())
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path


def kept(path: Path) -> int:
    """Like `place`, but returns a descriptor of the folder, for code that deletes files in it by name.

    Raises PermissionError also if the folder is world-writable.
    """
    descriptor = os.open(place(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.fstat(descriptor).st_mode & stat.S_IWOTH:
        os.close(descriptor)
        why = "not used, because everybody may write there; name a new folder in it, which kproxy makes its own"
        raise PermissionError(errno.EPERM, why, str(path))
    return descriptor


def is_mine(path: Path) -> bool:
    """Whether the path is a folder of this user, not a link to one."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


# --- files -----------------------------------------------------------------------------------------------------------


def create(path: Path | str, flags: int = os.O_RDWR, *, dir_fd: int | None = None) -> int:
    """The descriptor of a file that this call makes. Raises FileExistsError if the name exists, even as a link."""
    flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, FILE_MODE, dir_fd=dir_fd)
    os.fchmod(descriptor, FILE_MODE)
    return descriptor


def replace(path: Path, data: bytes | str, *, flush: bool = False) -> None:
    """Write a file atomically; an existing one is replaced.

    With `flush`, waits until the data are on disk. Raises OSError.
    """
    beside = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
    try:
        with os.fdopen(create(beside), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def output(path: Path, *, buffering: int = -1) -> BinaryIO:
    """The file at a path that the user named, emptied and opened for bytes. A new file is 0600; an old one keeps its
    mode.

    Pipes and devices are opened unchanged. Raises PermissionError if another user may have planted the file or link;
    OSError if the file cannot be written.
    """
    return os.fdopen(emptied(path), "wb", buffering=buffering)


def emptied(path: Path) -> int:
    """Like `output`, but returns a descriptor."""
    descriptor = _named(path, os.O_WRONLY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.ftruncate(descriptor, 0)
    return descriptor


def appended(path: Path, *, buffering: int = -1) -> BinaryIO:
    """Like `output`, but the file keeps its content and is opened for reading and appending."""
    return os.fdopen(_named(path, os.O_RDWR | os.O_APPEND), "a+b", buffering=buffering)


def restrict(descriptor: int) -> None:
    """Make an open file 0600. Pipes and devices keep their mode, because other programs use them too."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, FILE_MODE)


def log(path: Path) -> TextIO:
    """Like `output`, but opened for appending lines of text; the path may also be a pipe or a device."""
    return os.fdopen(_named(path, os.O_WRONLY | os.O_APPEND), "a", buffering=1, encoding="utf-8")


def secret(path: Path, most: int) -> str:
    """The text of a file of at most `most` bytes with a secret in it.

    Raises ValueError, with a text for the user, if everybody may read the file, or if it is too long or not UTF-8;
    PermissionError if another user may have planted it; OSError if it cannot be read.
    """
    _refuse_planted(path.absolute())
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
            raise ValueError(f"{path} can be read by everybody: chmod 600 {path}")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is longer than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None


def touch(path: Path) -> None:
    """Make an empty file unless it exists."""
    with suppress(FileExistsError):
        os.close(create(path))


def _named(path: Path, flags: int) -> int:
    """The descriptor of the file at a path that the user named. Raises PermissionError if another user may have planted
    it.
    """
    _refuse_planted(path.absolute().parent)
    try:
        return create(path, flags)
    except FileExistsError:
        _refuse_planted(path.absolute())
    # only a user who may replace the file can make it a link meanwhile, and these users are trusted
    nofollow = os.O_NOFOLLOW
    if path.is_symlink():
        nofollow = 0
        if not _trusted(owner := path.lstat().st_uid):
            raise _refused(path, f"it is a symbolic link that belongs to {_name(owner)}")
    return os.open(path, flags | nofollow | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)


# --- whom to trust ---------------------------------------------------------------------------------------------------


def _refuse_planted(path: Path) -> None:
    """Raise PermissionError if a part of an absolute path is another user's and is in a world-writable folder."""
    resolved = Path(os.path.realpath(path))
    for one in {path, *path.parents, resolved, *resolved.parents}:
        if one == one.parent:
            continue
        try:
            owner = one.lstat().st_uid
            everybody = one.parent.stat().st_mode & stat.S_IWOTH
        except FileNotFoundError:
            continue
        if everybody and not _trusted(owner):
            raise _refused(one, f"it belongs to {_name(owner)}, and everybody may write to {one.parent}")


def _refuse_others(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.getuid():
        raise _refused(path, f"it belongs to {_name(status.st_uid)}")


def _trusted(uid: int) -> bool:
    return uid in {0, os.getuid()}


def _refused(path: Path, why: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"not used, because {why}; remove it or name another", str(path))


def _name(uid: int) -> str:
    """The name of the user with this number, or the number itself if the system knows no name."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
