"""`kproxy addons`: commands on the addons of a running proxy."""

from __future__ import annotations

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.running import running


@click.group()
def command() -> None:
    """Reload the addons of a running proxy."""


@command.command()
@click.argument("name", required=False)
@click.option("--run", "wanted", metavar="PID|NAME", help="The proxy; may be left out if only one runs.")
def reload(name: str | None, wanted: str | None) -> None:
    """Load the actor NAME again, or all actors; this also enables actors that have failed.

    Files and modules are read again, so that edits take effect; connections stay open. The exit code is 2 if there is
    no such actor or it cannot be loaded, and 4 if the proxy does not answer.

    \b
    kproxy addons reload
    kproxy addons reload throttle --run orders
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.runs.registry import ask

    run = running(wanted)
    try:
        answer = ask(run.run_dir, "reload", name=name)
    except (OSError, ValueError) as error:
        raise Failure(f"{run.pid} {run.name} does not answer: {error}", Exit.CONNECT) from None
    if "error" in answer:
        raise Failure(str(answer["error"]), Exit.USAGE)
    if not cli.current().quiet:
        click.echo(f"reloaded: {', '.join(answer['reloaded'])}", err=True)
