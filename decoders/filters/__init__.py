"""The display-filter language: `parse` a text, ask exchanges, or complete what is being typed.

    result = parse("api in (Produce, Fetch) and latency > 50ms")
    if result.expression is not None:
        matcher = Matcher(result.expression, source, definitions)
        shown = [exchange for exchange in exchanges if matcher.matches(exchange)]

Its fields are the attributes of exchanges in decoders/fields.py, the rest is in `language`. decoders/exchange_row.py
takes the attributes from exchanges, captures/index/values.py from an index.
"""

from __future__ import annotations

from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Unavailable, Why, left_out, reasons
from kproxy.decoders.filters.completion import Candidate, Completion, Seen, complete
from kproxy.decoders.filters.expression import Expression, Predicate
from kproxy.decoders.filters.matcher import Matcher, learns
from kproxy.decoders.filters.parser import Expected, Result, Status, parse

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
