"""Tables of captures as Parquet, for `kproxy export --format parquet` and `kproxy spark`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kproxy.cli import progress
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.types import names_in

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Item, Reader
    from kproxy.captures.redaction.exchanges import Redaction
    from kproxy.captures.source import FileSource
    from kproxy.captures.tables.folders import Target
    from kproxy.captures.tables.origin import Lists, Origin
    from kproxy.cli.options.selecting import Selection
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.view import View


def wanted_tables(tables: str | None, *, bodies: bool, record_sizes: bool) -> tuple[str, ...]:
    """The tables in a list "A,B", or the usual ones for None. Raises Failure (exit 2).

    Without `bodies`, no message is decoded, so tables and `record_sizes` that need bodies are refused.
    """
    from kproxy.captures.tables.schema import TABLES, USUAL, WITHOUT_BODIES

    if record_sizes and not bodies:
        raise Failure("--record-sizes and --no-bodies exclude each other: records are in bodies", Exit.USAGE)
    if bodies:
        return USUAL if tables is None else names_in(tables, tuple(TABLES), "table")
    chosen = WITHOUT_BODIES if tables is None else names_in(tables, tuple(TABLES), "table")
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

    batches = selection.until_done(progress.batches(reader))
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
