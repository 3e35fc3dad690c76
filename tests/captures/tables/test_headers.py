"""Exchanges of which only headers are read: their columns equal their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kproxy.captures.definitions import definitions
from kproxy.captures.spark.claims.checks import NUMBERS
from kproxy.captures.spark.claims.compiled import Found
from kproxy.captures.tables import arrow, headers
from kproxy.captures.tables.rows import Drafter
from kproxy.captures.tables.schema import EXCHANGES
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.stream import Side

NAMES = ["c", None, "", "\ud83d", "d"]
TIME = 1_700_000_000_000_000_000


def answered(number: int) -> Exchange:
    """An exchange whose names, API and times depend on its number; some have no response."""
    at = number * 1000
    request = Frame(
        Side.CLIENT, at, 96 + number, TIME + 7 * number, TIME + 9 * number, at + 99 + number, [(at, 100 + number)]
    )
    response = Frame(Side.BROKER, at, 46, TIME + 5 * number, TIME + 5 * number + 1, at + 949, [(at + 900, 50)])
    item = Exchange(
        0, Connection(1, "10.0.0.1:4000", "b:2", TIME), number % 2, number % 4, number, NAMES[number % len(NAMES)]
    )
    item.request, item.response, item.status = request, response, Status.OK
    if not number % 3:
        item.response, item.status, item.reason = None, Status.NO_REPLY_EXPECTED, "acks=0"
    return item


@pytest.mark.parametrize("count", [1, 2, 40])
def test_columns_are_those_of_rows(count: int) -> None:
    items = [answered(number) for number in range(count)]
    found = Found()
    for item in items:
        assert item.request
        found.take([(item.request.spans[0][0], item)], [((item.response or item.request).at, item)])
    numbers = dict(zip(NUMBERS, np.frombuffer(found.numbers, np.int64).reshape(-1, len(NUMBERS)).T, strict=True))
    known = definitions()
    made = headers.batch(numbers, found.texts, known.api_name)

    source: Any = None
    drafter = Drafter("", source, known, lambda at: ("", at), ())
    rows = [row for item in items for row in drafter.headers(item)["exchanges"]]
    expected = arrow.batch(EXCHANGES, rows)
    assert made.schema.names == [name for name in expected.schema.names if name not in EXCHANGES.later]
    assert made == expected.select(made.schema.names)
    assert len(made) == count
