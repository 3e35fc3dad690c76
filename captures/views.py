"""The views across exchanges, one row each.

A view is a module of captures/analysis that collects it, one of captures/analysis/display that makes text of it, and a
row of VIEWS. Its command, its screen and its snapshots follow from the row. The table imports no view, so that it is
quick to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol, cast

Line = Mapping[str, Any]
"""A JSON object of a view."""
Clock = Callable[[str | None], str]
"""The time of day of an RFC 3339 time, to the millisecond; "" for None."""
Text = Callable[[Iterable[Line], Clock], Iterator[str]]
"""The lines of text for the JSON objects of a view; names from the wire are not escaped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a snapshot shows one kind of JSON object (its "schema").

    `members` identify the thing across snapshots. `filters` gives, for each line of text, the display filters that
    select its exchanges; further lines have those of the first. `timeline` gives the key of its timeline.
    """

    members: tuple[str, ...] = ()
    filters: Callable[[Line], Iterator[list[str]]] = lambda _line: iter(())
    timeline: Callable[[Line], list[Any]] | None = None


class Collector(Protocol):
    """What collects a view: takes complete exchanges, and gives its result as JSON objects."""

    def add(self, seen: Any) -> None:
        """`seen` is a captures.analysis.seen.Seen."""
        ...

    def lines(self) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, one line about it, and its help text."""

    name: str
    summary: str
    manual: str


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen: the key that shows it, its title, and what it shows."""

    key: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class View:
    """A view; `collector` is "module:class" in captures/analysis. The module in `display` has the view's name."""

    name: str
    collector: str
    command: Command
    screen: Screen

    def collect(self) -> Collector:
        """A new collector."""
        module, _, name = self.collector.partition(":")
        return cast("Collector", getattr(import_module(f"kproxy.captures.analysis.{module}"), name)())

    @property
    def text(self) -> Text:
        """`display.NAME.text`."""
        return cast("Text", self._display.text)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """`display.NAME.KINDS`: the kinds of its JSON objects by their "schema"."""
        return cast("Mapping[str, Kind]", self._display.KINDS)

    @property
    def _display(self) -> Any:
        return import_module(f"kproxy.captures.analysis.display.{self.name}")


VIEWS: Final[Mapping[str, View]] = {view.name: view for view in (
    View(
        "topics", "topics:Topics",
        Command("topics", "Show who produces to and consumes from each topic, and how.",
        """Show who produces to and consumes from each topic, with what settings.

        Of a producer: acks, compression, records per batch, whether it is idempotent or transactional, and the
        partitioner that its keys fit (murmur2, CRC32, FNV-1a, Arrays.hashCode). Of who fetches: consumer, follower or
        debugging tool, its groups, and what it got.

        \b
        kproxy topics capture.pcap
        kproxy topics capture.pcap --json | jq 'select(.topic == "orders").producers'
        """),
        Screen("3", "Topics", "Who produces to and consumes from each topic, with what settings."),
    ),
    View(
        "groups", "groups:Groups",
        Command("groups", "Show groups over time, and why each rebalance happened.",
        """Show groups over time: members, generations, and why each rebalance happened.

        The reasons are what the wire tells: who joined, left or changed its subscription, what a client gave as its
        reason (KIP-800), who was gone without leaving.

        \b
        kproxy groups capture.pcap
        kproxy groups capture.pcap --since 2026-11-21T12:00:00Z --until 2026-11-21T12:02:00Z
        """),
        Screen("4", "Groups", "Groups over time: members, generations, and why they rebalanced."),
    ),
    View(
        "transactions", "transactions:Transactions",
        Command("txns", "Show transactions from begin to end.",
        """Show transactions from begin to end, by transactional id, producer id and epoch.

        A transaction is open, committed, aborted, fenced, or hanging: open for longer than its timeout when the
        capture ends. What readers were told of aborted transactions follows.

        \b
        kproxy txns capture.pcap
        kproxy txns capture.pcap --json | jq 'select(.state == "hanging")'
        """),
        Screen("5", "Txns", "Transactions from begin to end."),
    ),
    View(
        "connections", "connections:Connections",
        Command("conns", "Show connections, and how far each client came in its start-up.",
        """Show connections, and how far each client came in its start-up.

        The steps of a client's start-up (ApiVersions, Metadata, FindCoordinator, JoinGroup, ...) with the time of the
        first that was answered well; a client that is stuck says at which.

        \b
        kproxy conns capture.pcap
        kproxy conns capture.pcap --json | jq 'select(.stopped_at)'
        """),
        Screen("6", "Conns", "Connections, and how far each client came in its start-up."),
    ),
    View(
        "cluster", "cluster:Cluster",
        Command("cluster", "Show controllers, leaders, ISRs, topics and reassignments.",
        """Show the control plane: controllers and epochs, leaders and ISRs, topics, reassignments.

        Told by Metadata, by the control requests between brokers, by AlterPartition, by admin clients, and by the
        records of __cluster_metadata that brokers fetch (KRaft).

        \b
        kproxy cluster capture.pcap
        kproxy cluster capture.pcap --json | jq 'select(.kind == "leader")'
        """),
        Screen("B", "Cluster", "Brokers and controllers, leaders and ISRs over time."),
    ),
)}  # fmt: skip
