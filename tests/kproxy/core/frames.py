"""Frames for scripted conversations, written with our own writer, and a connection to run them through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kproxy.core.addresses import API_KEYS, CARRIERS, carrier
from kproxy.core.brokers import Advertise, Book
from kproxy.core.connection import Changed, Command, Connection, End, Notice, Plans, Shared, ToBroker, ToClient
from kproxy.decoders.message import decode_response
from kproxy.decoders.schema import Message, definitions
from kproxy.decoders.writer import write

DEFINITIONS = definitions()
PLANS = Plans(DEFINITIONS, controllers=True)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A request with a client id; the relay does not look at the body."""
    header_version = DEFINITIONS.request_header_version(api_key, version)
    header = DEFINITIONS.message("RequestHeader", max(header_version, 1))
    assert header is not None
    values = {
        "requestApiKey": api_key,
        "requestApiVersion": version,
        "correlationId": correlation_id,
        "clientId": "test",
    }
    return framed(write(header, max(header_version, 1), values) + body)


def response(api_key: int, version: int, correlation_id: int, values: dict[str, Any]) -> bytes:
    header_version = DEFINITIONS.response_header_version(api_key, version)
    header = DEFINITIONS.message("ResponseHeader", header_version)
    message = DEFINITIONS.response(api_key, version)
    assert header is not None
    assert message is not None
    return framed(write(header, header_version, {"correlationId": correlation_id}) + write(message, version, values))


def carriers() -> Iterator[tuple[int, int, Message]]:
    """(API key, version, response) of everything that carries addresses."""
    for api_key, name in API_KEYS.items():
        versions = DEFINITIONS.versions(api_key)
        for version in range(versions.low, versions.high + 1):
            message = DEFINITIONS.response(api_key, version)
            if message is not None and carrier(message, version) is not None:
                assert name in CARRIERS
                yield api_key, version, message


def with_endpoints(message: Message, version: int, nodes: Iterable[tuple[int, str, int]]) -> dict[str, Any]:
    """Values of a response that carries these (node id, host, port); everything else has its default or is empty."""
    found = carrier(message, version)
    assert found is not None
    carried, field = found
    entries: list[dict[str, Any]] = [
        {carried.node_id: node_id, carried.host: host, carried.port: port} for node_id, host, port in nodes
    ]
    if field is None:
        return entries[0]
    if carried.listeners:
        nested = [{**entry, carried.port: max(entry[carried.port], 0), "name": "CONTROLLER"} for entry in entries]
        own = [entry.pop(carried.node_id) for entry in nested]
        entries = [
            {carried.node_id: node_id, carried.listeners: [entry]} for node_id, entry in zip(own, nested, strict=True)
        ]
    if message.name == "FindCoordinatorResponse":
        entries = [{"key": f"group-{number}", **entry} for number, entry in enumerate(entries)]
    return {field.name: entries}


def decoded(frame: bytes, api_key: int, version: int) -> dict[str, Any]:
    found = decode_response(frame, api_key, version, DEFINITIONS)
    assert found.problems == []
    assert found.body is not None
    return found.body


def plain(value: Any) -> Any:
    """Values with memory views made bytes, so that two decodings can be compared."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return bytes(value) if isinstance(value, memoryview) else value


class Relay:
    """A connection with a book whose listeners are 20000 + node id; gathers what it says."""

    def __init__(
        self, *, hold_max: int = 1 << 20, host: str = "127.0.0.1", advertise: str = "", plans: Plans = PLANS
    ) -> None:
        self.book = Book(lambda node: (30_000 if node.controller else 20_000) + node.node_id, Advertise(advertise))
        self.shared = Shared(plans, self.book, hold_max=hold_max)
        self.connection = Connection(self.shared, host)
        self.to_broker = b""
        self.to_client = b""
        self.changed: list[Changed] = []
        self.notices: list[str] = []
        self.ends: list[str] = []

    def _run(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case ToBroker():
                    self.to_broker += command.data
                case ToClient():
                    self.to_client += command.data
                case Changed():
                    self.changed.append(command)
                case Notice():
                    self.notices.append(command.topic)
                case End():
                    self.ends.append(command.topic)

    def client(self, data: bytes, cut: int = 0) -> None:
        for piece in pieces(data, cut):
            self._run(self.connection.from_client(piece))

    def broker(self, data: bytes, cut: int = 0) -> None:
        for piece in pieces(data, cut):
            self._run(self.connection.from_broker(piece))

    def broker_ended(self) -> None:
        self._run(self.connection.broker_ended())


def pieces(data: bytes, cut: int) -> list[bytes]:
    """Data whole (0), or in pieces of `cut` bytes."""
    return [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]
