"""The table of meanings, and the lookup of a row by message, path, version and value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from kproxy.decoders.errorcodes import SUFFIX
from kproxy.decoders.meanings import (
    admin,
    cluster,
    common,
    core,
    errors,
    groups,
    records,
    security,
    share,
    transactions,
)
from kproxy.decoders.meanings.row import Row
from kproxy.decoders.schema.model import ALWAYS, Versions
from kproxy.decoders.tree import Node

ROWS: Final = (
    *core.ROWS,
    *groups.ROWS,
    *transactions.ROWS,
    *share.ROWS,
    *admin.ROWS,
    *security.ROWS,
    *cluster.ROWS,
    *records.ROWS,
    *common.ROWS,
)
EVERY_MESSAGE: Final = "*"
ANYWHERE: Final = "*."
_INDEX: Final = re.compile(r"\[\d+\]")


def meaning(message: str, path: str, version: int, value: Any) -> str | None:
    """The meaning of a value in its field; None if there is no text for it.

    `path` is the path of a problem or node, with or without numbers in its brackets; `value` is decoded: None for null,
    a sequence for an array, 16 bytes for a uuid.
    """
    for row in _rows(message, _INDEX.sub("[]", path), version):
        text = row.value(value)
        if text is not None:
            return text
    if path.endswith(SUFFIX) and isinstance(value, int):
        return errors.meaning(value)
    return None


def field_help(message: str, path: str, version: int) -> str | None:
    """The purpose of a field; None if there is no text for it. With path "", the purpose of the message."""
    return next((row.help for row in _rows(message, _INDEX.sub("[]", path), version) if row.help), None)


def node_meaning(node: Node, version: int) -> str | None:
    """The meaning of a node's value; `version` is the API version of the frame. None if there is no text for it."""
    value = node.value
    if node.type.startswith("[]") and isinstance(value, int):
        value = () if value == 0 else (value,)
    elif value is None and not node.null:
        return None
    return meaning(*_place(node), version, value)


def node_help(node: Node, version: int) -> str | None:
    """The purpose of a node's field; `version` is the API version of the frame. None if there is no text for it."""
    return field_help(*_place(node), version)


def _place(node: Node) -> tuple[str, str]:
    """(message, path) of a node: the frame's message, or the batch or message inside a bytes field that holds the node.

    The path is that of the node inside this message.
    """
    names: list[str] = []
    above = node
    while above.parent is not None and above.type not in _inside():
        names.append(above.name if above.name.startswith("[") else f".{above.name}")
        above = above.parent
    return above.type, "".join(reversed(names)).removeprefix(".")


@cache
def _inside() -> frozenset[str]:
    """Names of the node types at which a batch or a message inside a frame's body begins."""
    names = {message for row in ROWS for message in row.messages.split()} - {EVERY_MESSAGE}
    return frozenset(name for name in names if not name.endswith(("Request", "Response", "Header")))


def _rows(message: str, path: str, version: int) -> Iterator[Row]:
    exact, anywhere = _index()
    name = ANYWHERE + path.rpartition(".")[2]
    for key in ((message, path), (EVERY_MESSAGE, path)):
        yield from (row for row, versions in exact.get(key, ()) if version in versions)
    for key in ((message, name), (EVERY_MESSAGE, name)):
        yield from (row for row, versions in anywhere.get(key, ()) if version in versions)


_Rows = dict[tuple[str, str], list[tuple[Row, Versions]]]


@cache
def _index() -> tuple[_Rows, _Rows]:
    exact: _Rows = {}
    anywhere: _Rows = {}
    for row in ROWS:
        versions = Versions.parse(row.versions) if row.versions else ALWAYS
        table = anywhere if row.path.startswith(ANYWHERE) else exact
        for message in row.messages.split():
            table.setdefault((message, row.path), []).append((row, versions))
    return exact, anywhere
