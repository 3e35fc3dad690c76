"""Whether the terminal UI can open, and the outputs for bytes."""

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
    """Whether the terminal UI may open: it paints on standard output and reads keys from standard input.

    It may also open on the pipes of `kproxy web`, which lead to a browser, but not in a dumb terminal, which cannot
    place the cursor.
    """
    if "TEXTUAL_DRIVER" in os.environ:
        return True
    if os.environ.get("TERM") == "dumb":
        return False
    streams = [sys.stdout, *([sys.stdin] if keys_from_stdin else [])]
    return all(stream is not None and stream.isatty() for stream in streams)


def standard_output() -> BinaryIO:
    """Standard output for bytes.

    With python -u it gets a buffer, because unbuffered output loses the rest of a short write.
    """
    out = sys.stdout.buffer
    return open(out.fileno(), "wb", closefd=False) if isinstance(out, io.RawIOBase) else out


@contextlib.contextmanager
def output(path: Path | None, read: Sequence[Path]) -> Iterator[BinaryIO]:
    """The file at `path` for bytes; standard output for None and "-".

    Raises Failure (exit 2) if it is one of the files in `read`, exists and --force is not given, or cannot be written.
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
    """Adds --force to a command that writes files."""
    return click.option(
        "--force",
        is_flag=True,
        expose_value=False,
        callback=_force,
        help="Overwrite output files that exist.",
    )(command)


def _force(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_FORCED] = value


def forced() -> bool:
    """Whether the running command was given --force."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_FORCED))


def refuse_existing(path: Path | None) -> None:
    """Raises Failure (exit 2) if `path` exists and --force is not given; None and "-" are standard output."""
    if path is None or str(path) == "-":
        return
    from kproxy.captures import outputs

    try:
        outputs.refuse_existing(path, overwrite=forced())
    except outputs.OutputExists as error:
        raise Failure(f"{path}: {error.strerror}", Exit.USAGE) from None


def refuse_capture(path: Path, read: Sequence[Path]) -> None:
    """Raises Failure (exit 2) if the output is one of the files in `read`."""
    if any(path.exists() and part.exists() and path.samefile(part) for part in read):
        raise Failure(f"{path}: this is the input capture", Exit.USAGE)


def end_with_terminal() -> None:
    """Makes SIGHUP end this process even if it was started with nohup: a UI cannot go on without its terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
