"""The terminal: whether there is one to paint on, and what bytes are written to."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

from kproxy.cli.exits import Exit, Failure

Command = Callable[..., Any]

_FORCED = "kproxy.force"


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

    Raises Failure (exit 2) where it is one of the files that are `read`, is there already and --force is not given, or
    cannot be written.
    """
    if path is None or str(path) == "-":
        yield standard_output()
        return
    from kproxy.captures.outputs import create

    refuse_capture(path, read)
    try:
        file = create(path, overwrite=forced())
    except PermissionError:
        raise
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", Exit.USAGE) from None
    with file:
        yield file


def forcing(command: Command) -> Command:
    """Add --force to a command that writes files."""
    return click.option(
        "--force",
        is_flag=True,
        expose_value=False,
        callback=_force,
        help="Overwrite what is there already where a file is to be written.",
    )(command)


def _force(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_FORCED] = value


def forced() -> bool:
    """Whether the command that runs was given --force."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_FORCED))


def refuse_existing(path: Path | None) -> None:
    """Raise Failure (exit 2) where a file stands already at `path` and --force is not given; None and "-" name none."""
    if path is None or str(path) == "-":
        return
    from kproxy.captures import outputs

    try:
        outputs.refuse_existing(path, overwrite=forced())
    except outputs.OutputExists as error:
        raise Failure(f"{path}: {error.strerror}", Exit.USAGE) from None


def refuse_capture(path: Path, read: Sequence[Path]) -> None:
    """Raise Failure (exit 2) where what is to be written is one of the files that are read."""
    if any(path.exists() and part.exists() and path.samefile(part) for part in read):
        raise Failure(f"{path}: is the capture that is read", Exit.USAGE)


def end_with_terminal() -> None:
    """Let a hang-up end this process even where it was started to ignore them (nohup): a UI is nothing without one."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
