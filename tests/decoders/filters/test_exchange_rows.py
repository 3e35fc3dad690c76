"""Filters over exchanges read from a capture, held to the same question asked of the expected JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from captures.reader import Reader, read
from decoders.exchange import Exchange
from decoders.filters import ExchangeRow, Unavailable, parse

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


@pytest.fixture(scope="module")
def reading() -> Iterator[tuple[Reader, list[Exchange]]]:
    with closing(read([CAPTURES / "kafka-1.1.1.pcap"])) as reader:
        yield reader, [item for item in reader if isinstance(item, Exchange)]


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    with gzip.open(CAPTURES / "kafka-1.1.1.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def selected(reading: tuple[Reader, list[Exchange]], text: str) -> list[Exchange]:
    reader, exchanges = reading
    expression = parse(text).expression
    assert expression is not None
    matches = expression.compile()
    found = []
    for exchange in exchanges:
        try:
            if matches(ExchangeRow(exchange, reader.source, reader.definitions)):
                found.append(exchange)
        except Unavailable:
            continue
    return found


def error_codes(value: Any) -> set[int]:
    """Every non-zero error code in a body, looked for without the code under test."""
    if isinstance(value, dict):
        own = {inner for name, inner in value.items() if name.endswith("rrorCode") and isinstance(inner, int) and inner}
        return own.union(*map(error_codes, value.values()))
    return set().union(*map(error_codes, value)) if isinstance(value, list) else set()


def test_errors_are_those_of_the_bodies(reading: tuple[Reader, list[Exchange]], expected: list[dict[str, Any]]) -> None:
    bodies = [line for line in expected if line["kind"] == "response"]
    wrong = sum(1 for line in bodies if error_codes(line["body"]))
    assert wrong
    assert len(selected(reading, "error")) == wrong
    leaderless = sum(1 for line in bodies if 5 in error_codes(line["body"]))
    assert len(selected(reading, "error == LEADER_NOT_AVAILABLE")) == leaderless


@pytest.mark.parametrize("name", ["Fetch", "Metadata", "Heartbeat"])
def test_apis(reading: tuple[Reader, list[Exchange]], name: str) -> None:
    found = selected(reading, f"api == {name}")
    assert found
    assert len(found) + len(selected(reading, f"api != {name}")) == len(reading[1])
    assert len({exchange.api_key for exchange in found}) == 1


def test_what_a_row_offers_agrees_with_its_exchange(reading: tuple[Reader, list[Exchange]]) -> None:
    exchange = reading[1][10]
    assert exchange.request is not None
    facts = {
        "exchange": exchange.number,
        "connection": exchange.connection.number,
        "client": exchange.connection.client,
        "broker": exchange.connection.broker,
        "version": exchange.api_version,
        "correlation": exchange.correlation_id,
        "status": exchange.status.value,
        "request.size": exchange.request.size,
    }
    text = " and ".join(f"{name} == {value}" for name, value in facts.items())
    assert selected(reading, text) == [exchange]
    assert exchange in selected(
        reading, f"latency == {exchange.latency_ns}ns and time == {exchange.request.time / 1e9:.6f}"
    )
