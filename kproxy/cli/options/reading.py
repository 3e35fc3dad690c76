"""Options of commands that read captures: which files, how they are unpacked, decrypted and named."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.cli.options.types import DEFINITIONS, PORTS, RELEASE, SIZE

if TYPE_CHECKING:
    from pathlib import Path


Command = TypeVar("Command", bound=Callable[..., Any])


captured = click.argument(
    "captures",
    nargs=-1,
    required=True,
    metavar="CAPTURE...",
    # click does not check readability: opening the file reports a better error
    type=click.Path(path_type=pathlib.Path, allow_dash=True, readable=False),
)
"""The captures that a command reads, as `captures`: paths, or "-" for standard input."""
porting = click.option(
    "--port", "ports", type=PORTS, metavar="PORTS", help="Only connections to these ports (9092, 9092-9094)."
)
headless = click.option(
    "--headless", is_flag=True, help="No terminal UI: one line per exchange (exchange JSON with --json)."
)
releasing = click.option(
    "--release", type=RELEASE, metavar="RELEASE", help="Read with the names and layouts of this Kafka release (3.9)."
)
sizing = click.option(
    "--record-sizes",
    is_flag=True,
    help="Fill the tables' columns with the sizes of records' keys, values and headers; slower, because every batch is "
    "decompressed.",
)
revealing = click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and keys as they are.")


def _together(ctx: click.Context, param: click.Parameter, user_definitions: tuple[str, ...]) -> tuple[str, ...]:
    """Reads all given definitions, so that filters know their names and conflicts are reported."""
    if user_definitions:
        from kproxy.captures.definitions import definitions
        from kproxy.decoders.schema.jsontext import DefinitionError

        try:
            definitions(None, user_definitions)
        except DefinitionError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    return user_definitions


def defining(command: Command) -> Command:
    """Adds --definitions; the command gets `user_definitions`. Filters then know the names that the definitions add."""
    option = click.option(
        "--definitions",
        "--dialect",
        "user_definitions",
        multiple=True,
        is_eager=True,
        type=DEFINITIONS,
        callback=_together,
        metavar="PATH",
        help="Message definitions of further API keys, or a dialect: a file, a folder, or the name of a dialect that "
        "comes with kproxy (repeatable).",
    )
    return option(command)


def decrypting(command: Command) -> Command:
    """Adds --keylog; the command gets `keylog`."""
    option = click.option(
        "--keylog",
        type=click.Path(path_type=pathlib.Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE, kproxy run --tls-keylog).",
    )
    return option(command)


def spooling(command: Command) -> Command:
    """Adds --spool-dir and --spool-max; the command gets a `captures.spool.Spooling` as `spooling`."""

    @functools.wraps(command)
    def spooled(*args: Any, spool_dir: Path | None, spool_max: int | None, **rest: Any) -> Any:
        from kproxy.captures.spool import MOST, Spooling
        from kproxy.cli import settings

        directory = None if spool_dir is None else spool_dir.absolute()
        made = Spooling(directory, MOST if spool_max is None else spool_max, settings.warn)
        return command(*args, spooling=made, **rest)

    options = [
        click.option(
            "--spool-dir",
            type=click.Path(path_type=pathlib.Path, file_okay=False),
            metavar="DIR",
            help="Folder for captures that are unpacked, or read from a pipe (default: the cache directory).",
        ),
        click.option(
            "--spool-max",
            type=SIZE,
            metavar="SIZE",
            help="Maximum size of one unpacked capture, and of all that are kept unpacked (default: 20GB).",
        ),
    ]
    wrapped: Any = spooled
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)
