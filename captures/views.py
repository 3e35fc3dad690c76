"""The views across exchanges, one row each.

A view consists of a module of captures/analysis with its collector, a module of captures/analysis/display that formats
the collector's JSON objects as text, a module of captures/analysis/columns with its tables, and a row of VIEWS. The row
defines its command and its screen. The interface shows the screen from snapshots: copies of the collectors' JSON
objects, taken while the capture is read. This module imports no view, so that it loads quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol, cast

FINDINGS: Final = "findings"
"""Name of the view of findings. It has a screen only; `kproxy findings` prints findings."""
Line = Mapping[str, Any]
"""One JSON object of a view."""
Clock = Callable[[str | None], str]
"""Formats an RFC 3339 time as a time of day with milliseconds; None gives ""."""
Text = Callable[[Iterable[Line], Clock], Iterator[str]]
"""Formats a view's JSON objects as lines of text; names from the wire are not escaped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a screen shows the JSON objects of a view that have the same "schema".

    `members` names the members that identify the same thing in several snapshots. `filters` gives, for each line of
    text, the display filters that select its exchanges; further lines have the first line's filters.
    """

    members: tuple[str, ...] = ()
    filters: Callable[[Line], Iterator[list[str]]] = lambda _line: iter(())


class Collector(Protocol):
    """Collects the data of a view from exchanges."""

    def add(self, seen: Any) -> None:
        """Add an exchange; `seen` (a captures.analysis.seen.Seen) also has its decoded bodies and the definitions."""
        ...

    def lines(self) -> Iterator[dict[str, Any]]:
        """The view so far as JSON objects; the "schema" of each is a key of the view's KINDS."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """The command of a view: its name, one line about it, and its help text."""

    name: str
    summary: str
    manual: str


@dataclass(frozen=True, slots=True)
class Screen:
    """The screen of a view: the key that opens it, its title, one line about it, and the names of its tables.

    The key must have no other action (docs/keys.md). `enter` on a line of text that ends in "#N" goes to exchange N.
    The tables are those of captures.analysis.columns, also of other views; the first one is shown first.
    """

    key: str
    title: str
    about: str
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A view across exchanges.

    `collector` is "module:class" in captures/analysis; the modules in captures/analysis/display and columns have the
    view's name. A view without collector and command has only a screen, whose lines captures/analysis/snapshots.py
    makes.
    """

    name: str
    collector: str
    command: Command | None
    screen: Screen

    def collect(self) -> Collector:
        """An empty collector of the view."""
        module, _, name = self.collector.partition(":")
        return cast("Collector", getattr(import_module(f"kproxy.captures.analysis.{module}"), name)())

    @property
    def text(self) -> Text:
        """The function that formats the view's JSON objects as text: `display.NAME.text`."""
        return cast("Text", self._display.text)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """By "schema", how the view's JSON objects are shown: `display.NAME.KINDS`."""
        return cast("Mapping[str, Kind]", self._display.KINDS)

    @property
    def _display(self) -> Any:
        return import_module(f"kproxy.captures.analysis.display.{self.name}")


VIEWS: Final[Mapping[str, View]] = {view.name: view for view in (
    View(
        "topics", "topics:Topics",
        Command("topics", "Show who produces to and consumes from each topic, and how.",
        """Show who produces to and consumes from each topic, with what settings.

        For producers: acks, compression, records per batch, whether it is idempotent or transactional, and the
        partitioner that its keys fit (murmur2, CRC32, FNV-1a, Arrays.hashCode). For clients that fetch: consumer,
        follower or debugging tool, its groups, and the records and bytes that it received.

        \b
        kproxy topics capture.pcap
        kproxy topics capture.pcap --json | jq 'select(.topic == "orders").producers'
        """),
        Screen("3", "Topics", "Who produces to and consumes from each topic, with what settings.",
               ("topics", "partitions")),
    ),
    View(
        "groups", "groups:Groups",
        Command("groups", "Show groups over time, and why each rebalance happened.",
        """Show groups over time: members, generations, and why each rebalance happened.

        The reasons are those in the capture: members that joined, left or changed their subscription, reasons that
        clients gave (KIP-800), members that disappeared without leaving.

        \b
        kproxy groups capture.pcap
        kproxy groups capture.pcap --since 2026-11-21T12:00:00Z --until 2026-11-21T12:02:00Z
        """),
        Screen("4", "Groups", "Groups over time: members, generations, and why they rebalanced.",
               ("groups", "members", "lag")),
    ),
    View(
        "transactions", "transactions:Transactions",
        Command("txns", "Show transactions from begin to end.",
        """Show transactions from begin to end, by transactional id, producer id and epoch.

        A transaction is open, committed, aborted, fenced, or hanging: open for longer than its timeout when the
        capture ends. Then come the aborted transactions that Fetch responses list.

        \b
        kproxy txns capture.pcap
        kproxy txns capture.pcap --json | jq 'select(.state == "hanging")'
        """),
        Screen("5", "Txns", "Transactions from begin to end.",
               ("transactions", "aborted")),
    ),
    View(
        "connections", "connections:Connections",
        Command("conns", "Show connections: who was connected to which broker, and what each carried.",
        """Show connections: who was connected to which broker, and what each carried.

        \b
        kproxy conns capture.pcap
        kproxy conns capture.pcap --json | jq 'select(.errors > 0)'
        """),
        Screen("6", "Conns", "Connections: client, broker, TLS, login, bytes, errors, requests in flight.",
               ("connections",)),
    ),
    View(
        "clients", "clients:Clients",
        Command("clients", "Show clients: who they are, what they do, and how far each came in its start-up.",
        """Show clients: who they are, what they do, what goes wrong for them, and how far each came in its start-up.

        A client is a client id at a host. The steps of its start-up (ApiVersions, Metadata, FindCoordinator, JoinGroup,
        ...) come with the time at which each first succeeded, and the step at which a client is stuck. Versions of APIs
        that a release of Kafka refuses are listed with the oldest such release; kproxy audit says more.

        \b
        kproxy clients capture.pcap
        kproxy clients capture.pcap --json | jq 'select(.stopped_at)'
        """),
        Screen("8", "Clients", "Clients: software, what they do, errors, throttling, and how far their start-up came.",
               ("clients",)),
    ),
    View(
        "cluster", "cluster:Cluster",
        Command("cluster", "Show controllers, leaders, ISRs, topics and reassignments.",
        """Show the control plane: controllers and epochs, leaders and ISRs, topics, reassignments.

        The sources are Metadata, the control requests between brokers, AlterPartition, requests of admin clients, and
        the records of __cluster_metadata that brokers fetch (KRaft).

        \b
        kproxy cluster capture.pcap
        kproxy cluster capture.pcap --json | jq 'select(.kind == "leader")'
        """),
        Screen("B", "Cluster", "Brokers and controllers, leaders and ISRs over time.",
               ("partitions", "events", "brokers")),
    ),
    View(FINDINGS, "", None, Screen("7", "Findings", "What is wrong, proven by exchanges, and how to mend it.")),
)}  # fmt: skip
