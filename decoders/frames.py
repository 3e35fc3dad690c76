"""Decodes a frame of an exchange, in Kafka's protocol or in a dialect."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.decoders.dialects import decoding
from kproxy.decoders.dialects.decoding import Where
from kproxy.decoders.embedded import Scope, hang, token
from kproxy.decoders.errorcodes import error_codes
from kproxy.decoders.exchange import Exchange, Frame
from kproxy.decoders.frame_tree import frame_root
from kproxy.decoders.frame_tree import frame_tree as kafka_tree
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.places import Place
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import PLAIN, View

TOKEN_START = 4
"""Offset in a frame at which a SASL token without a Kafka header begins."""


def where_of(exchange: Exchange, frame: Frame) -> Where:
    """Whether a frame of this exchange is its "request" or its "response"; returns that word."""
    return "request" if frame is exchange.request else "response"


def decode_frame(data: Buffer, where: Where, exchange: Exchange, definitions: Definitions) -> Decoded | None:
    """Decode a frame, its length field included; None for an orphan, or if its dialect is not loaded."""
    key, version = exchange.api_key, exchange.api_version
    if exchange.protocol is not None:
        dialect = definitions.dialects.get(exchange.protocol)
        if dialect is None or key is None:
            return None
        return decoding.decode(data, where, dialect, key, version, exchange.truths)
    if key is None or version is None:
        return None
    return decode_request(data, definitions) if where == "request" else decode_response(data, key, version, definitions)


def codes(decoded: Decoded, exchange: Exchange, definitions: Definitions) -> list[int]:
    """The error codes of a response that could be decoded, each once, in order of appearance."""
    if decoded.body is None or decoded.message is None:
        found = list(decoded.codes_read)
    else:
        found = error_codes(decoded.body, decoded.message, decoded.version)
    dialect = None if exchange.protocol is None else definitions.dialects.get(exchange.protocol)
    first = None if dialect is None else dialect.response_header.get("error", decoded.header)
    return [first, *(code for code in found if code != first)] if first else found


def token_tree(data: Buffer, side: Side, definitions: Definitions, *, view: View = PLAIN) -> Node:
    """A SASL token without a Kafka header, its length field included, as a tree with the nodes "size" and "token"."""
    root = frame_root(data, "request" if side is Side.CLIENT else "response")
    if len(data) > TOKEN_START:
        node = Node("token", "bytes", TOKEN_START, root)
        node.value, node.end, node.secret = memoryview(data)[TOKEN_START:], len(data), True
        hang(node, token(node.value, Scope(view, definitions)), data, Scope(view, definitions))
        root.children.append(node)
    return root


def frame_tree(
    data: Buffer,
    side: Side,
    api_key: int | None,
    api_version: int | None,
    definitions: Definitions,
    *,
    protocol: str | None = None,
    truths: str = "",
    view: View = PLAIN,
    request: Buffer | None = None,
    places: Sequence[Place] = (),
) -> Node:
    """A frame as a tree of nodes (see `decoders.frame_tree.frame_tree`), in Kafka's protocol or in a dialect.

    `side` CLIENT stands for the request, even if a broker sent it.
    """
    dialect = None if protocol is None else definitions.dialects.get(protocol)
    if dialect is None:
        known = (None, None) if protocol is not None else (api_key, api_version)
        asks = side if protocol is None else Side.BROKER
        return kafka_tree(data, asks, *known, definitions, view=view, request=request, places=places)
    where: Where = "request" if side is Side.CLIENT else "response"
    decoded = decoding.decode(data, where, dialect, api_key, api_version, truths)
    return decoding.frame_tree(data, where, decoded, dialect)
