"""`kproxy run`: runs the proxy between clients and a cluster and shows their traffic."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings as cli
from kproxy.cli.enduring import EnduringOutput
from kproxy.cli.exits import Exit, Failure, say
from kproxy.cli.exporting import exporter
from kproxy.cli.interface import painting, preferences
from kproxy.cli.messages import Messages
from kproxy.cli.opening import opener
from kproxy.cli.options.addons import Addons, addons
from kproxy.cli.options.addresses import Addresses, addressing
from kproxy.cli.options.control import Control, controlling
from kproxy.cli.options.faults import Faults, faulting
from kproxy.cli.options.findings import telling_findings
from kproxy.cli.options.reading import Reading, defining, headless, releasing, revealing
from kproxy.cli.options.recording import recording
from kproxy.cli.options.running import Running, leave, running
from kproxy.cli.options.sasl import authenticating, checked
from kproxy.cli.options.tls import client_lines, speaking_tls
from kproxy.cli.options.transparent import intercepting, taken, transparent_options
from kproxy.cli.options.types import FILTER, Parsed
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.cli.terminal import can_paint, end_with_terminal

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kproxy.decoders.filters import Expression
    from kproxy.decoders.view import View
    from kproxy.runs.following import Flag, Stopping
    from kproxy.runs.launcher import Indexer, RelayProcess
    from kproxy.runs.settings import SaslSettings, Settings, TlsSettings
    from kproxy.tui.detail.viewing import Viewers


PROBE_SECONDS = 0.3
"""Longest wait of the UI for a first warning about the upstream, which often comes at once."""


def _complete_filter(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return FILTER.shell_complete(ctx, param, incomplete)


@click.command()
@click.option(
    "--upstream",
    default=(),
    type=Parsed("address", "upstream"),
    metavar="HOST[:9092][,...]",
    help="Bootstrap servers of the cluster, tried in order.",
)
@click.option(
    "--listen",
    default="127.0.0.1:19092",
    show_default=True,
    type=Parsed("address", "listen"),
    metavar="[HOST:]PORT",
    help="Where clients connect; * as host is every address.",
)
@transparent_options
@headless
@telling_findings
@click.option(
    "--port-base",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Broker N is served on PORT + N (default: the listen port + 1).",
)
@click.option(
    "--advertise",
    default="",
    type=Parsed("template", "advertise"),
    metavar="HOST",
    help="Host that clients get for brokers: a name, or a template ({broker}, {port}, {host}).",
)
@addressing
@click.option(
    "--hold-max",
    default="1M",
    show_default=True,
    type=Parsed("size", "size"),
    metavar="SIZE",
    help="Longest response to hold; longer Produce and Fetch responses are rewritten as they stream.",
)
@speaking_tls
@authenticating
@click.option(
    "--check",
    is_flag=True,
    help="First check that upstream is a Kafka broker and accepts the credentials of --sasl; exit 4 if not.",
)
@click.option(
    "-Y", "--filter", "filter_text", default="", metavar="EXPR", help="Show only exchanges that match.",
    shell_complete=_complete_filter,
)  # fmt: skip
@revealing
@releasing
@running
@defining
@viewing
@painting
@recording
@addons
@faulting
@controlling
def command(
    upstream: tuple[tuple[str, int], ...],
    listen: tuple[str, int],
    headless: bool,
    least: str,
    port_base: int | None,
    advertise: str,
    hold_max: int,
    spool_dir: Path | None,
    check: bool,
    filter_text: str,
    show_secrets: bool,
    release: str | None,
    user_definitions: tuple[str, ...],
    viewing: Viewing,
    recording: dict[str, Any],
    tls: TlsSettings,
    sasl: SaslSettings,
    addresses: Addresses,
    running: Running,
    addons: Addons,
    faults: Faults,
    control: Control,
    **transparent: Any,
) -> int:
    """Forward clients to a cluster and watch what passes.

    Clients use the printed bootstrap.servers; kproxy rewrites broker addresses, so clients never bypass it. With
    --transparent clients need no change: iptables rules redirect their connections, and nothing is rewritten. Quitting,
    SIGTERM and ctrl+c (twice at a terminal) end kproxy after the requests in flight. Closing the terminal does not end
    it: kproxy ps lists what runs, kproxy attach returns to it, kproxy stop ends it.

    \b
    kproxy run --upstream kafka-1:9092,kafka-2:9092
    kproxy run --upstream kafka:9092 --listen '*:19092' --advertise proxy.example -w traffic.pcapng
    kproxy run --upstream kafka:9092 --headless --json
    kproxy run --upstream kafka:9092 -w recordings --ring 10x100MB,1h --snap 256 --record 'api != Fetch'
    kproxy run --transparent redirect --setup
    kproxy run --upstream kafka:9092 --upstream-proxy socks5://bastion:1080
    kproxy run --upstream kafka:9093 --tls-out --tls-out-ca ca.pem --tls-in auto
    kproxy run --upstream kafka:9094 --tls-out --sasl scram-sha-512 --sasl-credentials kafka.login
    kproxy run --upstream kafka:9092 --detach --name orders
    kproxy run --upstream kafka:9092 --headless --metrics 9464 --addon ./rename.py
    kproxy run --upstream kafka:9092 --fault 'api == Produce => error NOT_LEADER_OR_FOLLOWER not applied, nth 2'
    kproxy run --upstream kafka:9092 --headless --control 8474 --control-token-file token
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.decoders.view import View
    from kproxy.runs.following import Stopping, leaving_on
    from kproxy.runs.launcher import arguments
    from kproxy.runs.settings import Settings

    context = click.get_current_context()
    parameter = next(one for one in context.command.params if one.name == "filter_text")
    expression = FILTER.convert(filter_text, parameter, context) if filter_text else None
    faults.over_http = control.address is not None
    chosen = Settings(
        upstream=upstream,
        listen_host=listen[0],
        listen_port=listen[1],
        port_base=port_base,
        advertise=advertise,
        hold_max=hold_max,
        release=release,
        user_definitions=user_definitions,
        probe=not check,
        **recording,
        tls=tls,
        sasl=sasl,
        **running.settings,
        addons=addons.specs,
        **faults.settings,
        control=control.settings(),
    )
    chosen = checked(addresses.applied(intercepting(chosen, **transparent)))
    addons.check(record=chosen.record)
    faults.check(release, user_definitions)
    if check and chosen.upstream:
        _check(chosen)
    as_json = cli.current().json
    view = View(show_secrets=show_secrets, payloads=viewing.payloads() if as_json else None)
    messages = Messages()
    viewers, arrived = None, threading.Event()
    if chosen.record and not headless and not as_json and not running.silent and can_paint():
        viewers = viewing.for_screen(warn=messages.warn, arrived=arrived.set)
        end_with_terminal()
    goes_on = running.detach
    observers: Indexer | None = None
    follow = arguments(release, user_definitions)
    with leaving_on(signal.SIGTERM), contextlib.ExitStack() as until:
        relay = _start(chosen, spool_dir)
        stopping = Stopping(_twice())
        if viewers is None:  # handle signals before printing the greeting, as its reader may send one at once
            until.enter_context(stopping)
        try:
            for line in (*_greeting(chosen, relay), *faults.greeting, *control.greeting(relay.control)):
                say(line)
            if goes_on:
                return Exit.OK
            if viewers is None:
                messages.hint(_how_to_connect(chosen, relay))
            relay.on_event(messages.take)
            if viewers is None and faults.intercepted and not goes_on:
                until.enter_context(faults.interception(relay.run_dir))
            if viewers is None:
                observers = addons.observers(relay, follow, messages.take)
            if relay.recording is None or running.silent or (faults.intercepted and viewers is None and not as_json):
                _wait(relay, stopping)
            elif viewers is None:
                _follow(
                    relay,
                    stopping,
                    expression,
                    release=release,
                    user_definitions=user_definitions,
                    as_json=as_json,
                    view=view,
                    least=least,
                )
            else:
                goes_on = _show(
                    relay,
                    addons.indexer(relay, follow, messages.take),
                    chosen,
                    messages,
                    filter_text,
                    viewers,
                    arrived,
                    viewing,
                    release=release,
                    user_definitions=user_definitions,
                    show_secrets=show_secrets,
                )
                if not relay.alive:
                    _ended(relay, stopping.event)
        except Exception as error:
            gone = isinstance(error, OSError) and error.errno == errno.EIO  # the terminal is gone
            # A failure of the interface must not end the clients' traffic.
            goes_on = relay.alive and (gone or viewers is not None) and not chosen.attached
            raise
        finally:
            if goes_on:
                if observers is None:
                    addons.observers(relay, follow, messages.take)
                leave(relay, chosen)
            else:
                relay.stop()
                if observers is not None:
                    observers.finish()
                messages.release()
                relay.clean_up()
    return Exit.OK


def _how_to_connect(chosen: Settings, relay: RelayProcess) -> str:
    """A line for the user who waits for the first client."""
    if chosen.transparent is not None:
        return "no client has connected yet: does the clients' traffic come through this machine? (kproxy doctor)"
    bootstrap = next(iter(relay.clusters.values()))
    return f"no client has connected yet: set bootstrap.servers={bootstrap} in one, or try: kcat -b {bootstrap} -L"


def _greeting(chosen: Settings, relay: RelayProcess) -> Iterator[str]:
    """The first lines for the user: bootstrap servers or redirected connections, and the clients' TLS settings."""
    if said := taken(chosen, relay.bootstrap):
        yield said
    else:
        for name, bootstrap in relay.clusters.items():
            yield f"{name}: bootstrap.servers={bootstrap}" if name else f"bootstrap.servers={bootstrap}"
    yield from client_lines(chosen.tls)


def _check(chosen: Settings) -> None:
    """Raises Failure (exit 4) if no upstream of a cluster is a Kafka broker that accepts kproxy's credentials."""
    import asyncio

    from kproxy.relay import probe
    from kproxy.relay.tunnel import Tunnel
    from kproxy.runs.settings import shown
    from kproxy.tls.contexts import broker_side
    from kproxy.tls.errors import TlsError

    try:
        side = broker_side(chosen.tls)
    except TlsError as error:
        raise Failure(str(error), Exit.USAGE) from None
    through = None if chosen.upstream_proxy is None else Tunnel.parse(chosen.upstream_proxy)
    for cluster in chosen.clusters():
        wrong = []
        for host, port in cluster.upstream:
            found = asyncio.run(probe.problem(host, port, through=through, side=side))
            if found is None and cluster.sasl.mechanism:
                found = asyncio.run(probe.refusal(host, port, cluster.sasl, through=through, side=side))
            if found is None:
                break
            wrong.append(f"upstream {shown(host, port)} {found}")
        else:
            raise Failure("; ".join(wrong), Exit.CONNECT)


def _start(chosen: Settings, spool_dir: Path | None) -> RelayProcess:
    from kproxy.runs.launcher import RelayProcess, StartError

    try:
        return RelayProcess(chosen, spool=spool_dir)
    except StartError as error:
        raise Failure(str(error), Exit(error.exit_code)) from None


def _wait(relay: RelayProcess, stopping: Stopping) -> None:
    from kproxy.runs.following import IDLE_SECONDS

    while relay.alive and not stopping.event.wait(IDLE_SECONDS * 4):
        pass
    _ended(relay, stopping.event)


def _follow(
    relay: RelayProcess,
    stopping: Stopping,
    expression: Expression | None,
    *,
    release: str | None,
    user_definitions: tuple[str, ...],
    as_json: bool,
    view: View,
    least: str,
) -> None:
    from kproxy.runs.following import Follower

    follower = Follower(
        relay,
        EnduringOutput(sys.stdout, cli.warn),
        as_json=as_json,
        expression=expression,
        release=release,
        user_definitions=user_definitions,
        view=view,
        least=least,
    )
    follower.run(stopping.event)
    if follower.left_out:
        cli.warn(follower.left_out)
    _ended(relay, stopping.event)


def _twice() -> str | None:
    """The message for the first ctrl+c. None if standard input is no terminal: then the first ctrl+c ends the run."""
    if not (sys.stdin is not None and sys.stdin.isatty()):
        return None
    return "kproxy still forwards; press ctrl+c again to end it after the requests in flight"


def _ended(relay: RelayProcess, stopping: Flag) -> None:
    if relay.was_stopped and not stopping.is_set():
        say(f"the relay (process {relay.pid}) was stopped")
    elif not stopping.is_set():
        raise Failure(f"the relay (process {relay.pid}) has ended", Exit.BUG)


def _show(
    relay: RelayProcess,
    indexer: Indexer,
    chosen: Settings,
    messages: Messages,
    filter_text: str,
    viewers: Viewers,
    arrived: threading.Event,
    viewing: Viewing,
    *,
    release: str | None,
    user_definitions: tuple[str, ...],
    show_secrets: bool,
) -> bool:
    """Runs the terminal UI; returns whether the relay goes on afterwards. The indexer ends with the UI."""
    from kproxy import tui
    from kproxy.runs.intercepting import HeldFrames
    from kproxy.runs.launcher import wait_until

    wait_until(lambda: bool(messages.warnings), PROBE_SECONDS)
    messages.hold()
    held = HeldFrames(relay.run_dir)
    if chosen.faults:
        held.look()
    reading = Reading(release=release, user_definitions=user_definitions)
    try:
        return tui.run(
            relay.index_dir,
            live=tui.RunInfo(
                bootstrap=relay.bootstrap,
                upstream=chosen.shown_upstream,
                listening=tuple(relay.clusters.values()),
                recording=None if chosen.record_to is None else relay.recording,
                notes=tuple(messages.warnings),
                stopped=lambda: messages.stopped,
                alive=lambda: relay.alive,
                taken=taken(chosen, relay.bootstrap),
                indexer_ended=lambda: indexer.ended,
                held=held,
            ),
            filter_text=filter_text,
            release=release,
            user_definitions=user_definitions,
            show_secrets=show_secrets,
            viewers=viewers,
            arrived=arrived,
            preferences=preferences(),
            exporter=exporter((), reading, viewing),
            opener=opener(reading, viewing, warn=messages.warn),
        )
    finally:
        indexer.stop()
