"""The index of real captures agrees with their reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.captures import reader as captures_reader
from kproxy.captures.index import format as layout
from kproxy.captures.index.format import Flag, State
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.opening import open_source
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.schema import errors

DATA = Path(__file__).parents[2] / "data"
CAPTURES = sorted((DATA / "captures").glob("*.pcap"))


def exchanges(path: Path) -> tuple[list[Exchange], Health, captures_reader.Reader]:
    reader = captures_reader.read([path])
    items = list(reader)
    found = sorted((item for item in items if isinstance(item, Exchange)), key=lambda each: each.number)
    return found, reader.health, reader


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_rows_equal_the_exchanges(path: Path, tmp_path: Path) -> None:
    assert run([path], tmp_path / "index") is None
    expected, health, reader = exchanges(path)
    with IndexReader(tmp_path / "index") as index:
        assert index.count == len(expected)
        assert index.meta["state"] == "complete"
        assert index.meta["health"]["packets"] == health.packets
        assert index.meta["bytes_read"] == index.meta["bytes_total"] == path.stat().st_size
        source = open_source(index.meta["sources"])
        for number, exchange in enumerate(expected):
            row = index.row(number)
            line = exchange_json(exchange, reader.source, reader.definitions)
            assert exchange.number == number + 1
            assert layout.STATUS_OF[State(row.state)] == Status(line["status"])
            assert (None if row.latency == layout.NO_LATENCY else row.latency) == exchange.latency_ns
            assert sizes(row.request_size, row.response_size) == sizes_of(exchange)
            assert row.api_key == (layout.NO_NUMBER if exchange.api_key is None else exchange.api_key)
            assert row.api_version == (layout.NO_NUMBER if exchange.api_version is None else exchange.api_version)
            assert row.correlation == (exchange.correlation_id or 0)
            assert index.string(row.client) == (exchange.client_id or "")
            connection = index.connection(row.connection)
            assert index.string(connection.client) == exchange.connection.client
            assert index.string(connection.broker) == exchange.connection.broker
            assert row.more_errors == max(0, len(line["error_codes"]) - 1)
            if line["error_codes"]:
                assert errors.name_in(row.api_key, row.api_version, row.error) == line["error_codes"][0]
            else:
                assert row.error == 0
            assert bool(row.flags & Flag.PROBLEMS) == bool(line["problems"])
            detail = index.detail(row)
            assert [problem.to_json() for problem in detail.problems] == line["problems"]
            for mine, theirs in ((detail.request, exchange.request), (detail.response, exchange.response)):
                assert (mine is None) == (theirs is None)
                if mine is not None and theirs is not None:
                    assert mine == replace(theirs, comments=tuple(theirs.comments))
                    assert bytes(mine.data(source)) == bytes(theirs.data(reader.source))
        source.close()
    reader.close()


def sizes(request: int, response: int) -> tuple[int | None, int | None]:
    return None if request == layout.NO_SIZE else request, None if response == layout.NO_SIZE else response


def sizes_of(exchange: Exchange) -> tuple[int | None, int | None]:
    frames = (exchange.request, exchange.response)
    request, response = (None if frame is None else frame.size for frame in frames)
    return request, response


def labels(name: str, tmp_path: Path) -> set[tuple[int, str]]:
    run([DATA / "captures" / name], tmp_path / "index")
    with IndexReader(tmp_path / "index") as index:
        return {(row.api_key, index.string(row.label)) for row in index.rows(0, index.count)}


def test_labels_name_topics_groups_and_transactions(tmp_path: Path) -> None:
    found = labels("kafka-4.4.0-librdkafka.pcap", tmp_path)
    assert (0, "shop-orders-0") in found
    assert (8, "g:shop-consumer") in found
    assert (26, "t:shop-tx abort") in found
    assert (26, "t:shop-tx commit") in found
    assert (10, "t:shop-tx") in found


def test_brokers_are_named_by_metadata(tmp_path: Path) -> None:
    run([DATA / "captures" / "kafka-0.8.2.2.pcap"], tmp_path / "index")
    with IndexReader(tmp_path / "index") as index:
        nodes = {
            index.string(entry.broker): entry.node
            for entry in map(index.connection, range(1, index.meta["connections"] + 1))
        }
    assert nodes == {"127.0.0.1:21001": 1, "127.0.0.1:21002": 2}


def test_a_long_poll_is_told_apart_and_records_are_counted(tmp_path: Path) -> None:
    run([DATA / "captures" / "kafka-1.1.1.pcap"], tmp_path / "index")
    with IndexReader(tmp_path / "index") as index:
        fetches = [row for row in index.rows(0, index.count) if row.api_key == 1]
        assert any(row.flags & Flag.WAITED for row in fetches)
        assert any(not row.flags & Flag.WAITED for row in fetches)
        assert any(0 < row.records < layout.NO_RECORDS for row in fetches)
        assert all(row.records == layout.NO_RECORDS for row in index.rows(0, index.count) if row.api_key == 3)
