"""What a row says that needs the bodies: label, error codes, record count, throttling; topic ids and broker ids."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from captures.index import labels
from captures.index.format import Flag
from captures.index.writer import Summary
from decoders.conversation.stream import Side, Source
from decoders.exchange import Exchange, Frame, Status
from decoders.frames import codes, decode_frame, where_of
from decoders.knowledge import Knowledge
from decoders.learning import learn_both
from decoders.meanings.remarks import wait_over
from decoders.message import Decoded
from decoders.schema import Definitions

METADATA = 3
FETCHES = frozenset({1, 78})
"""Fetch and ShareFetch, which a broker may hold until there is data or their max wait is over."""

RECORDS: dict[int, tuple[Side, str, str]] = {
    0: (Side.CLIENT, "topicData", "partitionData"),
    1: (Side.BROKER, "responses", "partitions"),
    78: (Side.BROKER, "responses", "partitions"),
}
"""API key to the side that carries records and the lists that lead to them (Produce, Fetch, ShareFetch)."""

_BATCH_LENGTH = struct.Struct(">i")
_RECORD_COUNT = struct.Struct(">i")
_MAGIC_AT = 16
_COUNT_AT = 57


class Summariser:
    """Summaries of one reading's exchanges, in order; remembers what they say on any connection.

    `nodes` are the brokers' node ids by "host:port"; `knowledge` is what else was learnt.
    """

    def __init__(self, source: Source, definitions: Definitions, knowledge: Knowledge | None = None) -> None:
        self._source = source
        self._definitions = definitions
        self.knowledge = knowledge or Knowledge()
        self.nodes: dict[str, int] = {}

    def of(self, exchange: Exchange) -> Summary:
        """Label, errors, counts and problems of an exchange as far as it is known; never raises on bad bytes."""
        summary = Summary()
        if exchange.token or exchange.status is Status.TLS:
            return summary
        request = self._decode(exchange, exchange.request, summary)
        response = self._decode(exchange, exchange.response, summary)
        asked = request.body if request else None
        answered = response.body if response else None
        if exchange.protocol is None:
            learn_both(request, response, self.knowledge)
        if answered is not None and response is not None:
            if exchange.protocol is None:
                self._learn_nodes(exchange, answered)
            summary.errors = codes(response, exchange, self._definitions)
            throttle = answered.get("throttleTimeMs")
            if isinstance(throttle, int) and throttle > 0:
                summary.throttle_ms = throttle
                summary.flags |= Flag.THROTTLED
        key = exchange.api_key
        name = None if key is None else self._definitions.api_name(key, exchange.protocol)
        if name is not None:
            summary.label = labels.label(name if exchange.protocol is None else "", asked, answered, self.knowledge)
        if exchange.protocol is not None:
            return summary
        summary.records, cut = _records(key, asked, answered)
        if cut:
            summary.flags |= Flag.CUT_RECORDS
        if key in FETCHES and asked is not None and wait_over(asked.get("maxWaitMs"), exchange.latency_ns):
            summary.flags |= Flag.WAITED
        return summary

    def _decode(self, exchange: Exchange, frame: Frame | None, summary: Summary) -> Decoded | None:
        """A side's frame decoded, its troubles noted in `summary`; None where there is nothing to decode."""
        if frame is None or frame.missing:
            return None
        data = frame.data(self._source)
        if len(data) < frame.size + 4:
            summary.status = Status.CUT
            return None
        decoded = decode_frame(data, where_of(exchange, frame), exchange, self._definitions)
        if decoded is None:
            return None
        summary.problems += decoded.problems
        if decoded.body is None:
            summary.undecoded += 1
            if summary.status is None:
                summary.status = Status.UNDECODABLE
        if decoded.guessed_version is not None:
            summary.flags |= Flag.GUESSED
        if decoded.definitions is not None:
            summary.flags |= Flag.OLDER_LAYOUT
        return decoded

    def node(self, broker: str) -> int | None:
        """The node id of the broker at "host:port", where Metadata has named it.

        A capture holds addresses and Metadata often host names: where just one broker has the port, that is it.
        """
        known = self.nodes.get(broker)
        if known is not None:
            return known
        port = broker.rpartition(":")[2]
        same = {node for address, node in self.nodes.items() if address.rpartition(":")[2] == port}
        return same.pop() if len(same) == 1 else None

    def _learn_nodes(self, exchange: Exchange, answered: dict[str, Any]) -> None:
        if exchange.api_key == METADATA:
            for broker in _dicts(answered.get("brokers")):
                host, port, node = broker.get("host"), broker.get("port"), broker.get("nodeId")
                if isinstance(host, str) and isinstance(node, int):
                    self.nodes[f"[{host}]:{port}" if ":" in host else f"{host}:{port}"] = node


def record_count(records: Any) -> tuple[int, bool]:
    """Records in a `records` field as its batch headers say, and whether it ends within a batch, which counts not.

    No batch is opened: a compressed message set of magic 0 or 1 counts as its outer messages.
    """
    view = memoryview(records)
    position = count = 0
    while position + 17 <= len(view):
        (length,) = _BATCH_LENGTH.unpack_from(view, position + 8)
        end = position + 12 + length
        if length < 14 or end > len(view):
            break
        if view[position + _MAGIC_AT] < 2:
            count += 1
        elif position + _COUNT_AT + 4 <= end:
            count += max(0, _RECORD_COUNT.unpack_from(view, position + _COUNT_AT)[0])
        position = end
    return count, position < len(view)


def _records(key: int | None, asked: dict[str, Any] | None, answered: dict[str, Any] | None) -> tuple[int | None, bool]:
    """Records in the side that carries them, and whether any end within a batch; None where there are none to count."""
    where = None if key is None else RECORDS.get(key)
    if where is None:
        return None, False
    side, topics, partitions = where
    body = asked if side is Side.CLIENT else answered
    if body is None:
        return None, False
    total, cut = 0, False
    for topic in body.get(topics) or ():
        for partition in topic.get(partitions) or ():
            records = partition.get("records")
            if records is not None:
                count, ends_within = record_count(records)
                total += count
                cut = cut or ends_within
    return total, cut


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (element for element in value if isinstance(element, dict))
