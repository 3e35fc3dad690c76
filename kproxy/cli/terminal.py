"""Whether there is a terminal to paint on."""

from __future__ import annotations

import sys


def can_paint(*, keys_from_stdin: bool = True) -> bool:
    """Tell whether the terminal UI may open: it paints on standard error and takes its keys from standard input."""
    streams = [sys.stdout, sys.stderr, *([sys.stdin] if keys_from_stdin else [])]
    return all(stream is not None and stream.isatty() for stream in streams)
