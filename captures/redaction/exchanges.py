"""Redacts exchanges: overwrites bytes in their frames and replaces addresses of connections."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from kproxy.captures.bodies import Bodies
from kproxy.captures.keys import split_address
from kproxy.captures.redaction import HOSTS, PAYLOADS, Removed
from kproxy.captures.redaction.comments import withheld, without_address
from kproxy.captures.redaction.frames import FrameRedaction
from kproxy.captures.redaction.hosts import Hosts
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status, StreamProblem
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.learning import learn
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source

if TYPE_CHECKING:
    from kproxy.captures.reader import Closing


@dataclass(slots=True)
class HeldFrame(Frame):
    """A frame that holds its redacted bytes in `held`; its spans are still those of the original bytes."""

    held: bytes = b""

    def data(self, source: Source) -> bytes:  # noqa: ARG002 (it needs none)
        return self.held


class Redaction:
    """Redacts the items of a reading, in order. To redact hosts, first pass all items to `learn`.

    `presets` are from captures.redaction.PRESETS. With `keep_unread`, unreadable bytes stay unless they may hold a
    secret: for a slice whose user asked for no redaction, so that only secrets are withheld.
    """

    def __init__(
        self, source: Source, definitions: Definitions, presets: Collection[str], *, keep_unread: bool = False
    ) -> None:
        self.removed = Removed()
        self.hosts = Hosts(secrets.token_bytes(16))
        self._source = source
        self._definitions = definitions
        self._map_hosts = HOSTS in presets
        self._knowledge = Knowledge()
        self._keep_comments = not {HOSTS, PAYLOADS} & {*presets}
        self._frames = FrameRedaction(
            definitions, presets, self.hosts, self._knowledge, self.removed, keep_unread=keep_unread
        )
        self._files: dict[str, str] = {}
        self._connections: dict[int, tuple[Connection, Connection]] = {}

    def learn(self, items: Iterable[object]) -> None:
        """Learn the names and addresses of hosts in a reading's items."""
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
        for frame, decoded in ((exchange.request, bodies.request), (exchange.response, bodies.response)):
            if frame is not None and decoded is None and exchange.status is not Status.TLS:
                self._frames.learn(bytes(frame.data(self._source)), frame, exchange)

    def items(self, items: Iterable[Exchange | StreamProblem]) -> Iterator[Exchange | StreamProblem]:
        """The items, redacted."""
        return (self.exchange(item) if isinstance(item, Exchange) else self._problem(item) for item in items)

    def exchange(self, exchange: Exchange) -> Exchange:
        learn(exchange, self._source, self._definitions, self._knowledge)
        redacted = replace(
            exchange,
            connection=self._connection(exchange.connection),
            client_id=None if exchange.client_id is None else self.text(exchange.client_id),
            request=self._frame(exchange.request, exchange),
            response=self._frame(exchange.response, exchange),
            reason=None if exchange.reason is None else self.text(exchange.reason),
            session=None if exchange.session is None else self._session(exchange.session),
            problems=[replace(problem, message=self._problem_text(problem.message)) for problem in exchange.problems],
        )
        self._count()
        return redacted

    def _problem(self, item: StreamProblem) -> StreamProblem:
        redacted = replace(item, connection=self._connection(item.connection), message=self.text(item.message))
        self._count()
        return redacted

    def closing(self, closing: Closing) -> Closing:
        """A copy of a connection's end with redacted addresses, and without the first bytes of another protocol."""
        return closing._replace(connection=self._connection(closing.connection), first=b"")

    def _frame(self, frame: Frame | None, exchange: Exchange) -> HeldFrame | None:
        if frame is None:
            return None
        same = {field.name: getattr(frame, field.name) for field in fields(Frame)}
        if not self._keep_comments:
            same["comments"] = [withheld(comment) for comment in frame.comments]
        data = bytes(frame.data(self._source))
        if exchange.status is not Status.TLS:
            data = self._frames.of(data, frame, exchange)
        return HeldFrame(**same, held=data)

    def _connection(self, connection: Connection) -> Connection:
        """A copy of a connection with redacted addresses; the same copy for each call with that connection."""
        if not self._map_hosts:
            return connection
        held = self._connections.get(id(connection))
        if held is None:
            client, broker = self.hosts.address(connection.client), self.hosts.address(connection.broker)
            held = connection, replace(connection, client=client, broker=broker)
            self._connections[id(connection)] = held
        held[1].number = connection.number
        return held[1]

    def _session(self, session: Session) -> Session:
        """A SASL session, redacted: its principal and the broker's message may contain a host."""

        def text(said: str | None) -> str | None:
            return said if said is None else self.text(said)

        return replace(
            session,
            mechanism=text(session.mechanism),
            offered=tuple(map(self.text, session.offered)),
            principal=text(session.principal),
            error=text(session.error),
            message=text(session.message),
        )

    def _problem_text(self, message: str) -> str:
        return self.text(without_address(message)) if self._map_hosts else message

    def file(self, name: str) -> str:
        """A pseudonym for the name of a capture file, because its name and folders may contain hosts that no message
        has.
        """
        if not self._map_hosts:
            return name
        return self._files.setdefault(name, f"capture-{len(self._files) + 1}")

    def address(self, address: str) -> str:
        """An address "host:port" with a pseudonym for the host, if hosts are to be redacted."""
        return self.hosts.address(address) if self._map_hosts else address

    def text(self, text: str) -> str:
        """A text with pseudonyms for the hosts in it, if hosts are to be redacted."""
        return self.hosts.text(text) if self._map_hosts else text

    def _count(self) -> None:
        if self._map_hosts:
            self.removed.hosts, self.removed.places = len(self.hosts), self.hosts.places
