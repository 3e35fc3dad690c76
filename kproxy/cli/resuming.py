"""`kproxy export --resume`: what can be gone on with, and what must be the same for it."""

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

if TYPE_CHECKING:
    from kproxy.captures.export.partial import Partial

_ELSEWHERE = frozenset({"captures", "target", "jobs", "resume"})
"""Parameters that the output's bytes do not depend on, or the captures, which are looked into."""


def made_of(context: click.Context, captures: Sequence[Path], files: Iterable[Path]) -> Mapping[str, Any]:
    """All that an output depends on, by words that the user knows; `files` are those that options name.

    Raises Failure (exit 2) where one of them cannot be read again.
    """
    from kproxy.captures.stamps import stamp

    stamps = [stamp(path) if str(path) != "-" else None for path in captures]
    if any(found is None and (str(path) == "-" or path.exists()) for path, found in zip(captures, stamps, strict=True)):
        raise Failure("--resume reads the capture again, which a pipe does not allow", Exit.USAGE)
    named = [(path, stamp(path)) for path in files]
    if any(found is None and path.exists() for path, found in named):
        raise Failure("--resume reads what options name again, which a pipe does not allow", Exit.USAGE)
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
    """What bytes go to, as kproxy.cli.terminal.output; with `parts` (`made_of`) a file that can be gone on with.

    Raises Failure (exit 2) as `output`, and where it cannot be gone on with what was begun.
    """
    if parts is None or target is None:
        with output(target, read) as out:
            yield out, None
        return
    from kproxy.captures.export.partial import Partial, PartialError

    refuse_capture(target, read)
    refuse_existing(target)
    if target.exists() and not target.is_file():
        raise Failure(f"{target}: is no file, as --resume needs", Exit.USAGE)
    try:
        partial = Partial(target, parts, overwrite=forced())
    except PartialError as error:
        raise Failure(str(error), Exit.USAGE) from None
    except PermissionError:
        raise
    except OSError as error:
        raise Failure(f"{target}: {error.strerror}", Exit.USAGE) from None
    if partial.stage is not None:
        _say(f"going on after {partial.stage.items:,} exchanges and problems")
    try:
        with partial:
            yield partial.out, partial
    except KeyboardInterrupt:
        _say("the same command goes on from here")
        raise


def _say(text: str) -> None:
    if not settings.current().quiet:
        click.echo(f"kproxy: {text}", err=True)
