"""Puts a header and a length field before a body: requests and responses as they are on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.writer import write

_SIZE = 4
"""Size of the length field in bytes."""


def request_frame(
    definitions: Definitions, api: tuple[int, int], correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """A request with its length field; `api` is (API key, version). Raises WriteError if an id does not fit."""
    key, version = api
    header_version = definitions.request_header_version(key, version)
    values: dict[str, Any] = {"requestApiKey": key, "requestApiVersion": version, "correlationId": correlation_id}
    if header_version:
        values["clientId"] = client_id
    return _frame(definitions, "RequestHeader", header_version, values, body)


def response_frame(definitions: Definitions, api: tuple[int, int], correlation_id: int, body: bytes) -> bytes:
    """A response with its length field; `api` is (API key, version). Raises WriteError if the id does not fit."""
    header_version = definitions.response_header_version(*api)
    return _frame(definitions, "ResponseHeader", header_version, {"correlationId": correlation_id}, body)


def _frame(definitions: Definitions, name: str, version: int, values: Mapping[str, Any], body: bytes) -> bytes:
    header = definitions.message(name, version)
    assert header is not None  # noqa: S101 (Kafka defines every header)
    content = write(header, version, values) + body
    return len(content).to_bytes(_SIZE, "big") + content
