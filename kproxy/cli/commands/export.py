"""`kproxy export`: writes the exchanges of captures in various formats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kproxy.captures.export.output_formats import OUTPUT_FORMATS, TextOptions
from kproxy.cli import progress, readings, resuming, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.extras import require
from kproxy.cli.options.reading import captured, decrypting, defining, porting, releasing, revealing, sizing, spooling
from kproxy.cli.options.selecting import Selection, selecting
from kproxy.cli.options.types import SIZE
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.cli.terminal import forcing, output, refuse_capture, refuse_existing
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.findings.model import Finding
    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Item, Reader
    from kproxy.captures.redaction.exchanges import Redaction
    from kproxy.captures.source import FileSource
    from kproxy.captures.spool import Spooling
    from kproxy.captures.tables.folders import Target
    from kproxy.captures.tables.origin import Lists, Origin
    from kproxy.decoders.filters import Expression
    from kproxy.decoders.knowledge import Knowledge
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.view import View

SMALL = 16 << 20
"""Size of captures in bytes below which more processes would cost more time than they save."""


class Output(click.Path):
    """The path of an output, or - for standard output; a URL would become folders on this machine."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" in str(value):
            self.fail("outputs are on this machine; for tables at a URL: kproxy spark CAPTURE... --out URL", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@captured
@click.option(
    "-o",
    "--output",
    "target",
    type=Output(path_type=Path, allow_dash=True),
    metavar="OUT",
    help="Output file (- is standard output); with --format parquet a folder.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(OUTPUT_FORMATS)),
    default="jsonl",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--batch-limit",
    type=SIZE,
    default="64M",
    show_default=True,
    metavar="SIZE",
    help="Do not decode record batches that decompress to more than this.",
)
@click.option("--columns", metavar="A,B,C", help="Columns of a CSV, in this order (see docs/export.md).")
@click.option(
    "--formulas",
    is_flag=True,
    help="Put no apostrophe before CSV text that begins with = + - @ (spreadsheet formulas).",
)
@click.option("--tables", metavar="A,B,C", help="Tables of --format parquet (default: all but records and findings).")
@click.option(
    "--no-bodies", is_flag=True, help="With --format parquet: decode headers only; faster, columns of bodies are null."
)
@sizing
@click.option("--exchange", "number", type=click.IntRange(min=1), metavar="N", help="Only exchange N.")
@click.option(
    "--finding",
    metavar="ID|RULE",
    help="Only exchanges that are evidence for this finding, or for the findings of a rule (see kproxy findings).",
)
@click.option(
    "--findings",
    "with_findings",
    is_flag=True,
    help="Add `findings` to each exchange's JSON; captures are read twice.",
)
@click.option(
    "--redact",
    "redact",
    multiple=True,
    type=click.Choice(("secrets", "payloads", "hosts")),
    help="Redact these, in any --format (repeatable).",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Decode in N processes at once (default for large files: as many as there are cores, up to 4).",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Write to OUT.part until the export is complete; continue where an interrupted run of the same command ended.",
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
    record_sizes: bool,
    number: int | None,
    finding: str | None,
    with_findings: bool,
    redact: tuple[str, ...],
    jobs: int | None,
    resume: bool,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
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
    or not; several files are read as one, in the order of time. If a capture cannot be read to its end, everything
    before is written and the exit code is 3. The output does not depend on --jobs; one process is used for standard
    input, tables, -c, --exchange, --finding, --redact and --registry. From Kafka's log segments, or a partition's
    directory, the batches or their records are written.

    --format parquet writes tables, a folder each, and replaces those of an earlier run. --format pcapng writes a
    capture of the selected exchanges, --format html one exchange as a page (--exchange N). --redact overwrites bytes
    and keeps their length: secrets, payloads (keys, values and header values of records), hosts (each name or
    address gets the same replacement everywhere). Secrets are withheld in every format unless --show-secrets is given.

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
    kproxy export capture.pcap --format parquet --record-sizes -o tables
    kproxy export capture.pcap --format pcapng -Y 'api == JoinGroup' --redact payloads --redact hosts -o share.pcapng
    kproxy export capture.pcap --format html --exchange 42 -o 42.html
    kproxy export capture.pcap --finding group.poll_gap --format pcapng -o evidence.pcapng
    kproxy export encrypted.pcap --keylog keys.log
    ssh broker tcpdump -U -w - port 9092 | kproxy export - --port 9092 | jq .api
    """  # noqa: D301 (\b keeps click from joining the lines)
    # numpy's linear algebra, which is not used, would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from kproxy.captures.decrypted import open_capture
    from kproxy.captures.definitions import definitions
    from kproxy.captures.garbage import few_collections
    from kproxy.captures.reader import Reader
    from kproxy.captures.segments import SegmentReader, holds_segments, partition_files
    from kproxy.cli import segments
    from kproxy.decoders.view import View

    if "secrets" in redact and show_secrets:
        raise Failure("--redact secrets and --show-secrets exclude each other", Exit.USAGE)
    output_format = OUTPUT_FORMATS[form]
    chosen = _columns(columns, form)
    wanted = _tables(tables, form, target, bodies=not no_bodies, record_sizes=record_sizes)
    if output_format.single and number is None and count is None and finding is None:
        raise Failure(f"--format {form} needs --exchange N or -c N", Exit.USAGE)
    if resume:
        _check_resumable(target, form, redact, viewing, finding=finding is not None or with_findings)
    payloads = viewing.payloads() if output_format.payloads else None
    files = [Path(path) for path in (*user_definitions, keylog, viewing.schemas) if path is not None]
    parts = resuming.made_of(ctx, captures, files) if resume else None
    source = open_capture(partition_files(captures), log=keylog, spooling=spooling)
    try:
        selection = Selection(expression, count, since, until, None if number is None else frozenset({number}))
        view = View(show_secrets=show_secrets, batch_limit=batch_limit, payloads=payloads)
        read = [*captures, *(part.path for part in source.parts)]
        if holds_segments(source):
            narrowed = ports is not None or bool(redact) or finding is not None or not selection.everything
            segments.check(form, narrowed=narrowed)
            if resume:
                raise Failure("--resume works with captures only, not with log segments", Exit.USAGE)
            with output(target, read) as out, few_collections():
                segments.export(SegmentReader(source, view), form, out)
            return
        known = definitions(release, user_definitions)
        if target is not None and form != "parquet":
            refuse_capture(target, read)
            refuse_existing(target)
        if finding is not None or with_findings:
            from kproxy.captures.findings.reading import by_exchange

            found = _findings(source, known, ports, finding)
            if with_findings:
                view = replace(view, findings=by_exchange(found))
            if finding is not None:
                evidence = frozenset(by_exchange(found))
                selection.numbers = evidence if selection.numbers is None else selection.numbers & evidence
        redaction = _redaction(source, known, ports, redact, form, show_secrets=show_secrets)
        with few_collections():
            if form == "parquet" and target is not None:
                from kproxy.captures.tables.folders import Local
                from kproxy.captures.tables.origin import heads

                folder, given = Local(target), heads(captures)
                reader, _ = write_tables(
                    source,
                    known,
                    ports,
                    selection,
                    view,
                    redaction,
                    folder,
                    wanted,
                    given,
                    bodies=not no_bodies,
                    record_sizes=record_sizes,
                )
            else:
                reader = Reader(source, known, ports=ports)
                with resuming.destination(target, read, parts) as (out, partial):
                    if output_format.lines is None:
                        _write_slice(reader, selection, view.knowledge, redaction, out, redact)
                    else:
                        from kproxy.captures.export.engine import TextExport

                        lines = output_format.lines(reader, TextOptions(view, chosen, formulas))
                        knowledge = view.knowledge if output_format.learns else None
                        export = TextExport(reader, lines, selection, knowledge, redaction, partial)
                        processes = _jobs(jobs, source, out, selection, viewing, redaction)
                        export.write(progress.batches(reader, out), out, processes)
                        if lines.problems:
                            problems = f"{counted(lines.problems, 'problem')} in messages with records"
                            settings.warn(f"{problems}; --format jsonl lists them")
        if redact and redaction is not None:
            settings.warn(f"redacted: {redaction.removed}")
        if not selection.everything:
            progress.tell(exchanges=selection.taken)
        readings.conclude(reader, selection, health=not output_format.with_health)
    finally:
        source.close()


def _check_resumable(
    target: Path | None, form: str, redact: tuple[str, ...], viewing: Viewing, *, finding: bool
) -> None:
    """Raises Failure (exit 2) if --resume does not fit the other options."""
    if target is None or str(target) == "-":
        raise Failure("--resume needs an output file: -o FILE", Exit.USAGE)
    if not OUTPUT_FORMATS[form].resumable:
        names = ", ".join(name for name, one in OUTPUT_FORMATS.items() if one.resumable)
        raise Failure(f"--resume works with --format {names}, which are written line by line", Exit.USAGE)
    if redact:
        raise Failure("--resume and --redact exclude each other: each run replaces hosts by other names", Exit.USAGE)
    if finding:
        raise Failure("--resume and --finding exclude each other: findings change as a capture grows", Exit.USAGE)
    if viewing.registry is not None:
        raise Failure("--resume and --registry exclude each other: the registry's answers may change", Exit.USAGE)


def _findings(source: FileSource, known: Definitions, ports: Ports | None, name: str | None) -> list[Finding]:
    """The findings of the whole capture, or those with the id or rule `name`; afterwards `source` can be read again.

    Raises Failure (exit 2) if no finding has that id or rule.
    """
    from kproxy.captures.findings.reading import Findings, named
    from kproxy.captures.reader import Reader

    before = Reader(source, known, ports=ports)
    source.read_again = True
    findings = Findings(source, known)
    for batch in progress.batches(before):
        findings.add(batch, before.closings)
    source.read_again = False
    found = findings.finish()
    if name is None:
        return found
    if not (chosen := named(found, name)):
        raise Failure(f"no finding has the id or rule {name}: `kproxy findings` lists them", Exit.USAGE)
    return chosen


def _redaction(
    source: FileSource,
    known: Definitions,
    ports: Ports | None,
    redact: tuple[str, ...],
    form: str,
    *,
    show_secrets: bool,
) -> Redaction | None:
    """The redaction that overwrites secrets, payloads or hosts; None if nothing is to be overwritten.

    Text formats need none for secrets, because they withhold them.
    """
    from kproxy.captures.redaction import HOSTS, SECRETS
    from kproxy.captures.redaction.exchanges import Redaction

    presets = {*redact}
    if not show_secrets and (presets or OUTPUT_FORMATS[form].packets):
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


def _tables(tables: str | None, form: str, target: Path | None, *, bodies: bool, record_sizes: bool) -> tuple[str, ...]:
    if form != "parquet":
        given = {"--tables": tables is not None, "--no-bodies": not bodies, "--record-sizes": record_sizes}
        for option, is_given in given.items():
            if is_given:
                raise Failure(f"{option} works with --format parquet only", Exit.USAGE)
        return ()
    if target is None or str(target) == "-":
        raise Failure("--format parquet writes a folder: give -o DIR", Exit.USAGE)
    require("--format parquet", "pyarrow", "parquet")
    return wanted_tables(tables, bodies=bodies, record_sizes=record_sizes)


def wanted_tables(tables: str | None, *, bodies: bool, record_sizes: bool) -> tuple[str, ...]:
    """The tables in a list "A,B", or the usual ones for None. Raises Failure (exit 2).

    Without `bodies`, no message is decoded, so tables and `record_sizes` that need bodies are refused.
    """
    from kproxy.captures.tables.schema import TABLES, USUAL, WITHOUT_BODIES

    if record_sizes and not bodies:
        raise Failure("--record-sizes and --no-bodies exclude each other: records are in bodies", Exit.USAGE)
    if bodies:
        return USUAL if tables is None else named(tables, tuple(TABLES), "table")
    chosen = WITHOUT_BODIES if tables is None else named(tables, tuple(TABLES), "table")
    without = next((name for name in chosen if name not in WITHOUT_BODIES), None)
    if without is not None:
        raise Failure(f"the table {without} needs bodies; --no-bodies makes {', '.join(WITHOUT_BODIES)}", Exit.USAGE)
    return chosen


def origin_of(lists: Lists, given: Sequence[tuple[str, bytes]]) -> Origin:
    """As captures.tables.origin.origin.

    Raises Failure: exit 2 if the folder has tables of some of these files together with others, 3 if it cannot be read.
    """
    from kproxy.captures.tables.origin import Overlap, Unreadable, origin

    try:
        return origin(lists, given)
    except Overlap as error:
        raise Failure(f"{lists}: {error}", Exit.USAGE) from None
    except (Unreadable, OSError) as error:
        raise Failure(str(error)) from None


def write_tables(
    source: FileSource,
    known: Definitions,
    ports: Ports | None,
    selection: Selection,
    view: View,
    redaction: Redaction | None,
    target: Target,
    tables: tuple[str, ...],
    given: Sequence[tuple[str, bytes]],
    *,
    bodies: bool = True,
    record_sizes: bool = False,
) -> tuple[Reader, dict[str, int]]:
    """Writes the tables of a capture; returns (reader, rows by table). Without `bodies`, only headers are read; with
    `record_sizes`, columns with sizes of records are filled.

    `given` are the files of the capture (captures.tables.origin.heads); it is empty for a stream. Raises Failure as
    `origin_of`.
    """
    from kproxy.captures.findings.rows import FindingsTable
    from kproxy.captures.reader import Reader
    from kproxy.captures.tables.export import TableExport
    from kproxy.captures.tables.schema import FINDINGS

    findings = FindingsTable(source, known) if FINDINGS.name in tables else None
    export = TableExport(source)
    names = str if redaction is None else redaction.file
    origin = origin_of(target, [(names(name), head) for name, head in given or [export.head]])
    reader = Reader(source, known, ports=ports, watch=export.packets, began=export.began)

    def select(items: Iterable[Item]) -> Iterable[Item]:
        return selection.of(items, source, known, view.knowledge)

    batches = _until_done(progress.batches(reader), selection)
    try:
        export.write(
            reader,
            target,
            tables,
            view,
            select,
            batches,
            redaction,
            origin,
            bodies=bodies,
            record_sizes=record_sizes,
            findings=findings,
        )
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
        raise Failure("refusing to write binary pcapng to a terminal (use -o FILE or a pipe)", Exit.USAGE)
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
    comments += [f"{preset} redacted" for preset in presets]
    chosen.write(
        out,
        reader.source,
        application="kproxy",
        change=None if redaction is None else redaction.exchange,
        comments=comments if health is None else [*comments, f"of the capture: {health}"],
        ending=lambda: [] if redaction is None else [f"redacted: {redaction.removed}"],
    )


def _until_done(batches: Iterable[Sequence[Item]], selection: Selection) -> Iterator[Sequence[Item]]:
    for batch in batches:
        yield batch
        if selection.done:
            return


def _columns(columns: str | None, form: str) -> tuple[str, ...]:
    from kproxy.captures.export.rows import COLUMNS, FURTHER_COLUMNS

    if columns is None:
        return COLUMNS
    if not OUTPUT_FORMATS[form].columns:
        raise Failure("--columns works with --format csv only", Exit.USAGE)
    return named(columns, (*COLUMNS, *FURTHER_COLUMNS), "column")


def named(text: str, names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names in a list "A,B,C". Raises Failure (exit 2) if one is not in `names`; the message calls it a `what`."""
    chosen = tuple(name.strip() for name in text.split(","))
    for name in chosen:
        if name not in names:
            near = settings.nearest(name, names)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise Failure(f"no {what} {name!r}: {hint}", Exit.USAGE)
    return chosen


def _jobs(
    wanted: int | None,
    source: FileSource,
    out: BinaryIO,
    selection: Selection,
    viewing: Viewing,
    redaction: Redaction | None = None,
) -> int:
    """The number of processes that make the text; 1 if more would not help or would change the output."""
    from kproxy.captures import cores
    from kproxy.captures.export import parallel

    alone = (
        source.streams  # a live stream is written as it arrives
        or selection.in_order
        or selection.numbers is not None
        or viewing.registry is not None  # one thread asks the registry
        or redaction is not None  # the redaction's state is in one process
        or not _has_descriptor(out)
    )
    if alone:
        return 1
    if wanted is None:
        large = source.written() >= SMALL or any(part.spool is not None for part in source.parts)
        return min(cores.usable_cores(), parallel.MOST_JOBS) if large else 1
    return wanted


def _has_descriptor(out: BinaryIO) -> bool:
    try:
        out.fileno()
    except OSError:
        return False
    return True
