"""`kproxy stats`: statistics of a capture's exchanges, per API, client, broker or topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from kproxy.cli import readings
from kproxy.cli.options.reading import Reading, captured, reading_options
from kproxy.cli.options.selecting import Criteria, selecting
from kproxy.cli.tables import milliseconds, table

BY = ("api", "client", "broker", "topic")
HEAD = (
    "count", "errors", "p50 ms", "p90 ms", "p99 ms", "max ms", "requests B", "responses B", "throttled ms",
)  # fmt: skip
LONG_POLL = " (long poll)"


@click.command()
@captured
@click.option(
    "--by",
    type=click.Choice(BY),
    default="api",
    show_default=True,
    help="What to group exchanges by; an exchange counts for each topic that it names.",
)
@selecting
@reading_options
def command(
    captures: tuple[Path, ...],
    by: str,
    criteria: Criteria,
    reading: Reading,
) -> None:
    """Summarise captures per API, client, broker or topic: count, errors, latency percentiles (within 1 %), bytes.

    A latency is the time from a request's last byte to its response's, as the capture saw it. A Fetch that the broker
    held until its max wait was over is a long poll, and counted on a line of its own. --json prints one object a
    line, the capture's health last.

    From Kafka's log segments, or a partition's directory, batches and records are counted.

    \b
    kproxy stats capture.pcap
    kproxy stats capture.pcap --by client -Y 'api == Produce'
    kproxy stats /var/lib/kafka/orders-0
    kproxy stats capture.pcap --since 2026-11-21T05:48:00Z --until 2026-11-21T05:49:00Z
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.analysis.stats import Stats
    from kproxy.captures.segments import SegmentReader, holds_segments
    from kproxy.cli import segments
    from kproxy.decoders.view import View

    selection = criteria.selection()
    source = reading.source(captures)
    if holds_segments(source):
        with closing(source):
            segments.check("jsonl", narrowed=by != "api" or reading.ports is not None or not selection.everything)
            segments.stats(SegmentReader(source, View()))
        return
    reader = reading.reader(source)
    stats = Stats(reader.definitions, by, reader.health)
    with closing(reader):
        for exchange in readings.exchanges(reader, selection):
            stats.add(exchange, reader.source)
    readings.tell(reader, selection, by, (line.to_json(by) for line in stats.lines()), partial(text, by=by))


def text(lines: Iterable[Mapping[str, Any]], by: str = "api") -> list[str]:
    """Objects of schema "kproxy.stats/1" as the lines of a table."""
    from kproxy.captures.text import size_text
    from kproxy.decoders.escaping import escape

    rows = [
        (
            escape(line[by]) + (LONG_POLL if line["long_poll"] else ""),
            str(line["count"]),
            str(line["errors"]),
            *(milliseconds(line[name]) for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
            size_text(line["request_bytes"]),
            size_text(line["response_bytes"]),
            str(line["throttle_ms"]),
        )
        for line in lines
    ]
    return table((by if by != "api" else "API", *HEAD), rows)
