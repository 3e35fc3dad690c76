"""The display-filter language: `parse` a text, ask exchanges, or complete what is being typed.

    result = parse("api in (Produce, Fetch) and latency > 50ms")
    if result.expression is not None:
        matcher = Matcher(result.expression, source, definitions)
        shown = [exchange for exchange in exchanges if matcher.matches(exchange)]

The language is described by the tables in `fields`; what a row must offer by `rows.Row`. An index answers from its
columns what they tell: captures/index/filtering.py.
"""

from __future__ import annotations

from kproxy.decoders.filters.completion import Candidate, Completion, Seen, complete
from kproxy.decoders.filters.expression import Expression, Predicate
from kproxy.decoders.filters.matcher import Matcher, learns
from kproxy.decoders.filters.parser import Expected, Result, Status, parse
from kproxy.decoders.filters.rows import ExchangeRow, Learnt, Row, Unavailable, Why, left_out, reasons

__all__ = [
    "Candidate",
    "Completion",
    "ExchangeRow",
    "Expected",
    "Expression",
    "Learnt",
    "Matcher",
    "Predicate",
    "Result",
    "Row",
    "Seen",
    "Status",
    "Unavailable",
    "Why",
    "complete",
    "learns",
    "left_out",
    "parse",
    "reasons",
]
