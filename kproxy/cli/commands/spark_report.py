"""`kproxy spark report`: a report on tables, in the terminal and as an HTML page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.spark_session import lacking, master_option, opened
from kproxy.cli.tables import table
from kproxy.cli.terminal import forcing, output, refuse_existing
from kproxy.decoders.extras import installing

if TYPE_CHECKING:
    from kproxy.captures.spark.report import by_duckdb
    from kproxy.captures.spark.report.sections import Found
    from kproxy.captures.spark.report.tables import Executor

SCHEMA = "kproxy.report/1"
SHOWN = 12
"""Maximum number of rows of a section in the terminal."""
NARROWEST = 8
"""Smallest width in characters to which a column of text is narrowed."""
GAP = 2
ENGINES = ("auto", "spark", "local")
NEEDED = ("duckdb", "pyarrow")
NO_DUCKDB = f"a report needs DuckDB or Spark: {installing('report')}"
LARGE = 5_000_000
"""Number of rows, of all tables together, from which Spark reports them."""


@click.command("report")
@click.argument("directory")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also write an HTML page."
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    help="Seconds per point in plots over time (default: by the length of the captures).",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="Compute in this process, or with Spark; auto uses Spark for URLs, from 5 million rows on, or with --master.",
)
@forcing
@master_option
def command(directory: str, html: Path | None, seconds: int | None, engine: str, master: str | None) -> None:
    """Summarise the tables in a folder.

    DIRECTORY is what `kproxy export --format parquet -o` wrote, from one capture or many, or a URL that Spark reads
    (with --engine local: that pyarrow reads). This process computes reports of small tables, Spark those of large
    ones. The report has findings (if their table was written), percentiles of latency, errors, throttling, throughput
    of topics, batches, who uses which topic, versions and which of them Kafka 4 refuses, rebalances, and the time of
    records from producer to consumer.

    The terminal shows the first rows of each section; the page has more rows, and plots, and needs no network. With
    --json one object per row.

    \b
    kproxy spark report tables
    kproxy spark report tables --html report.html
    kproxy spark report s3a://captures/tables --master spark://spark:7077 --json
    """  # noqa: D301 (\b keeps click from joining the lines)
    if html is not None and not html.absolute().parent.is_dir():
        raise Failure(f"{html.parent}: not a folder", Exit.USAGE)
    refuse_existing(html)
    with executor(directory, engine, master) as tables:
        from kproxy.captures.spark.report.page import page
        from kproxy.captures.spark.report.sections import find

        results = []
        for found in find(tables, seconds):
            results.append(found)
            for line in objects(found) if settings.current().json else text(found, _width()):
                click.echo(line)
    if html is not None:
        with output(html, ()) as file:
            file.write(page(directory, results).encode("utf-8", "replace"))
        click.echo(f"kproxy: wrote {html}", err=True)


@contextmanager
def executor(directory: str, engine: str, master: str | None) -> Iterator[Executor]:
    """The executor of queries over the tables of a folder, by `ENGINES`; prints the choice on standard error.

    Raises Failure: exit 2 if packages are missing, 3 if the tables are missing or cannot be read, and as
    spark_session.opened does.
    """
    from kproxy.captures.spark.plan.files import is_url

    here = all(find_spec(package) for package in NEEDED)
    if engine == "local" and master is not None:
        raise Failure("--master needs Spark: remove --engine local", Exit.USAGE)
    if not here and (engine == "local" or (engine == "auto" and lacking())):
        raise Failure(NO_DUCKDB, Exit.USAGE)
    if engine == "auto" and (master is not None or is_url(directory) or not here):
        engine = "spark"
    if engine != "spark":
        with _in_this_process(directory) as tables:
            rows = sum(tables.sizes.values())
            if engine == "local" or rows < LARGE or lacking():
                _say(f"{rows:,} rows, computed by this process")
                yield tables
                return
        _say(f"{rows:,} rows, computed by Spark")
    with opened(master, queries=True) as spark:
        from kproxy.captures.spark.report import by_spark
        from kproxy.captures.spark.report.tables import NoTables, OldTables

        try:
            yield by_spark.read(spark, directory)
        except (NoTables, OldTables) as error:
            raise Failure(str(error)) from None


@contextmanager
def _in_this_process(directory: str) -> Iterator[by_duckdb.Tables]:
    from kproxy.captures.spark.report import by_duckdb
    from kproxy.captures.spark.report.tables import NoTables, OldTables

    try:
        with by_duckdb.opened(directory) as tables:
            yield tables
    except (NoTables, OldTables) as error:
        raise Failure(str(error)) from None
    except by_duckdb.Unreadable as error:
        raise Failure(f"{directory}: {error}") from None


def _say(words: str) -> None:
    if not settings.current().quiet:
        click.echo(f"kproxy: {words}", err=True)


def _width() -> int:
    return shutil.get_terminal_size().columns


def objects(found: Found) -> Iterator[str]:
    """The rows of a section as JSON objects of schema `SCHEMA`, with times in ISO 8601."""
    for row in found.rows:
        yield json.dumps({"schema": SCHEMA, "section": found.section.name, **row}, default=_json)


def _json(value: Any) -> str:
    return f"{value.isoformat()}Z"


def text(found: Found, width: int) -> Iterator[str]:
    """A section as lines for a terminal; none for a section that is only a plot."""
    from kproxy.captures.spark.report import forms
    from kproxy.decoders.escaping import escape

    section = found.section
    columns = [column for column in section.columns if not column.wide]
    if not columns:
        return
    yield click.style(section.title, bold=True)
    if not found.rows:
        yield f"{section.empty}\n"
        return
    # Columns of text first, because `table` aligns the first columns left.
    columns.sort(key=lambda column: column.form not in forms.TO_THE_LEFT)
    left = sum(column.form in forms.TO_THE_LEFT for column in columns)
    rows = [[escape(forms.text(column.form, row[column.name])) for column in columns] for row in found.rows[:SHOWN]]
    yield from table(
        [column.head for column in columns], narrowed(rows, [column.head for column in columns], width), left
    )
    hidden = len(found.rows) - len(rows)
    if hidden:
        yield f"and {hidden}{' or more' if found.more else ''} others"
    yield ""


def narrowed(rows: Sequence[Sequence[str]], head: Sequence[str], width: int) -> list[list[str]]:
    """The rows with their widest cells cut until a line fits; the first column is cut last.

    A column stays at least as wide as its head and `NARROWEST`, so a line may still be too long.
    """
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    least = [max(len(name), NARROWEST) for name in head]
    while sum(widths) + GAP * (len(widths) - 1) > width:
        spare = [max(0, wide - few) for wide, few in zip(widths, least, strict=True)]
        if not any(spare):
            break
        others = [0, *spare[1:]]
        widest = others if any(others) else spare
        widths[widest.index(max(widest))] -= 1
    return [
        [cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell, most in zip(row, widths, strict=True)]
        for row in rows
    ]
