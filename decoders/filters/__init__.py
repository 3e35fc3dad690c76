"""The language of display filters: parse a text, evaluate it for exchanges, or complete it while the user types.

    result = parse("api in (Produce, Fetch) and latency > 50ms")
    if result.expression is not None:
        matcher = Matcher(result.expression, source, definitions)
        shown = [exchange for exchange in exchanges if matcher.matches(exchange)]

The language's fields are the attributes of exchanges in decoders/fields.py; its other words are in `language`.
decoders/exchange_row.py reads the attributes from exchanges, captures/index/values.py from an index.
"""

from __future__ import annotations

from kproxy.decoders.exchange_row import ExchangeRow, Learnt, Unavailable, Why, left_out, reasons
from kproxy.decoders.filters.completion import Candidate, Completion, Seen, complete
from kproxy.decoders.filters.expression import Expression, Predicate
from kproxy.decoders.filters.matcher import Matcher, learns
from kproxy.decoders.filters.parser import Expected, Result, Status, parse
from kproxy.decoders.filters.searching import as_search

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
    "as_search",
    "complete",
    "learns",
    "left_out",
    "parse",
    "reasons",
]
