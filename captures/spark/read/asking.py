"""Evaluates filters that depend on other flows, or on numbers of exchanges and connections, by reading flows twice.

The first reading selects nothing: it collects the facts of all flows (`names`) and where their exchanges begin, from
which the numbers follow (`numbered`). The second reading evaluates the filter for each exchange, with its number and
with the facts known when the exchange was complete.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from kproxy.captures.announced import ADDRESS
from kproxy.captures.spark.read.facts import Facts, Position, Then
from kproxy.captures.spark.read.packing import PARCELS
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Unavailable
from kproxy.decoders.filters import Expression
from kproxy.decoders.filters.matcher import learns
from kproxy.decoders.knowledge import Nodes
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Source

NUMBERS: Final = -2
"""`position` of rows whose `data` is a number; these rows precede the parcels of their flow."""
_NUMBERS: Final = frozenset({"number", "connection"})
"""Attributes of filters that are numbers over all flows."""
_NUMBERED: Final = struct.Struct("=5q")
"""Layout of a row that holds a number: index into _COUNTED, place of the item (started, born, rank), number."""
_COUNTED: Final = ("exchange", "flow")


def asks_for_numbers(expression: Expression) -> bool:
    return not _NUMBERS.isdisjoint(expression.attributes())


def asks_others(expression: Expression) -> bool:
    """Whether a filter can be evaluated only after all flows have been read."""
    return learns(expression) or asks_for_numbers(expression)


class Asked:
    """A filter over the exchanges of a flow that uses the facts of all flows."""

    def __init__(self, expression: Expression, source: Source, definitions: Definitions, facts: Facts) -> None:
        self._matches = expression.compile()
        self._source = source
        self._definitions = definitions
        self._then = Then(facts, (0, 0, 0))
        self._learnt = Learnt(self._then, _NodesThen(facts, self._then))

    def matches(self, exchange: Exchange, position: Position, number: int, connection: int) -> bool:
        """Whether an exchange matches; `position` is where it was complete. Never raises on bad bytes.

        `number` and `connection` are the exchange's and its connection's numbers over all flows.
        """
        self._then.position = position
        row = _NumberedRow(exchange, self._source, self._definitions, self._learnt)
        row.number, row.connection = number, connection
        try:
            return self._matches(row)
        except Unavailable:
            return False


class _NodesThen(Nodes):
    """The node ids of brokers that are known at the position of `then`."""

    def __init__(self, facts: Facts, then: Then) -> None:
        super().__init__()
        self._facts = facts
        self._then = then
        self._by_port: dict[str, list[str]] = {}
        for address in facts.about(ADDRESS):
            self._by_port.setdefault(_port(address), []).append(address)

    def of(self, broker: str) -> int | None:
        known = self._known_of(broker)
        if known is not None:
            return known
        same = {self._known_of(address) for address in self._by_port.get(_port(broker), ())} - {None}
        return same.pop() if len(same) == 1 else None

    def _known_of(self, broker: str) -> int | None:
        known = self._facts.known(ADDRESS, broker, self._then.position)
        return None if known is None else int(known)


class _NumberedRow(ExchangeRow):
    """An exchange for filters, with the numbers that it and its connection have over all flows."""

    __slots__ = ("connection", "number")
    connection: int
    number: int


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def numbered(items: Iterable[tuple[int, str, int, int, int, int]]) -> Any:
    """A batch of captures.spark.read.packing.PARCELS with a row for the number of each item.

    The rows sort before the parcels of the same flow. Each of `items` is (flow_id, counter, started, born, rank,
    number).
    """
    given = list(items)
    data = [_NUMBERED.pack(_COUNTED.index(counted), *rest) for _, counted, *rest in given]
    columns = {"flow_id": [flow for flow, *_ in given], "position": [NUMBERS] * len(given), "data": data}
    arrays = [pa.array(columns.get(one.name, [None] * len(given)), one.type) for one in PARCELS]
    return pa.record_batch(arrays, schema=PARCELS)


def number_of(data: Any) -> tuple[tuple[str, int, int, int], int]:
    """((counter, started, born, rank), number) in the `data` of a row that `numbered` made."""
    counted, started, born, rank, number = _NUMBERED.unpack(data)
    return (_COUNTED[counted], started, born, rank), number
