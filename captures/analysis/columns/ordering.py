"""Orders rows by the values of a column: numbers by size, texts without regard to case, unknown values last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kproxy.captures.analysis.columns.column import Value


def ordered(values: Sequence[Value], *, descending: bool) -> list[int]:
    """Row indexes in the order of the rows' values; rows with equal values stay in their order, None comes last."""
    least, greatest = both_orders(values)
    return greatest if descending else least


def both_orders(values: Sequence[Value]) -> tuple[list[int], list[int]]:
    """Row indexes in ascending order of the rows' values, and in descending order; see `ordered`."""
    # the values of a column are of one type, so that they can be compared
    keys: list[Any] = [value.casefold() if isinstance(value, str) else value for value in values]
    known = [index for index, value in enumerate(values) if value is not None]
    unknown = [index for index, value in enumerate(values) if value is None]
    least = sorted(known, key=keys.__getitem__)
    # sorting in reverse takes linear time, because the list is sorted already
    greatest = sorted(least, key=keys.__getitem__, reverse=True)
    return least + unknown, greatest + unknown
