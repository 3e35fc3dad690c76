"""Decodes the bodies of each exchange once for all views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.captures.analysis.traffic import Traffic
from kproxy.captures.bodies import Bodies
from kproxy.captures.index.labels import topic_name
from kproxy.captures.lag import Lag
from kproxy.decoders.embedded import Scope
from kproxy.decoders.exchange import Exchange, Health
from kproxy.decoders.frames import codes
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.message import Decoded
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Source
from kproxy.decoders.view import View

MOST_CLIENTS = 100_000
"""Maximum number of clients that are remembered: a capture may name any number."""

Values = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Client:
    """A client: a client id at a host. `software` is its name and version from ApiVersions (KIP-511)."""

    client_id: str
    host: str
    software: str = ""
    groups: set[str] = field(default_factory=set)
    """The client's present and earlier groups."""


@dataclass(slots=True, eq=False)
class Seen:
    """A decoded exchange of Kafka's protocol; a body that is missing or undecodable is {}.

    `time` is the time of the request's last byte (of the response's, if the request is missing), `answered_at` that of
    the response's last byte, both in nanoseconds since the epoch.
    """

    exchange: Exchange
    client: Client
    request: Values
    response: Values
    errors: list[int]
    knowledge: Knowledge
    definitions: Definitions
    """Kafka's and the user's definitions, which give the names of APIs and errors."""
    lag: Lag
    """The consumer lag of all groups so far (see `captures.analysis.offsets`)."""
    traffic: Traffic
    """The traffic of all partitions so far, which the view of topics counts."""
    _decoded: tuple[Decoded | None, Decoded | None]

    @property
    def number(self) -> int:
        return self.exchange.number

    @property
    def key(self) -> int:
        """The API key."""
        return -1 if self.exchange.api_key is None else self.exchange.api_key

    @property
    def api(self) -> str:
        """The name of the API; "Key 32001" for an API without a definition."""
        return self.definitions.shown_api_name(self.key)

    @property
    def time(self) -> int:
        frame = self.exchange.request or self.exchange.response
        return 0 if frame is None else frame.time

    @property
    def answered_at(self) -> int:
        return self.time if self.exchange.response is None else self.exchange.response.time

    @property
    def error(self) -> int:
        """The response's top-level error code, 0 if there is none.

        For an undecodable response, it is the first error code that could be read.
        """
        if not self.response:
            return self.errors[0] if self.errors else 0
        code = self.response.get("errorCode")
        return code if isinstance(code, int) else 0

    def topic(self, element: Values) -> str:
        """The name of the topic of `element`, a part of a body that has the topic's name or id."""
        return topic_name(element, self.knowledge)

    def shown(self, *, records: bool = False) -> tuple[Values, Values]:
        """(request, response) as in the exchange JSON, with bytes fields decoded.

        Batches include records only if `records` is set.
        """
        view = View(open_batches=records, knowledge=self.knowledge)
        asked, answered = self._decoded
        return _shown(asked, view, None), _shown(answered, view, self.request or None)


def _shown(decoded: Decoded | None, view: View, asked: Values | None) -> Values:
    if decoded is None or decoded.body is None or decoded.message is None:
        return {}
    shown: Values = body_json(decoded.body, decoded.message, decoded.version, view, Scope(view, asked=asked))
    return shown


class Decoder:
    """Decodes the exchanges of one reading in order, and keeps track of clients, topic names and consumer lag."""

    def __init__(self, source: Source, definitions: Definitions, health: Health | None = None) -> None:
        self._source = source
        self._definitions = definitions
        self._health = health or Health()
        self.knowledge = Knowledge()
        self.lag = Lag()
        self.traffic = Traffic()
        self._clients: dict[tuple[str, str], Client] = {}

    def of(self, exchange: Exchange, bodies: Bodies | None = None) -> Seen | None:
        """The exchange, decoded; None for other protocols (a dialect, bare SASL tokens, TLS). Never raises on bad
        bytes.

        `bodies` are the decoded bodies, if the caller has them already.
        """
        bodies = bodies or Bodies(exchange, self._source, self._definitions)
        self._health.undecoded += bodies.undecoded
        if exchange.api_key is None or exchange.token or exchange.protocol is not None:
            return None
        asked, answered = bodies.request, bodies.response
        learn_both(asked, answered, self.knowledge)
        client = self._client(exchange)
        request = (asked and asked.body) or {}
        response = (answered and answered.body) or {}
        if exchange.api_key == api_keys.API_VERSIONS and request.get("clientSoftwareName"):
            client.software = f"{request['clientSoftwareName']} {request.get('clientSoftwareVersion', '')}".strip()
        found = [] if answered is None else codes(answered, exchange, self._definitions)
        return Seen(
            exchange,
            client,
            request,
            response,
            found,
            self.knowledge,
            self._definitions,
            self.lag,
            self.traffic,
            (asked, answered),
        )

    def _client(self, exchange: Exchange) -> Client:
        host = exchange.connection.client.rpartition(":")[0]
        key = (exchange.client_id or "", host)
        client = self._clients.get(key)
        if client is None:
            client = Client(*key)
            if len(self._clients) < MOST_CLIENTS:
                self._clients[key] = client
        return client
