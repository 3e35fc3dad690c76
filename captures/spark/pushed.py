"""Filters that Spark pushes into the data source: what a task can leave out before rows pass to Java.

Spark tests every row again, so a filter that cannot be applied here is passed over. Everything is still decoded:
without the Metadata that a filter leaves out, rows of other exchanges would lack the node ids of their brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

_COMPARED: Final[Mapping[type[Filter], Callable[..., Any]]] = MappingProxyType(
    {
        EqualTo: pc.equal,
        GreaterThan: pc.greater,
        GreaterThanOrEqual: pc.greater_equal,
        LessThan: pc.less,
        LessThanOrEqual: pc.less_equal,
    }
)


def rows(batch: Any, filters: Iterable[Filter]) -> Any:
    """The rows of a batch (pyarrow.RecordBatch) that pass all filters that can be applied to its columns."""
    for one in filters:
        (column, *below), values = one.attribute, _values(one)  # type: ignore[attr-defined]  # all of _values have it
        if below or values is None or column not in batch.schema.names:
            continue
        found = batch.column(column)
        try:
            scalars = [pa.scalar(value, found.type) for value in values]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            continue
        if isinstance(one, In):
            batch = batch.filter(pc.is_in(found, pa.array(values, found.type)))
        else:
            batch = batch.filter(_COMPARED[type(one)](found, scalars[0]))
    return batch


def _values(one: Filter) -> Sequence[Any] | None:
    """The values with which a filter compares its column; None if it does something else."""
    if isinstance(one, In):
        values = list(one.value)
    elif type(one) in _COMPARED:
        values = [one.value]  # type: ignore[attr-defined]  # as above
    else:
        return None
    # A time without a zone depends on the session.
    known = (isinstance(value, str | int) or (isinstance(value, datetime) and value.tzinfo) for value in values)
    return values if all(known) else None
