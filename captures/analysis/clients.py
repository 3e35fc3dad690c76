"""Collects clients: who they are, what they do, what goes wrong for them, and how far each came in its start-up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from kproxy.captures.analysis.seen import Client, Seen
from kproxy.captures.analysis.topics import CONSUMER, DEBUGGING, FOLLOWER, fetch_role
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.exchange_json import milliseconds, timestamp
from kproxy.decoders.schema import Definitions, api_keys, errors
from kproxy.decoders.schema.served import refused_by

MOST: Final = 100_000
"""Maximum number of clients; further ones are left out."""
MOST_CONNECTIONS: Final = 1_000_000
"""Maximum number of connections that are counted, of all clients together."""
MOST_VERSIONS: Final = 1_000
"""Maximum number of (API, version) pairs of one client that are compared with what releases serve."""
FEW: Final = 8
"""Maximum number of principals of one client."""
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
_OF_FETCHES: Final = {CONSUMER: "consumes", FOLLOWER: "replicates", DEBUGGING: "debugs"}
_OF_CLASSES: Final = {
    "transaction": "transactions",
    "admin": "administers",
    "control": "controls",
    "quorum": "controls",
    "share": "shares",
    "streams": "streams",
}
_ORDER: Final = (
    "produces", "transactions", "consumes", "shares", "streams", "administers", "replicates", "debugs", "controls",
)  # fmt: skip
"""What a client does, in the order of the texts."""


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
class Activity:
    """What one client did; `first` and `last` are times in ns since the epoch."""

    client: Client
    first: int
    first_exchange: int
    last: int = 0
    last_exchange: int = 0
    does: set[str] = field(default_factory=set)
    principals: set[str] = field(default_factory=set)
    connections: set[int] = field(default_factory=set)
    exchanges: int = 0
    errors: int = 0
    first_error: int | None = None
    """Number of the first exchange whose response has an error code."""
    unanswered: int = 0
    throttled: int = 0
    """Number of responses with a throttle time."""
    throttle_ms: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    versions: set[tuple[int, int]] = field(default_factory=set)
    """The (API key, version) pairs of its requests."""
    steps: dict[int, Step] = field(default_factory=dict)

    @property
    def stopped_at(self) -> Step | None:
        """The step at which the client is stuck; None if every step that it tried succeeded."""
        failed = [step for step in self.steps.values() if not step.done]
        return max(failed, key=lambda step: step.time) if failed else None

    def line(self, definitions: Definitions) -> dict[str, Any]:
        stopped = self.stopped_at
        seconds = (self.last - self.first) / 1e9
        moved = self.request_bytes + self.response_bytes
        return {
            "client_id": self.client.client_id,
            "host": self.client.host,
            "software": self.client.software or None,
            "principals": sorted(self.principals),
            "groups": sorted(self.client.groups),
            "does": [what for what in _ORDER if what in self.does],
            "connections": len(self.connections),
            "exchanges": self.exchanges,
            "errors": self.errors,
            "first_error": self.first_error,
            "unanswered": self.unanswered,
            "throttled": self.throttled,
            "throttle_ms": self.throttle_ms,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "bytes_per_second": round(moved / seconds, 1) if seconds else None,
            "refused": [
                {"api": definitions.shown_api_name(key), "version": version, "since": since}
                for key, version in sorted(self.versions)
                if (since := _refused_since(key, version)) is not None
            ],
            "first": timestamp(self.first, 9),
            "last": timestamp(self.last, 9),
            "first_exchange": self.first_exchange,
            "last_exchange": self.last_exchange,
            "steps": [step.line() for step in sorted(self.steps.values(), key=lambda step: step.time)],
            "stopped_at": None if stopped is None else stopped.api,
        }


class Clients:
    """Collects clients from exchanges."""

    def __init__(self) -> None:
        self._clients: dict[Client, Activity] = {}
        self._connections = 0
        self._principals: dict[int, str] = {}
        """The principal of each connection, by its number."""
        self._definitions: Definitions | None = None

    def note(self, exchange: Exchange) -> None:
        """Note who authenticates in an exchange of any protocol, bare SASL tokens included."""
        session, number = exchange.session, exchange.connection.number
        if session is None or session.principal is None:
            return
        if number in self._principals or len(self._principals) < MOST_CONNECTIONS:
            self._principals[number] = session.principal

    def add(self, seen: Seen) -> None:
        exchange = seen.exchange
        if exchange.request is None:
            # a response alone does not name its client
            return
        self._definitions = seen.definitions
        one = self._clients.get(seen.client)
        if one is None:
            if len(self._clients) >= MOST:
                return
            one = self._clients[seen.client] = Activity(seen.client, seen.time, seen.number)
        one.exchanges += 1
        one.last = max(one.last, seen.answered_at)
        one.last_exchange = max(one.last_exchange, seen.number)
        one.request_bytes += exchange.request.length
        if exchange.response is not None:
            one.response_bytes += exchange.response.length
        one.unanswered += exchange.status is Status.NO_RESPONSE
        if exchange.connection.number not in one.connections and self._connections < MOST_CONNECTIONS:
            self._connections += 1
            one.connections.add(exchange.connection.number)
        if exchange.api_version is not None and len(one.versions) < MOST_VERSIONS:
            one.versions.add((seen.key, exchange.api_version))
        self._what(one, seen)
        if seen.errors:
            one.errors += 1
            one.first_error = one.first_error or seen.number
        throttle = seen.response.get("throttleTimeMs")
        if isinstance(throttle, int) and throttle > 0:
            one.throttled += 1
            one.throttle_ms += throttle
        if seen.key in LADDER:
            _step(one, seen)

    def lines(self) -> Iterator[dict[str, Any]]:
        """The clients, in the order of their first exchanges."""
        for one in self._clients.values():
            if self._definitions is not None:
                yield {"schema": "kproxy.client/1", **one.line(self._definitions)}

    def _what(self, one: Activity, seen: Seen) -> None:
        """Note who the client is and what it does."""
        principal = self._principals.get(seen.exchange.connection.number)
        if principal is not None and len(one.principals) < FEW:
            one.principals.add(principal)
        if seen.key == api_keys.PRODUCE:
            one.does.add("produces")
        elif seen.key == api_keys.FETCH:
            one.does.add(_OF_FETCHES[fetch_role(seen)[0]])
        elif (api := seen.definitions.api(seen.key)) is not None and api.klass in _OF_CLASSES:
            one.does.add(_OF_CLASSES[api.klass])


def _step(one: Activity, seen: Seen) -> None:
    step = one.steps.get(seen.key)
    done = bool(seen.response or seen.exchange.status is Status.NO_REPLY_EXPECTED) and not seen.errors
    if step is not None and step.done:
        return
    attempts = 1 if step is None else step.attempts + 1
    error = seen.errors[0] if seen.errors else 0
    one.steps[seen.key] = Step(
        LADDER[seen.key], seen.time, seen.number, seen.exchange.latency_ns, attempts, error, done
    )


@lru_cache(maxsize=4096)
def _refused_since(key: int, version: int) -> str | None:
    """The oldest release of Kafka that refuses a version which earlier releases served; None if all serve it."""
    return next(iter(refused_by(key, version)), None)
