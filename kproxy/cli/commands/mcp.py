"""`kproxy mcp`: answers an agent's questions about captures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.extras import require
from kproxy.cli.options.reading import decrypting, defining, porting, releasing
from kproxy.cli.options.types import Parsed
from kproxy.cli.running import recording_of, running

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports

TOKEN = "KPROXY_MCP_TOKEN"  # noqa: S105 (the name of an environment variable)


@click.command()
@click.argument("captures", nargs=-1, metavar="[CAPTURE...]", type=click.Path(path_type=Path))
@click.option("--attach", is_flag=False, flag_value="", metavar="[PID|NAME]", help="Read the recording of a proxy.")
@click.option(
    "--http",
    type=Parsed("address", "listen"),
    metavar="[HOST:]PORT",
    help="Serve HTTP here instead of standard input and output (default host: 127.0.0.1; port 0 takes a free one).",
)
@click.option("--allow-faults", is_flag=True, help="Let the agent add and remove rules of the proxy (--attach).")
@porting
@releasing
@defining
@decrypting
def command(
    captures: tuple[Path, ...],
    attach: str | None,
    http: tuple[str, int] | None,
    allow_faults: bool,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    keylog: Path | None,
) -> None:
    """Answer an agent's questions about captures, or about a running proxy, by the Model Context Protocol.

    An agent starts the command and talks to it on standard input and output; with --http it connects, with the header
    `Authorization: Bearer TOKEN`. TOKEN is $KPROXY_MCP_TOKEN, or a new one, which is printed. The tools are summary,
    findings, exchanges, exchange, records, stats, view, journey, diff and schema; each answer has a bounded size, lists
    come in pages. Secrets are withheld, and no tool changes anything, unless --allow-faults lets the agent add and
    remove rules that act on a proxy's traffic. The captures are read again for each question.

    \b
    kproxy mcp capture.pcap
    kproxy mcp --attach orders
    kproxy mcp --attach orders --allow-faults
    kproxy mcp capture.pcap --http 8765
    """  # noqa: D301 (\b keeps click from joining the lines)
    require("kproxy mcp", "mcp", "mcp")
    if (attach is None) == (not captures):
        raise click.UsageError("name captures, or --attach a running proxy")
    if any(str(path) == "-" for path in captures):
        raise click.UsageError("captures are read again for each question, but standard input only once: name a file")
    if allow_faults and attach is None:
        raise click.UsageError("--allow-faults needs --attach: rules act on the traffic of a running proxy")
    from kproxy.agents.answers import Answers
    from kproxy.agents.rules import Rules
    from kproxy.agents.server import serve_http, serve_stdio
    from kproxy.library.capture import open as open_capture

    proxy = None if attach is None else running(attach or None)
    opened = partial(
        open_capture,
        captures if proxy is None else [recording_of(proxy)],
        ports=None if ports is None else str(ports),
        release=release,
        definitions=user_definitions,
        keylog=keylog,
        strict=False,
    )
    opened().close()  # says at once what is wrong with the captures
    rules = Rules(proxy.run_dir) if proxy is not None and allow_faults else None
    if http is None:
        serve_stdio(Answers(opened), rules)
        return
    from kproxy.control import token
    from kproxy.relay import ports as listening
    from kproxy.runs.settings import is_local

    host, port = http
    try:
        given = token.given(None, TOKEN)
    except token.TokenError as error:
        raise click.UsageError(str(error)) from None
    try:
        sockets = listening.bind(host, port)
    except OSError as error:
        raise Failure(f"cannot listen on {host}:{port}: {error.strerror or error}", Exit.CONNECT) from None
    if not is_local(host):
        settings.warn(f"--http: {host} may be reached from other machines, over unencrypted HTTP")
    wanted = given or token.new()
    click.echo(f"http://{listening.reached(host, sockets)}/mcp")
    if given is None:
        click.echo(f"token: {wanted}")
    serve_http(Answers(opened), rules, sockets, wanted)
