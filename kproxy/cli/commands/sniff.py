"""`kproxy sniff`: shows the Kafka traffic of a network device passively."""

from __future__ import annotations

import signal
import sys
import threading
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
from kproxy.cli.options.findings import telling_findings
from kproxy.cli.options.reading import Reading, defining, headless, releasing, revealing
from kproxy.cli.options.recording import keeping
from kproxy.cli.options.running import backing, leave
from kproxy.cli.options.types import FILTER, PORTS
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.cli.terminal import can_paint, end_with_terminal

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports
    from kproxy.decoders.filters import Expression
    from kproxy.runs.following import Stopping
    from kproxy.runs.launcher import SnifferProcess

BROKER_PORTS = "9092"


@click.command()
@click.argument("device", metavar="IFACE")
@click.option(
    "-f", "bpf", default="", metavar="BPF", help="Capture only packets that match (a filter of tcpdump and libpcap)."
)
@click.option(
    "--port",
    "ports",
    type=PORTS,
    metavar="PORTS",
    help=f"Only connections to these ports (9092,19092-19095); without -f {BROKER_PORTS}.",
)
@click.option("--promiscuous", is_flag=True, help="Also capture packets for other machines.")
@headless
@telling_findings
@click.option("-Y", "--filter", "expression", type=FILTER, metavar="EXPR", help="Show only exchanges that match.")
@revealing
@releasing
@backing
@defining
@viewing
@painting
@keeping
def command(
    device: str,
    bpf: str,
    ports: Ports | None,
    promiscuous: bool,
    headless: bool,
    least: str,
    detach: bool,
    name: str,
    spool_dir: Path | None,
    expression: Expression | None,
    show_secrets: bool,
    release: str | None,
    user_definitions: tuple[str, ...],
    viewing: Viewing,
    recording: dict[str, Any],
) -> int:
    """Watch the Kafka traffic that passes a network device; clients and brokers notice nothing.

    IFACE is eth0, lo, or any for all of them. Listening needs root or the capability cap_net_raw, and libpcap. Packets
    that cannot be recorded in time are counted as dropped, in the recording and on the screen. TLS is not
    decrypted. Quitting, ctrl+c, SIGTERM and kproxy stop end it; with --detach it goes on in the background. To watch
    another machine, run tcpdump there and kproxy replay here.

    \b
    sudo kproxy sniff eth0
    sudo kproxy sniff any --port 9092,19092-19095 -w traffic.pcapng
    sudo kproxy sniff lo -f 'tcp port 9092 and host 10.0.0.7' --headless --json
    sudo kproxy sniff eth0 --detach --name night -w night --ring 10x100MB
    ssh broker tcpdump -U -w - port 9092 | kproxy replay -
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.runs.following import Stopping, leaving_on
    from kproxy.runs.launcher import SnifferProcess, StartError
    from kproxy.runs.settings import Settings

    if not bpf and ports is None:
        from kproxy.captures.ports import Ports

        ports = Ports.parse(BROKER_PORTS)
    chosen = Settings(
        upstream=(),
        attached=not detach,
        run_name=name,
        device=device,
        bpf=packet_filter(bpf, ports),
        promiscuous=promiscuous,
        **recording,
    )
    messages = Messages()
    with leaving_on(signal.SIGTERM):
        try:
            sniffer = SnifferProcess(chosen, spool=spool_dir)
        except StartError as error:
            raise Failure(str(error), Exit(error.exit_code)) from None
        greeting = listening(device, chosen.bpf)
        if detach:
            say(greeting)
            leave(sniffer, chosen)
            return Exit.OK
        with sniffer:
            sniffer.on_event(messages.take)
            read_with: dict[str, Any] = {"release": release, "user_definitions": user_definitions}
            if headless or cli.current().json or not can_paint():
                # handle signals before printing the greeting, as its reader may send one at once
                with Stopping() as stopping:
                    say(greeting)
                    _print(
                        sniffer,
                        stopping,
                        expression,
                        ports,
                        viewing,
                        show_secrets=show_secrets,
                        least=least,
                        **read_with,
                    )
            else:
                say(greeting)
                _show(sniffer, messages, greeting, expression, ports, viewing, show_secrets=show_secrets, **read_with)
    return Exit.OK


def listening(device: str, bpf: str) -> str:
    """A line that says what is captured: "listening on eth0 for tcp port 9092"."""
    return f"listening on {device} for {bpf}"


def packet_filter(bpf: str, ports: Ports | None) -> str:
    """The filter for libpcap: the user's expression, restricted to these ports."""
    if ports is None:
        return bpf
    of_ports = " or ".join(
        f"tcp port {low}" if low == high else f"tcp portrange {low}-{high}" for low, high in ports.ranges
    )
    return f"({bpf}) and ({of_ports})" if bpf else of_ports


def _print(
    sniffer: SnifferProcess,
    stopping: Stopping,
    expression: Expression | None,
    ports: Ports | None,
    viewing: Viewing,
    *,
    release: str | None,
    user_definitions: tuple[str, ...],
    show_secrets: bool,
    least: str,
) -> None:
    from kproxy.captures.export.oneline import health_note
    from kproxy.decoders.view import View
    from kproxy.runs.following import Follower

    as_json = cli.current().json
    follower = Follower(
        sniffer,
        EnduringOutput(sys.stdout, cli.warn),
        as_json=as_json,
        expression=expression,
        release=release,
        user_definitions=user_definitions,
        view=View(show_secrets=show_secrets, payloads=viewing.payloads() if as_json else None),
        ports=ports,
        least=least,
    )
    follower.run(stopping.event)
    if follower.left_out:
        cli.warn(follower.left_out)
    note = health_note(follower.health)
    if note and not as_json:
        cli.warn(note)
    if not stopping.event.is_set() and not sniffer.was_stopped:
        raise Failure("the sniffer has ended", Exit.INPUT)


def _show(
    sniffer: SnifferProcess,
    messages: Messages,
    greeting: str,
    expression: Expression | None,
    ports: Ports | None,
    viewing: Viewing,
    *,
    release: str | None,
    user_definitions: tuple[str, ...],
    show_secrets: bool,
) -> None:
    """Runs the terminal UI in this process and the indexer in another."""
    from kproxy import tui
    from kproxy.runs.launcher import Indexer, arguments

    assert sniffer.recording is not None  # noqa: S101 (a sniffer always records)
    arrived = threading.Event()
    viewers = viewing.for_screen(warn=messages.warn, arrived=arrived.set)
    indexer = Indexer(
        sniffer.recording, sniffer.index_dir, ("--with-parent", *arguments(release, user_definitions, ports))
    )
    messages.hold()
    end_with_terminal()
    reading = Reading(ports, release, user_definitions)
    try:
        tui.run(
            sniffer.index_dir,
            live=tui.RunInfo(
                bootstrap=sniffer.bootstrap,
                upstream="",
                recording=None if sniffer.settings.record_to is None else sniffer.recording,
                ours=False,
                notes=tuple(messages.warnings),
                stopped=lambda: messages.stopped,
                alive=lambda: sniffer.alive,
                taken=greeting,
                indexer_ended=lambda: indexer.ended,
            ),
            filter_text=str(expression or ""),
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
        messages.release()
