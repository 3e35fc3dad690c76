"""Packs items of a reading as bytes for another process with the same source; frames are addresses in it."""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from kproxy.decoders.exchange import Connection, Exchange, Frame, Status, StreamProblem
from kproxy.decoders.stream import Side

Item = Exchange | StreamProblem
Row = tuple[Any, ...]

_VERSION = 2
"""Version of marshal's format.

Later versions search for repeated objects, which takes longer than writing them twice.
"""
_SIDES = tuple(Side)
_STATUSES = {status.value: status for status in Status}
_connection = attrgetter("number", "client", "broker", "first_time", "opened")
_frame = attrgetter("side._value_", "stream_offset", "size", "first_time", "time", "at", "spans", "comments", "missing")
_exchange = attrgetter(
    "number", "connection.number", "api_key", "api_version", "correlation_id", "client_id", "status._value_", "reason",
    "token", "protocol", "asked_by._value_", "truths",
)  # fmt: skip


def pack(items: Sequence[Item], beside: Any = None) -> bytes:
    """Items as bytes, together with `beside`, any further plain values.

    Nearly all exchanges are packed without pickle: those on a numbered connection, without problems, session and `end`.
    """
    connections: dict[int, Row] = {}
    rows: list[Row | bytes] = []
    for item in items:
        if type(item) is not Exchange or _is_rare(item):
            rows.append(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))
            continue
        row = _exchange(item)
        if row[1] not in connections:
            connections[row[1]] = _connection(item.connection)
        request, response = item.request, item.response
        asked = None if request is None else _frame(request)
        rows.append((row, asked, None if response is None else _frame(response)))
    return marshal.dumps((list(connections.values()), rows, beside), _VERSION)


def _is_rare(exchange: Exchange) -> bool:
    """Whether an exchange has a value that the plain rows lack."""
    if exchange.problems or exchange.session is not None or exchange.end is not None:
        return True
    return exchange.connection.number == 0


def unpack(packed: bytes) -> tuple[list[Item], Any]:
    """(items, further values) from the bytes that `pack` returned."""
    connection_rows, rows, beside = marshal.loads(packed)  # noqa: S302 (ours)
    connections = {row[0]: Connection(*row) for row in connection_rows}
    items: list[Item] = []
    for row in rows:
        if type(row) is bytes:
            items.append(pickle.loads(row))  # noqa: S301 (ours)
            continue
        (number, connection, key, version, id_, client, status, reason, token, protocol, side, said), asked, answer = (
            row
        )
        items.append(
            Exchange(
                number, connections[connection], key, version, id_, client,
                None if asked is None else Frame(_SIDES[asked[0]], *asked[1:]),
                None if answer is None else Frame(_SIDES[answer[0]], *answer[1:]),
                _STATUSES[status], reason, [], token, protocol, _SIDES[side], said,
            )
        )  # fmt: skip
    return items, beside
