"""`kproxy spark`: makes tables of captures that are too large for one machine, and reports on them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.reading import decrypting, defining, porting, releasing, sizing
from kproxy.cli.options.selecting import Selection
from kproxy.cli.options.types import FILTER, SIZE
from kproxy.cli.readings import raise_first
from kproxy.cli.spark_session import NO_SPARK, lacking, master_option, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kproxy.captures.errors import CaptureError
    from kproxy.captures.ports import Ports
    from kproxy.captures.spark.read.flows import Options
    from kproxy.captures.tables import folders
    from kproxy.decoders.exchange import Health
    from kproxy.decoders.filters import Expression

COMMANDS: Final = {"report": "kproxy.cli.commands.spark_report"}
"""Subcommands that may take the place of captures, with the modules of their `command`."""
ENGINES: Final = ("auto", "spark", "local")
SMALL: Final = 1 << 30
"""Size of captures in bytes below which one process reads them faster than Spark starts."""


class Command(click.Command):
    """A command whose first argument may be the name of a subcommand."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in COMMANDS:
            other = cast("click.Command", import_module(COMMANDS[args[0]]).command)
            return settings.with_globals(other).make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


class Target(click.Path):
    """A folder (Path), or a URL (str)."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from kproxy.captures.spark.plan.files import is_url

        return str(value) if is_url(value) else super().convert(value, param, ctx)


@click.command(cls=Command)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option(
    "-o",
    "--out",
    "target",
    type=Target(),
    required=True,
    metavar="DIR",
    help="The folder of the tables, which every executor must see, or its URL.",
)
@master_option
@click.option(
    "--format",
    "form",
    type=click.Choice(("parquet",)),
    default="parquet",
    show_default=True,
    help="Format of the tables.",
)
@click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Only exchanges that match.")
@click.option("--tables", metavar="A,B,C", help="Tables to write (default: all but records and findings).")
@click.option("--no-bodies", is_flag=True, help="Decode headers only; faster, columns of bodies are null.")
@sizing
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="Make the tables with Spark, or in this process alone; auto uses Spark from 1 GiB on, or with --master.",
)
@click.option(
    "--split-size",
    type=SIZE,
    default="128M",
    show_default=True,
    metavar="SIZE",
    help="Maximum bytes of a capture that one task reads.",
)
@click.option("--follow", is_flag=True, help="Keep reading new captures: CAPTURE is a folder in which captures rotate.")
@click.option(
    "--once", is_flag=True, help="With --follow: end after the captures that are there; the next run continues."
)
@click.option(
    "--quiet-time",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: time without a change after which the newest file is read too.",
)
@click.option(
    "--batch-files",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="N",
    help="With --follow: maximum number of files that are read at a time.",
)
@click.option(
    "--batch-size",
    type=SIZE,
    default="16G",
    show_default=True,
    metavar="SIZE",
    help="With --follow: maximum bytes that are read at a time, unless one file is larger.",
)
@porting
@releasing
@defining
@decrypting
def command(
    captures: tuple[str, ...],
    target: Path | str,
    master: str | None,
    form: str,  # noqa: ARG001  # there is one
    expression: Expression | None,
    tables: str | None,
    no_bodies: bool,
    record_sizes: bool,
    engine: str,
    split_size: int,
    follow: bool,
    once: bool,
    quiet_time: float,
    batch_files: int,
    batch_size: int,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    keylog: Path | None,
) -> None:
    """Make tables of captures with Spark, the same as `kproxy export --format parquet`, row for row.

    A CAPTURE is a pcap or pcapng file, a pattern, a folder of captures, the URL of one of these (s3://, gs://, hdfs://,
    file://), or a recording's folder. Files are cut into splits, which are read at the same time; connections are
    reassembled across splits and files. A second run replaces the tables of the same captures, wherever these are now,
    and no others; it is refused if it reads only some of the captures that an earlier run read together. The table
    captures has a row for each file, with what could not be read of it. `kproxy spark report DIR` summarises tables.

    \b
    kproxy spark capture.pcap --out tables
    kproxy spark 'captures/*.pcapng' --out tables --master local[4]
    kproxy spark day/ --out /shared/tables --master spark://spark:7077 -Y 'api == Produce'
    kproxy spark encrypted.pcap --out tables --keylog keys.log
    kproxy spark /captures --out tables --follow
    kproxy spark report tables --html report.html
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.spark.plan.files import heads
    from kproxy.captures.spark.plan.files import size as size_of
    from kproxy.captures.spark.plan.splits import expand
    from kproxy.captures.tables.folders import Local
    from kproxy.captures.tls.keylog import read as read_secrets
    from kproxy.cli.parquet import origin_of, wanted_tables

    wanted = wanted_tables(tables, bodies=not no_bodies, record_sizes=record_sizes)
    read = {"bodies": not no_bodies, "record_sizes": record_sizes}
    selection = Selection(expression)
    if once and not follow:
        raise Failure("--once needs --follow", Exit.USAGE)
    if follow and keylog is not None:
        raise Failure("--keylog and --follow exclude each other: decryption needs whole captures", Exit.USAGE)
    if follow:
        if isinstance(target, str):
            raise Failure(f"{target}: --follow takes folders, not URLs", Exit.USAGE)
        folder = _followed(captures, engine)
        options = _options(wanted, release, user_definitions, expression, ports, **read)
        _follow(
            master,
            folder,
            target,
            options,
            once=once,
            quiet=quiet_time,
            most=batch_files,
            most_bytes=batch_size,
            size=split_size,
        )
        return
    paths = expand(captures)
    if engine == "auto":
        large = sum(map(size_of, paths)) >= SMALL
        engine = "spark" if master is not None or (large and not lacking()) else "local"
    if engine == "local":
        _alone(paths, target, wanted, selection, ports, release, user_definitions, keylog, **read)
        return
    options = _options(wanted, release, user_definitions, expression, ports, **read)
    secrets = None if keylog is None else read_secrets(keylog)
    given = heads(paths)
    origin = None if isinstance(target, str) else origin_of(Local(target), given)
    with opened(master) as spark:
        from kproxy.captures.spark.job import make, shuffled
        from kproxy.captures.spark.write import hadoop
        from kproxy.captures.spark.write.parquet import write

        begin = monotonic()
        with _writable(target):
            if isinstance(target, str):
                origin = origin_of(hadoop.Folder(spark, target), given)
            made = make(spark, paths, options, size=split_size, secrets=secrets)
            rows = write(made, target, origin)
        _tell("spark", monotonic() - begin, rows, made.whole, made.health, shuffled(spark), made.order.errors)


def _options(
    wanted: tuple[str, ...],
    release: str | None,
    user_definitions: tuple[str, ...],
    expression: Expression | None,
    ports: Ports | None,
    *,
    bodies: bool,
    record_sizes: bool,
) -> Options:
    if lacking():
        raise Failure(NO_SPARK, Exit.USAGE)
    from kproxy.captures.spark.read.flows import Options

    return Options(wanted, release, user_definitions, expression, bodies, ports, record_sizes=record_sizes)


def _followed(captures: tuple[str, ...], engine: str) -> Path:
    """The one folder in `captures`. Raises Failure if `captures` holds anything else, or if `engine` cannot follow a
    folder.
    """
    if engine == "local":
        raise Failure("--follow needs Spark: remove --engine local", Exit.USAGE)
    if len(captures) > 1 or not Path(captures[0]).is_dir():
        raise Failure(f"{captures[0]}: --follow takes one folder, in which captures rotate", Exit.USAGE)
    return Path(captures[0])


def _follow(
    master: str | None,
    folder: Path,
    target: Path,
    options: Options,
    *,
    once: bool,
    quiet: float,
    most: int,
    most_bytes: int,
    size: int,
) -> None:
    """Adds captures that appear in a folder to the tables until interrupted; with `once`, only those already there.

    Warns of each file that could not be read to its end; with `once`, raises CaptureError afterwards. The next run
    repeats a batch that was interrupted.
    """

    def report_step(number: int, what: str) -> None:
        if what == "carry":
            click.echo(f"batch {number} was added to the tables")

    errors: list[CaptureError] = []

    def report_bad(error: CaptureError) -> None:
        if once:
            errors.append(error)
        else:
            settings.warn(str(error))

    from kproxy.captures.spark.follow.query import follow, refuse_undecided

    try:
        refuse_undecided(options)
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE) from None
    with opened(master) as spark:
        try:
            with _writable(target):
                query = follow(
                    spark,
                    folder,
                    target,
                    options,
                    once=once,
                    quiet=quiet,
                    most=most,
                    most_bytes=most_bytes,
                    size=size,
                    step=report_step,
                    bad=report_bad,
                )
        except ValueError as error:
            raise Failure(str(error), Exit.USAGE) from None
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
    raise_first(errors)


@contextmanager
def _writable(target: Path | str) -> Iterator[None]:
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        raise Failure(f"{target}: {error.strerror}", Exit.USAGE) from None


def _alone(
    paths: list[str],
    target: Path | str,
    wanted: tuple[str, ...],
    selection: Selection,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    keylog: Path | None,
    *,
    bodies: bool,
    record_sizes: bool,
) -> None:
    """Makes the tables in this process, as `kproxy export --format parquet` does."""
    from kproxy.captures.definitions import definitions
    from kproxy.captures.garbage import few_collections
    from kproxy.captures.spark.plan.files import heads
    from kproxy.captures.spark.plan.files import opened as opened_capture
    from kproxy.captures.spark.write import uploads
    from kproxy.captures.tables.folders import Local
    from kproxy.captures.tls.keylog import read as read_secrets
    from kproxy.cli.parquet import origin_of, write_tables
    from kproxy.decoders.view import View

    begin = monotonic()
    secrets = None if keylog is None else read_secrets(keylog)
    folder: folders.Target = uploads.Folder(target) if isinstance(target, str) else Local(target)
    given = heads(paths)
    origin_of(folder, given)  # refuses before captures at URLs are copied
    with opened_capture(paths, secrets) as source, few_collections():
        known = definitions(release, user_definitions)
        reader, rows = write_tables(
            source,
            known,
            ports,
            selection,
            View(),
            None,
            folder,
            wanted,
            given,
            bodies=bodies,
            record_sizes=record_sizes,
        )
        if selection.note:
            settings.warn(selection.note)
        _tell("local", monotonic() - begin, rows, (), reader.health, None, reader.errors)


def _tell(
    engine: str,
    seconds: float,
    rows: dict[str, int],
    whole: Sequence[tuple[str, str]],
    health: Health,
    shuffled: int | None,
    errors: Sequence[CaptureError],
) -> None:
    """Prints the number of rows of each table, and what could not be read, by `health`.

    Then raises CaptureError if a capture could not be read to its end.
    """
    from kproxy.captures.export.oneline import health_note
    from kproxy.decoders.exchange import Health

    if settings.current().json:
        summary = {
            "schema": "kproxy.spark/1", "engine": engine, "seconds": round(seconds, 3), "rows": rows,
            "lost_bytes": health.lost, "untimed": health.untimed, "unread": health.unread, "shuffle_bytes": shuffled,
            "read_whole": [{"path": name, "reason": reason} for name, reason in whole],
            "error": str(errors[0]) if errors else None,
            "errors": [str(error) for error in errors],
        }  # fmt: skip
        click.echo(json.dumps(summary))
    else:
        for name, count in rows.items():
            click.echo(f"{name:16} {count:>12,} rows")
        for name, reason in whole:
            settings.warn(f"{name} was read by one task: {reason}")
        missing = health_note(Health(lost=health.lost, untimed=health.untimed, unread=health.unread))
        if missing is not None:
            settings.warn(missing)
        if shuffled is not None:
            click.echo(f"{'shuffled':16} {shuffled:>12,} bytes")
    raise_first(errors)
