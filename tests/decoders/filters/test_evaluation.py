from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest

from decoders.filters import Row, Unavailable, parse
from decoders.filters.fields import FIELDS


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
    protocol: str = "kafka"
    status: str = "ok"
    error_codes: Sequence[int] = (6, 20)
    time: int = 1_764_000_000_000_000_000
    latency: int | None = 55_100_000
    request_size: int | None = 1024
    response_size: int | None = 88


ORPHAN = Exchange(api_key=None, api_version=None, client_id=None, error_codes=(), latency=None, request_size=None)


def matches(text: str, row: Row) -> bool:
    result = parse(text)
    assert result.expression is not None, result.message
    return result.expression.compile()(row)


TRUE = [
    "api == Produce", "api != Fetch", "api in (Fetch, Produce)", "api ~ ^Prod", "api ~ Send", "api contains rod",
    "version == 11", "version >= 11 and version < 12", "client.id == orders-svc", 'client.id ~ "orders-(svc|x)"',
    "client == 10.0.0.7", "client == :51544", "client == 10.0.0.7:51544", "client != 10.0.0.8", "client contains 0.7:5",
    "broker == ::1", "broker == [::1]", "broker == [::1]:9092", "broker in (::2, ::1)", "connection == 12",
    "error", "error == NOT_LEADER_OR_FOLLOWER", "error == NotLeaderForPartition", "error == 20", "error != 7",
    "error ~ LEADER", "not error == 7", "status == ok", "latency > 50ms", "latency <= 55.1ms", "size == 1112",
    "request.size >= 1KiB", "response.size < 1kB", "time >= 2025-11-24", "correlation == 881", "exchange == 430",
    "api == Fetch or error", "not (api == Fetch or not error)", "api", "latency", "not api == Fetch and error",
]  # fmt: skip
FALSE = [
    "api == Fetch", "api != Produce", "api ~ fetch", "version > 11", "client.id == orders", "client == 10.0.0",
    "broker == :19092", "not error", "error == NONE", "error != NOT_LEADER_OR_FOLLOWER", "error == STALE_LEADER_EPOCH",
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
             "client.id != x", "client.id ~ x", "api", "latency", "request.size", "error != 6", "api in (0, 1)"]
)  # fmt: skip
def test_a_comparison_with_what_is_not_there_is_false(text: str) -> None:
    assert not matches(text, ORPHAN)


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
        raise Unavailable("bytes are gone")

    @error_codes.setter
    def error_codes(self, value: Sequence[int]) -> None:
        pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [("error and api == Fetch", False), ("api == Fetch and error", False), ("error or api == Produce", True),
     ("api == Produce or error", True), ("not (error and api == Fetch)", True)],
)  # fmt: skip
def test_what_cannot_be_told_decides_nothing_where_the_rest_does(text: str, expected: bool) -> None:
    assert matches(text, Gone()) is expected


@pytest.mark.parametrize("text", ["error", "not error", "error and api == Produce", "api == Fetch or error"])
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
    assert {name for field in FIELDS for name in field.attributes} <= offered
    assert offered <= set(dir(Row))
