"""The terminal: whether there is one to paint on, and what bytes are written to."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from kproxy.cli.exits import Exit, Failure


def can_paint(*, keys_from_stdin: bool = True) -> bool:
    """Tell whether the terminal UI may open: it paints on standard output and takes its keys from standard input.

    Behind the pipes of `kproxy web`, which names what paints there, is a browser. A dumb terminal places no cursor.
    """
    if "TEXTUAL_DRIVER" in os.environ:
        return True
    if os.environ.get("TERM") == "dumb":
        return False
    streams = [sys.stdout, *([sys.stdin] if keys_from_stdin else [])]
    return all(stream is not None and stream.isatty() for stream in streams)


def standard_output() -> BinaryIO:
    """Standard output for bytes, all of them: unbuffered (python -u), Python's own forgets what one write leaves."""
    out = sys.stdout.buffer
    return open(out.fileno(), "wb", closefd=False) if isinstance(out, io.RawIOBase) else out


@contextlib.contextmanager
def output(path: Path | None, read: Sequence[Path]) -> Iterator[BinaryIO]:
    """The file at `path` for bytes, standard output for None and "-".

    Raises Failure (exit 2) where it is one of the files that are `read`, or cannot be written.
    """
    if path is None or str(path) == "-":
        yield standard_output()
        return
    from captures import private

    refuse_capture(path, read)
    try:
        file = private.output(path, buffering=1 << 20)
    except PermissionError:
        raise
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", Exit.USAGE) from None
    with file:
        yield file


def refuse_capture(path: Path, read: Sequence[Path]) -> None:
    """Raise Failure (exit 2) where what is to be written is one of the files that are read."""
    if any(path.exists() and part.exists() and path.samefile(part) for part in read):
        raise Failure(f"{path}: is the capture that is read", Exit.USAGE)


def end_with_terminal() -> None:
    """Let a hang-up end this process even where it was started to ignore them (nohup): a UI is nothing without one."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
