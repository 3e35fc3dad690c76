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
from kproxy.decoders.exchange_row import left_out, reasons
from kproxy.decoders.filters import ExchangeRow, Matcher, Unavailable, Why, parse
from tests.decoders.batches.support import batch, record
from tests.support.scripts import MILLISECOND, START, Script, eyes, play, request, response

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
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


def rows_of(script: Script) -> list[ExchangeRow]:
    played = play(script.end())
    return [ExchangeRow(one, played.tape, eyes()) for one in played.exchanges]


def told(row: ExchangeRow, name: str) -> Any:
    """What a row says of an attribute: a value, a list, or why it cannot tell."""
    try:
        value = getattr(row, name)
        return list(value) if isinstance(value, Iterator) else value
    except Unavailable as unavailable:
        return unavailable.why


def facts(row: ExchangeRow, *names: str) -> list[Any]:
    return [told(row, name) for name in names]


def test_what_a_row_says_of_an_exchange() -> None:
    records = batch(record(0, b"k", b"v", [(b"h", b"1"), (b"n", None)], 5) + record(1, None, None, time=-2000), 2)
    data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
    asked = request(0, 8, 7, "shop", acks=-1, transactionalId="x", topicData=data)
    topics = [{"name": "t", "partitionResponses": [{"index": 0, "errorCode": 6}]}]
    answered = response(0, 8, 7, responses=topics, throttleTimeMs=5)
    (row,) = rows_of(Script().client(asked).wait(4).broker(answered))
    assert facts(row, "number", "connection", "client", "broker", "protocol") == [
        1, 1, "10.0.0.1:51234", "10.0.0.2:9092", "kafka",
    ]  # fmt: skip
    assert facts(row, "api_key", "api_version", "api_class", "correlation_id", "client_id") == [0, 8, "core", 7, "shop"]
    assert facts(row, "time", "latency", "throttle") == [START + MILLISECOND, 5 * MILLISECOND, 5 * MILLISECOND]
    assert facts(row, "request_size", "response_size") == [len(asked), len(answered)]
    assert facts(row, "status", "status_seen", "error_codes", "retriable") == ["ok", "ok", [6], True]
    assert facts(row, "partial", "modified", "commented", "problem", "node") == [False, False, False, False, Why.NODE]
    assert facts(row, "topics", "groups", "txns", "acks", "fetch_role", "records") == [["t"], [], ["x"], -1, None, 2]
    assert facts(row, "record_keys", "record_values", "record_headers") == [["k"], ["v"], ["h: 1", "n: "]]
    # The second record's time is before the epoch.
    assert facts(row, "record_offsets", "record_timestamps") == [[0, 1], [1005 * MILLISECOND]]


def test_what_a_row_says_of_half_an_exchange() -> None:
    asked = request(3, 12, 0, "")
    (row,) = rows_of(Script().client(asked))
    assert facts(row, "request_size", "response_size", "latency", "client_id") == [len(asked), None, None, None]
    assert facts(row, "status", "error_codes", "retriable", "throttle", "records") == [
        "no_response", (), None, None, None,
    ]  # fmt: skip
    orphan = response(3, 12, 5)
    script = Script().client(asked).broker(response(3, 12, 0)).broker(orphan)
    *_, row = rows_of(script)
    assert facts(row, "api_key", "api_class", "request_size", "response_size") == [None, None, None, len(orphan)]
    assert facts(row, "time", "status", "topics") == [START + 3 * MILLISECOND, "orphan_response", Why.ORPHAN]
    assert facts(row, "error_codes", "records", "record_keys", "acks") == [Why.ORPHAN] * 4


def test_what_a_row_says_of_a_body_that_cannot_be_read() -> None:
    (row,) = rows_of(Script().client(request(3, 12, 0)).broker(response(3, 12, 0, raw=b"\1")))
    assert facts(row, "status", "status_seen", "problem") == ["undecodable", "ok", True]
    assert facts(row, "error_codes", "throttle", "topics") == [Why.UNDECODABLE] * 3
    (row,) = rows_of(Script().client(request(0, 8, 0, raw=b"\1")).broker(response(0, 8, 0)))
    assert facts(row, "status", "acks", "records", "record_keys") == ["undecodable", *[Why.UNDECODABLE] * 3]
    assert facts(row, "error_codes", "throttle", "retriable") == [[], None, None]


def test_what_a_row_says_of_bytes_that_are_gone() -> None:
    script = Script().client(request(3, 12, 0)).broker(response(3, 12, 0))
    played = play(script.end())

    class Gone:
        def read(self, start: int, end: int) -> bytes:
            return played.tape.read(start, end)[:-1]

    row = ExchangeRow(played.exchanges[0], Gone(), eyes())
    assert facts(row, "status", "status_seen", "error_codes", "topics") == ["cut", "ok", Why.GONE, Why.GONE]
    cut = Script().client(request(3, 12, 0)).broker(response(3, 12, 0), stored=9)
    (row,) = rows_of(cut)
    assert facts(row, "status", "partial", "error_codes", "throttle") == ["cut", True, Why.MISSING, Why.MISSING]


def test_reasons_are_counted_the_most_frequent_first() -> None:
    counts = {Why.TLS: 4, Why.SECRET: 1234, Why.GONE: 0, Why.ORPHAN: 4}
    assert reasons(counts) == "secret withheld (1,234), TLS (4), request not captured (4)"
    assert left_out(counts) == f"1,242 exchanges left out because the filter could not decide: {reasons(counts)}"
    assert left_out({Why.TLS: 1}) == "1 exchange left out because the filter could not decide: TLS (1)"
    assert left_out({Why.TLS: 0}) is None
