"""`kproxy stats`: what a capture's exchanges come to, per API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings
from kproxy.cli.options import Selection, captured, defining, porting, releasing, selecting
from kproxy.cli.tables import milliseconds, table

if TYPE_CHECKING:
    from captures.analysis.summary import Summary
    from captures.ports import Ports
    from decoders.filters import Expression

HEAD = ("API", "count", "errors", "p50 ms", "p99 ms", "max ms", "requests B", "responses B")


@click.command()
@captured
@selecting
@porting
@releasing
@defining
def command(
    captures: tuple[Path, ...],
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    ports: Ports | None,
    release: str | None,
    given: tuple[str, ...],
) -> None:
    """Summarise captures per API: count, errors, latency percentiles (within 1 %), bytes.

    A latency is the time from a request's last byte to its response's, as the capture saw it; a Fetch may have waited
    for data. With --json one object an API.

    \b
    kproxy stats capture.pcap
    kproxy stats capture.pcap --since 2026-11-21T05:48:00Z --until 2026-11-21T05:49:00Z
    """  # noqa: D301 (\b keeps click from joining the lines)
    from captures.analysis.summary import Summary
    from captures.definitions import definitions
    from captures.errors import CaptureError
    from captures.reader import read
    from decoders.exchange import Exchange
    from decoders.filters import ExchangeRow

    known = definitions(release, given)
    summary = Summary(known)
    selection = Selection(expression, count, since, until)
    reader = read(list(captures), ports=ports, release=release, given=given)
    failure: CaptureError | None = None
    try:
        for item in selection.of(reader, reader.source, known):
            if isinstance(item, Exchange):
                summary.add(ExchangeRow(item, reader.source, known))
    except CaptureError as error:
        failure = error
    finally:
        reader.close()
    show(summary)
    if not summary.apis() and failure is None:
        settings.warn("no Kafka exchange" + ("" if selection.everything else " that matches"))
    if selection.note:
        settings.warn(selection.note)
    if failure is not None:
        raise failure


def show(summary: Summary) -> None:
    """Print a summary as a table, or with --json as one object an API."""
    if settings.current().json:
        import json

        for api in summary.apis():
            click.echo(json.dumps({"schema": "kproxy.stats/1", **api.line()}))
        return
    from captures.export.text import size_text

    rows = []
    for api in summary.apis():
        line = api.line()
        rows.append(
            (
                line["api"],
                str(line["count"]),
                str(line["errors"]),
                *(milliseconds(line[name]) for name in ("p50_ms", "p99_ms", "max_ms")),
                size_text(line["request_bytes"]),
                size_text(line["response_bytes"]),
            )
        )
    for text in table(HEAD, rows):
        click.echo(text)
