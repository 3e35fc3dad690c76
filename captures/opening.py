"""Opens captures: files, rings, and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from kproxy.captures.compression import MAGIC_SIZE, is_compressed
from kproxy.captures.errors import CaptureError
from kproxy.captures.seekable import Frames, frames
from kproxy.captures.source import (
    STANDARD_INPUT,
    FileSource,
    RingSource,
    SeekableSource,
    SpoolSource,
    ViewedSource,
)
from kproxy.captures.spool import Spooling


def open_source(
    paths: Path | str | Iterable[Path | str],
    *,
    live: bool = False,
    ordered: bool = False,
    spooling: Spooling | None = None,
    names: Mapping[Path, str] | None = None,
) -> FileSource:
    """The source of one capture, or of several that are read as one.

    A path is a file, a directory of recording segments (alone), or "-" (alone) for standard input. Several files are
    joined in the order of time; `ordered` keeps the given order, for the parts of another source. `live` leaves
    segments of earlier runs out of a ring. `spooling` sets how captures are spooled that cannot be read in place;
    `names` maps paths to the names that the user knows, if they differ. Raises CaptureError if a capture cannot be
    opened or is empty; a stream may be empty.
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if not named:
        raise ValueError("no capture given")
    if any(str(path) == STANDARD_INPUT for path in named):
        if len(named) > 1:
            raise CaptureError("standard input cannot be read together with other captures", STANDARD_INPUT)
        return SpoolSource(sys.stdin.buffer, spooling=spooling)
    files = list(dict.fromkeys(Path(path) for path in named))
    for path in files:
        if path.is_dir():
            if len(files) > 1:
                raise CaptureError("a directory cannot be read together with other captures", path)
            return RingSource(path, spooling, live=live)
    if len(files) > 1 and not ordered:
        from kproxy.captures.joining import JoinedSource  # late: it needs numpy

        return JoinedSource(files, spooling, names)
    seekable = _frames(files[0]) if len(files) == 1 and not names else None
    if seekable is not None:
        return SeekableSource(files[0], seekable, spooling, viewed=not ordered)
    return (ViewedSource if ordered else FileSource)(files, spooling, names)


def _frames(path: Path) -> Frames | None:
    """The frames of a zstd file if it is seekable; None for any other file."""
    try:
        if not path.is_file():
            return None
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # the error is reported when the source opens the file
    if is_compressed(os.pread(file, MAGIC_SIZE, 0)) and (found := frames(file)) is not None:
        return found
    os.close(file)
    return None
