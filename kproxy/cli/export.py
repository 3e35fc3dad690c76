"""`kproxy export`: the exchanges of captures as JSON Lines, JSON or CSV, or their records."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options import PORTS, SIZE, Selection, Viewing, defining, selecting, viewing
from kproxy.cli.terminal import standard_output

if TYPE_CHECKING:
    from captures.export import Lines
    from captures.reader import Reader
    from captures.source import FileSource
    from decoders.exchange import Exchange, StreamProblem
    from decoders.filters import Expression
    from decoders.knowledge import Knowledge
    from decoders.view import View

FORMATS = ("jsonl", "json", "csv", "records")
AT_ONCE = 512
"""Exchanges turned to text at a time, so that a reading does not become one string."""
SMALL = 16 << 20
"""Bytes of captures below which further processes would cost more than they save."""


@click.command()
@click.argument(
    "captures", nargs=-1, required=True, metavar="CAPTURE...", type=click.Path(path_type=Path, allow_dash=True)
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="OUT",
    help="Write here and not to standard output.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="jsonl", show_default=True, help="Form of the output."
)
@click.option(
    "--batch-limit",
    type=SIZE,
    default="64M",
    show_default=True,
    metavar="SIZE",
    help="Do not open record batches of more than this, decompressed.",
)
@click.option("--columns", metavar="A,B,C", help="Columns of a CSV, in this order (all unless given).")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Decode in N processes at once (for large files as many as there are cores, up to 8).",
)
@click.option("--port", "ports", type=PORTS, metavar="PORTS", help="Only connections to these ports (9092, 9092-9094).")
@click.option("--release", metavar="RELEASE", help="Read with the names and layouts of this Kafka release (3.9).")
@defining
@click.option("--show-secrets", is_flag=True, help="Print passwords, tokens and keys as they are.")
@selecting
@viewing
def command(
    captures: tuple[Path, ...],
    output: Path | None,
    form: str,
    batch_limit: int,
    columns: str | None,
    jobs: int | None,
    ports: tuple[range, ...] | None,
    release: str | None,
    given: tuple[str, ...],
    show_secrets: bool,
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    viewing: Viewing,
) -> None:
    """Write the exchanges of captures, one after the other as they complete; with --format records their records.

    A CAPTURE is a pcap or pcapng file, a directory of kproxy's recording segments, or - for standard input; several
    files are read as one, in the order given. Where a capture cannot be read to its end, what could be read is written
    first and the exit code is 3. The output is the same for any number of --jobs; there is one where standard input is
    read, exchanges are counted (-c), or a registry is asked.

    \b
    kproxy export capture.pcap -o exchanges.jsonl
    kproxy export vendor.pcap --definitions vendor/ -Y 'api == VendorThing'
    kproxy export groups.pcap --dialect coordinator-draft-1
    kproxy export *.pcapng -Y 'error or latency > 1s' --format csv
    kproxy export large.pcap -o exchanges.jsonl --jobs 2
    kproxy export capture.pcap --format records | jq -r .value
    kproxy export capture.pcap --format records --registry http://registry:8081 | jq .value.decoded
    ssh broker tcpdump -U -w - port 9092 | kproxy export - --port 9092 | jq .api
    """  # noqa: D301 (\b keeps click from joining the lines)
    # numpy's linear algebra would start a thread a core, and we use none of it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from captures.definitions import definitions
    from captures.garbage import few_collections
    from captures.reader import Reader
    from captures.source import open_source
    from decoders.view import View

    chosen = _columns(columns, form)
    known = _release(release)
    payloads = viewing.payloads() if form != "csv" else None
    source = open_source(list(captures))
    try:
        reader = Reader(source, definitions(known, given), ports=ports)
        selection = Selection(expression, count, since, until)
        with _output(output, source) as out, few_collections():
            view = View(show_secrets=show_secrets, batch_limit=batch_limit, payloads=payloads)
            lines = _lines(reader, form, chosen, view)
            export = _Export(reader, lines, selection, None if form == "csv" else view.knowledge)
            export.write(out, _jobs(jobs, source, out, selection, viewing))
        if selection.note:
            settings.warn(selection.note)
        if lines.problems:
            settings.warn(f"{lines.problems} problems in messages with records; --format jsonl names them")
        if reader.error is not None:
            raise reader.error
    finally:
        source.close()


def _release(release: str | None) -> str | None:
    from decoders.schema import definitions

    try:
        definitions(release)
    except (KeyError, ValueError, LookupError) as error:
        raise Failure(f"--release {release}: {error.args[0] if error.args else 'unknown'}", Exit.USAGE) from None
    return release


def _columns(columns: str | None, form: str) -> tuple[str, ...]:
    from captures.export.rows import COLUMNS

    if columns is None:
        return COLUMNS
    if form != "csv":
        raise Failure("--columns belongs to --format csv", Exit.USAGE)
    chosen = tuple(name.strip() for name in columns.split(","))
    for name in chosen:
        if name not in COLUMNS:
            near = settings.nearest(name, COLUMNS)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(COLUMNS)}"
            raise Failure(f"no column {name!r}: {hint}", Exit.USAGE)
    return chosen


def _lines(reader: Reader, form: str, columns: tuple[str, ...], view: View) -> Lines:
    from captures.export.jsonl import JsonArray, JsonLines
    from captures.export.records import RecordLines
    from captures.export.rows import CsvLines

    if form == "csv":
        return CsvLines(reader, columns)
    if form == "records":
        return RecordLines(reader, view)
    kind = JsonArray if form == "json" else JsonLines
    return kind(reader, view)


@dataclass(slots=True)
class _Export:
    """What is made of a reading (captures.export.parallel.Work)."""

    reader: Reader
    lines: Lines
    selection: Selection
    knowledge: Knowledge | None

    def write(self, out: BinaryIO, jobs: int) -> None:
        from captures.export import parallel

        out.write(self.lines.begin())
        if jobs > 1:
            parallel.write(self, self.reader.batches(), out, jobs)
        else:
            self._write(out)
        out.write(self.lines.lines([self.reader.health]) + self.lines.end())
        out.flush()

    def _write(self, out: BinaryIO) -> None:
        """Batch by batch, so that a reader of a live stream sees it at once."""
        for batch in self.reader.batches():
            out.writelines(self.texts(batch))
            if batch:
                out.flush()
            if self.selection.done:
                return

    def texts(self, items: Sequence[Exchange | StreamProblem]) -> Iterator[bytes]:
        """The text of those that are selected."""
        reader = self.reader
        if not self.selection.everything:
            items = list(self.selection.of(items, reader.source, reader.definitions, self.knowledge))
        return (self.lines.lines(items[start : start + AT_ONCE]) for start in range(0, len(items), AT_ONCE))

    def learn(self, items: Sequence[Exchange | StreamProblem]) -> None:
        from decoders.exchange import Exchange
        from decoders.learning import learn

        if self.knowledge is None:
            return
        for item in items:
            if isinstance(item, Exchange):
                learn(item, self.reader.source, self.reader.definitions, self.knowledge)

    @property
    def counts(self) -> list[int]:
        return [self.reader.health.undecoded, self.selection.unknown, self.lines.problems]

    @counts.setter
    def counts(self, counts: list[int]) -> None:
        self.reader.health.undecoded, self.selection.unknown, self.lines.problems = counts


def _jobs(wanted: int | None, source: FileSource, out: BinaryIO, selection: Selection, viewing: Viewing) -> int:
    """How many processes make the text; one where several would not help, or could not do the same."""
    from captures.export import parallel
    from captures.source import SpoolSource

    alone = (
        isinstance(source, SpoolSource)  # what comes is written at once
        or selection.count is not None  # what is selected depends on all before it
        or viewing.registry is not None  # a thread asks the registry
        or not _has_descriptor(out)
    )
    if alone:
        return 1
    if wanted is None:
        return min(parallel.usable_cores(), parallel.MOST_JOBS) if source.size >= SMALL else 1
    return wanted


def _has_descriptor(out: BinaryIO) -> bool:
    try:
        out.fileno()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _output(path: Path | None, source: FileSource) -> Iterator[BinaryIO]:
    if path is None or str(path) == "-":
        yield standard_output()
        return
    if any(path.exists() and part.path.exists() and path.samefile(part.path) for part in source.parts):
        raise Failure(f"{path}: is the capture that is read", Exit.USAGE)
    try:
        file = path.open("wb", buffering=1 << 20)
    except PermissionError:
        raise
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", Exit.USAGE) from None
    with file:
        yield file
