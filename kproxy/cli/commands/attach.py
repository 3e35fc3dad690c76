"""`kproxy attach`: shows the traffic of a running proxy or sniffer."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import say
from kproxy.cli.exporting import exporter
from kproxy.cli.interface import guarded, painting, preferences
from kproxy.cli.opening import opener
from kproxy.cli.options.findings import telling_findings
from kproxy.cli.options.reading import Reading, defining, headless, releasing, revealing
from kproxy.cli.options.types import FILTER
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.cli.running import recording_of, running
from kproxy.cli.terminal import can_paint, end_with_terminal

if TYPE_CHECKING:
    from kproxy.decoders.filters import Expression
    from kproxy.decoders.view import View
    from kproxy.runs.registry import Run


@click.command()
@click.argument("wanted", required=False, metavar="[PID|NAME]")
@headless
@telling_findings
@click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Show only exchanges that match.")
@revealing
@releasing
@defining
@viewing
@painting
@guarded
def command(
    wanted: str | None,
    headless: bool,
    least: str,
    expression: Expression | None,
    show_secrets: bool,
    release: str | None,
    user_definitions: tuple[str, ...],
    viewing: Viewing,
) -> None:
    """Watch a running proxy or sniffer, from the start of its recording; leaving does not end it.

    PID or NAME may be left out if only one is running. Several users may watch the same one.

    \b
    kproxy attach
    kproxy attach orders -Y 'error != NONE'
    kproxy attach orders --headless --json
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.decoders.view import View

    run = running(wanted)
    recording_of(run)  # refuses a run without one
    as_json = cli.current().json
    if headless or as_json or not can_paint():
        view = View(show_secrets=show_secrets, payloads=viewing.payloads() if as_json else None)
        _print(run, expression, release, user_definitions, view, as_json=as_json, least=least)
    else:
        _show(run, str(expression or ""), release, user_definitions, viewing, show_secrets=show_secrets)


def _print(
    run: Run,
    expression: Expression | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    view: View,
    *,
    as_json: bool,
    least: str,
) -> None:
    from kproxy.captures.errors import CaptureError
    from kproxy.runs.following import Follower, Stopping

    assert run.recording is not None  # noqa: S101 (`command` has checked it)
    with Stopping() as stopping:
        follower = Follower(
            run,
            sys.stdout,
            as_json=as_json,
            expression=expression,
            release=release,
            user_definitions=user_definitions,
            view=view,
            least=least,
        )
        try:
            follower.run(stopping.event)
        except CaptureError:
            if run.alive or run.recording.exists():
                raise  # else it has ended, and with it a recording that was not to be kept
    if follower.left_out:
        cli.warn(follower.left_out)
    if not run.alive:
        say(f"process {run.pid} has ended")


def _show(
    run: Run,
    filter_text: str,
    release: str | None,
    user_definitions: tuple[str, ...],
    viewing: Viewing,
    *,
    show_secrets: bool,
) -> None:
    """Runs the terminal UI on a temporary index, which another process writes."""
    from kproxy import tui
    from kproxy.cli.commands.sniff import listening
    from kproxy.runs import scratch
    from kproxy.runs.launcher import Indexer, arguments

    assert run.recording is not None  # noqa: S101 (`command` has checked it)
    device = run.state.get("device")
    arrived = threading.Event()
    warnings: list[str] = []
    viewers = viewing.for_screen(warn=warnings.append, arrived=arrived.set)
    end_with_terminal()
    with scratch.place("index") as directory:
        indexer = Indexer(run.recording, directory / "index", ("--with-parent", *arguments(release, user_definitions)))
        reading = Reading(release=release, user_definitions=user_definitions)
        try:
            tui.run(
                directory / "index",
                live=tui.RunInfo(
                    bootstrap=run.state["bootstrap"],
                    upstream="" if device else ",".join(run.state["upstream"]) or "their brokers",
                    recording=None if run.state["scratch"] else run.recording,
                    notes=tuple(run.state["warnings"]),
                    ours=False,
                    since=run.state["started"],
                    alive=lambda: run.alive,
                    indexer_ended=lambda: indexer.ended,
                    taken=listening(device, run.state["bpf"]) if device else "",
                ),
                filter_text=filter_text,
                release=release,
                user_definitions=user_definitions,
                show_secrets=show_secrets,
                viewers=viewers,
                arrived=arrived,
                preferences=preferences(),
                exporter=exporter((), reading, viewing),
                opener=opener(reading, viewing, warn=warnings.append),
            )
        finally:
            indexer.stop()
            for warning in warnings:
                cli.warn(warning)
