"""Matches frames: which APIs a rule's match can select, and which fields are known when it is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kproxy.core.verdict import Turn
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Unavailable, Why, api_class
from kproxy.decoders.fields import Field
from kproxy.decoders.filters import Expression
from kproxy.decoders.message import Decoded
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Side

LENGTH = 4

ASKED = frozenset(
    {
        "api_key", "api_class", "api_version", "protocol", "client_id", "client", "broker", "node", "connection",
        "topics", "groups", "txns", "acks", "fetch_role", "request_size", "correlation_id",
    }
)  # fmt: skip
"""Attributes of rows that are known when the match is evaluated for a request."""
ANSWERED = frozenset({"error_codes", "retriable", "throttle", "response_size"})
"""Attributes of rows that are known once the response has arrived."""
CARRIED = frozenset(
    {
        "records", "record_texts", "record_keys", "record_values", "record_headers", "record_offsets",
        "record_timestamps", "batch_codecs", "batch_sizes", "batch_magics",
    }
)  # fmt: skip
"""Attributes of the records that a request (Produce) or a response (Fetch) carries."""


def unknown_field(expression: Expression) -> Field | None:
    """A field of the expression that is never known when frames are matched; None if there is none."""
    for field in expression.fields():
        if field.path is None and not (ASKED | ANSWERED | CARRIED).issuperset(field.attributes):
            return field
    return None


def needs_response(expression: Expression, apis: frozenset[int]) -> bool:
    """Whether the match needs the response, for requests of these APIs."""
    for field in expression.fields():
        if field.path is not None:
            if field.path.root == "response":
                return True
        elif not ANSWERED.isdisjoint(field.attributes) or (
            not CARRIED.isdisjoint(field.attributes) and apis != {api_keys.PRODUCE}
        ):
            return True
    return False


class _OnlyApi:
    """A row for filters in which only the API is known."""

    protocol = "kafka"

    def __init__(self, api_key: int, definitions: Definitions) -> None:
        self.api_key = api_key
        self.api_class = api_class(api_key, None, definitions)

    def __getattr__(self, name: str) -> Any:
        raise Unavailable(Why.MISSING)


def possible_apis(expression: Expression, definitions: Definitions) -> frozenset[int]:
    """The keys of the APIs whose exchanges may match."""
    matches = expression.compile()

    def may(key: int) -> bool:
        try:
            return bool(matches(_OnlyApi(key, definitions)))
        except Unavailable:
            return True

    return frozenset(key for key in definitions.apis if may(key))


class FrameRow(ExchangeRow):
    """A row for filters with the attributes of an exchange that are known when one of its frames is matched."""

    __slots__ = ("_node",)

    def __init__(
        self,
        turn: Turn,
        definitions: Definitions,
        learnt: Learnt,
        request: tuple[Decoded, int],
        response: tuple[Decoded, int] | None = None,
    ) -> None:
        """`request` and `response` are (decoded frame, its size in bytes)."""
        parties = turn.parties
        client_id = request[0].header.get("clientId")
        exchange = Exchange(
            0, Connection(parties.number, parties.client, parties.broker, 0), turn.api_key, turn.api_version,
            turn.correlation_id, client_id, _frame(Side.CLIENT, request[1]),
            None if response is None else _frame(Side.BROKER, response[1]), Status.OK,
        )  # fmt: skip
        given = {"request": request[0], "response": None if response is None else response[0]}
        super().__init__(exchange, _NOTHING, definitions, learnt, given)  # type: ignore[arg-type]  # nothing is read
        self._node = parties.node

    @property
    def node(self) -> int:
        return super().node if self._node is None else self._node


_NOTHING: Any = None


def _frame(side: Side, size: int) -> Frame:
    return Frame(side, 0, size - LENGTH, 0, 0, 0, [])


def partitions(body: Any) -> Iterator[tuple[str, int]]:
    """Each (topic, partition) that a decoded body names; the topic is its name, or its topic id in hexadecimal."""
    from kproxy.faults.elements import PARTITION, canonical_name

    def walk(value: Any, topic: str) -> Iterator[tuple[str, int]]:
        for name in ("name", "topic", "topicName", "topicId"):
            found = value.get(name)
            if isinstance(found, str) or (isinstance(found, bytes | memoryview) and any(bytes(found))):
                topic = found if isinstance(found, str) else bytes(found).hex()
                break
        for name, inner in value.items():
            if isinstance(inner, int) and not isinstance(inner, bool) and canonical_name(name) == PARTITION:
                yield topic, inner
            elif isinstance(inner, list | tuple):
                for one in inner:
                    if isinstance(one, dict):
                        yield from walk(one, topic)
                    elif isinstance(one, int) and canonical_name(name) == PARTITION:
                        yield topic, one

    if isinstance(body, dict):
        yield from walk(body, "")
