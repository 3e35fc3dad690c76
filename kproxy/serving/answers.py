"""The answers of a recording, found by request.

Two requests are the same if their canonical forms are the same (`kproxy.decoders.canonical`), with all identifiers of
one kind alike. The port of a broker gives the answers of this broker, or those of another one if it has none for the
request. The nth occurrence of a request gets the nth recorded answer, all further ones the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.core.addresses import API_KEYS
from kproxy.decoders.canonical import blank
from kproxy.decoders.exchange import Exchange, Frame, Status
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.knowledge import Knowledge, Nodes
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import END_OF_CAPTURE, Source
from kproxy.decoders.view import View
from kproxy.serving.addresses import nodes_in

_VIEW: Final = View(knowledge=Knowledge(most=0))


@dataclass(slots=True, eq=False)
class Entry:
    """The answer to one recorded request.

    `response` is None if there was none: then `ends` says whether the connection ended instead. `latency` is the time
    in seconds that the broker took.
    """

    number: int
    response: Frame | None
    latency: float = 0.0
    ends: bool = False
    given: bool = False


@dataclass(slots=True)
class _Same:
    """The answers of one recorded broker to one request, in their order."""

    entries: list[Entry] = field(default_factory=list)
    next: int = 0

    def head(self) -> Entry:
        """The first answer that was not given yet, else the last one."""
        while self.next < len(self.entries) - 1 and self.entries[self.next].given:
            self.next += 1
        return self.entries[self.next]


class Answers:
    """All answers of a recording."""

    def __init__(self, source: Source, definitions: Definitions) -> None:
        self.source = source
        self.definitions = definitions
        self.total = 0
        self.nodes: set[int] = set()
        """The ids of all brokers whose addresses the recorded answers name."""
        self._same: dict[bytes, dict[str, _Same]] = {}
        """The answers by request and by address of the broker that gave them."""
        self._brokers: set[str] = set()
        self._node_ids = Nodes()
        self._versions: dict[int, tuple[int, int]] = {}
        self._offered: Mapping[str, Any] | None = None

    @property
    def given(self) -> int:
        """The number of recorded answers that were given to a client."""
        every = (same for brokers in self._same.values() for same in brokers.values())
        return len({entry.number for same in every for entry in same.entries if entry.given})

    def take(self, exchange: Exchange) -> None:
        """Add the answer of a recorded exchange; an exchange whose request is incomplete adds nothing."""
        request, response = exchange.request, exchange.response
        if request is None or request.missing or exchange.protocol is not None or exchange.token:
            return
        decoded = decode_request(request.data(self.source), self.definitions)
        if decoded.body is None or exchange.api_key is None or exchange.api_version is None:
            return
        low, high = self._versions.get(exchange.api_key, (exchange.api_version, exchange.api_version))
        self._versions[exchange.api_key] = min(low, exchange.api_version), max(high, exchange.api_version)
        if exchange.status is Status.NO_REPLY_EXPECTED:
            return
        if response is not None and response.missing:
            return
        entry = Entry(exchange.number, response)
        if exchange.latency_ns is not None:
            entry.latency = max(0, exchange.latency_ns) / 1e9
        elif response is None:
            entry.ends = exchange.reason != END_OF_CAPTURE
        self.total += 1
        broker = exchange.connection.broker
        self._brokers.add(broker)
        for key in self._keys(exchange.api_key, exchange.api_version, decoded):
            self._same.setdefault(key, {}).setdefault(broker, _Same()).entries.append(entry)
        if response is not None and (exchange.api_key in API_KEYS or exchange.api_key == api_keys.API_VERSIONS):
            self._learn(response.data(self.source), exchange.api_key, exchange.api_version)

    def _learn(self, response: bytes | memoryview, api_key: int, api_version: int) -> None:
        answered = decode_response(response, api_key, api_version, self.definitions)
        if answered.body is None or answered.message is None:
            return
        if api_key == api_keys.API_VERSIONS:
            if not answered.body.get("errorCode"):
                self._offered = answered.body
        else:
            self.nodes |= nodes_in(answered.message.name, answered.body)
            self._node_ids.learn(api_key, answered.body)

    def brokers(self, node: int) -> frozenset[str]:
        """The addresses "host:port" at which the recorded clients reached the broker with this node id."""
        return frozenset(broker for broker in self._brokers if self._node_ids.of(broker) == node)

    def find(
        self, api_key: int, api_version: int, request: Decoded, brokers: frozenset[str] = frozenset()
    ) -> Entry | None:
        """The answer to a request, preferably of the broker at `brokers`; None if it was never recorded."""
        found = [self._same.get(key, {}) for key in self._keys(api_key, api_version, request)]
        for same in found:
            if own := [one for broker, one in same.items() if broker in brokers]:
                return _next(own)
        return next((_next(same.values()) for same in found if same), None)

    def versions(self) -> list[dict[str, int]]:
        """The API versions in the recorded ApiVersions response; without one, the versions of recorded requests."""
        if self._offered is not None:
            return [dict(one) for one in self._offered["apiKeys"]]
        return [
            {"apiKey": key, "minVersion": low, "maxVersion": high}
            for key, (low, high) in sorted(self._versions.items())
        ]

    def _keys(self, api_key: int, api_version: int, request: Decoded) -> Iterator[bytes]:
        """Keys under which the answers to a request are searched, the most exact key first.

        The first key includes the client id, the second does not; a third, for Produce only, excludes the records too,
        because producers form batches by time.
        """
        assert request.message is not None  # noqa: S101 (callers have looked)
        assert request.body is not None  # noqa: S101
        body = body_json(request.body, request.message, request.version, _VIEW)
        head = f"{api_key} {api_version}"
        text = blank(body)
        yield _digest(f"{head} {request.header.get('clientId')} {text}")
        yield _digest(f"{head} {text}")
        if api_key == api_keys.PRODUCE:
            yield _digest(f"{head} {blank(_without_records(body))}")


def _next(same: Iterable[_Same]) -> Entry:
    """The first recorded answer that was not given yet, marked as given; after all were given, the last one."""
    heads = [one.head() for one in same]
    new = [entry for entry in heads if not entry.given]
    found = min(new, key=_number) if new else max(heads, key=_number)
    found.given = True
    return found


def _number(entry: Entry) -> int:
    return entry.number


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _without_records(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_records(one) for name, one in value.items() if name != "records"}
    return [_without_records(one) for one in value] if isinstance(value, list) else value
