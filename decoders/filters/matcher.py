"""Applies a filter to the exchanges of a reading."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Unavailable, Why
from kproxy.decoders.filters.expression import Expression

if TYPE_CHECKING:
    from kproxy.decoders.exchange import Exchange
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.stream import Source

_LEARNING = frozenset({"topics", "node"})
"""Attributes whose values need facts from other exchanges: the name of a topic id, the node id of an address."""


def learns(expression: Expression) -> bool:
    """Whether a filter's result for an exchange may depend on earlier exchanges."""
    return not _LEARNING.isdisjoint(expression.attributes())


class Matcher:
    """Evaluates a filter for exchanges, in the order in which the reading completes them.

    If the filter needs facts from other exchanges (names of topic ids, brokers' node ids), `learns` is true and the
    matcher remembers these facts. `unknown` counts, by reason, the exchanges for which the filter had no result.
    """

    def __init__(
        self, expression: Expression, source: Source, definitions: Definitions, learnt: Learnt | None = None
    ) -> None:
        """`learnt` receives the facts; another reader of the same exchanges may use them too."""
        self._matches = expression.compile()
        self._source = source
        self._definitions = definitions
        self._learnt = learnt or Learnt()
        self.learns = learns(expression)
        self.unknown: Counter[Why] = Counter()

    def matches(self, exchange: Exchange) -> bool | None:
        """Whether the exchange matches; None if that cannot be decided. Never raises on bad bytes."""
        self.learn(exchange)
        try:
            return self._matches(ExchangeRow(exchange, self._source, self._definitions, self._learnt))
        except Unavailable as unavailable:
            self.unknown[unavailable.why] += 1
            return None

    def learn(self, exchange: Exchange) -> None:
        """Remember the facts of an exchange without evaluating the filter.

        For exchanges that are left out for other reasons.
        """
        if self.learns:
            self._learnt.learn(exchange, self._source, self._definitions)
