"""Options of commands that read captures: which files, how they are unpacked, decrypted and named."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.cli.options.types import DEFINITIONS, PORTS, RELEASE, SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Reader
    from kproxy.captures.source import FileSource
    from kproxy.captures.spool import Spooling
    from kproxy.decoders.schema import Definitions


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


@dataclass(frozen=True, slots=True)
class Reading:
    """How captures are read: the values of the options that `reading_options` adds."""

    ports: Ports | None = None
    release: str | None = None
    user_definitions: tuple[str, ...] = ()
    keylog: Path | None = None
    spooling: Spooling | None = None

    def definitions(self) -> Definitions:
        """The definitions of the release, with the user's."""
        from kproxy.captures.definitions import definitions

        return definitions(self.release, self.user_definitions)

    def source(self, captures: Sequence[Path]) -> FileSource:
        """The bytes of captures or of Kafka's log segments. Raises CaptureError if one cannot be opened."""
        from kproxy.captures.decrypted import open_capture
        from kproxy.captures.segments import partition_files

        return open_capture(partition_files(captures), log=self.keylog, spooling=self.spooling)

    def reader(self, captures: Sequence[Path] | FileSource, *, follow: bool = False) -> Reader:
        """A reader of captures that are read as one. Raises CaptureError if one cannot be opened."""
        from kproxy.captures.reader import read

        return read(
            captures,
            ports=self.ports,
            release=self.release,
            user_definitions=self.user_definitions,
            keylog=self.keylog,
            follow=follow,
            spooling=self.spooling,
        )

    def words(self) -> list[str]:
        """The options as words of a command line; values that are the default are left out."""
        from kproxy.captures.spool import MOST

        words = ["--port", str(self.ports)] if self.ports else []
        words += ["--release", self.release] if self.release else []
        words += [f"--definitions={one}" for one in self.user_definitions]
        words += [f"--keylog={self.keylog}"] if self.keylog else []
        if self.spooling is not None:
            words += [f"--spool-dir={self.spooling.directory}"] if self.spooling.directory else []
            words += [f"--spool-max={self.spooling.most}"] if self.spooling.most != MOST else []
        return words


def reading_options(command: Command) -> Command:
    """Adds --port, --release, --definitions, --keylog, --spool-dir and --spool-max; the command gets a Reading as
    `reading`.
    """

    @functools.wraps(command)
    def read(
        *args: Any,
        ports: Ports | None,
        release: str | None,
        user_definitions: tuple[str, ...],
        keylog: Path | None,
        spooling: Spooling,
        **rest: Any,
    ) -> Any:
        return command(*args, reading=Reading(ports, release, user_definitions, keylog, spooling), **rest)

    wrapped: Any = read
    for option in (spooling, decrypting, defining, releasing, porting):
        wrapped = option(wrapped)
    return cast("Command", wrapped)
