"""Decodes Envelopes (KIP-590): a broker forwards a client's whole request to the controller, and gets a whole response.

The enclosed messages lack a frame's length field. If one may hold a secret, all its bytes are withheld; its decoded
form withholds the secret fields only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from kproxy.decoders import secrets
from kproxy.decoders.embedded.inside import Inside, ToJson, content_start
from kproxy.decoders.embedded.scope import DEEPEST, Scope
from kproxy.decoders.embedded.structure import Structure, Structured, read
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node

_KEY_AND_VERSION: Final = struct.Struct(">hh")
_LENGTH: Final = bytes(4)
"""A placeholder for the length field that an enclosed message lacks; its value is ignored."""

PRINCIPAL: Final = Structure("DefaultPrincipalData", "principal")


class Enclosed(Inside):
    """A decoded request or response inside a bytes field."""

    def __init__(self, decoded: Decoded, side: Side, key: int, version: int, asked: Mapping[str, Any] | None) -> None:
        self.decoded = decoded
        self.side = side
        self.key = key
        self.version = version
        self.asked = asked
        self.readable = decoded.body is not None and decoded.message is not None
        self.wrong = bool(decoded.problems)
        self.public = self.readable and not self.wrong and key not in secrets.API_KEYS
        self.label = f"API {key} v{version}" if decoded.message is None else f"{decoded.message.name} v{version}"

    def json(self, to_json: ToJson, scope: Scope) -> Any:
        decoded = self.decoded
        if decoded.body is None or decoded.message is None:
            return None
        definitions, view = scope.definitions, scope.view
        view.knowledge.learn(decoded.message, decoded.version, decoded.body, self.asked)
        if self.side is Side.CLIENT:
            name, number = "RequestHeader", definitions.request_header_version(self.key, self.version)
        else:
            name, number = "ResponseHeader", definitions.response_header_version(self.key, self.version)
        header = definitions.message(name, number)
        api = definitions.api(self.key)
        inner = scope.within("body", self.asked)
        return {
            "header": None if header is None else to_json(decoded.header, header, number, view, None),
            "api": None if api is None else api.name,
            "body": to_json(decoded.body, decoded.message, decoded.version, view, inner),
        }

    def nodes(self, node: Node, buffer: Buffer, scope: Scope) -> Iterable[Node]:
        if scope.parts is None:
            return ()
        start = content_start(node)
        inner = scope.within("body", self.asked)
        odd = scope.parts(node, memoryview(buffer)[: node.end], start, self.side, self.key, self.version, inner)
        if odd is not None and odd in self.decoded.problems:
            node.problem = replace(odd, offset=start + max(0, odd.offset - len(_LENGTH)))
        return node.children


def request(data: Buffer, scope: Scope) -> Enclosed | None:
    """The request in an Envelope's field `requestData`; None if it is nested too deep."""
    if scope.depth >= DEEPEST:
        return None
    key, version = _key_and_version(data)
    return Enclosed(decode_request(_LENGTH + bytes(data), scope.definitions), Side.CLIENT, key, version, None)


def response(data: Buffer, scope: Scope) -> Enclosed | None:
    """The response in an EnvelopeResponse; None if the request is unknown."""
    forwarded = None if scope.asked is None else scope.asked.get("requestData")
    if scope.depth >= DEEPEST or forwarded is None or len(forwarded) < _KEY_AND_VERSION.size:
        return None
    key, version = _key_and_version(forwarded)
    asked = decode_request(_LENGTH + bytes(forwarded), scope.definitions).body
    decoded = decode_response(_LENGTH + bytes(data), key, version, scope.definitions)
    return Enclosed(decoded, Side.BROKER, key, version, asked)


def inside(
    request: Mapping[str, Any] | None, response: Mapping[str, Any] | None, definitions: Definitions
) -> tuple[int | None, Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The bodies inside an Envelope and its response: (API key, request body, response body).

    `request` and `response` are the bodies of Envelope and response. All three are None if the enclosed request is
    unknown; a body is None if it is missing or unreadable.
    """
    forwarded = None if request is None else request["requestData"]
    if forwarded is None:
        return None, None, None
    key, version = _key_and_version(forwarded)
    asked = decode_request(_LENGTH + bytes(forwarded), definitions)
    answer = None if response is None else response["responseData"]
    if answer is None:
        return key, asked.body, None
    return key, asked.body, decode_response(_LENGTH + bytes(answer), key, version, definitions).body


def _key_and_version(data: Buffer) -> tuple[int, int]:
    """(API key, version) of an enclosed request; (-1, -1), which no API has, if it is too short."""
    return _KEY_AND_VERSION.unpack_from(data) if len(data) >= _KEY_AND_VERSION.size else (-1, -1)


def principal(data: Buffer, scope: Scope) -> Structured | None:
    """The client's principal in the form of Kafka's default principal builder; None if the bytes have another form."""
    del scope
    found = read(PRINCIPAL, data)
    return found if found.whole else None
