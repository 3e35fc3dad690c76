"""A filter over the exchanges of a reading."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kproxy.decoders.filters.expression import Expression
from kproxy.decoders.filters.rows import ExchangeRow, Learnt, Unavailable, Why

if TYPE_CHECKING:
    from kproxy.decoders.conversation.stream import Source
    from kproxy.decoders.exchange import Exchange
    from kproxy.decoders.schema import Definitions

_LEARNING = frozenset({"topics", "node"})
"""Attributes whose values other exchanges tell: names of topic ids, node ids of addresses."""


def learns(expression: Expression) -> bool:
    """Whether what a filter says of an exchange depends on those before it."""
    return not _LEARNING.isdisjoint(expression.attributes())


class Matcher:
    """Asks a filter of exchanges, in the order of a reading.

    What one of them tells of the others (names of topic ids, brokers' node ids) is kept for those that follow, where
    the filter needs it: `learns` says so. `unknown` counts the exchanges that could not be told, by reason.
    """

    def __init__(self, expression: Expression, source: Source, definitions: Definitions) -> None:
        self._matches = expression.compile()
        self._source = source
        self._definitions = definitions
        self._learnt = Learnt()
        self.learns = learns(expression)
        self.unknown: Counter[Why] = Counter()

    def matches(self, exchange: Exchange) -> bool | None:
        """Whether the exchange matches; None where it cannot tell. Never raises on bad bytes."""
        self.learn(exchange)
        try:
            return self._matches(ExchangeRow(exchange, self._source, self._definitions, self._learnt))
        except Unavailable as unavailable:
            self.unknown[unavailable.why] += 1
            return None

    def learn(self, exchange: Exchange) -> None:
        """Take in an exchange that is left out for another reason."""
        if self.learns:
            self._learnt.learn(exchange, self._source, self._definitions)
