"""Gathers facts from exchanges that are not shown; only exchanges that can hold facts are decoded."""

from __future__ import annotations

from kproxy.decoders.exchange import Exchange, Frame
from kproxy.decoders.knowledge import TEACHING, Knowledge, Nodes
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Source


def learn(
    exchange: Exchange, source: Source, definitions: Definitions, knowledge: Knowledge, nodes: Nodes | None = None
) -> None:
    """Store an exchange's facts about topic ids, groups and brokers. Never raises on bad bytes."""
    key, version = exchange.api_key, exchange.api_version
    if key not in TEACHING or version is None or exchange.protocol is not None:
        return
    request = _bytes(exchange.request, source)
    response = _bytes(exchange.response, source)
    asked = None if request is None else decode_request(request, definitions)
    answered = None if response is None else decode_response(response, key, version, definitions)
    learn_both(asked, answered, knowledge)
    if nodes is not None and answered is not None and answered.body is not None:
        nodes.learn(key, answered.body)


def learn_both(asked: Decoded | None, answered: Decoded | None, knowledge: Knowledge) -> None:
    """Store the facts in the decoded request and response of an exchange."""
    for decoded in (asked, answered):
        if decoded is not None and decoded.message is not None and decoded.body is not None:
            body = None if asked is None or decoded is asked else asked.body
            knowledge.learn(decoded.message, decoded.version, decoded.body, body)


def _bytes(frame: Frame | None, source: Source) -> bytes | memoryview | None:
    """A frame's bytes; None if some are missing."""
    if frame is None or frame.missing:
        return None
    data = frame.data(source)
    return data if len(data) == frame.length else None
