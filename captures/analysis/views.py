"""The views of a reading, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from kproxy.captures.analysis.cluster import Cluster
from kproxy.captures.analysis.connections import Connections
from kproxy.captures.analysis.groups import Groups
from kproxy.captures.analysis.seen import Decoder, Seen
from kproxy.captures.analysis.topics import Topics
from kproxy.captures.analysis.transactions import Transactions
from kproxy.captures.bodies import Bodies
from kproxy.decoders.exchange import Exchange, Health
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source


class Counted(Protocol):
    """A view: takes complete exchanges, and gives its result as JSON objects."""

    def add(self, seen: Seen) -> None: ...
    def lines(self) -> Iterator[dict[str, Any]]: ...


class Views:
    """All views of one reading; each exchange is decoded once."""

    def __init__(self, source: Source, definitions: Definitions, health: Health | None = None) -> None:
        """`health`, if present, counts undecodable frames."""
        self.topics = Topics()
        self.groups = Groups()
        self.transactions = Transactions()
        self.connections = Connections()
        self.cluster = Cluster()
        self._decoder = Decoder(source, definitions, health)

    def add(self, exchange: Exchange, bodies: Bodies | None = None) -> None:
        """Process a complete exchange; `bodies` are its decoded bodies, if there are any. Never raises on bad bytes."""
        self.connections.note(exchange)
        seen = self._decoder.of(exchange, bodies)
        if seen is not None:
            for view in (self.topics, self.groups, self.transactions, self.connections, self.cluster):
                view.add(seen)
