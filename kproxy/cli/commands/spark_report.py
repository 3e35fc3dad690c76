"""`kproxy spark report`: a report on tables, in the terminal and as an HTML page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.spark_session import master_option, opened
from kproxy.cli.tables import table
from kproxy.cli.terminal import forcing, output, refuse_existing

if TYPE_CHECKING:
    from kproxy.captures.spark.report.sections import Found

SCHEMA = "kproxy.report/1"
SHOWN = 12
"""Most rows of a section in the terminal."""
NARROWEST = 8
"""Smallest width to which a column of text is cut."""
GAP = 2


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
@forcing
@master_option
def command(directory: str, html: Path | None, seconds: int | None, master: str | None) -> None:
    """Summarise the tables in a folder.

    DIRECTORY is what `kproxy export --format parquet -o` wrote, from one capture or many, or a URL that Spark reads.
    The report has findings (if their table was written), percentiles of latency, errors, throttling, throughput of
    topics, batches, who uses which topic, versions and which of them Kafka 4 refuses, rebalances, and the time of
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
    with opened(master, queries=True) as spark:
        from kproxy.captures.spark.report.page import page
        from kproxy.captures.spark.report.sections import find
        from kproxy.captures.spark.report.tables import NoTables, read

        try:
            tables = read(spark, directory)
        except NoTables as error:
            raise Failure(str(error)) from None
        results = []
        for found in find(spark, tables, seconds):
            results.append(found)
            for line in objects(found) if settings.current().json else text(found, _width()):
                click.echo(line)
    if html is not None:
        with output(html, ()) as file:
            file.write(page(directory, results).encode("utf-8", "replace"))
        click.echo(f"kproxy: wrote {html}", err=True)


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
