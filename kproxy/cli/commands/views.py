"""`kproxy topics`, `groups`, `txns`, `conns`, `cluster`: five summaries of a capture's exchanges."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kproxy.cli import readings
from kproxy.cli.options.reading import captured, decrypting, defining, porting, releasing, spooling
from kproxy.cli.options.selecting import Selection, selecting

if TYPE_CHECKING:
    from kproxy.captures.ports import Ports
    from kproxy.captures.spool import Spooling
    from kproxy.decoders.filters import Expression


class Listing(NamedTuple):
    """A command: the view that it shows, and its help text."""

    view: str
    text: str


_COMMANDS = {
    "topics": Listing(
        "topics",
        """Show who produces to and consumes from each topic, with what settings.

        Of a producer: acks, compression, records per batch, whether it is idempotent or transactional, and the
        partitioner that its keys fit (murmur2, CRC32, FNV-1a, Arrays.hashCode). Of who fetches: consumer, follower or
        debugging tool, its groups, and what it got.

        \b
        kproxy topics capture.pcap
        kproxy topics capture.pcap --json | jq 'select(.topic == "orders").producers'
        """,
    ),
    "groups": Listing(
        "groups",
        """Show groups over time: members, generations, and why each rebalance happened.

        The reasons are what the wire tells: who joined, left or changed its subscription, what a client gave as its
        reason (KIP-800), who was gone without leaving.

        \b
        kproxy groups capture.pcap
        kproxy groups capture.pcap --since 2026-11-21T12:00:00Z --until 2026-11-21T12:02:00Z
        """,
    ),
    "txns": Listing(
        "transactions",
        """Show transactions from begin to end, by transactional id, producer id and epoch.

        A transaction is open, committed, aborted, fenced, or hanging: open for longer than its timeout when the
        capture ends. What readers were told of aborted transactions follows.

        \b
        kproxy txns capture.pcap
        kproxy txns capture.pcap --json | jq 'select(.state == "hanging")'
        """,
    ),
    "conns": Listing(
        "connections",
        """Show connections, and how far each client came in its start-up.

        The steps of a client's start-up (ApiVersions, Metadata, FindCoordinator, JoinGroup, ...) with the time of the
        first that was answered well; a client that is stuck says at which.

        \b
        kproxy conns capture.pcap
        kproxy conns capture.pcap --json | jq 'select(.stopped_at)'
        """,
    ),
    "cluster": Listing(
        "cluster",
        """Show the control plane: controllers and epochs, leaders and ISRs, topics, reassignments.

        Told by Metadata, by the control requests between brokers, by AlterPartition, by admin clients, and by the
        records of __cluster_metadata that brokers fetch (KRaft).

        \b
        kproxy cluster capture.pcap
        kproxy cluster capture.pcap --json | jq 'select(.kind == "leader")'
        """,
    ),
}


def _command(name: str, view: Listing) -> click.Command:
    @captured
    @selecting
    @porting
    @releasing
    @defining
    @decrypting
    @spooling
    def run(**options: Any) -> None:
        _show(view.view, **options)

    return click.command(name=name, help=view.text)(run)


topics, groups, txns, conns, cluster = (_command(name, view) for name, view in _COMMANDS.items())


def _show(
    view: str,
    captures: tuple[Path, ...],
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    keylog: Path | None,
    spooling: Spooling,
) -> None:
    from kproxy.captures.analysis.views import Views
    from kproxy.captures.export.views import view_text
    from kproxy.captures.reader import read

    selection = Selection(expression, count, since, until)
    reader = read(
        list(captures),
        ports=ports,
        release=release,
        user_definitions=user_definitions,
        keylog=keylog,
        spooling=spooling,
    )
    views = Views(reader.source, reader.definitions, reader.health)
    with closing(reader):
        for exchange in readings.exchanges(reader, selection):
            views.add(exchange)
    readings.tell(reader, selection, view.removesuffix("s"), getattr(views, view).lines(), partial(view_text, view))
