"""`kproxy demo`: real clients and an embedded cluster, with the proxy between them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.exporting import exporter
from kproxy.cli.interface import painting, preferences
from kproxy.cli.opening import opener
from kproxy.cli.terminal import can_paint, forcing, refuse_existing

if TYPE_CHECKING:
    from kproxy.captures.reader import Reader
    from kproxy.decoders.exchange import Exchange
    from kproxy.runs.demo import Traffic
    from kproxy.runs.launcher import RelayProcess

WELCOME = "Three problems are planted here. 7 shows what kproxy finds (within a minute), ! the proof."


@click.command()
@click.option("--headless", is_flag=True, help="No terminal UI: one line per exchange, and a table at the end.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), metavar="N", help="End after N seconds.")
@click.option(
    "-w", "--write", "record_to", type=click.Path(path_type=Path), metavar="FILE", help="Record to this pcapng file."
)
@click.option(
    "--listen-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Port of the proxy (default: 19092, or any free port if that is taken).",
)
@forcing
@painting
def command(headless: bool, seconds: float | None, record_to: Path | None, listen_port: int | None) -> None:
    """Watch real clients talk to an embedded cluster.

    The cluster is librdkafka's mock with three brokers; producers with several codecs, a transactional one and
    consumer groups that rebalance reach it through the proxy. Three problems are planted: a producer with a wrong
    leader, a consumer that polls too late, and one over its quota. The findings (7) name each within a minute. Nothing
    leaves this machine. Without a terminal, with --headless or with --json the exchanges are printed as they pass.

    \b
    kproxy demo
    kproxy demo --headless --seconds 10
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.runs.demo import DemoError, Traffic
    from kproxy.runs.demo_problems import TOPIC

    refuse_existing(record_to)
    try:
        with Traffic(TOPIC) as traffic, _relay(traffic, record_to, listen_port) as relay:
            click.echo(f"bootstrap.servers={relay.bootstrap}", err=True)
            traffic.start_clients(relay.bootstrap)
            if headless or cli.current().json or seconds is not None or not can_paint():
                _print(relay, traffic, seconds, record_to)
            else:
                _show(relay, traffic, record_to)
    except DemoError as error:
        raise Failure(str(error), Exit.USAGE if error.missing else Exit.CONNECT) from None


def _relay(traffic: Traffic, record_to: Path | None, listen_port: int | None) -> RelayProcess:
    """Starts the proxy on the default port, or on any free port if that is taken."""
    from kproxy.runs.demo_problems import faults
    from kproxy.runs.launcher import RelayProcess, StartError
    from kproxy.runs.settings import LISTEN_PORT, Settings, upstream

    def on(port: int) -> RelayProcess:
        return RelayProcess(
            Settings(
                upstream=upstream(traffic.bootstrap),
                listen_port=port,
                record_to=None if record_to is None else str(record_to),
                attached=True,
                faults=faults(traffic.leader),
            )
        )

    try:
        try:
            return on(listen_port or LISTEN_PORT)
        except StartError as error:
            if listen_port is not None or error.exit_code != Exit.CONNECT:
                raise
            return on(0)
    except StartError as error:
        raise Failure(str(error), Exit(error.exit_code)) from None


def _print(relay: RelayProcess, traffic: Traffic, seconds: float | None, record_to: Path | None) -> None:
    """Prints exchanges and findings as they come, then statistics per API and which planted problems were found."""
    from kproxy.captures.analysis.stats import Stats
    from kproxy.cli.commands.stats import text
    from kproxy.decoders.schema import definitions
    from kproxy.runs.following import Follower, Stopping

    stats = Stats(definitions())

    def observe(exchange: Exchange, reader: Reader) -> None:
        stats.add(exchange, reader.source)

    def enough() -> None:
        traffic.stop_clients()
        stopping.event.set()

    as_json = cli.current().json
    follower = Follower(relay, sys.stdout, as_json=as_json, observe=observe, least="off" if as_json else "warn")
    with Stopping() as stopping:
        timer = threading.Timer(seconds or 0, enough)
        if seconds is not None:
            timer.start()
        try:
            follower.run(stopping.event)
        finally:
            timer.cancel()
    if not as_json:
        click.echo()
        for line in text(line.to_json("api") for line in stats.lines()):
            click.echo(line)
        click.echo()
        for line in _story({one.rule for one in follower.findings}, record_to):
            click.echo(line)


def _story(found: Container[str], record_to: Path | None) -> Iterator[str]:
    """Lines about the planted problems; `found` are the rules that have a finding."""
    from kproxy.runs.demo_problems import PROBLEMS

    yield "planted problems:"
    for one in PROBLEMS:
        yield f"  {'found' if one.finding in found else 'not yet found':<14}{one.finding:<19}{one.text}"
    yield f"evidence and fixes: kproxy findings {record_to or 'FILE, after kproxy demo -w FILE'}"


def _show(relay: RelayProcess, traffic: Traffic, record_to: Path | None) -> None:
    from kproxy import tui
    from kproxy.cli.options.viewing import Viewing
    from kproxy.runs.following import leaving_on
    from kproxy.runs.launcher import Indexer

    assert relay.recording is not None  # noqa: S101 (the demo records)
    warnings: list[str] = []
    indexer = Indexer(relay.recording, relay.index_dir, ("--follow", "--with-parent"))
    try:
        with leaving_on(signal.SIGTERM, signal.SIGHUP):
            tui.run(
                relay.index_dir,
                live=tui.RunInfo(
                    bootstrap=relay.bootstrap,
                    upstream=traffic.bootstrap,
                    listening=(relay.bootstrap,),
                    recording=None if record_to is None else relay.recording,
                    welcome=WELCOME,
                    ours=False,  # the cluster and the clients end with the demo, so the UI quits without a question
                    alive=lambda: relay.alive,
                    indexer_ended=lambda: indexer.ended,
                ),
                viewers=Viewing().chooser(),
                preferences=preferences(),
                exporter=exporter(),
                opener=opener(warn=warnings.append),
            )
    finally:
        traffic.stop_clients()
        indexer.stop()
        for warning in warnings:
            cli.warn(warning)
