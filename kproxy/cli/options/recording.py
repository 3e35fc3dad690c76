"""Options that select the recorded traffic and the files of the recording."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.types import FILTER, SIZE
from kproxy.cli.terminal import forcing, refuse_existing

if TYPE_CHECKING:
    from pathlib import Path

Command = TypeVar("Command", bound=Callable[..., Any])

LEAST_SNAP = 64
"""Smallest --snap, in bytes: enough for a request's header with a client id of 50 characters."""
LEAST_SCRATCH = 16 << 20


class _RingType(click.ParamType["tuple[int, int, int | None]"]):
    name = "ring"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        from kproxy.runs.settings import ring

        try:
            return ring(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _RecordType(click.ParamType[str]):
    name = "expression"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from kproxy.runs.settings import record_filter

        try:
            return record_filter(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return FILTER.shell_complete(ctx, param, incomplete)


_KEPT = [
    click.option(
        "-w",
        "--write",
        "record_to",
        type=click.Path(path_type=pathlib.Path),
        metavar="FILE",
        help="Record to this pcapng file (with --ring: into this directory).",
    ),
    click.option(
        "--ring",
        type=_RingType(),
        metavar="COUNTxSIZE[,TIME]",
        help="Record into directory -w: at most COUNT files of SIZE (and TIME) each; the oldest is deleted first.",
    ),
    click.option(
        "--no-ring-zstd", is_flag=True, help="Do not compress a ring's complete files (default: compress with zstd)."
    ),
    click.option(
        "--scratch",
        default="256M",
        show_default=True,
        type=SIZE,
        metavar="SIZE",
        help="Size of the recording that is kept without -w (at least 16M).",
    ),
    click.option(
        "--spool-dir",
        type=click.Path(path_type=pathlib.Path, file_okay=False),
        metavar="DIR",
        help="Folder for the index, and for the recording if shared memory has no room (default: the cache directory).",
    ),
]
_CHOICE = [
    click.option("--no-record", is_flag=True, help="Record nothing; the UI then has no list of exchanges."),
    click.option(
        "--snap",
        type=click.IntRange(min=LEAST_SNAP),
        metavar="BYTES",
        help="Record only the first BYTES of each frame; sizes and times stay exact.",
    ),
    click.option(
        "--record",
        "record_filter",
        type=_RecordType(),
        metavar="EXPR",
        help="Record only exchanges whose request matches: api, version, client.id, client, broker.",
    ),
]


def _with(command: Any, options: list[Any]) -> Any:
    for option in reversed(options):
        command = option(command)
    return command


def _kept(
    record_to: Path | None, ring: tuple[int, int, int | None] | None, scratch: int, *, no_ring_zstd: bool
) -> dict[str, Any]:
    """The values as fields of `Settings`. Raises Failure (exit 2) if options contradict each other."""
    if ring is not None and record_to is None:
        raise Failure("--ring needs -w DIR, the directory of its files", Exit.USAGE)
    if str(record_to) == "-":
        why = "a recording cannot go to standard output, because kproxy reads it while it writes it"
        raise Failure(f"{why}: name a file for -w", Exit.USAGE)
    if ring is None:
        refuse_existing(record_to)
    files, each, seconds = ring or (0, 0, None)
    return {
        "record_to": None if record_to is None else str(record_to),
        "ring_files": files,
        "ring_bytes": each,
        "ring_seconds": seconds,
        "ring_zstd": not no_ring_zstd,
        "scratch": max(scratch, LEAST_SCRATCH),
    }


def keeping(command: Command) -> Command:
    """Adds -w, --ring, --no-ring-zstd, --scratch and --spool-dir; the command gets fields of `Settings` as `recording`.

    It gets `spool_dir` as well. Raises Failure (exit 2) if options contradict each other.
    """

    @functools.wraps(command)
    def kept(
        *args: Any,
        record_to: Path | None,
        ring: tuple[int, int, int | None] | None,
        no_ring_zstd: bool,
        scratch: int,
        **rest: Any,
    ) -> Any:
        return command(*args, recording=_kept(record_to, ring, scratch, no_ring_zstd=no_ring_zstd), **rest)

    return cast("Command", _with(forcing(kept), _KEPT))


def recording(command: Command) -> Command:
    """Like `keeping`, but adds --no-record, --snap and --record as well."""

    @functools.wraps(command)
    def recorded(
        *args: Any,
        record_to: Path | None,
        no_record: bool,
        ring: tuple[int, int, int | None] | None,
        no_ring_zstd: bool,
        scratch: int,
        snap: int | None,
        record_filter: str | None,
        **rest: Any,
    ) -> Any:
        if no_record and (record_to is not None or ring or snap or record_filter):
            raise Failure("--no-record excludes -w, --ring, --snap and --record", Exit.USAGE)
        settings = {
            "record": not no_record,
            **_kept(record_to, ring, scratch, no_ring_zstd=no_ring_zstd),
            "snap": snap,
            "record_filter": record_filter or "",
        }
        return command(*args, recording=settings, **rest)

    return cast("Command", _with(forcing(recorded), [*_KEPT, *_CHOICE]))
