"""Checks of claims, plain and compiled: they cover every fact in rows; unusual exchanges get none."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kproxy.captures.spark.claims import checks
from kproxy.decoders.exchange import Connection, Exchange, Frame, Status, StreamProblem
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.stream import Side
from tests.support.variants import each_variant_of, variants_of

VARIANTS = variants_of(checks)
variants = each_variant_of(checks)
STARTED, DONE = 110, 949


def exchange() -> Exchange:
    request = Frame(Side.CLIENT, 0, 136, 1, 2, 339, [(100, 100), (300, 40)])
    response = Frame(Side.BROKER, 0, 46, 3, 4, DONE, [(900, 50)])
    connection = Connection(1, "10.0.0.1:40000", "10.0.0.2:9092", 0)
    return Exchange(0, connection, 1, 13, 7, "c", request, response, Status.OK)


def of(name: str, **values: Any) -> Callable[[Exchange], None]:
    """A change that sets attributes of an exchange or of the part `name`."""

    def change(item: Exchange) -> None:
        part = item if name == "exchange" else getattr(item, name)
        for each, value in values.items():
            setattr(part, each, value)

    return change


FACTS = [
    of("exchange", api_key=0), of("exchange", api_version=12),
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
    of("exchange", api_key=None), of("exchange", api_version=None), of("exchange", correlation_id=None),
    of("request", missing=1), of("request", comments=("said",)), of("request", spans=[]),
    of("request", spans=[(300, 40), (100, 100)], at=199), of("request", at=340), of("response", at=DONE + 1),
    of("response", missing=1), of("request", spans=[(111, 89), (300, 40)]), of("exchange", response=None),
]  # fmt: skip


def test_it_is_that_of_the_facts() -> None:
    found = [[variant.check(exchange(), STARTED, DONE) for variant in VARIANTS * 2]]
    for change in FACTS:
        item = exchange()
        change(item)
        found.append([variant.check(item, STARTED, DONE) for variant in VARIANTS])
    found.append([variant.check(exchange(), STARTED + 1, DONE) for variant in VARIANTS])
    assert all(len(set(each)) == 1 for each in found)
    assert len({each[0] for each in found}) == len(FACTS) + 2
    assert 0 not in {each[0] for each in found}


@variants
@pytest.mark.parametrize("change", ODD)
def test_what_is_odd_has_none(variant: ModuleType, change: Callable[[Exchange], None]) -> None:
    item = exchange()
    change(item)
    assert variant.check(item, STARTED, DONE) == 0
    found = variant.Found()
    found.take([(STARTED, item)], [(DONE, item)])
    assert not found.numbers


@variants
def test_what_ends_with_bytes_of_others_has_none(variant: ModuleType) -> None:
    assert variant.check(exchange(), STARTED, DONE + 1) == 0
    assert variant.check(exchange(), 99, DONE) == 0
    assert variant.check(exchange(), 200, DONE) == 0


@variants
def test_what_is_told_of_claims(variant: ModuleType) -> None:
    first, second, odd, third = (exchange() for _ in range(4))
    first.connection = second.connection
    second.response, second.status, second.reason = None, Status.NO_REPLY_EXPECTED, "acks=0"
    problem = StreamProblem(first.connection, Side.CLIENT, 1, 2, 3, Code.RESYNC, "", 4)
    found = variant.Found()
    found.take([(STARTED, first), (STARTED, second)], [(DONE, first)])
    found.take(
        [(STARTED, odd), (STARTED, third)], [(339, second), (340, problem), (DONE, odd)], lambda one: one is second
    )
    found.take([], [(DONE, third)])
    rows = np.frombuffer(found.numbers, np.int64).reshape(-1, len(checks.NUMBERS)).tolist()
    facts = [1, 13, 7, 136, 1, 2]
    whole = [STARTED, DONE, 0, 100, 900, checks.check(first, STARTED, DONE), 2, 1, *facts, 46, 3, 4]
    unanswered = [STARTED, 339, 0, 100, -1, checks.check(second, STARTED, 339), 2, 0, *facts, 0, 0, 0]
    assert rows == [whole, unanswered, [*whole[:5], checks.check(third, STARTED, DONE), *whole[6:]]]
    assert found.texts == ["c", Status.OK, None, "c", Status.NO_REPLY_EXPECTED, "acks=0", "c", Status.OK, None]
    assert found.spans.tolist() == [100, 100, 300, 40, 900, 50, 100, 100, 300, 40, 100, 100, 300, 40, 900, 50]
    assert found.talks == [(0, first.connection), (2, third.connection)]
