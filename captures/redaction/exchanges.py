"""Exchanges without what is to go: other bytes in their frames, other addresses at their ends."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields, replace

from captures.bodies import Bodies
from captures.redaction import HOSTS, Removed
from captures.redaction.frames import FrameRedaction
from captures.redaction.hosts import Hosts
from captures.tables.keys import split_address
from decoders.conversation.stream import Source
from decoders.exchange import Connection, Exchange, Frame, Status, StreamProblem
from decoders.knowledge import Knowledge
from decoders.learning import learn
from decoders.schema import Definitions


@dataclass(slots=True)
class HeldFrame(Frame):
    """A frame that has its bytes with it; its spans still say where they were."""

    held: bytes = b""

    def data(self, source: Source) -> bytes:  # noqa: ARG002 (it needs none)
        return self.held


class Redaction:
    """Redacts the items of a reading, in their order. Where hosts are to go, all of them must have been learnt before.

    `presets` are of captures.redaction.PRESETS.
    """

    def __init__(self, source: Source, definitions: Definitions, presets: Collection[str]) -> None:
        self.removed = Removed()
        self.hosts = Hosts(secrets.token_bytes(16))
        self._source = source
        self._definitions = definitions
        self._map_hosts = HOSTS in presets
        self._knowledge = Knowledge()
        self._frames = FrameRedaction(definitions, presets, self.hosts, self._knowledge, self.removed)
        self._connections: dict[int, tuple[Connection, Connection]] = {}

    def learn(self, items: Iterable[object]) -> None:
        """Take in the hosts that a reading's items name."""
        for item in items:
            if not isinstance(item, Exchange | StreamProblem):
                continue
            for end in (item.connection.client, item.connection.broker):
                self.hosts.learn(split_address(end)[0])
            if isinstance(item, Exchange):
                self._learn(item)

    def _learn(self, exchange: Exchange) -> None:
        bodies = Bodies(exchange, self._source, self._definitions)
        self.hosts.learn_values(bodies.asked)
        self.hosts.learn_values(bodies.answered)

    def items(self, items: Iterable[Exchange | StreamProblem]) -> Iterator[Exchange | StreamProblem]:
        """The items without what is to go."""
        return (self.exchange(item) if isinstance(item, Exchange) else self._problem(item) for item in items)

    def exchange(self, exchange: Exchange) -> Exchange:
        learn(exchange, self._source, self._definitions, self._knowledge)
        redacted = replace(
            exchange,
            connection=self._connection(exchange.connection),
            client_id=None if exchange.client_id is None else self.text(exchange.client_id),
            request=self._frame(exchange.request, exchange),
            response=self._frame(exchange.response, exchange),
            problems=[replace(problem, message=self.text(problem.message)) for problem in exchange.problems],
        )
        self._count()
        return redacted

    def _problem(self, item: StreamProblem) -> StreamProblem:
        redacted = replace(item, connection=self._connection(item.connection), message=self.text(item.message))
        self._count()
        return redacted

    def _frame(self, frame: Frame | None, exchange: Exchange) -> HeldFrame | None:
        if frame is None:
            return None
        same = {field.name: getattr(frame, field.name) for field in fields(Frame)}
        same["comments"] = [self.text(comment) for comment in frame.comments]
        data = bytes(frame.data(self._source))
        if exchange.status is not Status.TLS:
            data = self._frames.of(data, frame, exchange)
        return HeldFrame(**same, held=data)

    def _connection(self, connection: Connection) -> Connection:
        """The connection with other addresses, the same one each time."""
        if not self._map_hosts:
            return connection
        held = self._connections.get(id(connection))
        if held is None:
            client, broker = self.hosts.address(connection.client), self.hosts.address(connection.broker)
            held = connection, replace(connection, client=client, broker=broker)
            self._connections[id(connection)] = held
        held[1].number = connection.number
        return held[1]

    def address(self, address: str) -> str:
        """What "host:port" is called in what was redacted."""
        return self.hosts.address(address) if self._map_hosts else address

    def text(self, text: str) -> str:
        """Text without the hosts in it, where they are to go."""
        return self.hosts.text(text) if self._map_hosts else text

    def _count(self) -> None:
        if self._map_hosts:
            self.removed.hosts, self.removed.places = len(self.hosts), self.hosts.places
