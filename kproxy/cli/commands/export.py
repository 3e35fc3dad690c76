"""`kproxy export`: writes the exchanges of captures in various formats."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kproxy.captures.export.output_formats import OUTPUT_FORMATS, TextOptions
from kproxy.cli import progress, readings, resuming, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.extras import require
from kproxy.cli.options.reading import Reading, captured, reading_options, revealing, sizing
from kproxy.cli.options.selecting import Criteria, Selection, selecting
from kproxy.cli.options.types import SIZE, names_in
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.cli.parquet import wanted_tables, write_tables
from kproxy.cli.terminal import forcing, output, refuse_capture, refuse_existing
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Closing, Item, Reader
    from kproxy.captures.redaction.exchanges import Redaction
    from kproxy.captures.source import FileSource
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
@reading_options
@revealing
@selecting
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
    reading: Reading,
    show_secrets: bool,
    criteria: Criteria,
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
    from kproxy.captures.garbage import few_collections
    from kproxy.captures.segments import holds_segments
    from kproxy.decoders.view import View

    if "secrets" in redact and show_secrets:
        raise Failure("--redact secrets and --show-secrets exclude each other", Exit.USAGE)
    chosen = _columns(columns, form)
    wanted = _tables(tables, form, target, bodies=not no_bodies, record_sizes=record_sizes)
    if OUTPUT_FORMATS[form].single and number is None and criteria.count is None and finding is None:
        raise Failure(f"--format {form} needs --exchange N or -c N", Exit.USAGE)
    if resume:
        _check_resumable(target, form, redact, viewing, finding=finding is not None or with_findings)
    payloads = viewing.payloads() if OUTPUT_FORMATS[form].payloads else None
    files = [Path(path) for path in (*reading.user_definitions, reading.keylog, viewing.schemas) if path is not None]
    parts = resuming.made_of(ctx, captures, files) if resume else None
    source = reading.source(captures)
    try:
        selection = criteria.selection(number)
        view = View(show_secrets=show_secrets, batch_limit=batch_limit, payloads=payloads)
        if holds_segments(source):
            narrowed = reading.ports is not None or bool(redact) or finding is not None or not selection.everything
            _export_segments(captures, source, view, form, target, narrowed=narrowed, resume=resume)
            return
        export = _Export(captures, source, reading.definitions(), reading.ports, form, target, selection, view)
        export.refuse_target()
        export.find(finding, all_of_them=with_findings)
        export.redact(redact, show_secrets=show_secrets)
        with few_collections():
            if form == "parquet":
                reader = export.tables(wanted, bodies=not no_bodies, record_sizes=record_sizes)
            elif OUTPUT_FORMATS[form].lines is None:
                reader = export.packets()
            else:
                reader = export.lines(chosen, jobs, parts, viewing, formulas=formulas)
        export.conclude(reader)
    finally:
        source.close()


def _export_segments(
    captures: Sequence[Path],
    source: FileSource,
    view: View,
    form: str,
    target: Path | None,
    *,
    narrowed: bool,
    resume: bool,
) -> None:
    """Writes the batches or records of Kafka's log segments. `narrowed`: whether an option excludes some of them."""
    from kproxy.captures.garbage import few_collections
    from kproxy.captures.segments import SegmentReader
    from kproxy.cli import segments

    segments.check(form, narrowed=narrowed)
    if resume:
        raise Failure("--resume works with captures only, not with log segments", Exit.USAGE)
    with output(target, [*captures, *(part.path for part in source.parts)]) as out, few_collections():
        segments.export(SegmentReader(source, view), form, out)


@dataclass
class _Export:
    """An export of captures in one format. Call `find` and `redact`, then one of `tables`, `packets` and `lines`."""

    captures: Sequence[Path]
    source: FileSource
    known: Definitions
    ports: Ports | None
    form: str
    target: Path | None
    selection: Selection
    view: View
    redaction: Redaction | None = None
    redacted: tuple[str, ...] = ()
    """What the user asked to redact."""

    @property
    def files(self) -> list[Path]:
        """The files that are read."""
        return [*self.captures, *(part.path for part in self.source.parts)]

    def refuse_target(self) -> None:
        """Raises Failure if the target is a capture that is read, or exists."""
        if self.target is not None and self.form != "parquet":
            refuse_capture(self.target, self.files)
            refuse_existing(self.target)

    def find(self, name: str | None, *, all_of_them: bool) -> None:
        """Selects the evidence of the findings with the id or rule `name`, if it is given.

        With `all_of_them`, the exchanges refer to all findings. Raises Failure (exit 2) if no finding has that name.
        """
        if name is None and not all_of_them:
            return
        from kproxy.captures.findings.reading import Findings, by_exchange, named

        findings = Findings(self.source, self.known)
        for batch, closings in self._read_before():
            findings.add(batch, closings)
        found = findings.finish()
        if name is not None:
            found = named(found, name)
            if not found:
                raise Failure(f"no finding has the id or rule {name}: `kproxy findings` lists them", Exit.USAGE)
            evidence, numbers = frozenset(by_exchange(found)), self.selection.numbers
            self.selection.numbers = evidence if numbers is None else numbers & evidence
        if all_of_them:
            self.view = replace(self.view, findings=by_exchange(found))

    def redact(self, redacted: tuple[str, ...], *, show_secrets: bool) -> None:
        """Prepares the redaction that overwrites secrets, payloads or hosts, if anything is to be overwritten.

        Text formats need none for secrets, because they withhold them.
        """
        from kproxy.captures.redaction import HOSTS, SECRETS
        from kproxy.captures.redaction.exchanges import Redaction

        self.redacted = redacted
        presets = {*redacted}
        if not show_secrets and (presets or OUTPUT_FORMATS[self.form].packets):
            presets.add(SECRETS)
        if not presets:
            return
        self.redaction = Redaction(self.source, self.known, presets, keep_unread=not redacted)
        if HOSTS in presets:
            for batch, _ in self._read_before():
                self.redaction.learn(batch)

    def _read_before(self) -> Iterator[tuple[Sequence[Item], Sequence[Closing]]]:
        """Reads the whole capture once before the export: its batches, with the connections that ended in each."""
        reader = self._reader()
        self.source.read_again = True
        for batch in progress.batches(reader):
            yield batch, reader.closings
        self.source.read_again = False

    def tables(self, tables: tuple[str, ...], *, bodies: bool, record_sizes: bool) -> Reader:
        from kproxy.captures.tables.folders import Local
        from kproxy.captures.tables.origin import heads

        assert self.target is not None  # noqa: S101 (`_tables` has checked it)
        reader, _ = write_tables(
            self.source,
            self.known,
            self.ports,
            self.selection,
            self.view,
            self.redaction,
            Local(self.target),
            tables,
            heads(self.captures),
            bodies=bodies,
            record_sizes=record_sizes,
        )
        return reader

    def packets(self) -> Reader:
        """Writes a capture of the selected exchanges."""
        from kproxy.captures.export.oneline import health_note
        from kproxy.captures.export.slicing import Slice
        from kproxy.decoders.exchange import Exchange

        reader, redaction, chosen = self._reader(), self.redaction, Slice()
        with output(self.target, self.files) as out:
            if out.isatty():
                raise Failure("refusing to write binary pcapng to a terminal (use -o FILE or a pipe)", Exit.USAGE)
            for batch in self.selection.until_done(progress.batches(reader, out)):
                for item in batch:
                    chosen.passed(item)
                for item in self.selection.of(batch, self.source, self.known, self.view.knowledge):
                    if isinstance(item, Exchange):
                        chosen.add(item)
            comments = [f"slice of a capture: {counted(len(chosen), 'exchange')}"]
            if redaction is not None:
                comments += [f"{preset} redacted" for preset in sorted({"secrets", *self.redacted})]
            if (health := health_note(reader.health)) is not None:
                comments.append(f"of the capture: {health}")
            chosen.write(
                out,
                self.source,
                application="kproxy",
                change=None if redaction is None else redaction.exchange,
                comments=comments,
                ending=lambda: [] if redaction is None else [f"redacted: {redaction.removed}"],
            )
        return reader

    def lines(
        self,
        columns: tuple[str, ...],
        jobs: int | None,
        parts: Mapping[str, Any] | None,
        viewing: Viewing,
        *,
        formulas: bool,
    ) -> Reader:
        """Writes text. With `parts` (from resuming.made_of), an interrupted export can be resumed."""
        from kproxy.captures.export.engine import TextExport

        reader, output_format = self._reader(), OUTPUT_FORMATS[self.form]
        assert output_format.lines is not None  # noqa: S101 (others are written by `packets` and `tables`)
        with resuming.destination(self.target, self.files, parts) as (out, partial):
            lines = output_format.lines(reader, TextOptions(self.view, columns, formulas))
            knowledge = self.view.knowledge if output_format.learns else None
            export = TextExport(reader, lines, self.selection, knowledge, self.redaction, partial)
            processes = _jobs(jobs, self.source, out, self.selection, viewing, self.redaction)
            export.write(progress.batches(reader, out), out, processes)
            if lines.problems:
                problems = f"{counted(lines.problems, 'problem')} in messages with records"
                settings.warn(f"{problems}; --format jsonl lists them")
        return reader

    def conclude(self, reader: Reader) -> None:
        """Reports what was redacted and selected, and what is wrong with the capture."""
        if self.redacted and self.redaction is not None:
            settings.warn(f"redacted: {self.redaction.removed}")
        if not self.selection.everything:
            progress.tell(exchanges=self.selection.taken)
        readings.conclude(reader, self.selection, health=not OUTPUT_FORMATS[self.form].with_health)

    def _reader(self) -> Reader:
        from kproxy.captures.reader import Reader

        return Reader(self.source, self.known, ports=self.ports)


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


def _columns(columns: str | None, form: str) -> tuple[str, ...]:
    from kproxy.captures.export.rows import COLUMNS, FURTHER_COLUMNS

    if columns is None:
        return COLUMNS
    if not OUTPUT_FORMATS[form].columns:
        raise Failure("--columns works with --format csv only", Exit.USAGE)
    return names_in(columns, (*COLUMNS, *FURTHER_COLUMNS), "column")


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
