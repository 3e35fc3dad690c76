"""Collects connections and the start-up of clients: how far each client came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.captures.analysis.seen import Client, Seen
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.exchange_json import milliseconds, session_json, timestamp
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.schema import errors

MOST: Final = 100_000
"""Maximum number of connections, and of clients; further ones are only counted."""
LADDER: Final = {
    18: "ApiVersions",
    17: "SaslHandshake",
    36: "SaslAuthenticate",
    3: "Metadata",
    10: "FindCoordinator",
    22: "InitProducerId",
    11: "JoinGroup",
    14: "SyncGroup",
    68: "ConsumerGroupHeartbeat",
    76: "ShareGroupHeartbeat",
    88: "StreamsGroupHeartbeat",
    9: "OffsetFetch",
    2: "ListOffsets",
    0: "Produce",
    1: "Fetch",
    78: "ShareFetch",
    12: "Heartbeat",
}
"""The steps of a client's start-up by API key, in the order in which a client takes them."""


@dataclass(slots=True, eq=False)
class Step:
    """A step of a client's start-up: its first successful request of an API, or else its last attempt."""

    api: str
    time: int
    exchange: int
    latency_ns: int | None
    attempts: int
    error: int
    done: bool

    def line(self) -> dict[str, Any]:
        return {
            "api": self.api,
            "time": timestamp(self.time, 9),
            "exchange": self.exchange,
            "latency_ms": None if self.latency_ns is None else milliseconds(self.latency_ns, 9),
            "attempts": self.attempts,
            "error": errors.name(self.error) if self.error else None,
            "done": self.done,
        }


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


@dataclass(slots=True, eq=False)
class Started:
    """The start-up of a client: its steps over all its connections, in the order of time."""

    client: Client
    steps: dict[int, Step] = field(default_factory=dict)

    @property
    def stopped_at(self) -> Step | None:
        """The step at which the client is stuck; None if every step that it tried succeeded."""
        failed = [step for step in self.steps.values() if not step.done]
        return max(failed, key=lambda step: step.time) if failed else None

    def line(self) -> dict[str, Any]:
        stopped = self.stopped_at
        return {
            "client_id": self.client.client_id,
            "host": self.client.host,
            "software": self.client.software or None,
            "groups": sorted(self.client.groups),
            "steps": [step.line() for step in sorted(self.steps.values(), key=lambda step: step.time)],
            "stopped_at": None if stopped is None else stopped.api,
        }


class Connections:
    """Collects connections and clients from exchanges."""

    def __init__(self) -> None:
        self.more = 0
        """Number of connections beyond the maximum."""
        self._links: dict[int, Link] = {}
        self._clients: dict[Client, Started] = {}

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
            link.request_bytes += exchange.request.size + 4
            link.last = max(link.last, exchange.request.time)
        if exchange.response is not None:
            link.response_bytes += exchange.response.size + 4
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
        if seen.key in LADDER:
            self._step(seen)

    def links(self) -> list[Link]:
        return sorted(self._links.values(), key=lambda one: one.number)

    def clients(self) -> list[Started]:
        """The clients, in the order of their first exchanges."""
        return list(self._clients.values())

    def lines(self) -> Iterator[dict[str, Any]]:
        for link in self.links():
            yield {"schema": "kproxy.connection/1", **link.line()}
        for client in self.clients():
            yield {"schema": "kproxy.client/1", **client.line()}

    def _step(self, seen: Seen) -> None:
        started = self._clients.get(seen.client)
        if started is None:
            if len(self._clients) >= MOST:
                return
            started = self._clients[seen.client] = Started(seen.client)
        step = started.steps.get(seen.key)
        done = bool(seen.response or seen.exchange.status is Status.NO_REPLY_EXPECTED) and not seen.errors
        if step is not None and step.done:
            return
        attempts = 1 if step is None else step.attempts + 1
        error = seen.errors[0] if seen.errors else 0
        started.steps[seen.key] = Step(
            LADDER[seen.key], seen.time, seen.number, seen.exchange.latency_ns, attempts, error, done
        )
