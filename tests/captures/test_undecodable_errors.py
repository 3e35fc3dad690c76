"""A response that cannot be decoded to its end still shows the error codes before the place that failed.

librdkafka's mock cluster sends such SyncGroup responses in a rebalance: the error, then a null that Kafka forbids.
"""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import pytest

from kproxy.captures.analysis.stats import Stats
from kproxy.captures.analysis.views import Views
from kproxy.captures.index.filtering import IndexFilter
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.summary import Summariser
from kproxy.captures.tables.rows import Sketcher
from kproxy.captures.tables.schema import GROUP_EVENTS
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.filters import ExchangeRow, parse
from tests.support.indexes import IndexBuilder
from tests.support.scripts import Script, eyes, play, request, response

METADATA, SYNC = 3, 14


def answer(code: int) -> bytes:
    """The body of a SyncGroup v3 response with an assignment of null."""
    return struct.pack(">ihi", 0, code, -1)


def synced(*codes: int, version: int = 3) -> Script:
    made = Script()
    for number, code in enumerate(codes, 1):
        asked = bytearray(request(SYNC, 3, number, groupId="g", memberId="m"))
        struct.pack_into(">h", asked, 6, version)
        made.client(bytes(asked)).broker(response(SYNC, 3, number, raw=answer(code)))
    return made.end()


def test_it_is_shown_and_counted() -> None:
    played = play(synced(27, 27))
    stats, views = Stats(eyes()), Views(played.tape, eyes())
    for exchange in played.exchanges:
        shown = exchange_json(exchange, played.tape, eyes())
        assert (shown["status"], shown["response"]["body"]) == ("undecodable", None)
        assert shown["error_codes"] == ["REBALANCE_IN_PROGRESS"]
        assert list(Summariser(played.tape, eyes()).of(exchange).errors) == [27]
        tables = Sketcher(played.tape, eyes(), ("exchanges", "group_events")).draft(exchange)[0]
        (event,) = tables.close(lambda _: None, None)["group_events"]
        assert tables.codes == [event[GROUP_EVENTS.index("error_code")]] == [27]
        stats.add(exchange, played.tape)
        views.add(exchange)
    (line,) = stats.lines()
    assert (line.errors, line.undecodable, line.codes) == (2, 2, {"REBALANCE_IN_PROGRESS": 2})
    (group,) = views["groups"].lines()
    assert group["errors"] == {27: 2}
    assert [event["event"] for event in group["events"]] == ["sync refused"] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("error", [0]), ("error == 27", [0]), ("error != 27", []), ("error.retriable == false", [0]),
     ("not error == 5", [0]), ("status == undecodable", [0, 1])],
)  # fmt: skip
def test_filters_know_it(tmp_path: Path, text: str, expected: list[int]) -> None:
    """If no code was read, there may be one further on, so a filter is undecided."""
    builder = IndexBuilder(tmp_path)
    asked = {"groupId": "g", "memberId": "m"}
    exchanges = [builder.exchange("SyncGroup", 3, asked, raw_response=answer(code)) for code in (27, 0)]
    builder.finish()
    expression = parse(text).expression
    assert expression is not None
    with IndexReader(builder.path) as index, closing(IndexFilter(index, expression, builder.definitions)) as wanted:
        scan = wanted.scan(0, index.count)
    assert scan.matched == expected
    assert scan.unknown.total() == ("error" in text)
    row = ExchangeRow(exchanges[0], builder.source, builder.definitions)
    assert expression.compile()(row) is (0 in expected)


@pytest.mark.parametrize(("code", "version"), [(0, 3), (12_345, 3), (27, 99)])
def test_what_may_be_no_error_is_none(code: int, version: int) -> None:
    """Code 0, a code that Kafka does not have, and the layout of a version that no release has."""
    (exchange,) = play(synced(code, version=version)).exchanges
    assert exchange_json(exchange, play(synced(code, version=version)).tape, eyes())["error_codes"] == []


def test_of_a_list_those_that_were_read() -> None:
    topics = [{"errorCode": code, "name": "orders"} for code in (3, 5, 6)]
    whole = response(METADATA, 1, 1, topics=topics, brokers=[])
    body = bytearray(whole[8:])
    body[body.rindex(b"\0\6orders") :] = b"\x7f\xffcut"
    script = Script().client(request(METADATA, 1, 1, topics=None)).broker(response(METADATA, 1, 1, raw=bytes(body)))
    played = play(script.end())
    shown = exchange_json(played.exchanges[0], played.tape, eyes())
    assert shown["status"] == "undecodable"
    assert shown["error_codes"] == ["UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"]
