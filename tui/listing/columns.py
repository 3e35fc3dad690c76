"""The columns of the list: which there are, and how those chosen share a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kproxy.decoders.fields import FIELDS, Cost, Field, Type


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list, from `width` to `most` cells wide; `doc` says what it holds."""

    name: str
    title: str
    width: int
    most: int
    right: bool = False
    doc: str = ""


_OF_SEVERAL = {
    "state": Column("state", "S", 3, 3, doc="severity, state, and marks (? explains the letters)"),
    "label": Column("label", "Topic/Group/Txn", 15, 60, doc="what the exchange is about: topics, group, transaction"),
    "result": Column("result", "Result", 12, 34, doc="the first error, or the outcome"),
}
"""Columns made from several attributes."""
_OF_ONE = {
    field.name: Column(field.name, cell.title, cell.width, max(cell.width, cell.most), cell.right, field.doc)
    for field in FIELDS
    if (cell := field.cell) is not None
}
_ORDER = (
    "state", "exchange", "time", "connection", "client.id", "broker", "api", "label", "result", "latency",
    "request.size", "response.size", "records",
)  # fmt: skip
_FURTHER = tuple(name for name in _OF_ONE if name not in _ORDER)
COLUMNS: Final = tuple((_OF_SEVERAL | _OF_ONE)[name] for name in (*_ORDER, *_FURTHER))
"""The columns that are shown unless the user chooses others."""


def _extra(field: Field) -> Column:
    if field.type in {Type.NUMBER, Type.DURATION, Type.SIZE}:
        width = max(6, len(field.name))
        return Column(field.name, field.name, width, width, right=True, doc=field.doc)
    width = max(8, len(field.name))
    return Column(field.name, field.name, width, max(width, 12 if field.type is Type.TIME else 30), doc=field.doc)


OFFERED: Final = (
    *COLUMNS,
    *(_extra(field) for field in FIELDS if field.cell is None and field.cost is Cost.INDEX and field.name != "error"),
)
"""Every column that the user can choose: each attribute that needs no decoded body."""
BY_NAME: Final = {column.name: column for column in OFFERED}
DROPPED_FIRST: Final = (
    *_FURTHER, "records", "response.size", "request.size", "broker", "client.id", "connection", "time", "exchange",
)  # fmt: skip
"""The order in which columns are dropped if the list is too narrow; the others follow, from right to left."""
_GROW = ("result", "label", "label", "api", "client.id", "result")


def fit_columns(width: int, chosen: Sequence[Column] = COLUMNS) -> list[tuple[Column, int]]:
    """Those of the `chosen` columns that fit into `width` cells, with their widths; one cell separates two columns.

    The first column is always there, cut if it must be.
    """
    columns = list(chosen)
    others = [column.name for column in reversed(chosen[1:]) if column.name not in DROPPED_FIRST]
    for name in (*DROPPED_FIRST, *others):
        if sum(column.width + 1 for column in columns) - 1 <= width or len(columns) == 1:
            break
        columns = [column for column in columns if column.name != name]
    widths = {column.name: min(column.width, width) for column in columns}
    spare = width - sum(widths.values()) - (len(columns) - 1)
    most = {column.name: column.most for column in columns}
    extra = [column.name for column in columns if column.name not in _GROW]
    while spare > 0:
        grown = False
        for name in (*_GROW, *extra):
            if spare > 0 and name in widths and widths[name] < most[name]:
                widths[name] += 1
                spare -= 1
                grown = True
        if not grown:
            break
    return [(column, widths[column.name]) for column in columns]
