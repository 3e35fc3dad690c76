"""`kproxy audit`: which clients an upgrade of the brokers, or a move to another cluster, would cut off."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import progress, readings, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.reading import Reading, captured, reading_options
from kproxy.cli.options.selecting import Criteria, Selection, fails_on, selecting
from kproxy.cli.tables import table

if TYPE_CHECKING:
    from kproxy.captures.analysis.audit import Audit
    from kproxy.captures.reader import Reader
    from kproxy.decoders.schema.served import Served

CUT_OFF = "cut-off"
HEAD = ("verdict", "client", "API", "served", "times", "first", "last", "exchange")
LEFT = 4
"""Number of columns that are aligned left."""


@click.command()
@captured
@click.option("--target", metavar="RELEASE", help="The release to upgrade to: 4.0, 4.0.1, ..., newest (the default).")
@click.option(
    "--against",
    type=click.Path(path_type=pathlib.Path, allow_dash=False, readable=False),
    metavar="CAPTURE",
    help="Compare with the ApiVersions responses in this capture of another cluster, instead of a release.",
)
@click.option("--csv", "form", flag_value="csv", help="Write CSV: a row for each client, API and version.")
@click.option("--html", "form", flag_value="html", help="Write a self-contained HTML page.")
@partial(selecting, conditions={CUT_OFF: "with exit code 1 if a client would be cut off"})
@reading_options
def command(
    captures: tuple[Path, ...],
    target: str | None,
    against: Path | None,
    form: str | None,
    criteria: Criteria,
    reading: Reading,
) -> None:
    """Show which clients an upgrade of the brokers would cut off, and which use deprecated versions.

    Kafka 4.0 refuses old versions of requests (KIP-896): it closes the connection without an answer. What each release
    serves is taken from its definitions, because brokers advertise more than they serve. Each row names the client,
    the API and version, what stops working, its principal, software, groups and topics, and how often it was seen.

    Verdicts: cut-off, the release refuses the version; unsure, the release refuses it, but the client may be able to
    speak another version; deprecated, the release serves it, but a later one may not; broker, a broker of the cluster
    sent the request, and is upgraded too.

    \b
    kproxy audit capture.pcap
    kproxy audit monday.pcap tuesday.pcap --target 4.0.1 --fail-on cut-off
    kproxy audit capture.pcap --against other-cluster.pcap
    kproxy audit capture.pcap --html > audit.html
    kproxy audit capture.pcap --json | jq -r '.rows[] | select(.verdict == "cut-off").client_id'
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.analysis.audit import with_health
    from kproxy.captures.export.audit import csv_lines, page

    if form and settings.current().json:
        raise Failure(f"--json and --{form} exclude each other", Exit.USAGE)
    selection = criteria.selection()
    if against is not None and target is not None:
        raise Failure("--target and --against exclude each other", Exit.USAGE)
    judge = _target(target) if against is None else _offered(reading.reader([against]), against)
    reader = reading.reader(captures)
    result = _audited(reader, selection).result(judge)
    if settings.current().json:
        click.echo(json.dumps(with_health(result, reader.health)))
    else:
        lines = {None: text, "csv": csv_lines, "html": page}[form]
        for line in lines(result):
            click.echo(line)
    readings.conclude(reader, selection, health=not settings.current().json)
    if fails_on(CUT_OFF) and result["verdicts"][CUT_OFF]:
        raise click.exceptions.Exit(Exit.CONDITION)


def _target(name: str | None) -> Served:
    from kproxy.decoders.schema.served import NEWEST, served

    try:
        return served(name or NEWEST)
    except ValueError as error:
        raise Failure(f"--target: {error}", Exit.USAGE) from None


def _offered(reader: Reader, path: Path) -> Served:
    """The API versions that the brokers in a capture advertise.

    Raises Failure if the capture has no ApiVersions response, CaptureError if it is unreadable.
    """
    from kproxy.captures.analysis.audit import Audit
    from kproxy.decoders.exchange import Exchange

    audit = Audit(reader.source, reader.definitions, reader.health)
    with closing(reader):
        for batch in progress.batches(reader):
            for item in batch:
                if isinstance(item, Exchange):
                    audit.learn(item)
    found = audit.offers.together(path.name)
    if found is None:
        if reader.error is not None:
            raise reader.error
        raise Failure(
            f"{path}: no ApiVersions response, so the versions that its brokers serve are unknown", Exit.INPUT
        )
    if reader.error is not None:
        settings.warn(f"{path}: {reader.error}")
    return found


def _audited(reader: Reader, selection: Selection) -> Audit:
    """The audit of the selected exchanges. From the other exchanges it learns only API versions and topic names."""
    from kproxy.captures.analysis.audit import Audit
    from kproxy.decoders.exchange import Exchange

    audit = Audit(reader.source, reader.definitions, reader.health)
    with closing(reader):
        for batch in selection.until_done(progress.batches(reader)):
            chosen = set()
            for item in selection.of(batch, reader.source, reader.definitions, audit.knowledge):
                if isinstance(item, Exchange):
                    chosen.add(item.number)
                    audit.add(item)
            for item in batch:
                if isinstance(item, Exchange) and item.number not in chosen:
                    audit.learn(item)
    return audit


def text(result: Mapping[str, Any]) -> Iterator[str]:
    """Lines for an object of schema "kproxy.audit/1": a table, then a description of each client under its verdict."""
    from kproxy.captures.export.audit import MEANINGS, notes, second, served, target, who
    from kproxy.decoders.escaping import escape

    rows = result["rows"]
    yield escape(
        f"upgrade to {target(result)}: "
        + ", ".join(f"{count} {verdict}" for verdict, count in result["verdicts"].items())
    )
    yield from map(escape, notes(result))
    if not rows:
        return
    yield ""
    yield from table(
        HEAD,
        [
            (
                row["verdict"],
                escape(who(row)),
                escape(f"{row['api']} v{row['version']}"),
                served(row),
                str(row["count"]),
                second(row["first"]),
                second(row["last"]),
                f"#{row['first_exchange']}",
            )
            for row in rows
        ],
        LEFT,
    )
    for verdict, meaning in MEANINGS.items():
        chosen = [row for row in rows if row["verdict"] == verdict]
        if chosen:
            yield f"\n{verdict}: {meaning}"
            yield from map(escape, _clients(chosen))


def _clients(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines that describe each client and say why each of its versions is listed; `rows` are sorted by client."""
    from kproxy.captures.export.audit import few, who

    last = None
    for row in rows:
        if who(row) != last:
            last = who(row)
            facts = {"principal": "principals", "software": "software", "groups": "groups", "topics": "topics"}
            told = [f"{name} {few(row[member])}" for name, member in facts.items() if row[member]]
            yield "  " + "  ".join([last, *told, *(["and more names"] if row["more_names"] else [])])
        old = f" (message format {', '.join(map(str, row['message_formats']))})" if row["message_formats"] else ""
        yield f"    {row['api']} v{row['version']}{old}: {row['loses']}; {row['why']}"
