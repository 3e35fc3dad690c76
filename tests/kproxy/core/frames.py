"""Frames for scripted conversations, written with our own writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kproxy.core.addresses import API_KEYS, CARRIERS, carrier
from kproxy.decoders.message import decode_response
from kproxy.decoders.schema import Message, definitions
from kproxy.decoders.writer import write

DEFINITIONS = definitions()


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


def naming(
    api_key: int, version: int, correlation_id: int, nodes: Iterable[tuple[int, str, int]], **others: Any
) -> bytes:
    """A response that names these (node id, host, port); all fields but `others` have their defaults or are empty."""
    message = DEFINITIONS.response(api_key, version)
    assert message is not None
    return response(api_key, version, correlation_id, _endpoints(message, version, nodes) | others)


def _endpoints(message: Message, version: int, nodes: Iterable[tuple[int, str, int]]) -> dict[str, Any]:
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
