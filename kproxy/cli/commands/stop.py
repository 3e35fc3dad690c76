"""`kproxy stop`: ends a running proxy or sniffer."""

from __future__ import annotations

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.running import running

SECONDS = 20.0
"""Deadline for responses to requests in flight, and for writing the recording to a slow disk."""


@click.command()
@click.argument("wanted", required=False, metavar="[PID|NAME]")
@click.option("--all", "every", is_flag=True, help="End all running proxies and sniffers.")
def command(wanted: str | None, every: bool) -> None:
    """End a running proxy or sniffer; a proxy accepts no more connections and ends after the requests in flight.

    PID or NAME may be left out if only one is running. The exit code is 2 if several match, 4 if a process
    does not answer or does not end.

    \b
    kproxy stop
    kproxy stop orders
    kproxy stop --all
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.runs.registry import runs

    if every and wanted is not None:
        raise Failure("--all and a proxy's name exclude each other", Exit.USAGE)
    meant = list(runs()) if every else [running(wanted)]
    wrong = []
    for run in meant:
        label = f"{run.pid} {run.name}".rstrip()
        try:
            if not run.end(SECONDS):
                wrong.append(f"{label} has not ended within {SECONDS:g} seconds")
                continue
        except OSError as error:
            wrong.append(f"{label} does not answer: {error.strerror or error}")
            continue
        if not cli.current().quiet:
            click.echo(f"{label} has ended", err=True)
    if wrong:
        raise Failure("; ".join(wrong), Exit.CONNECT)
