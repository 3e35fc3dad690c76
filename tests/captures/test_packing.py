"""Items of a reading packed for another process, and unpacked there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from kproxy.captures.export.packing import pack, unpack
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Connection, Exchange, Status, StreamProblem
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.stream import Side
from tests.captures import traffic


@pytest.mark.parametrize("capture", [traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA])
def test_what_was_read_arrives_as_it_was(capture: Path) -> None:
    items = [item for batch in read(capture).batches() for item in batch]
    arrived, beside = unpack(pack(items, (6, "beside")))
    assert beside == (6, "beside")
    assert [asdict(item) for item in arrived] == [asdict(item) for item in items]
    assert [type(item) for item in arrived] == [type(item) for item in items]
    for item in arrived:
        assert type(item.connection) is Connection
        if isinstance(item, Exchange):
            assert all(type(frame.side) is Side for frame in (item.request, item.response) if frame is not None)
            assert type(item.status) is Status


def test_what_has_problems_arrives_as_it_was() -> None:
    connection = Connection(0, "client:1", "broker:2", 7)
    odd = Exchange(3, connection, None, None, 5, None, status=Status.ORPHAN_RESPONSE, asked_by=Side.BROKER, truths="1?")
    odd.problems.append(Problem("response", 4, "correlationId", "no request", Code.UNMATCHED_RESPONSE))
    problem = StreamProblem(connection, Side.BROKER, 1, 2, 3, Code.GAP, "bytes are missing", 4)
    signed = Exchange(
        5,
        Connection(2, "client:1", "broker:2", 7),
        36,
        2,
        7,
        "me",
        session=Session(mechanism="PLAIN", principal="alice"),
    )
    arrived, _ = unpack(pack([odd, problem, Exchange(4, connection, 3, 1, 6, "me"), signed]))
    assert asdict(arrived[0]) == asdict(odd)
    assert asdict(arrived[1]) == asdict(problem)
    assert asdict(arrived[2].connection) == asdict(connection)
    assert asdict(arrived[3]) == asdict(signed)
