"""`kproxy ps`: lists the running proxies and sniffers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings as cli
from kproxy.cli.tables import size, table

if TYPE_CHECKING:
    from kproxy.runs.registry import Run

HEAD = ("PID", "NAME", "SINCE", "LISTEN", "UPSTREAM", "RECORDING", "SIZE", "DROPPED", "CONNECTIONS")
LEFT = 6
"""Number of columns that are aligned left."""


@click.command()
def command() -> None:
    """List your running proxies and sniffers.

    Each line has the process id (of kproxy-relay or kproxy-sniffer), the name, the start, the address or device that
    the process listens on, the brokers that it forwards to, and the file and size of its recording. --json prints an
    object for each process, warnings included. A - stands for what a process does not have, or does not answer.

    \b
    kproxy ps
    kproxy ps --json | jq .warnings
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.runs.registry import runs

    found = [_described(run) for run in runs()]
    if cli.current().json:
        for one in found:
            click.echo(json.dumps(one))
    elif found:
        for line in table(HEAD, [_row(one) for one in found], left=LEFT):
            click.echo(line)
    else:
        click.echo("nothing is running", err=True)


def _described(run: Run) -> dict[str, Any]:
    status = run.status() or {}
    recorder = status.get("recorder") or {}
    since = datetime.fromtimestamp(run.state["started"], UTC)
    return {
        "pid": run.pid,
        "name": run.name,
        "since": since.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "listen": run.state["listen"],
        "control": run.state.get("control"),
        "upstream": run.state["upstream"],
        "answers": bool(status),
        "connections": status.get("connections"),
        "connectionsTotal": status.get("connections_total"),
        "connectionsRefused": status.get("connections_refused"),
        "recording": None if run.recording is None else str(run.recording),
        "recordedBytes": recorder.get("bytes"),
        "dropped": recorder.get("dropped"),
        "failed": recorder.get("failed"),
        "warnings": run.state["warnings"],
    }


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    def known(value: Any) -> str:
        return "-" if value is None else str(value)

    recorded = one["recordedBytes"]
    return (
        str(one["pid"]),
        one["name"] or "-",
        one["since"],
        one["listen"],
        ",".join(one["upstream"]) or "-",
        known(one["recording"]),
        "failed" if one["failed"] else "-" if recorded is None else size(recorded),
        known(one["dropped"]),
        known(one["connections"]),
    )
