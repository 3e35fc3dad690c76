"""The display-filter language: `parse` a text, `compile` its expression, ask rows.

    result = parse("api in (Produce, Fetch) and latency > 50ms")
    if result.expression is not None:
        matches = result.expression.compile()
        shown = [row for row in rows if matches(row)]

The language is described by the tables in `fields`; what a row must offer by `rows.Row`.
"""

from __future__ import annotations

from decoders.filters.expression import Expression, Predicate
from decoders.filters.parser import Expected, Result, Status, parse
from decoders.filters.rows import ExchangeRow, Row, Unavailable

__all__ = ["ExchangeRow", "Expected", "Expression", "Predicate", "Result", "Row", "Status", "Unavailable", "parse"]
