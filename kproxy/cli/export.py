"""`kproxy export`: writes the exchanges of captures in various formats."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kproxy.cli import progress, readings, resuming, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options import (
    SIZE,
    Selection,
    Viewing,
    captured,
    decrypting,
    defining,
    porting,
    releasing,
    revealing,
    selecting,
    spooling,
    viewing,
)
from kproxy.cli.terminal import forcing, output, refuse_capture, refuse_existing
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.export import Lines
    from kproxy.captures.export.parallel import Stage
    from kproxy.captures.export.partial import Partial
    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Item, Reader
    from kproxy.captures.redaction.exchanges import Redaction
    from kproxy.captures.source import FileSource
    from kproxy.captures.spool import Spooling
    from kproxy.decoders.exchange import Exchange, StreamProblem
    from kproxy.decoders.filters import Expression
    from kproxy.decoders.knowledge import Knowledge
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.view import View

TEXTS = ("jsonl", "json", "csv", "records", "html")
"""Formats that are written item by item (captures.export.Lines)."""
FORMATS = (*TEXTS, "parquet", "pcapng")
RESUMABLE = ("jsonl", "json", "csv", "records")
"""Formats that grow item by item for any number of exchanges, so that --resume can go on with them."""
WITH_HEALTH = ("jsonl", "json")
"""Formats that end with the health of the reading; for the others it is printed on standard error."""
AT_ONCE = 32
"""Exchanges that are turned into text together, to bound the length of one string."""
ALONE = 256 << 10
"""Size in bytes from which an exchange's text is not joined with others', because joining copies it."""
SMALL = 16 << 20
"""Size of captures in bytes below which further processes would cost more than they save."""


@click.command()
@captured
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="OUT",
    help="Write here and not to standard output (-); with --format parquet a folder.",
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
    "--formulas", is_flag=True, help="Write text of a CSV that begins with = + - @ as it is, not behind an apostrophe."
)
@click.option("--tables", metavar="A,B,C", help="Tables of --format parquet (all but records unless given).")
@click.option(
    "--no-bodies", is_flag=True, help="With --format parquet only what headers tell: quicker, some columns are null."
)
@click.option("--exchange", "number", type=click.IntRange(min=1), metavar="N", help="Only exchange N.")
@click.option(
    "--redact",
    "redact",
    multiple=True,
    type=click.Choice(("secrets", "payloads", "hosts")),
    help="Take these out of the output, whatever its form (repeatable).",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Decode in N processes at once (for large files as many as there are cores, up to 4).",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Write OUT.part until all is written, and go on where an earlier run of the same command was ended.",
)
@forcing
@progress.telling
@porting
@releasing
@defining
@decrypting
@revealing
@selecting
@spooling
@viewing
@click.pass_context
def command(
    ctx: click.Context,
    captures: tuple[Path, ...],
    target: Path | None,
    form: str,
    batch_limit: int,
    columns: str | None,
    formulas: bool,
    tables: str | None,
    no_bodies: bool,
    number: int | None,
    redact: tuple[str, ...],
    jobs: int | None,
    resume: bool,
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
    keylog: Path | None,
    show_secrets: bool,
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    spooling: Spooling,
    viewing: Viewing,
) -> None:
    """Write the exchanges of captures, one after the other as they complete; with --format records their records.

    A CAPTURE is a pcap or pcapng file, a directory of kproxy's recording segments, or - for standard input, compressed
    or not; several files are read as one, in the order of time. Where a capture cannot be read to its end, what could
    be read is written first and the exit code is 3. The output is the same for any number of --jobs; there is one where
    standard input is read, exchanges are counted (-c) or named, something is taken out, or a registry is asked, and for
    tables. Of Kafka's log segments, or a partition's directory, the batches are written, or their records.

    --format parquet writes tables, a folder each; once more, and they are replaced. --format pcapng writes a capture of
    the exchanges alone, --format html one exchange as a page (--exchange N). --redact overwrites bytes at their length:
    secrets, payloads (keys, values and header values of records), hosts (names and addresses get others, the same
    everywhere). Secrets are withheld in every form unless --show-secrets is given.

    \b
    kproxy export capture.pcap -o exchanges.jsonl
    kproxy export vendor.pcap --definitions vendor/ -Y 'api == VendorThing'
    kproxy export groups.pcap --dialect coordinator-draft-1
    kproxy export *.pcapng -Y 'error or latency > 1s' --format csv
    kproxy export large.pcap -o exchanges.jsonl --jobs 2 --resume
    kproxy export capture.pcap --format records | jq -r .value
    kproxy export orders-0/00000000000000000000.log --format records | jq -r .value
    kproxy export capture.pcap --format records --registry http://registry:8081 | jq .value.decoded
    kproxy export capture.pcap --format parquet -o tables
    kproxy export large.pcap --format parquet --no-bodies -o tables
    kproxy export capture.pcap --format pcapng -Y 'api == JoinGroup' --redact payloads --redact hosts -o share.pcapng
    kproxy export capture.pcap --format html --exchange 42 -o 42.html
    kproxy export encrypted.pcap --keylog keys.log
    ssh broker tcpdump -U -w - port 9092 | kproxy export - --port 9092 | jq .api
    """  # noqa: D301 (\b keeps click from joining the lines)
    # numpy's linear algebra, which is not used, would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from kproxy.captures.definitions import definitions
    from kproxy.captures.garbage import few_collections
    from kproxy.captures.reader import Reader
    from kproxy.captures.segments import SegmentReader, holds_segments, partition_files
    from kproxy.captures.tls.opening import open_capture
    from kproxy.cli import segments
    from kproxy.decoders.view import View

    if "secrets" in redact and show_secrets:
        raise Failure("--redact secrets and --show-secrets exclude each other", Exit.USAGE)
    chosen = _columns(columns, form)
    wanted = _tables(tables, form, target, bodies=not no_bodies)
    if form == "html" and number is None and count is None:
        raise Failure("--format html takes --exchange N, or -c N", Exit.USAGE)
    if resume:
        _check_resumable(target, form, redact, viewing)
    payloads = viewing.payloads() if form in {"jsonl", "json", "records", "html"} else None
    files = [Path(path) for path in (*given, keylog, viewing.schemas) if path is not None]
    parts = resuming.made_of(ctx, captures, files) if resume else None
    source = open_capture(partition_files(captures), log=keylog, spooling=spooling)
    try:
        selection = Selection(expression, count, since, until, number)
        view = View(show_secrets=show_secrets, batch_limit=batch_limit, payloads=payloads)
        read = [*captures, *(part.path for part in source.parts)]
        if holds_segments(source):
            segments.check(form, narrowed=ports is not None or bool(redact) or not selection.everything)
            if resume:
                raise Failure("--resume is for exchanges, not for log segments", Exit.USAGE)
            with output(target, read) as out, few_collections():
                segments.export(SegmentReader(source, view), form, out)
            return
        known = definitions(release, given)
        if target is not None and form != "parquet":
            refuse_capture(target, read)
            refuse_existing(target)
        redaction = _redaction(source, known, ports, redact, form, show_secrets=show_secrets)
        with few_collections():
            if form == "parquet" and target is not None:
                reader, _ = write_tables(
                    source, known, ports, selection, view, redaction, target, wanted, bodies=not no_bodies
                )
            else:
                reader = Reader(source, known, ports=ports)
                with resuming.destination(target, read, parts) as (out, partial):
                    if form == "pcapng":
                        _write_slice(reader, selection, view.knowledge, redaction, out, redact)
                    else:
                        lines = _lines(reader, form, chosen, view, formulas=formulas)
                        known_facts = None if form == "csv" else view.knowledge
                        export = _Export(reader, lines, selection, known_facts, redaction, partial)
                        export.write(out, _jobs(jobs, source, out, selection, viewing, redaction))
                        if lines.problems:
                            problems = f"{counted(lines.problems, 'problem')} in messages with records"
                            settings.warn(f"{problems}; --format jsonl names them")
        if redact and redaction is not None:
            settings.warn(f"taken out: {redaction.removed}")
        if not selection.everything:
            progress.tell(exchanges=selection.taken)
        readings.conclude(reader, selection, health=form not in WITH_HEALTH)
    finally:
        source.close()


def _check_resumable(target: Path | None, form: str, redact: tuple[str, ...], viewing: Viewing) -> None:
    """Raises Failure (exit 2) if --resume does not fit the other options."""
    if target is None or str(target) == "-":
        raise Failure("--resume needs a file to go on with: -o FILE", Exit.USAGE)
    if form not in RESUMABLE:
        raise Failure(f"--resume is for --format {', '.join(RESUMABLE)}: no other grows line by line", Exit.USAGE)
    if redact:
        raise Failure("--resume and --redact exclude each other: what stands for a host differs each time", Exit.USAGE)
    if viewing.registry is not None:
        raise Failure("--resume and --registry exclude each other: what a registry says may differ", Exit.USAGE)


def _redaction(
    source: FileSource,
    known: Definitions,
    ports: Ports | None,
    redact: tuple[str, ...],
    form: str,
    *,
    show_secrets: bool,
) -> Redaction | None:
    """The redaction of the bytes, None for none; formats of text withhold secrets themselves."""
    from kproxy.captures.redaction import HOSTS, SECRETS
    from kproxy.captures.redaction.exchanges import Redaction

    presets = {*redact}
    if not show_secrets and (presets or form == "pcapng"):
        presets.add(SECRETS)
    if not presets:
        return None
    redaction = Redaction(source, known, presets, keep_unread=not redact)
    if HOSTS in presets:
        from kproxy.captures.reader import Reader

        before = Reader(source, known, ports=ports)
        source.read_again = True
        for batch in progress.batches(before):
            redaction.learn(batch)
        source.read_again = False
    return redaction


def _tables(tables: str | None, form: str, target: Path | None, *, bodies: bool) -> tuple[str, ...]:
    if form != "parquet":
        if tables is not None or not bodies:
            raise Failure(f"{'--tables' if bodies else '--no-bodies'} belongs to --format parquet", Exit.USAGE)
        return ()
    if target is None or str(target) == "-":
        raise Failure("--format parquet writes a folder: -o DIR", Exit.USAGE)
    if find_spec("pyarrow") is None:
        raise Failure("--format parquet needs pyarrow: pip install 'kafka-kproxy[parquet]'", Exit.USAGE)
    return wanted_tables(tables, bodies=bodies)


def wanted_tables(tables: str | None, *, bodies: bool) -> tuple[str, ...]:
    """The named tables, or the default ones; without `bodies` only those that need no bodies. Raises Failure."""
    from kproxy.captures.tables.schema import TABLES, USUAL, WITHOUT_BODIES

    if bodies:
        return USUAL if tables is None else named(tables, tuple(TABLES), "table")
    chosen = WITHOUT_BODIES if tables is None else named(tables, tuple(TABLES), "table")
    without = next((name for name in chosen if name not in WITHOUT_BODIES), None)
    if without is not None:
        raise Failure(f"--no-bodies leaves nothing for {without}: there are {', '.join(WITHOUT_BODIES)}", Exit.USAGE)
    return chosen


def write_tables(
    source: FileSource,
    known: Definitions,
    ports: Ports | None,
    selection: Selection,
    view: View,
    redaction: Redaction | None,
    target: Path,
    tables: tuple[str, ...],
    *,
    bodies: bool = True,
) -> tuple[Reader, dict[str, int]]:
    """Writes the tables of a capture, without `bodies` only from headers; returns (reader, rows by table)."""
    from kproxy.captures.reader import Reader
    from kproxy.captures.tables.export import TableExport

    export = TableExport(source)
    reader = Reader(source, known, ports=ports, watch=export.packets, began=export.began)

    def select(items: Iterable[Item]) -> Iterable[Item]:
        return selection.of(items, source, known, view.knowledge)

    batches = _until_done(progress.batches(reader), selection)
    try:
        export.write(reader, target, tables, view, select, batches, redaction, bodies=bodies)
    except (NotADirectoryError, FileExistsError) as error:
        raise Failure(f"{target}: {error.strerror}", Exit.USAGE) from None
    return reader, export.rows


def _write_slice(
    reader: Reader,
    selection: Selection,
    knowledge: Knowledge,
    redaction: Redaction | None,
    out: BinaryIO,
    redact: tuple[str, ...],
) -> None:
    from kproxy.captures.export.oneline import health_note
    from kproxy.captures.export.slicing import Slice
    from kproxy.decoders.exchange import Exchange

    if out.isatty():
        raise Failure("a pcapng is nothing for a terminal: -o FILE, or a pipe", Exit.USAGE)
    chosen = Slice()
    for batch in _until_done(progress.batches(reader, out), selection):
        for item in batch:
            chosen.passed(item)
        for item in selection.of(batch, reader.source, reader.definitions, knowledge):
            if isinstance(item, Exchange):
                chosen.add(item)
    presets = sorted({"secrets", *redact}) if redaction is not None else []
    health = health_note(reader.health)
    comments = [f"slice of a capture: {counted(len(chosen), 'exchange')}"]
    comments += [f"{preset} taken out" for preset in presets]
    chosen.write(
        out,
        reader.source,
        application="kproxy",
        change=None if redaction is None else redaction.exchange,
        comments=comments if health is None else [*comments, f"of the capture: {health}"],
        ending=lambda: [] if redaction is None else [f"taken out: {redaction.removed}"],
    )


def _until_done(batches: Iterable[Sequence[Item]], selection: Selection) -> Iterator[Sequence[Item]]:
    for batch in batches:
        yield batch
        if selection.done:
            return


def _columns(columns: str | None, form: str) -> tuple[str, ...]:
    from kproxy.captures.export.rows import COLUMNS

    if columns is None:
        return COLUMNS
    if form != "csv":
        raise Failure("--columns belongs to --format csv", Exit.USAGE)
    return named(columns, COLUMNS, "column")


def named(text: str, names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names in a list "A,B,C". Raises Failure (exit 2) if one is not in `names`."""
    chosen = tuple(name.strip() for name in text.split(","))
    for name in chosen:
        if name not in names:
            near = settings.nearest(name, names)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise Failure(f"no {what} {name!r}: {hint}", Exit.USAGE)
    return chosen


def _lines(reader: Reader, form: str, columns: tuple[str, ...], view: View, *, formulas: bool) -> Lines:
    from kproxy.captures.export.jsonl import JsonArray, JsonLines
    from kproxy.captures.export.records import RecordLines
    from kproxy.captures.export.rows import CsvLines

    if form == "csv":
        return CsvLines(reader, columns, formulas=formulas)
    if form == "records":
        return RecordLines(reader, view)
    if form == "html":
        from kproxy.captures.export.page import Page

        return Page(reader, view)
    kind = JsonArray if form == "json" else JsonLines
    return kind(reader, view)


@dataclass(slots=True)
class _Export:
    """The export of one reading as text (captures.export.parallel.Work)."""

    reader: Reader
    lines: Lines
    selection: Selection
    knowledge: Knowledge | None
    redaction: Redaction | None = None
    partial: Partial | None = None

    def write(self, out: BinaryIO, jobs: int) -> None:
        from kproxy.captures.export import parallel

        batches = progress.batches(self.reader, out)
        stage = None if self.partial is None else self.partial.stage
        if stage is None:
            out.write(self.lines.begin())
        else:
            self._resume(stage)
            batches = self._after(stage.items, batches)
        if jobs > 1:
            parallel.write(self, batches, out, jobs)
        else:
            self._write(batches, out)
        out.write(self.lines.lines([self.reader.health]) + self.lines.end())
        out.flush()

    def _resume(self, stage: Stage) -> None:
        self.counts = stage.counts
        if self.knowledge is not None:
            self.knowledge.facts = stage.facts  # type: ignore[assignment]  # the names of facts are text

    def _after(self, done: int, batches: Iterable[Sequence[Item]]) -> Iterator[Sequence[Item]]:
        """All but the first `done` items: these are read, because later items depend on them, but not decoded."""
        for batch in batches:
            if done:
                self.selection.pass_over(batch[:done], self.reader.source, self.reader.definitions)
            yield batch[done:]
            done -= min(done, len(batch))

    def _write(self, batches: Iterable[Sequence[Item]], out: BinaryIO) -> None:
        """Writes batch by batch and flushes, so that the output of a live stream appears at once."""
        from kproxy.captures.export import parallel

        items = written = 0
        for batch in batches:
            for chunk in parallel.chunks(batch):
                out.writelines(self.texts(chunk))
                items += len(chunk)
                written += 1
                if self.partial is not None and written % parallel.STAGE == 0:
                    self.reached(parallel.Stage(items, self.counts, parallel.facts(self)))
            if batch:
                out.flush()
            if self.selection.done:
                return

    def reached(self, stage: Stage) -> None:
        if self.partial is not None:
            self.partial.reached(stage)

    def texts(self, items: Sequence[Exchange | StreamProblem]) -> Iterator[bytes]:
        """The text of the selected items."""
        from kproxy.captures.export import Pieces

        reader = self.reader
        if not self.selection.everything:
            items = list(self.selection.of(items, reader.source, reader.definitions, self.knowledge))
        if self.redaction is not None:
            items = list(self.redaction.items(items))
        parts = _together(items)
        if isinstance(self.lines, Pieces):
            return chain.from_iterable(map(self.lines.pieces, parts))
        return map(self.lines.lines, parts)

    def learn(self, items: Sequence[Exchange | StreamProblem]) -> None:
        from kproxy.decoders.exchange import Exchange
        from kproxy.decoders.learning import learn

        if self.knowledge is None:
            return
        for item in items:
            if isinstance(item, Exchange):
                learn(item, self.reader.source, self.reader.definitions, self.knowledge)

    def pack(self, items: Sequence[Exchange | StreamProblem]) -> bytes:
        from kproxy.captures.export.packing import pack

        return pack(items, (self.reader.precision, self.reader.source.size, self.reader.position))

    def unpack(self, packed: bytes) -> list[Exchange | StreamProblem]:
        from kproxy.captures.errors import CaptureError
        from kproxy.captures.export.packing import unpack
        from kproxy.captures.source import RELEASE_BYTES

        items, (self.reader.precision, size, position) = unpack(packed)
        self.reader.source.release(position - RELEASE_BYTES)
        if self.reader.source.size < size:
            with contextlib.suppress(CaptureError):  # reported by the process that reads
                self.reader.source.catch_up()
        return items

    @property
    def counts(self) -> list[int]:
        from kproxy.decoders.filters import Why

        unknown = [self.selection.unknown[why] for why in Why]
        return [self.reader.health.undecoded, self.selection.taken, self.lines.problems, *unknown]

    @counts.setter
    def counts(self, counts: list[int]) -> None:
        from kproxy.decoders.filters import Why

        self.reader.health.undecoded, self.selection.taken, self.lines.problems, *unknown = counts
        for why, count in zip(Why, unknown, strict=True):
            self.selection.unknown[why] = count


def _together(items: Sequence[Exchange | StreamProblem]) -> Iterator[Sequence[Exchange | StreamProblem]]:
    """Splits items into parts that are turned into text together (AT_ONCE, ALONE)."""
    from kproxy.decoders.exchange import Exchange

    start = 0
    for index, item in enumerate(items):
        alone = isinstance(item, Exchange) and item.size >= ALONE
        if alone and index > start:
            yield items[start:index]
            start = index
        if alone or index - start == AT_ONCE - 1:
            yield items[start : index + 1]
            start = index + 1
    if start < len(items):
        yield items[start:]


def _jobs(
    wanted: int | None,
    source: FileSource,
    out: BinaryIO,
    selection: Selection,
    viewing: Viewing,
    redaction: Redaction | None = None,
) -> int:
    """The number of processes that make the text; 1 if more would not help or would change the output."""
    from kproxy.captures.export import parallel

    alone = (
        source.streams  # a live stream is written as it arrives
        or selection.in_order
        or selection.number is not None
        or viewing.registry is not None  # one thread asks the registry
        or redaction is not None  # its state is in one process
        or not _has_descriptor(out)
    )
    if alone:
        return 1
    if wanted is None:
        large = source.written() >= SMALL or any(part.spool is not None for part in source.parts)
        return min(parallel.usable_cores(), parallel.MOST_JOBS) if large else 1
    return wanted


def _has_descriptor(out: BinaryIO) -> bool:
    try:
        out.fileno()
    except OSError:
        return False
    return True
