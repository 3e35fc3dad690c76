"""`kproxy web`: the terminal interface in a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.core import ParameterSource

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.extras import require
from kproxy.cli.itself import COMMAND
from kproxy.cli.running import recording_of, running

LOCAL = "127.0.0.1"


@click.command()
@click.argument("arguments", nargs=-1, metavar="[CAPTURE...] [-- OPTION...]")
@click.option("--attach", is_flag=False, flag_value="", metavar="[PID|NAME]", help="Show a running proxy.")
@click.option("--host", default=LOCAL, show_default=True, help="Address to listen on; * for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port to listen on; 0 takes a free one."
)
@click.option("--share", is_flag=True, help="Print a second, read-only URL for other people.")
@click.pass_context
def command(
    ctx: click.Context, arguments: tuple[str, ...], attach: str | None, host: str, port: int, *, share: bool
) -> None:
    """Show captures, or a running proxy, in a browser: the interface of kproxy replay and kproxy attach.

    It prints a URL with a token, new for each run; without the token nothing is shown. Anybody who has the token can
    see and do what you can, over unencrypted HTTP: listen on this machine alone, and use ssh -L on another. Options
    after -- go to kproxy replay or kproxy attach. Each browser tab has an interface of its own; ctrl+c ends all. With
    --share, whoever has the second URL sees the same, but exports, stores and opens nothing.

    \b
    kproxy web capture.pcap
    kproxy web ring.pcap*.gz --port 8080
    kproxy web capture.pcap -- -Y 'error != NONE' --keylog keys.log
    kproxy web --attach orders
    kproxy web capture.pcap --share
    """  # noqa: D301 (\b keeps click from joining the lines)
    require("kproxy web", "textual_serve", "web")
    shown, name = _replay(ctx, arguments) if attach is None else _attach(ctx, attach, arguments)
    import secrets

    from kproxy.relay import ports
    from kproxy.web.server import TOKEN_BYTES, serve

    try:
        sockets = ports.bind(host.strip("[]"), port)
    except OSError as error:
        raise Failure(f"cannot listen on {host}:{port}: {error.strerror or error}", Exit.CONNECT) from None
    commands = {secrets.token_urlsafe(TOKEN_BYTES): [*COMMAND, *shown]}
    if share:
        commands[secrets.token_urlsafe(TOKEN_BYTES)] = [*COMMAND, shown[0], "--read-only", *shown[1:]]
    if host != LOCAL:
        settings.warn(f"{host} may be reached from other machines, over unencrypted HTTP")
    address = ports.reached(host.strip("[]"), sockets)
    for token, meaning in zip(commands, ("", "read-only: "), strict=False):
        click.echo(f"{meaning}http://{address}/?token={token}")
    sys.stdout.flush()
    serve(commands, f"kproxy {name}", sockets)


def _replay(ctx: click.Context, arguments: tuple[str, ...]) -> tuple[list[str], str]:
    """(command line that shows captures, their name).

    Raises the errors that the command would end with, so that they are printed here and not in a browser.
    """
    from kproxy.captures.source import check

    parsed = _parsed(ctx, ["replay", *arguments])
    captures: tuple[Path, ...] = parsed.params["captures"]
    if any(str(path) == "-" for path in captures):
        raise Failure(
            "each browser tab reads the captures again, but standard input can be read only once: name a file",
            Exit.USAGE,
        )
    check(captures)
    more = f" +{len(captures) - 1}" if len(captures) > 1 else ""
    return ["replay", *_colours(parsed), *arguments], captures[0].name + more


def _attach(ctx: click.Context, wanted: str, arguments: tuple[str, ...]) -> tuple[list[str], str]:
    """(command line that shows a running proxy, its name).

    Raises Failure if there is no such proxy or it does not record.
    """
    run = running(wanted or None)
    recording_of(run)  # refuses a run without one
    named = [str(run.pid), *arguments]
    parsed = _parsed(ctx, ["attach", *named])
    return ["attach", *_colours(parsed), *named], wanted or str(run.pid)


def _colours(parsed: click.Context) -> list[str]:
    """The option for colours that can be read well on a page, unless the user or the configuration chooses others."""
    return ["--theme", "dark"] if parsed.get_parameter_source("theme") is ParameterSource.DEFAULT else []


def _parsed(ctx: click.Context, line: list[str]) -> click.Context:
    """Parses a command line that opens the UI. Raises UsageError if it is invalid, or would print lines instead."""
    top = ctx.find_root()
    assert isinstance(top.command, click.Group)  # noqa: S101 (it holds this command too)
    command = top.command.get_command(top, line[0])
    assert command is not None  # noqa: S101 (callers name commands that there are)
    with command.make_context(line[0], line[1:], parent=top) as parsed:
        for name in ("headless", "count"):
            if parsed.params.get(name):
                raise click.UsageError(
                    f"kproxy web prints no lines: remove {'-c' if name == 'count' else '--headless'}"
                )
    return parsed
