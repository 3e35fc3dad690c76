"""`kproxy serve`: a broker made of a recording."""

from __future__ import annotations

import asyncio
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import readings, settings
from kproxy.cli.commands.send import read_speed
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.reading import Reading, captured, reading_options
from kproxy.cli.options.selecting import Criteria, Selection, selecting
from kproxy.cli.options.types import ADDRESS, LISTENING

if TYPE_CHECKING:
    from kproxy.captures.reader import Reader
    from kproxy.serving.answers import Answers
    from kproxy.serving.server import Server


@click.command()
@captured
@click.option(
    "--listen",
    type=LISTENING,
    default="127.0.0.1:19092",
    show_default=True,
    metavar="HOST:PORT",
    help="Where clients connect first; broker N is served on PORT + 1 + N if that is free.",
)
@click.option(
    "--otherwise",
    type=click.Choice(("error", "disconnect")),
    default="error",
    show_default=True,
    help="What happens to a request that was never recorded: it gets UNKNOWN_SERVER_ERROR, or its connection ends.",
)
@click.option(
    "--upstream", type=ADDRESS, metavar="HOST:PORT", help="Send requests that were never recorded to this broker."
)
@click.option(
    "--speed",
    default="1",
    show_default=True,
    callback=read_speed,
    metavar="N|max",
    help="Answer N times as fast as recorded, or at once.",
)
@reading_options
@selecting
def command(
    captures: tuple[Path, ...],
    listen: tuple[str, int],
    otherwise: str,
    upstream: tuple[str, int] | None,
    speed: float | None,
    reading: Reading,
    criteria: Criteria,
) -> None:
    """Serve a recording: clients connect, and get the answers that the recorded brokers gave to the same requests.

    Requests are the same if they differ only in what differs from run to run, such as correlation ids, times, member
    ids and epochs. The nth occurrence of a request gets the nth recorded answer, further ones the last. Where a
    recorded connection ended without an answer, the connection ends. A capture of a failure becomes a test that needs
    no cluster. For faults on top, start `kproxy run --fault` in front of it.

    \b
    kproxy serve failure.pcap
    kproxy serve failure.pcap --listen 127.0.0.1:9092 --speed max
    kproxy serve failure.pcap --upstream kafka:9092
    kproxy run --upstream 127.0.0.1:19092 --listen 29092 --fault 'api == Fetch => delay 1s'
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.serving.answers import Answers
    from kproxy.serving.server import Server

    selection = criteria.selection()
    reader = reading.reader(captures)
    with closing(reader):
        answers = Answers(reader.source, reader.definitions)
        nodes = _taken(reader, selection, answers)
        readings.conclude(reader, selection, health=False)
        if not answers.total:
            raise Failure("nothing to serve: no exchange has a complete request and response", Exit.EMPTY)
        server = Server(answers, otherwise, upstream, speed, settings.warn, host=listen[0])
        asyncio.run(_serve(server, listen[1], sorted(nodes)))


def _taken(reader: Reader, selection: Selection, answers: Answers) -> set[int]:
    """Reads the recording into `answers`; returns the ids of the brokers that it names."""
    for exchange in readings.exchanges(reader, selection):
        answers.take(exchange)
    return answers.nodes


async def _serve(server: Server, port: int, nodes: list[int]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stopped.set)
    try:
        found = await server.listen(port, nodes)
    except OSError as error:
        await server.close()
        raise Failure(f"cannot listen on {server.host}:{port}: {error.strerror or error}", Exit.CONNECT) from None
    host = f"[{server.host}]" if ":" in server.host else server.host
    click.echo(f"bootstrap.servers={host}:{found}")
    try:
        await stopped.wait()
    finally:
        await server.close()
    given, missed = server.answers.given, sum(server.missed.values())
    click.echo(
        f"{given} of {server.answers.total} recorded answers were given; {missed} requests had no recorded answer"
    )
    for name, number in server.missed.most_common():
        click.echo(f"  {name}: {number}")
