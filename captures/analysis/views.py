"""The views of a reading: what each adds up, by name."""

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
    """A view: it takes exchanges as they complete, and says in JSON objects what they came to."""

    def add(self, seen: Seen) -> None: ...
    def lines(self) -> Iterator[dict[str, Any]]: ...


class Views:
    """All views of one reading, each exchange decoded once for all of them."""

    def __init__(self, source: Source, definitions: Definitions, health: Health | None = None) -> None:
        """`health`, where given, counts frames that could not be decoded."""
        self.topics = Topics()
        self.groups = Groups()
        self.transactions = Transactions()
        self.connections = Connections()
        self.cluster = Cluster()
        self._decoder = Decoder(source, definitions, health)

    def add(self, exchange: Exchange, bodies: Bodies | None = None) -> None:
        """Take in one exchange that is over, whose `bodies` may be decoded already. Never raises on bad bytes."""
        self.connections.note(exchange)
        seen = self._decoder.of(exchange, bodies)
        if seen is not None:
            for view in (self.topics, self.groups, self.transactions, self.connections, self.cluster):
                view.add(seen)
