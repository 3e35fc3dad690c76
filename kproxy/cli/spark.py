"""`kproxy spark`: the tables of captures that outgrow one machine, and what they come to."""

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
from kproxy.cli.options import FILTER, SIZE, Selection, captured, defining, porting, releasing
from kproxy.cli.spark_session import NO_SPARK, lacking, master_option, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from captures.errors import CaptureError
    from captures.ports import Ports
    from captures.spark.flows import Options
    from decoders.filters import Expression

COMMANDS: Final = {"report": "kproxy.cli.spark_report"}
"""What may stand in the place of captures, and the module of its `command`."""
ENGINES: Final = ("auto", "spark", "local")
SMALL: Final = 1 << 30
"""Bytes of captures below which Spark takes longer to start than one process to read them."""


class Command(click.Command):
    """A command whose first argument may be the name of another."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in COMMANDS:
            other = cast("click.Command", import_module(COMMANDS[args[0]]).command)
            return settings.with_globals(other).make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=Command)
@captured
@click.option(
    "-o",
    "--out",
    "target",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="The folder of the tables; every executor must see it.",
)
@master_option
@click.option(
    "--format",
    "form",
    type=click.Choice(("parquet",)),
    default="parquet",
    show_default=True,
    help="Form of the tables.",
)
@click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Only exchanges that match.")
@click.option("--tables", metavar="A,B,C", help="Tables that are written (all but records unless given).")
@click.option("--no-bodies", is_flag=True, help="Only what headers tell: quicker, some columns are null.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="Who makes them: Spark, or this process alone; auto takes Spark from 1 GiB on, or where --master is given.",
)
@click.option(
    "--split-size",
    type=SIZE,
    default="64M",
    show_default=True,
    metavar="SIZE",
    help="What a task reads at most, where a capture can be cut.",
)
@click.option("--follow", is_flag=True, help="Go on with what comes: the CAPTURE is a folder in which captures rotate.")
@click.option("--once", is_flag=True, help="With --follow: end with what is there, and go on from there the next time.")
@click.option(
    "--quiet-time",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: read the newest file too once it has not changed for so long.",
)
@porting
@releasing
@defining
def command(
    captures: tuple[Path, ...],
    target: Path,
    master: str | None,
    form: str,  # noqa: ARG001  # there is one
    expression: Expression | None,
    tables: str | None,
    no_bodies: bool,
    engine: str,
    split_size: int,
    follow: bool,
    once: bool,
    quiet_time: float,
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
) -> None:
    """Make the tables of captures by Spark: those of `kproxy export --format parquet`, row for row.

    A CAPTURE is a pcap or pcapng file, a pattern, a folder of captures, or a recording's folder. Files are cut into
    splits, which are read at the same time; connections are put together across splits and files. Once more, and the
    tables of the same captures are replaced, and no others. `kproxy spark report DIR` says what tables come to.

    \b
    kproxy spark capture.pcap --out tables
    kproxy spark 'captures/*.pcapng' --out tables --master local[4]
    kproxy spark day/ --out /shared/tables --master spark://spark:7077 -Y 'api == Produce'
    kproxy spark /captures --out tables --follow
    kproxy spark report tables --html report.html
    """  # noqa: D301 (\b keeps click from joining the lines)
    from captures.spark.planning import expand
    from kproxy.cli.export import wanted_tables

    wanted = wanted_tables(tables, bodies=not no_bodies)
    if once and not follow:
        raise Failure("--once says how --follow ends: give both", Exit.USAGE)
    if follow:
        folder = _followed(captures, engine)
        options = _options(wanted, release, given, expression, bodies=not no_bodies)
        _follow(master, folder, target, options, once=once, quiet=quiet_time, size=split_size, ports=ports)
        return
    paths = expand(captures)
    if engine == "auto":
        large = sum(path.stat().st_size for name in paths for path in _files(Path(name))) >= SMALL
        engine = "spark" if master is not None or (large and not lacking()) else "local"
    if engine == "local":
        _alone(paths, target, wanted, expression, ports, release, given, bodies=not no_bodies)
        return
    options = _options(wanted, release, given, expression, bodies=not no_bodies)
    with opened(master) as spark:
        from captures.spark.job import lost, make, shuffled
        from captures.spark.writing import write

        begin = monotonic()
        with _writable(target):
            made = make(spark, paths, options, size=split_size, ports=ports)
            rows = write(made, target)
        _tell("spark", monotonic() - begin, rows, made.whole, lost(made), shuffled(spark), made.order.error)


def _options(
    wanted: tuple[str, ...],
    release: str | None,
    given: tuple[str, ...],
    expression: Expression | None,
    *,
    bodies: bool,
) -> Options:
    if lacking():
        raise Failure(NO_SPARK, Exit.USAGE)
    from captures.spark.flows import Options

    try:
        return Options(wanted, release, given, expression, bodies)
    except ValueError as error:
        raise Failure(f"{error}: --engine local", Exit.USAGE) from None


def _followed(captures: tuple[Path, ...], engine: str) -> Path:
    """The folder that is followed."""
    if engine == "local":
        raise Failure("--follow takes Spark, not --engine local", Exit.USAGE)
    if len(captures) > 1 or not captures[0].is_dir():
        raise Failure(f"{captures[0]}: --follow takes one folder, in which captures rotate", Exit.USAGE)
    return captures[0]


def _follow(
    master: str | None,
    folder: Path,
    target: Path,
    options: Options,
    *,
    once: bool,
    quiet: float,
    size: int,
    ports: Ports | None,
) -> None:
    """Until it is interrupted, unless `once`; what was being made then is made again the next time."""

    def told(number: int, what: str) -> None:
        if what == "carry":
            click.echo(f"batch {number} is in the tables")

    with opened(master) as spark:
        from captures.spark.following import follow

        try:
            with _writable(target):
                query = follow(
                    spark, folder, target, options, once=once, quiet=quiet, size=size, ports=ports, step=told
                )
        except ValueError as error:
            raise Failure(str(error), Exit.USAGE) from None
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (each for each in path.iterdir() if each.is_file())
    else:
        yield path


@contextmanager
def _writable(target: Path) -> Iterator[None]:
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        raise Failure(f"{target}: {error.strerror}", Exit.USAGE) from None


def _alone(
    paths: list[str],
    target: Path,
    wanted: tuple[str, ...],
    expression: Expression | None,
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
    *,
    bodies: bool,
) -> None:
    """What `kproxy export --format parquet` does."""
    from captures.definitions import definitions
    from captures.garbage import few_collections
    from captures.tls.opening import open_capture
    from decoders.view import View
    from kproxy.cli.export import write_tables

    begin = monotonic()
    source = open_capture(paths)
    try:
        selection = Selection(expression)
        with few_collections():
            reader, rows = write_tables(
                source, definitions(release, given), ports, selection, View(), None, target, wanted, bodies=bodies
            )
        if selection.note:
            settings.warn(selection.note)
        _tell("local", monotonic() - begin, rows, (), reader.health.lost, None, reader.error)
    finally:
        source.close()


def _tell(
    engine: str,
    seconds: float,
    rows: dict[str, int],
    whole: Sequence[tuple[str, str]],
    lost: int,
    shuffled: int | None,
    error: CaptureError | None,
) -> None:
    """Say what a run came to; raises CaptureError after that where a capture could not be read to its end."""
    if settings.current().json:
        told = {
            "schema": "kproxy.spark/1", "engine": engine, "seconds": round(seconds, 3), "rows": rows,
            "lost_bytes": lost, "shuffle_bytes": shuffled,
            "read_whole": [{"path": name, "reason": reason} for name, reason in whole],
            "error": None if error is None else str(error),
        }  # fmt: skip
        click.echo(json.dumps(told))
    else:
        for name, count in rows.items():
            click.echo(f"{name:16} {count:>12,} rows")
        for name, reason in whole:
            settings.warn(f"{name} was read by one task: {reason}")
        if lost:
            settings.warn(f"{lost:,} bytes are missing between frames")
        if shuffled is not None:
            click.echo(f"{'shuffled':16} {shuffled:>12,} bytes")
    if error is not None:
        raise error
