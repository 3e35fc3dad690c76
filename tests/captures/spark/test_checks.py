"""The check of a claim: another for each fact that rows are made of, and none for what is odd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from captures.spark.checks import check
from decoders.conversation.stream import Side
from decoders.exchange import Connection, Exchange, Frame, Status
from decoders.problems import Code, Problem

STARTED, DONE = 110, 949


def exchange() -> Exchange:
    request = Frame(Side.CLIENT, 0, 136, 1, 2, 339, [(100, 100), (300, 40)])
    response = Frame(Side.BROKER, 0, 46, 3, 4, DONE, [(900, 50)])
    connection = Connection(1, "10.0.0.1:40000", "10.0.0.2:9092", 0)
    return Exchange(0, connection, 1, 13, 7, "c", request, response, Status.OK)


def of(name: str, **values: Any) -> Callable[[Exchange], None]:
    """Sets attributes of a part of an exchange."""

    def change(item: Exchange) -> None:
        part = item if name == "exchange" else getattr(item, name)
        for each, value in values.items():
            setattr(part, each, value)

    return change


FACTS = [
    of("exchange", api_key=0), of("exchange", api_key=None), of("exchange", api_version=12),
    of("exchange", correlation_id=8), of("exchange", client_id=None), of("exchange", client_id="d"),
    of("exchange", status=Status.NO_REPLY_EXPECTED), of("exchange", reason="why"),
    of("connection", client="10.0.0.1:40001"), of("connection", broker="10.0.0.3:9092"),
    of("request", size=137), of("request", first_time=0), of("request", time=3),
    of("request", spans=[(99, 101), (300, 40)]), of("response", size=47), of("response", time=5),
    of("response", spans=[(899, 51)]),
]  # fmt: skip
ODD = [
    of("exchange", request=None), of("exchange", status=Status.NO_RESPONSE), of("exchange", api_key=3),
    of("exchange", protocol="other"), of("exchange", token=True), of("exchange", session=object()),
    of("exchange", problems=[Problem("request", 0, "", "", Code.BAD_LENGTH)]),
    of("request", missing=1), of("request", comments=("said",)), of("request", spans=[]),
    of("request", spans=[(300, 40), (100, 100)], at=199), of("request", at=340), of("response", at=DONE + 1),
    of("response", missing=1), of("request", spans=[(111, 89), (300, 40)]), of("exchange", response=None),
]  # fmt: skip


def test_it_is_that_of_the_facts() -> None:
    found = {check(exchange(), STARTED, DONE), check(exchange(), STARTED, DONE)}
    assert len(found) == 1
    for change in FACTS:
        item = exchange()
        change(item)
        found.add(check(item, STARTED, DONE))
    found.add(check(exchange(), STARTED + 1, DONE))
    assert len(found) == len(FACTS) + 2
    assert 0 not in found


@pytest.mark.parametrize("change", ODD)
def test_what_is_odd_has_none(change: Callable[[Exchange], None]) -> None:
    item = exchange()
    change(item)
    assert check(item, STARTED, DONE) == 0


def test_what_ends_with_bytes_of_others_has_none() -> None:
    assert check(exchange(), STARTED, DONE + 1) == 0
    assert check(exchange(), 99, DONE) == 0
    assert check(exchange(), 200, DONE) == 0
