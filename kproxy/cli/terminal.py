"""The terminal: whether there is one to paint on, and what bytes are written to."""

from __future__ import annotations

import io
import signal
import sys
from typing import BinaryIO


def can_paint(*, keys_from_stdin: bool = True) -> bool:
    """Tell whether the terminal UI may open: it paints on standard error and takes its keys from standard input."""
    streams = [sys.stdout, sys.stderr, *([sys.stdin] if keys_from_stdin else [])]
    return all(stream is not None and stream.isatty() for stream in streams)


def standard_output() -> BinaryIO:
    """Standard output for bytes, all of them: unbuffered (python -u), Python's own forgets what one write leaves."""
    out = sys.stdout.buffer
    return open(out.fileno(), "wb", closefd=False) if isinstance(out, io.RawIOBase) else out


def end_with_terminal() -> None:
    """Let a hang-up end this process even where it was started to ignore them (nohup): a UI is nothing without one."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
