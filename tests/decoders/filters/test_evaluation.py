from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest

from kproxy.decoders.body_path import Path
from kproxy.decoders.fields import BY_NAME, FIELDS, Field
from kproxy.decoders.filters import ExchangeRow, Unavailable, Why, parse
from kproxy.decoders.filters.language import REQUEST, REQUEST_ATTRIBUTES, operators
from kproxy.decoders.filters.values import LITERALS


@dataclass
class Exchange:
    """A row as a filter sees it."""

    number: int = 430
    connection: int = 12
    client: str = "10.0.0.7:51544"
    broker: str = "[::1]:9092"
    api_key: int | None = 0
    api_version: int | None = 11
    correlation_id: int | None = 881
    client_id: str | None = "orders-svc"
    api_class: str | None = "core"
    node: int = 2
    protocol: str = "kafka"
    topics: Iterable[str] = ("orders", "orders-dlq")
    groups: Sequence[str] = ()
    txns: Sequence[str] = ("pay-7",)
    acks: int | None = -1
    fetch_role: str | None = None
    status: str = "ok"
    status_seen: str = "ok"
    retriable: bool | None = True
    throttle: int | None = None
    records: int | None = 3
    problem: bool = False
    partial: bool = True
    modified: bool = False
    commented: bool = False
    record_keys: Sequence[str] = ("42", "")
    record_values: Sequence[str] = ("a refund", "nothing")
    record_headers: Sequence[str] = ("trace: 00-7",)
    record_texts: Sequence[str] = ("42", "a refund", "trace: 00-7", "", "nothing")
    record_offsets: Sequence[int] = (0, 1)
    batch_codecs: Sequence[str] = ("none", "zstd")
    batch_sizes: Sequence[int] = (112, 16_000)
    batch_magics: Sequence[int] = (2, 2)
    texts: Sequence[str] = ("orders", "rack-a")
    record_timestamps: Sequence[int] = (1_764_000_000_000_000_000,)
    error_codes: Sequence[int] = (6, 20)
    time: int = 1_764_000_000_000_000_000
    latency: int | None = 55_100_000
    request_size: int | None = 1024
    response_size: int | None = 88

    def at(self, path: Path) -> Iterable[Any]:
        return path.find(BODIES[path.root])


BODIES: dict[str, Any] = {
    "request": {"acks": -1, "timeoutMs": 30_000, "topicData": [{"name": "orders"}], "transactionalId": None},
    "response": {
        "throttleTimeMs": 0,
        "topics": [
            {"name": "a", "errorCode": 0, "isInternal": False, "partitions": [{"errorCode": 6}, {"errorCode": 0}]},
            {"name": "b", "errorCode": 3, "isInternal": True, "partitions": []},
        ],
        "brokers": [{"nodeId": 1, "rack": None}, {"nodeId": 2, "rack": "r"}],
        "authBytes": {"redacted": True, "sizeInBytes": 3},
        "hmac": {"base64": "AAE=", "decoded": {"version": 1, "parts": [1, "x", True, None]}},
    },
}
ORPHAN = Exchange(
    api_key=None, api_version=None, client_id=None, error_codes=(), latency=None,
    request_size=None, api_class=None, topics=(), txns=(), acks=None, records=None, retriable=None, record_keys=(),
)  # fmt: skip


def matches(text: str, row: Exchange) -> bool:
    result = parse(text)
    assert result.expression is not None, result.message
    return result.expression.compile()(row)


TRUE = [
    "api == Produce", "api != Fetch", "api in (Fetch, Produce)", "api ~ ^Prod", "api == Send", "api contains rod",
    "api not in (Fetch, 3)", "topic not in (x, y)", "client.id not contains x", "any topic != orders", "any error != 6",
    "any topic not in (orders, x)", "any topic not contains dlq", "any response.body.topics[].errorCode != 3",
    "error not in (7, 8)", "error != NONE", "broker not in (1, 3)", "broker not contains 9093", "version not in (1, 2)",
    "version == 11", "version >= 11 and version < 12", "client.id == orders-svc", 'client.id ~ "orders-(svc|x)"',
    "client == 10.0.0.7", "client == :51544", "client == 10.0.0.7:51544", "client != 10.0.0.8", "client contains 0.7:5",
    "broker == ::1", "broker == [::1]", "broker == [::1]:9092", "broker in (::2, ::1)", "connection == 12",
    "error", "error == NOT_LEADER_OR_FOLLOWER", "error == NotLeaderForPartition", "error == 20", "error != 7",
    "error ~ LEADER", "not error == 7", "status == ok", "latency > 50ms", "latency <= 55.1ms", "size == 1112",
    "request.size >= 1KiB", "response.size < 1kB", "time >= 2025-11-24", "correlation == 881", "exchange == 430",
    "class == core", "class in (core, group)", "broker == 2", "broker in (1, 2)", "broker != 1", "topic == orders",
    "topic ~ dlq", "all topic ~ ^orders", "topic in (x, orders)", "topic != x", "all topic != x", "not group",
    "txn == pay-7", "acks == -1", "acks < 0", "not fetch.role", "error.retriable", "error.retriable == true",
    "records > 2", "partial", "has partial", "not problem", "modified == false", "record.key == 42",
    'record.key == ""', "record.value contains refund", 'record.header ~ "^trace: 00"', "all record.offset < 2",
    "record.timestamp > 2025-11-24", 'time >= "16:00"', 'time < "16:00:00.000000001"', 'time in ("16:00", "17:00")',
    "request.body.acks == -1", "request.body.timeoutMs == 30s", "request.body.topicData[].name == orders",
    "response.body.topics[].partitions[].errorCode == 6", "response.body.topics[].errorCode != 6",
    "response.body.topics[0].partitions[1].errorCode == NONE", "response.body.topics[].errorCode ~ UNKNOWN",
    "response.body.topics[].isInternal == true", "not all response.body.topics[].isInternal == true",
    "all response.body.topics[].errorCode in (0, 3)", "has response.body.topics", "has response.body",
    "has response.body.brokers[1].rack", "not has response.body.brokers[0].rack", "has response.body.authBytes",
    "response.body.throttleTimeMs < 1ms", 'response.body.hmac == "AAE="', "response.body.hmac.decoded.version == 1",
    "response.body.hmac.decoded.version >= 1", "response.body.hmac.decoded.parts[] == x",
    "response.body.hmac.decoded.parts[] == true", "response.body.hmac.decoded.parts[2] ~ ru",
    "not has response.body.hmac.decoded.parts[3]", "not has response.body.hmac.decoded.parts[9]",
    "record contains refund", "batch.codec == zstd", "all batch.magic == 2", "batch.size > 10kB", "text == rack-a",
    '"REFUND"', '"produce"',
    '"Rack-A" and "orders-d"', '"LEADER_OR_FOLLOWER"', '"10.0.0.7"', "not ('nowhere' or \"trace: 1\")", "'trace: 00'",
    "api == Fetch or error", "not (api == Fetch or not error)", "api", "latency", "not api == Fetch and error",
]  # fmt: skip
FALSE = [
    "api == Fetch", "api != Produce", "api ~ fetch", "version > 11", "client.id == orders", "client == 10.0.0.70",
    "api ~ Send", "api not in (Fetch, Produce)", "topic not in (x, orders)", "client.id not contains svc",
    "any topic == x", "any error not in (6, 20)", "error not in (6, 7)", "all topic not contains dlq",
    "broker not in (1, 2)", "broker not contains ::1", "any request.body.topicData[].name != orders",
    "broker == :19092", "not error", "error == NONE", "error != NOT_LEADER_OR_FOLLOWER", "error == STALE_LEADER_EPOCH",
    "class == group", "class != core", "broker == 3", "topic == order", "all topic == orders", "topic != orders",
    "topic in (x, y)", "group", "group != x", "all group == x", "acks == 1", "fetch.role == follower",
    "fetch.role != follower", "error.retriable == false", "throttle", "throttle < 1s", "modified", "problem == true",
    "record.key == 4", "record.value == refund", "all record.offset > 0", 'time < "16:00"', 'time == "16:01"',
    "request.body.acks == 1", "has request.body.transactionalId", "request.body.transactionalId == null",
    "response.body.topics[].errorCode == 6", "all response.body.topics[].partitions[].errorCode == 6",
    "response.body.topics[2].name == a", "response.body.topics[].errorCode != 3", "has response.body.sessionId",
    "response.body.hmac.decoded.parts[] > x", "response.body.hmac.decoded.version > 1",
    "record == refund", "all batch.codec == zstd", "batch.size > 1MB", "batch.magic in (0, 1)", '"r.fund"',
    '"." and "%"', '"api"',
    "latency > 56ms", "api == Produce and not error", "status in (cut, tls)",
]  # fmt: skip


@pytest.mark.parametrize("text", TRUE)
def test_true(text: str) -> None:
    assert matches(text, Exchange())


@pytest.mark.parametrize("text", FALSE)
def test_false(text: str) -> None:
    assert not matches(text, Exchange())


@pytest.mark.parametrize(
    "text", ["api == 0", "api != 0", "api ~ a", "version < 5", "version >= 0", "latency > 0", "latency <= 1h", "error",
             "client.id != x", "client.id ~ x", "class != core", "topic != x", "all topic == x", "txn ~ .", "acks != 5",
             "records >= 0", "error.retriable", "error.retriable == false", "record.key != x",
             "api", "latency", "request.size", "error != 6", "api in (0, 1)", "api not in (0, 1)",
             "topic not in (x, y)", "any topic != x", "any error != 6", "client.id not in (x, y)",
             "client.id not contains x", "error not in (6, 7)", "latency not in (1ms, 2ms)",
             "record.key not contains x", "any response.body.topics[].partitions[].replicaNodes[] != 3"]
)  # fmt: skip
def test_a_comparison_with_what_is_not_there_is_false(text: str) -> None:
    assert not matches(text, ORPHAN)


@pytest.mark.parametrize(
    "field", [field for field in FIELDS if field.of is None and "not in" in operators(field)], ids=lambda one: one.name
)
@pytest.mark.parametrize("row", [Exchange(), ORPHAN], ids=["whole", "orphan"])
def test_not_in_is_the_same_as_is_not(field: Field, row: Exchange) -> None:
    """Holds for every field, present or absent; with `any` and `all` too if it may have several values."""
    example = f'"{LITERALS[field.type].example}"'
    for quantifier in ("", "any ", "all ") if field.many else ("",):
        other = f"{quantifier}{field.name} != {example}"
        assert matches(other, row) is matches(f"{quantifier}{field.name} not in ({example})", row), other


def test_every_api_is_searched_by_its_name_of_today() -> None:
    """FindCoordinator's old name GroupCoordinator is found only by its whole name."""
    coordinator = Exchange(api_key=10)
    assert matches("api == GroupCoordinator", coordinator)
    assert matches("api contains Find", coordinator)
    assert not matches("api contains Group", coordinator)
    assert not matches("api ~ ^Group", coordinator)
    assert matches("api contains Group", Exchange(api_key=15))


def test_no_error_is_error_none() -> None:
    assert matches("error == NONE", ORPHAN)
    assert matches("error in (0, 6)", ORPHAN)


def test_size_of_half_an_exchange() -> None:
    assert matches("size == 88", ORPHAN)


def test_a_code_that_meant_something_else() -> None:
    row = Exchange(api_key=4, api_version=0, error_codes=(13,))
    assert matches("error == STALE_LEADER_EPOCH", row)
    assert matches("error ~ STALE", row)
    assert not matches("error == NETWORK_EXCEPTION", row)
    assert matches("error == NETWORK_EXCEPTION", Exchange(api_key=4, api_version=5, error_codes=(13,)))


class Gone(Exchange):
    @property
    def error_codes(self) -> Sequence[int]:
        raise Unavailable(Why.GONE)

    @error_codes.setter
    def error_codes(self, value: Sequence[int]) -> None:
        pass

    @property
    def topics(self) -> Iterable[str]:
        """Topics: a known one, then one that is unknown."""
        yield "orders"
        raise Unavailable(Why.TOPIC_ID)

    @topics.setter
    def topics(self, value: Iterable[str]) -> None:
        pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [("error and api == Fetch", False), ("api == Fetch and error", False), ("error or api == Produce", True),
     ("api == Produce or error", True), ("not (error and api == Fetch)", True),
     ("topic == orders", True), ("topic", True), ("topic != orders", False), ("all topic == x", False),
     ("topic == x or topic ~ ord", True), ("not topic ~ ord", False)],
)  # fmt: skip
def test_what_cannot_be_told_decides_nothing_where_the_rest_does(text: str, expected: bool) -> None:
    assert matches(text, Gone()) is expected


@pytest.mark.parametrize(
    "text", ["error", "not error", "error and api == Produce", "api == Fetch or error", "topic == x", "topic != x",
             "not topic == x", "all topic == orders", "all topic ~ o and api == Produce",
             "response.body.authBytes == x", "not response.body.authBytes != x"]
)  # fmt: skip
def test_what_cannot_be_told_is_said(text: str) -> None:
    with pytest.raises(Unavailable):
        matches(text, Gone())


def test_only_what_the_expression_needs_is_read() -> None:
    asked: list[str] = []

    def get(name: str) -> Callable[[Any], Any]:
        def read(row: Any) -> Any:
            asked.append(name)
            return getattr(row, name)

        return read

    expression = parse("api == Fetch and latency > 5ms or connection == 12").expression
    assert expression is not None
    assert expression.compile(get)(Exchange())
    assert asked == ["api_key", "connection"]


def test_every_field_names_attributes_of_the_row() -> None:
    offered = {field.name for field in fields(Exchange)}
    assert {name for field in FIELDS if field.of is None for name in field.attributes} <= offered
    assert offered <= set(dir(ExchangeRow))
    assert offered >= REQUEST_ATTRIBUTES
    named = {name for field in REQUEST for name in BY_NAME[field].attributes}
    assert named == REQUEST_ATTRIBUTES


def test_a_time_before_an_end_that_is_not_known_cannot_be_told() -> None:
    expression = parse("time >= -1h").expression
    assert expression is not None
    with pytest.raises(Unavailable):
        expression.compile()(Exchange(time=5))
    decided = parse("time >= -1h and api == Fetch").expression
    assert decided is not None
    assert not decided.compile()(Exchange(time=5, api_key=0))
    assert decided.anchored(7).compile()(Exchange(time=5, api_key=1))


HELD = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""Operators, and where the row's value may stand to the one asked for."""


@pytest.mark.parametrize("operator", HELD)
@pytest.mark.parametrize(
    ("field", "below", "same", "above"),
    [
        ("version", "10", "11", "1000"),
        ("latency", "55ms", "55.1ms", "1h"),
        ("size", "1111", "1112", "1MB"),
        ("time", "2025-11-24T15:59:59Z", "2025-11-24T16:00:00Z", "2026-11-24"),
        ("time", "15:59:59.999999999", "16:00", "16:00:00.000000001"),
        ("correlation", "-1", "881", "882"),
        ("request.body.timeoutMs", "29999", "30s", "30001"),
        ("response.body.hmac.decoded.version", "0", "1", "20"),
    ],
)
def test_values_in_order(field: str, below: str, same: str, above: str, operator: str) -> None:
    row = Exchange()
    found = [matches(f'{field} {operator} "{value}"', row) for value in (below, same, above)]
    assert found == [place in HELD[operator] for place in (">", "=", "<")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('time in ("15:00", "2025-11-24T16:00:00Z")', True), ('time in ("15:00", "2025-11-24T16:00:01Z")', False),
        ('time in ("16:00", "2020-01-01")', True), ('time not in ("16:00", "2020-01-01")', False),
        ("response.body.hmac.decoded.parts[] == 1", True), ("response.body.hmac.decoded.parts[] == 01", True),
        ("response.body.hmac.decoded.parts[] < x", False), ("response.body.hmac.decoded.parts[2] >= true", False),
        ("response.body.hmac.decoded.parts[1] < y", True), ("response.body.hmac.decoded.parts[1] > 5", True),
        ("response.body.hmac.decoded.parts[0] > x", False), ("response.body.hmac.decoded.parts[0] == x", False),
        ("response.body.hmac.decoded.parts[2] == false", False),
        ("response.body.hmac.decoded.parts[2] in (true, 1)", True), ("broker == 9092", False),
        ("broker == :9092", True), ("broker == :909", False), ("broker == ::2", False),
        ("broker in (1, [::1]:9092)", True), ("broker in (1, [::1]:9093)", False), ("broker != [::1]", False),
        ("broker ~ 9092", True), ("broker not contains 9092", False), ("client == 10.0.0.70", False),
        ("client in (10.0.0.8, :51544)", True), ("has size", True), ("size == 1112B", True), ("size != 1112", False),
        ("error in (NONE, 7)", False), ("error == NONE", False), ("all error in (6, 20)", True),
        ("all error in (6, 21)", False), ("error contains LEADER_OR", True), ("error ~ ^NOT", True),
    ],
)  # fmt: skip
def test_what_matches(text: str, expected: bool) -> None:
    assert matches(text, Exchange()) == expected
