"""Collects connections, with counts of what each carried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.captures.analysis.seen import Seen
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.exchange_json import session_json, timestamp
from kproxy.decoders.sasl.session import Session

MOST: Final = 100_000
"""Maximum number of connections; further ones are only counted."""


@dataclass(slots=True, eq=False)
class Link:
    """A TCP connection and counts of its exchanges; `in_flight` is the maximum number of requests in flight."""

    number: int
    client: str
    broker: str
    began: int
    last: int = 0
    client_ids: set[str] = field(default_factory=set)
    software: str = ""
    session: Session | None = None
    tls: bool = False
    exchanges: int = 0
    errors: int = 0
    first_error: int | None = None
    """Number of the first exchange whose response has an error code."""
    unanswered: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    in_flight: int = 0
    first_exchange: int = 0
    last_exchange: int = 0
    apis: Counter[tuple[int, int]] = field(default_factory=Counter)
    waiting: list[int] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        return {
            "connection": self.number,
            "client": self.client,
            "broker": self.broker,
            "began": timestamp(self.began, 9),
            "last": timestamp(self.last, 9),
            "client_ids": sorted(self.client_ids),
            "software": self.software or None,
            "sasl_mechanism": None if self.session is None else self.session.mechanism,
            "sasl": None if self.session is None else session_json(self.session, 9),
            "tls": self.tls,
            "exchanges": self.exchanges,
            "errors": self.errors,
            "first_error": self.first_error,
            "unanswered": self.unanswered,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "in_flight_most": self.in_flight,
            "first_exchange": self.first_exchange,
            "last_exchange": self.last_exchange,
        }


class Connections:
    """Collects connections from exchanges."""

    def __init__(self) -> None:
        self.more = 0
        """Number of connections beyond the maximum."""
        self._links: dict[int, Link] = {}

    def note(self, exchange: Exchange) -> None:
        """Count an exchange of any protocol: Kafka, a dialect, a bare SASL token or TLS."""
        connection = exchange.connection
        link = self._links.get(connection.number)
        if link is None:
            if len(self._links) >= MOST:
                self.more += 1
                return
            link = Link(connection.number, connection.client, connection.broker, connection.first_time)
            self._links[connection.number] = link
        link.exchanges += 1
        link.first_exchange = link.first_exchange or exchange.number
        link.last_exchange = max(link.last_exchange, exchange.number)
        link.tls = link.tls or exchange.status is Status.TLS
        link.unanswered += exchange.status is Status.NO_RESPONSE
        link.session = exchange.session or link.session
        if exchange.client_id is not None:
            link.client_ids.add(exchange.client_id)
        if exchange.request is not None:
            link.request_bytes += exchange.request.length
            link.last = max(link.last, exchange.request.time)
        if exchange.response is not None:
            link.response_bytes += exchange.response.length
            link.last = max(link.last, exchange.response.time)
        if exchange.request is not None and exchange.response is not None:
            # Exchanges come in the order of responses: requests sent before this one and answered later are in flight.
            asked = exchange.request.time
            link.waiting = [time for time in link.waiting if time > asked]
            link.waiting.append(exchange.response.time)
            link.in_flight = max(link.in_flight, len(link.waiting))

    def add(self, seen: Seen) -> None:
        link = self._links.get(seen.exchange.connection.number)
        if link is not None:
            link.software = seen.client.software or link.software
            if seen.errors:
                link.errors += 1
                link.first_error = link.first_error or seen.number

    def links(self) -> list[Link]:
        return sorted(self._links.values(), key=lambda one: one.number)

    def lines(self) -> Iterator[dict[str, Any]]:
        for link in self.links():
            yield {"schema": "kproxy.connection/1", **link.line()}
