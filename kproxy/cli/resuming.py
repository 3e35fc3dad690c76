"""`kproxy export --resume`: which outputs can be resumed, and what must be unchanged for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.terminal import forced, output, refuse_capture, refuse_existing
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.export.partial import Partial

_ELSEWHERE = frozenset({"captures", "target", "jobs", "resume"})
"""Parameters whose values are not compared: they do not affect the output, or are the captures, whose stamps are
compared instead.
"""


def made_of(context: click.Context, captures: Sequence[Path], files: Iterable[Path]) -> Mapping[str, Any]:
    """Everything that an output depends on, by names that the user knows; `files` are files that options name.

    Raises Failure (exit 2) if a capture or file cannot be read again.
    """
    from kproxy.captures.stamps import stamp

    stamps = [stamp(path) if str(path) != "-" else None for path in captures]
    if any(found is None and (str(path) == "-" or path.exists()) for path, found in zip(captures, stamps, strict=True)):
        raise Failure("--resume reads the capture again, and a pipe can be read only once", Exit.USAGE)
    named = [(path, stamp(path)) for path in files]
    if any(found is None and path.exists() for path, found in named):
        raise Failure("--resume reads the files of options again, and a pipe can be read only once", Exit.USAGE)
    given = {
        max(param.opts, key=len): str(context.params.get(param.name))
        for param in context.command.params
        if param.name is not None and param.name in context.params and param.name not in _ELSEWHERE
    }
    return {
        "captures": stamps,
        "files of options": [found for _, found in named],
        **given,
        "version of kproxy": version("kafka-kproxy"),
    }


@contextlib.contextmanager
def destination(
    target: Path | None, read: Sequence[Path], parts: Mapping[str, Any] | None
) -> Iterator[tuple[BinaryIO, Partial | None]]:
    """The output as in kproxy.cli.terminal.output; with `parts` (from `made_of`) a file that can be resumed.

    Raises Failure (exit 2) for the reasons of `output`, and if an existing partial file cannot be resumed.
    """
    if parts is None or target is None:
        with output(target, read) as out:
            yield out, None
        return
    from kproxy.captures.export.partial import Partial, PartialError

    refuse_capture(target, read)
    refuse_existing(target)
    if target.exists() and not target.is_file():
        raise Failure(f"{target}: not a regular file, which --resume needs", Exit.USAGE)
    try:
        partial = Partial(target, parts, overwrite=forced())
    except PartialError as error:
        raise Failure(str(error), Exit.USAGE) from None
    except PermissionError:
        raise
    except OSError as error:
        raise Failure(f"{target}: {error.strerror}", Exit.USAGE) from None
    if partial.stage is not None:
        _say(f"continuing after {counted(partial.stage.items, 'exchange', ',')} and problems")
    try:
        with partial:
            yield partial.out, partial
    except KeyboardInterrupt:
        _say("run the same command again to continue from here")
        raise


def _say(text: str) -> None:
    if not settings.current().quiet:
        click.echo(f"kproxy: {text}", err=True)
