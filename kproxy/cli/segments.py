"""`kproxy export` and `kproxy stats` for Kafka's log segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from kproxy.captures.export.output_formats import OUTPUT_FORMATS
from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.tables import table
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.segments import Segment, SegmentReader

HEAD = ("topic", "partition", "offsets", "batches", "records", "bytes", "uncompressed", "compression")


def check(form: str, *, narrowed: bool) -> None:
    """Raises Failure (exit 2) for options that do not apply to log segments."""
    if not OUTPUT_FORMATS[form].segments:
        names = " and ".join(name for name, one in OUTPUT_FORMATS.items() if one.segments)
        raise Failure(f"--format {form} works with captures only; log segments have {names}", Exit.USAGE)
    if narrowed:
        text = "-Y, -c, --since, --until, --port, --by, --exchange and --redact are for exchanges, not for log segments"
        raise Failure(text, Exit.USAGE)


def export(reader: SegmentReader, form: str, out: BinaryIO) -> None:
    """Writes the batches or records of segments. Raises CaptureError if one could not be read to its end."""
    from kproxy.captures.export.segments import StoredRecords, batch_lines

    records = StoredRecords()
    out.writelines(records.lines(reader) if form == "records" else batch_lines(reader))
    out.flush()
    if records.problems:
        settings.warn(f"{counted(records.problems, 'problem')} in the batches; --format jsonl lists them")
    if reader.error is not None:
        raise reader.error


def stats(reader: SegmentReader) -> None:
    """Prints a summary of each segment. Raises CaptureError if one could not be read to its end."""
    from kproxy.captures.export.encoding import encode
    from kproxy.captures.export.segments import segment_json
    from kproxy.captures.segments import Segment

    segments = [item for item in reader if isinstance(item, Segment)]
    if settings.current().json:
        for segment in segments:
            click.echo(encode(segment_json(segment)))
    else:
        for text in table(HEAD, [_row(segment) for segment in segments]):
            click.echo(text)
    if reader.error is not None:
        raise reader.error


def _row(segment: Segment) -> tuple[str, ...]:
    from kproxy.captures.text import size_text
    from kproxy.decoders.escaping import escape

    return (
        segment.topic or escape(segment.file),
        "" if segment.partition is None else str(segment.partition),
        "" if segment.first is None else f"{segment.first}-{segment.last}",
        str(segment.batches),
        str(segment.records),
        size_text(segment.size),
        "?" if segment.uncompressed is None else size_text(segment.uncompressed),
        ", ".join(f"{name} {count}" for name, count in segment.compression.most_common()),
    )
