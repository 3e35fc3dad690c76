"""Filters over an index agree with the same filters over the bodies of exchanges."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis.stats import Stats
from kproxy.captures.index import filtering
from kproxy.captures.index import format as layout
from kproxy.captures.index.exchanges import Exchanges
from kproxy.captures.index.filtering import IndexFilter
from kproxy.captures.index.format import Row
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.seen import SeenValues
from kproxy.captures.index.values import HALF_READ
from kproxy.captures.reader import Reader, read
from kproxy.decoders import schema
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.fields import FIELDS, Cost
from kproxy.decoders.filters import ExchangeRow, Expression, Learnt, Unavailable, Why, parse
from kproxy.decoders.filters.expression import Not
from kproxy.decoders.filters.language import LISTS, operators
from kproxy.decoders.filters.values import LITERALS
from tests.decoders.batches.support import batch, record
from tests.decoders.records.test_internal import CLUSTER, PASSWORD, metadata
from tests.support.indexes import IndexBuilder, heartbeat, sample
from tests.support.thinned import thinned

DATA = Path(__file__).parents[2] / "data"
CAPTURES = sorted([*DATA.glob("captures/*.pcap"), *DATA.glob("golden/*.pcap")])
EXPRESSIONS = [
    "api == Fetch", "api != Fetch", "api in (Produce, Metadata, 18)", "api ~ ^J", "api contains Group", "api",
    "class == core", "class in (group, transaction)", "class != core", "not class == core", "class ~ ^a",
    "protocol == kafka", "version < 4", "version in (0, 11)", "version >= 9 and version < 13",
    "client.id", "client.id ~ a", 'client.id != ""', "client == 127.0.0.1", "broker != 127.0.0.1",
    "broker == 1", "broker in (0, 2)", "not broker == 1", "broker ~ 0", "connection < 5", "connection == 2",
    "topic", "not topic", "topic ~ o", "topic != nothing", "all topic ~ e", "topic in (a, b)", 'topic contains ""',
    "group", "group ~ .", "all group == g", "txn", "txn != t", "acks == 0", "acks == -1", "acks", "acks != 1",
    "fetch.role == consumer", "fetch.role == follower", "fetch.role != follower",
    "error", "not error", "error == NONE", "error != NONE", "error == UNKNOWN_TOPIC_OR_PARTITION", "error ~ LEADER",
    "all error in (5, 3, 16)", "error in (0, 5)", "error != 5", "error.retriable", "error.retriable == false",
    "status == ok", "status != ok", "status == no_response", "status in (cut, tls, undecodable, orphan_response)",
    "status ~ reply", "latency > 1ms", "latency <= 500us", "latency", "not latency", "latency in (1ms, 2ms)",
    "first.byte > 1ms", "first.byte", "not first.byte", "first.byte != 0", "first.byte not in (1ms, 2ms)",
    "throttle", "throttle > 1ms", "not throttle", "size > 1kB", "size < 100", "size == 88", "request.size > 100",
    "response.size", "not response.size", "response.size in (40, 44)", "records", "records > 1", "records == 0",
    "not records", "time >= 2020-01-01", 'time >= "12:00"', 'time < "12:00" or time > "23:00"', "correlation > 5",
    "correlation", "exchange < 20", "exchange in (1, 3)", "problem", "not problem", "partial", "modified", "commented",
    "record.key", "record.value ~ 1", "record.value != x", "all record.offset >= 0", "record.header", "not record.key",
    "record.timestamp > 2020-01-01", "record.key == 1 or api == Metadata", "record.offset == 0 and latency > 1ms",
    "record ~ 1", "batch.codec == gzip", "batch.codec != none", "batch.size > 200", "batch.magic < 2", "text ~ .",
    "text == none", '"shop"', "'K1' or latency > 1ms", 'not "value number"',
    "has response.body.throttleTimeMs", "response.body.throttleTimeMs == 0", "request.body.timeoutMs > 1s",
    "response.body.responses[].partitions[].errorCode == 0", "all response.body.topics[].errorCode == NONE",
    "response.body.brokers[0].nodeId == 1", "request.body.topicData[].partitionData[].index in (0, 1)",
    "request.body.topicData[].partitionData[].records.batches[].compression != none",
    "has response.body.responses[].partitions[].records.batches[].records[].key",
    "request.body.protocols[].metadata.decoded.topics[] ~ .", "not has request.body.acks",
    "api == Fetch and not has response.body.sessionId or error",
    "topic ~ o and latency > 100us or not error and group",
    "any topic != a", "any error != 5", "any response.body.topics[].partitions[].isrNodes[] != 3",
    "all response.body.topics[].partitions[].isrNodes[] != 3", "response.body.topics[].partitions[].isrNodes[] != 3",
    "request.body.topicData[].partitionData[].index not in (1, 7)", "any record.key not contains 1",
]  # fmt: skip


def every_test() -> Iterator[str]:
    """Every field with every operator; with `any` and `all` too if it may have several values."""
    for field in FIELDS:
        value = f'"{LITERALS[field.type].example}"'
        for symbol in operators(field):
            shown = f"({value}, {value})" if symbol in LISTS else value
            for quantifier in ("", "any ", "all ") if field.many else ("",):
                yield f"{quantifier}{field.name} {symbol} {shown}"


@dataclass
class Both:
    """A capture read twice: as an index, and as exchanges with all that is learnt from them."""

    index: IndexReader
    reader: Reader
    exchanges: list[Exchange]
    learnt: Learnt

    def by_index(self, expression: Expression, most_bodies: int | None = None) -> tuple[list[int], Counter[Why]]:
        """Numbers (from 1) of matching exchanges, and counts of undecided ones by reason."""
        found: list[int] = []
        unknown: Counter[Why] = Counter()
        at = 0
        with closing(IndexFilter(self.index, expression, self.reader.definitions)) as wanted:
            while at < self.index.count:
                scan = wanted.scan(at, self.index.count, most_bodies=most_bodies)
                assert scan.stop > at or most_bodies is not None
                found += scan.matched
                unknown += scan.unknown
                at = scan.stop
        return [number + 1 for number in found], unknown

    def by_bodies(self, expression: Expression) -> tuple[list[int], Counter[Why]]:
        matches = expression.compile()
        found: list[int] = []
        unknown: Counter[Why] = Counter()
        for row in self.rows:
            try:
                if matches(row):
                    found.append(row.number)
            except Unavailable as unavailable:
                unknown[unavailable.why] += 1
        return sorted(found), unknown

    @cached_property
    def rows(self) -> list[ExchangeRow]:
        reader = self.reader
        return [ExchangeRow(one, reader.source, reader.definitions, self.learnt) for one in self.exchanges]


def opened(capture: Path, directory: Path) -> Iterator[Both]:
    run([capture], directory)
    with IndexReader(directory) as index, closing(read([capture])) as reader:
        exchanges = [item for item in reader if isinstance(item, Exchange)]
        learnt = Learnt()
        for exchange in exchanges:
            learnt.learn(exchange, reader.source, reader.definitions)
        yield Both(index, reader, exchanges, learnt)


@pytest.fixture(scope="module", params=thinned(CAPTURES, 3), ids=lambda path: path.stem)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    yield from opened(request.param, tmp_path_factory.mktemp("filtering"))


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    yield from opened(DATA / "captures/kafka-4.4.0-librdkafka.pcap", tmp_path_factory.mktemp("newest"))


def expression(text: str) -> Expression:
    found = parse(text).expression
    assert found is not None, parse(text).message
    return found


def test_the_index_says_what_the_bodies_say(both: Both) -> None:
    assert both.index.count == len(both.exchanges)
    for text in EXPRESSIONS:
        assert both.by_index(expression(text)) == both.by_bodies(expression(text)), text


def test_every_operator_of_every_field_says_the_same(newest: Both) -> None:
    for text in every_test():
        assert newest.by_index(expression(text)) == newest.by_bodies(expression(text)), text


@pytest.mark.parametrize("field", ["size", "request.size", "response.size"])
def test_sizes_are_those_of_stats(newest: Both, field: str) -> None:
    """Sizes are those of whole frames with the length field, as in `stats`."""
    exchange = next(one for one in newest.exchanges if one.request is not None and one.response is not None)
    assert exchange.request is not None
    assert exchange.response is not None
    stats = Stats(newest.reader.definitions)
    stats.add(exchange, newest.reader.source)
    (line,) = stats.lines()
    size = {"request.size": line.request_bytes, "response.size": line.response_bytes}
    size["size"] = sum(size.values())
    for text in (f"{field} == {size[field]}", f"{field} in (1, {size[field]})", f"not {field} != {size[field]}"):
        assert exchange.number in newest.by_index(expression(text))[0], text
        assert exchange.number in newest.by_bodies(expression(text))[0], text


def test_the_expressions_ask_for_every_field() -> None:
    asked = {field.name for text in EXPRESSIONS for field in expression(text).fields()}
    assert {field.name for field in FIELDS} <= asked


def test_the_expressions_divide_the_exchanges(newest: Both) -> None:
    """More than half of the expressions select some exchanges: those that select none or all would prove little."""
    divided = {text for text in EXPRESSIONS if 0 < len(newest.by_index(expression(text))[0]) < newest.index.count}
    assert len(divided) > len(EXPRESSIONS) // 2


def without(packets: int, capture: Path, directory: Path) -> Path:
    """The capture without every `packets`-th packet."""
    data = capture.read_bytes()
    kept, at, number = bytearray(data[:24]), 24, 0
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        number += 1
        if number % packets:
            kept += data[at : at + 16 + length]
        at += 16 + length
    damaged = directory / "damaged.pcap"
    damaged.write_bytes(kept)
    return damaged


@pytest.mark.parametrize("name", ["kafka-1.1.1", "kafka-4.4.0-librdkafka", "kafka-0.8.2.2"])
def test_the_same_where_bytes_are_missing(name: str, tmp_path: Path) -> None:
    for both in opened(without(23, DATA / f"captures/{name}.pcap", tmp_path), tmp_path / "index"):
        total_unknown = 0
        for text in EXPRESSIONS:
            found, unknown = both.by_index(expression(text))
            assert (found, unknown) == both.by_bodies(expression(text)), text
            opposite, as_unknown = both.by_index(Not(expression(text)))
            assert unknown == as_unknown
            assert len(found) + len(opposite) + unknown.total() == both.index.count
            total_unknown += unknown.total()
        assert total_unknown > 100
        assert both.by_index(expression("partial"))[0]


def test_columns_answer_without_bodies(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are decoded only for fields that the index lacks, and for rows that the indexer could not decode."""
    opened: list[Row] = []
    row = Exchanges.row

    def noted(self: Exchanges, number: int, of: Row) -> ExchangeRow:
        opened.append(of)
        return row(self, number, of)

    monkeypatch.setattr(Exchanges, "row", noted)
    for text in EXPRESSIONS:
        if expression(text).cost is Cost.INDEX:
            both.by_index(expression(text))
    assert all(one.subject == 0 or one.state in HALF_READ for one in opened)
    before = len(opened)
    both.by_index(expression("has request.body.acks"))
    assert len(opened) > before


@pytest.mark.parametrize("most", [1, 7])
def test_a_scan_ends_after_so_many_bodies(newest: Both, most: int) -> None:
    for text in ("request.body.acks == -1", "record.key and latency > 0"):
        assert newest.by_index(expression(text), most_bodies=most) == newest.by_index(expression(text))


def test_chunks_do_not_matter(newest: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {text: newest.by_index(expression(text)) for text in EXPRESSIONS}
    monkeypatch.setattr(filtering, "CHUNK", 37)
    assert whole == {text: newest.by_index(expression(text)) for text in EXPRESSIONS}


@pytest.mark.parametrize("field", ["api", "topic", "group", "client.id", "error", "status", "version", "fetch.role"])
def test_values_that_were_seen(newest: Both, field: str) -> None:
    counts = dict(SeenValues(newest.index, newest.reader.definitions)(field))
    assert counts
    for value, count in counts.items():
        assert len(newest.by_index(expression(f'{field} == "{value}"'))[0]) == count, value


def test_values_that_only_bodies_tell_are_not_counted(newest: Both) -> None:
    seen = SeenValues(newest.index, newest.reader.definitions)
    assert [list(seen(field)) for field in ("latency", "record.key", "request.body.acks", "no.field")] == [[]] * 4


def test_rows_without_a_subject_are_decoded(tmp_path: Path) -> None:
    """An index from before this column was added holds zeros in it."""
    path = sample(tmp_path)
    rows = bytearray((path / "rows").read_bytes())
    for at in range(layout.ROW_SIZE, len(rows), layout.ROW_SIZE):
        rows[at + 60 : at + 64] = bytes(4)
    with IndexReader(path) as index, closing(IndexFilter(index, expression("group"), schema.definitions())) as wanted:
        before = wanted.scan(0, index.count)
    (path / "rows").write_bytes(rows)
    with IndexReader(path) as index, closing(IndexFilter(index, expression("group"), schema.definitions())) as wanted:
        assert wanted.scan(0, index.count) == before
    assert before.matched


def test_a_row_whose_exchange_is_not_over_is_told(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    heartbeat(builder, error=27)
    late = heartbeat(builder, status=Status.WAITING)
    builder.flush()
    with IndexReader(builder.path) as index:
        wanted = IndexFilter(index, expression("error or latency > 0"), builder.definitions)
        scan = wanted.scan(0, index.count)
        assert (scan.matched, scan.unsettled) == ([0, 1], [1])
        late.status = Status.OK
        builder.put(late)
        builder.flush()
        index.refresh()
        assert wanted.test(1) is True
        wanted.close()


def test_a_client_id_that_the_index_cuts(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    long = "c" * 5000
    heartbeat(builder, client=long)
    heartbeat(builder)
    builder.finish()
    with IndexReader(builder.path) as index:
        for text, found in ((f'client.id == "{long}"', [0]), ('client.id ~ "^c+$"', [0]), ('client.id ~ "…"', [])):
            with closing(IndexFilter(index, expression(text), builder.definitions)) as wanted:
                assert wanted.scan(0, index.count).matched == found


def test_captures_that_are_gone_tell_nothing(tmp_path: Path) -> None:
    path = sample(tmp_path)
    (tmp_path / "capture.bin").unlink()
    with IndexReader(path) as index:
        wanted = IndexFilter(index, expression("has request.body.groupId"), schema.definitions())
        scan = wanted.scan(0, index.count)
        assert scan.matched == []
        assert scan.unknown[Why.GONE] + len(scan.unsettled) == index.count
        wanted.close()


def test_secrets_answer_no_filter(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    configs = [{"name": "ssl.key.password", "value": "hunter2"}, {"name": "log.dir", "value": "d"}]
    broker = {"resourceType": 4, "resourceName": "1", "configs": configs}
    change = {"resources": [broker], "validateOnly": False}
    builder.exchange("AlterConfigs", 1, change, {"throttleTimeMs": 0, "responses": []})
    builder.finish()
    with IndexReader(builder.path) as index:
        for value, matched, unknown in (("hunter2", [], {Why.SECRET: 1}), ("d", [0], {})):
            text = f"request.body.resources[].configs[].value == {value}"
            with closing(IndexFilter(index, expression(text), builder.definitions)) as wanted:
                scan = wanted.scan(0, index.count)
                assert (scan.matched, scan.unknown) == (matched, unknown)


def test_times_count_back_from_the_newest_request_at_the_moment_of_applying(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    for _ in range(5):
        heartbeat(builder)  # requests 20 ms apart
    builder.flush()
    with (
        IndexReader(builder.path) as index,
        closing(IndexFilter(index, expression("time >= -20ms"), builder.definitions)) as wanted,
    ):
        assert wanted.scan(0, index.count).matched == [3, 4]
        heartbeat(builder)
        builder.flush()
        index.refresh()
        assert wanted.scan(0, index.count).matched == [3, 4, 5]
        for text, found in (("time >= -20ms", [4, 5]), ("not time < -0s", [5]), ("time in (-20ms, -100ms)", [0, 4])):
            with closing(IndexFilter(index, expression(text), builder.definitions)) as again:
                assert again.scan(0, index.count).matched == found


def test_all_of_what_is_read_into_an_empty_index_is_after_its_end(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    builder.flush()
    with (
        IndexReader(builder.path) as index,
        closing(IndexFilter(index, expression("time >= -20ms"), builder.definitions)) as wanted,
    ):
        heartbeat(builder)
        builder.flush()
        index.refresh()
        assert wanted.scan(0, index.count).matched == [0]


def fetched(*values: bytes | None) -> dict[str, Any]:
    """A Fetch response with the values that are not None as a batch of `__cluster_metadata`, or with empty records."""
    there = [value for value in values if value is not None]
    data = b"".join(record(delta, None, value) for delta, value in enumerate(there))
    records = batch(data, len(there), offset=40) if there else b""
    return {"responses": [{"topic": CLUSTER, "partitions": [{"partitionIndex": 0, "records": records}]}]}


@pytest.mark.parametrize(
    ("text", "matched", "unknown"),
    [
        ("record.offset >= 0", [1, 2, 3], {}),
        ("record.offset == 41", [2], {}),
        ("record.timestamp > 1970-01-01", [1, 2, 3], {}),
        ("record.key", [], {}),
        ("record.value contains orders", [1, 2], {Why.SECRET: 1}),
        ("record.value contains hunter2", [], {Why.SECRET: 2}),
        ("not record.value", [0], {Why.SECRET: 1}),
        ("has response.body.responses[].partitions[].records.batches[].records[].value", [1, 2, 3], {}),
    ],
)
def test_records_of_the_cluster_s_metadata(
    tmp_path: Path, text: str, matched: list[int], unknown: dict[Why, int]
) -> None:
    """Empty records decide a filter; only values that may be secret are withheld, never offsets and times."""
    topic = metadata(2, 0, "TopicRecord", name="orders", topicId=bytes(15) + b"\7")
    builder = IndexBuilder(tmp_path)
    for answer in (fetched(), fetched(topic), fetched(PASSWORD, topic), fetched(b"\1\x04\0garbage hunter2")):
        builder.exchange("Fetch", 12, {}, answer)
    builder.finish()
    with (
        IndexReader(builder.path) as index,
        closing(IndexFilter(index, expression(text), builder.definitions)) as wanted,
    ):
        scan = wanted.scan(0, index.count)
        assert (scan.matched, scan.unknown) == (matched, unknown)
