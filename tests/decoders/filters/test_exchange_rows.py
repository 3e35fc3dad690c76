"""Filters over exchanges of a capture agree with the same questions about the expected JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.reader import Reader, read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.filters import ExchangeRow, Matcher, Unavailable, Why, parse

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
PRODUCE, FETCH, METADATA = 0, 1, 3


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
    """Every non-zero error code in a body, found without the code under test."""
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


def records(value: Any) -> Iterator[dict[str, Any]]:
    """Every record in an exchange's JSON, except control records."""
    if isinstance(value, list):
        for element in value:
            yield from records(element)
    elif isinstance(value, dict) and not value.get("isControl"):
        yield from value["records"] if "recordCount" in value else ()
        for inner in value.values():
            yield from records(inner)


@pytest.mark.parametrize("release", ["kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_records_are_those_of_the_exchange_json(release: str) -> None:
    compared = 0
    with closing(read([CAPTURES / f"{release}.pcap"])) as reader:
        for exchange in [item for item in reader if isinstance(item, Exchange)]:
            row = ExchangeRow(exchange, reader.source, reader.definitions)
            shown = exchange_json(exchange, reader.source, reader.definitions)
            expected = list(records([shown["request"]["body"], (shown["response"] or {}).get("body")]))
            texts = [one["value"] for one in expected if isinstance(one["value"], str)]
            assert [value for value in row.record_values if value in texts] == texts
            keys = [one["key"] for one in expected if isinstance(one["key"], str)]
            assert [key for key in row.record_keys if key in keys] == keys
            assert list(row.record_offsets) == [one["offset"] for one in expected]
            compared += len(expected)
            names = [f"{header['key']}: {header['value']}" for one in expected for header in one.get("headers", ())]
            assert list(row.record_headers) == names
    assert compared > 20


def test_records_of_a_batch_that_cannot_be_opened_are_not_known() -> None:
    with closing(read([CAPTURES / "kafka-4.4.0-librdkafka.pcap"])) as reader:
        exchanges = [item for item in reader if isinstance(item, Exchange) and item.api_key == 0]
        compressed = parse("request.body.topicData[].partitionData[].records.batches[].compression != none").expression
        assert compressed is not None
        matches = compressed.compile()
        opened = next(one for one in exchanges if matches(ExchangeRow(one, reader.source, reader.definitions)))
        assert opened.request is not None
        data = bytearray(opened.request.data(reader.source))
        data[-8:] = bytes(8)

        class Hurt:
            def read(self, start: int, end: int) -> bytes:
                return bytes(data[start:end])

        opened.request.spans = [(0, len(data))]
        row = ExchangeRow(opened, Hurt(), reader.definitions)
        for text in ("record.value == x", "not record.value == x", "all record.offset < 0 or record.key == nobody"):
            expression = parse(text).expression
            assert expression is not None
            with pytest.raises(Unavailable):
                expression.compile()(row)


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
        "request.size": exchange.request.size + 4,
    }
    text = " and ".join(f"{name} == {value}" for name, value in facts.items())
    assert selected(reading, text) == [exchange]
    assert exchange in selected(
        reading, f"latency == {exchange.latency_ns}ns and time == {exchange.request.time / 1e9:.6f}"
    )


@pytest.mark.parametrize(("node", "port"), [(1, 23001), (2, 23002)])
def test_a_broker_is_asked_by_its_node_id_once_metadata_told_it(
    reading: tuple[Reader, list[Exchange]], node: int, port: int
) -> None:
    reader, exchanges = reading
    matcher = asked(f"broker == {node}", reader)
    answers = [matcher.matches(exchange) for exchange in exchanges]
    first = next(at for at, exchange in enumerate(exchanges) if exchange.api_key == METADATA)
    assert answers[:first] == [None] * first
    assert matcher.unknown == {Why.NODE: first}
    assert answers[first:] == [exchange.connection.broker.endswith(f":{port}") for exchange in exchanges[first:]]


def test_a_topic_is_asked_by_its_name_where_messages_have_its_id() -> None:
    with closing(read([CAPTURES / "kafka-4.4.0-librdkafka.pcap"])) as reader:
        exchanges = [item for item in reader if isinstance(item, Exchange)]
        matcher = asked("topic ~ .", reader)
        fetches = [exchange for exchange in exchanges if matcher.matches(exchange) and exchange.api_key == FETCH]
        assert not matcher.unknown
        alone = ExchangeRow(fetches[-1], reader.source, reader.definitions)
        with pytest.raises(Unavailable) as unavailable:
            list(alone.topics)
        assert unavailable.value.why is Why.TOPIC_ID


def asked(text: str, reader: Reader) -> Matcher:
    expression = parse(text).expression
    assert expression is not None
    return Matcher(expression, reader.source, reader.definitions)


@pytest.mark.parametrize("release", ["kafka-0.8.2.2", "kafka-1.1.1"])
def test_records_are_counted_as_their_content_says(release: str) -> None:
    """Compressed message sets count as well, though their headers do not give a number."""
    with closing(read([CAPTURES / f"{release}.pcap"])) as reader:
        rows = [
            ExchangeRow(item, reader.source, reader.definitions)
            for item in reader
            if isinstance(item, Exchange) and item.api_key in {PRODUCE, FETCH}
        ]
        counts = [(row.records or 0, len(list(row.record_offsets))) for row in rows]
    assert max(told for told, _ in counts) > 5
    assert all(told == there for told, there in counts)
