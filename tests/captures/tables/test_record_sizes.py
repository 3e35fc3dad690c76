"""Sizes of records in the tables, with --record-sizes, are those of the records in the JSON of the same captures."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard
from click.testing import CliRunner

from kproxy.captures.spark import job, local
from kproxy.captures.spark.read.flows import Options
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import traffic
from tests.captures.spark import by_json
from tests.captures.spark.comparing import assert_same, counted, exported
from tests.captures.spark.test_joined import Talk, written
from tests.captures.tables.test_tables import export, lines, table
from tests.decoders.batches.support import batch, message, record
from tests.support.peers import DefaultRecordBatchBuilder, LegacyRecordBatchBuilder
from tests.support.scripts import request, response

SIZED = ("exchanges", "exchange_topics", "record_batches")
CAPTURES = (
    traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.DATA / "findings" / "upgrade.cutoff.pcap.xz",
)  # fmt: skip
ONE = record(0, b"key", b"value", [(b"head", b"er"), (b"null", None)])
GZIP, LZ4, ZSTD, UNKNOWN = 1, 3, 4, 6
PACKET = 16_000
Row = dict[str, Any]


def sized(capture: Path, to: Path, *more: str) -> dict[str, list[Row]]:
    """Tables of an export with sizes; the numbers of their exchanges are in each row."""
    export(capture, "--format", "parquet", "-o", to, "--tables", ",".join(SIZED), "--record-sizes", *more)
    found = {name: table(to, name) for name in SIZED}
    numbers = {row["exchange_id"]: row["exchange"] for row in found["exchanges"]}
    return {name: [row | {"exchange": numbers[row["exchange_id"]]} for row in rows] for name, rows in found.items()}


def sums(records: list[Any]) -> tuple[int, int, int]:
    """(bytes of keys, of values, of headers) in the JSON of records."""
    headers = [one for shown in records for one in shown.get("headers", ())]
    return (
        sum(by_json.payload(shown["key"]) for shown in records),
        sum(by_json.payload(shown["value"]) for shown in records),
        sum(len(one["key"].encode()) + by_json.payload(one["value"]) for one in headers),
    )


def fields(found: Sequence[by_json.Line]) -> Iterator[tuple[int, str, int, list[Mapping[str, Any]]]]:
    """(exchange, topic, partition, batches) of each records field."""
    for part in [*by_json.produced(found), *by_json.fetched(found)]:
        if part.records is not None:
            yield part.line["exchange"], part.topic, part.partition, part.records["batches"]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_sizes_are_those_of_the_json(capture: Path, tmp_path: Path) -> None:
    found = sized(capture, tmp_path, "-Y", "api == Produce or api == Fetch")
    shown = traffic.exchanges(lines(capture, "--show-secrets", "-Y", "api == Produce or api == Fetch"))
    expected: Counter[Any] = Counter()
    of_topics: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for number, topic, partition, batches in fields(shown):
        for one in batches:
            keys, values, headers = sums(one["records"])
            place, size = (number, topic, partition), len(one["records"])
            expected[*place, one["magic"], one["compression"], one["sizeInBytes"], size, keys, values, headers] += 1
            of_topics[place].append((keys, values))
    names = (
        "exchange", "topic", "partition", "magic", "codec", "batch_bytes", "records", "key_bytes", "value_bytes",
        "header_bytes",
    )  # fmt: skip
    assert Counter(tuple(row[name] for name in names) for row in found["record_batches"]) == expected
    assert expected
    rows = {(row["exchange"], row["topic"], row["partition"]): row for row in found["exchange_topics"]}
    for place, sizes in of_topics.items():
        row = rows[place]
        assert (row["key_bytes"], row["value_bytes"]) == tuple(map(sum, zip(*sizes, strict=True)))
        assert row["records"] == sum(key[6] * count for key, count in expected.items() if key[:3] == place)


def test_captures_of_many_formats_and_codecs(tmp_path: Path) -> None:
    """Those with which the test above compares."""
    found = set()
    for index, capture in enumerate(CAPTURES):
        rows = sized(capture, tmp_path / str(index))["record_batches"]
        found |= {(row["magic"], row["codec"]) for row in rows}
    assert found >= {(magic, codec) for magic, codecs in FOUND.items() for codec in codecs}


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FOUND = {0: ("none", "gzip", "snappy"), 1: ("none",), 2: CODECS}
"""By magic, the codecs in these captures."""
PARTS = [(None, None, []), (b"k" * 70, b"v" * 9000, []), (b"", b"value", [("h", b"12"), ("null", None)])] * 20
"""(key, value, headers) of records; only magic 2 has headers."""


def by_others(magic: int, codec: int) -> bytes:
    """A batch or message set of PARTS, written by kafka-python."""
    if (magic, codec) == (0, LZ4):
        return message(0, 59, None, lz4_of_old(by_others(0, 0)), attributes=LZ4)
    if magic == 2:
        builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
        for offset, (key, value, headers) in enumerate(PARTS):
            builder.append(offset, 5, key, value, headers)
    else:
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
        for offset, (key, value, _) in enumerate(PARTS):
            builder.append(offset, 5, key, value)
    return bytes(builder.build())


def lz4_of_old(data: bytes) -> bytes:
    """An LZ4 frame whose header has another checksum than the format's, as in magic 0 (KAFKA-3160)."""
    frame = bytearray(lz4.frame.compress(data, store_size=False))
    frame[6] ^= 0xFF
    return bytes(frame)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batches_of_another_writer(magic: int, tmp_path: Path) -> None:
    codecs = CODECS if magic == 2 else CODECS[:4]
    capture = captured(tmp_path / "a.pcap", produced(*(by_others(magic, codec) for codec, _ in enumerate(codecs))))
    rows = sized(capture, tmp_path / "out")["record_batches"]
    found: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
    for row in rows:
        assert (row["magic"], row["codec"]) == (magic, codecs[row["partition"]])
        for index, name in enumerate(("records", "key_bytes", "value_bytes", "header_bytes")):
            found[row["codec"]][index] += row[name]
    assert found == {codec: [60, 20 * 70, 20 * 9005, 20 * 7 if magic == 2 else 0] for codec in codecs}
    assert len(rows) == (len(codecs) if magic == 2 else 60 + 3)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_without_the_option_sizes_are_null(capture: Path, tmp_path: Path) -> None:
    export(capture, "--format", "parquet", "-o", tmp_path)
    rows = table(tmp_path, "record_batches")
    columns = ("key_bytes", "value_bytes", "header_bytes")
    assert {row[name] for row in rows for name in columns} == {None}
    assert {row[name] for row in table(tmp_path, "exchange_topics") for name in columns[:2]} == {None}
    whole = sized(capture, tmp_path / "sized")["record_batches"]
    assert None not in {row[name] for row in whole for name in (*columns, "records")}

    def without(rows: list[Row]) -> Counter[Any]:
        return counted({name: row[name] for name in row if name not in {*columns, "records"}} for row in rows)

    assert without(rows) == without([{name: row[name] for name in rows[0]} for row in whole])


def produced(*fields: bytes) -> tuple[bytes, bytes]:
    """A Produce whose partitions have these records, and its response."""
    asked = [{"name": "orders", "partitionData": [{"index": i, "records": one} for i, one in enumerate(fields)]}]
    told = [{"name": "orders", "partitionResponses": [{"index": i, "baseOffset": 0} for i, _ in enumerate(fields)]}]
    return request(0, 9, 1, acks=1, topicData=asked), response(0, 9, 1, responses=told)


def fetched(records: bytes) -> tuple[bytes, bytes]:
    asked = [{"topic": "orders", "partitions": [{"partition": 3, "fetchOffset": 1}]}]
    told: Row = {"partitionIndex": 3, "records": records}
    return request(1, 11, 2, topics=asked), response(1, 11, 2, responses=[{"topic": "orders", "partitions": [told]}])


def captured(path: Path, *pairs: tuple[bytes, bytes]) -> Path:
    talk = Talk()
    frames = [
        talk.send(side, one[start : start + PACKET])
        for pair in pairs
        for side, one in enumerate(pair)
        for start in range(0, len(one), PACKET)
    ]
    return written([*talk.opening, *frames], path)


def of_batches(capture: Path, to: Path, *more: str) -> dict[int, list[tuple[Any, ...]]]:
    """(records, bytes of keys, values, headers) of each batch, by partition."""
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in sized(capture, to, *more)["record_batches"]:
        found[row["partition"]].append(
            tuple(row[name] for name in ("records", "key_bytes", "value_bytes", "header_bytes"))
        )
    return found


def of_partitions(to: Path) -> dict[int, tuple[Any, ...]]:
    names = ("bytes", "records", "batches", "key_bytes", "value_bytes")
    return {row["partition"]: tuple(map(row.get, names)) for row in table(to, "exchange_topics")}


def bomb(size: int) -> bytes:
    return batch(zstandard.compress(record(0, None, bytes(size))), 1, attributes=ZSTD)


ODD = {
    "null keys and values": (batch(record(0, None, None) + record(1, None, None), 2), (2, 0, 0, 0)),
    "empty keys and values": (batch(record(0, b"", b""), 1), (1, 0, 0, 0)),
    "no records": (batch(b"", 0, attributes=GZIP, last_delta=9), (0, 0, 0, 0)),
    "headers": (batch(ONE, 1), (1, 3, 5, 10)),
    "wrong crc": (batch(ONE, 1)[:17] + b"wrong" + batch(ONE, 1)[22:], (1, 3, 5, 10)),
    "control": (batch(record(0, b"\0\0\0\1", bytes(6)), 1, attributes=32), (1, 4, 6, 0)),
    "one record missing": (batch(ONE, 2), (2, None, None, None)),
    "bytes after the last record": (batch(ONE + b"x", 1), (1, None, None, None)),
    "cut within gzip": (batch(gzip.compress(ONE)[:-9], 1, attributes=GZIP), (1, None, None, None)),
    "no gzip": (batch(ONE, 1, attributes=GZIP), (1, None, None, None)),
    "unknown codec": (batch(ONE, 1, attributes=UNKNOWN), (1, None, None, None)),
    "bomb": (bomb(65 << 20), (1, None, None, None)),
    "too many records": (batch(gzip.compress(ONE), 1 << 30, attributes=GZIP), (1 << 30, None, None, None)),
    "negative count": (batch(ONE, -1), (-1, None, None, None)),
    "message": (message(1, 0, b"key", None), (1, 3, 0, 0)),
    "message set": (message(0, 1, None, gzip.compress(message(0, 0, b"k", b"v") * 3), attributes=GZIP), (3, 3, 3, 0)),
    "wrong crc in a set": (
        message(0, 1, None, gzip.compress(message(0, 0, b"k", b"v")[:-1] + b"w"), attributes=GZIP),
        (1, 1, 1, 0),
    ),
    "no message set": (message(1, 1, None, b"no gzip", attributes=GZIP), (None, None, None, None)),
    "damaged message set": (
        message(0, 1, None, gzip.compress(message(0, 0, b"k", b"v") + b"x"), attributes=GZIP),
        (None, None, None, None),
    ),
}  # fmt: skip
"""By name, a batch and its (records, bytes of keys, of values, of headers)."""
PARTITIONS = {name: number for number, name in enumerate(ODD)}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of a Produce whose partitions have the batches of ODD, each before and after a good one."""
    good = batch(ONE, 1)
    fields = [good + one + good for one, _ in ODD.values()]
    return captured(tmp_path_factory.mktemp("odd") / "odd.pcap", produced(*fields))


def test_odd_batches_harm_no_others(odd: Path, tmp_path: Path) -> None:
    found = of_batches(odd, tmp_path)
    good = (1, 3, 5, 10)
    assert found == {PARTITIONS[name]: [good, sizes, good] for name, (_, sizes) in ODD.items()}
    partitions = of_partitions(tmp_path)
    for name, (one, (records, keys, values, _)) in ODD.items():
        size = len(one) + 2 * len(batch(ONE, 1))
        expected = (size, 2 + (records or 0), 3, 6 + (keys or 0), 10 + (values or 0))
        assert partitions[PARTITIONS[name]] == expected


def test_only_complete_batches_count(tmp_path: Path) -> None:
    good = batch(ONE, 1)
    capture = captured(tmp_path / "a.pcap", fetched(good + good[:-1]))
    assert of_batches(capture, tmp_path / "out") == {3: [(1, 3, 5, 10)]}
    assert of_partitions(tmp_path / "out") == {3: (2 * len(good) - 1, 1, 1, 3, 5)}


def test_sums_of_no_batch_and_of_no_readable_batch(tmp_path: Path) -> None:
    broken = batch(ONE, 1, attributes=UNKNOWN)
    capture = captured(tmp_path / "a.pcap", produced(b"", broken))
    assert of_batches(capture, tmp_path / "out") == {1: [(1, None, None, None)]}
    assert of_partitions(tmp_path / "out") == {0: (0, 0, 0, 0, 0), 1: (len(broken), 1, 1, None, None)}


def test_the_limit_of_batches_applies(tmp_path: Path) -> None:
    capture = captured(tmp_path / "a.pcap", produced(bomb(3000), bomb(900)))
    assert of_batches(capture, tmp_path / "all") == {0: [(1, 0, 3000, 0)], 1: [(1, 0, 900, 0)]}
    limited = of_batches(capture, tmp_path / "few", "--batch-limit", "2k")
    assert limited == {0: [(1, None, None, None)], 1: [(1, 0, 900, 0)]}


def test_the_batches_of_a_message_share_a_limit(tmp_path: Path) -> None:
    """As in its JSON: a batch of 15 MiB stays closed if, with those before it, it comes to more than 64 MiB."""
    capture = captured(tmp_path / "a.pcap", produced(*[bomb(15 << 20)] * 5))
    closed = [one["records"] is None for _, _, _, (one,) in fields(traffic.exchanges(lines(capture)))]
    found = of_batches(capture, tmp_path / "out")
    assert [found[index] == [(1, None, None, None)] for index in range(5)] == closed == [False] * 4 + [True]


def test_both_engines_give_the_same(odd: Path) -> None:
    expected = exported([odd], "--record-sizes", tables=SIZED)
    for size in (1 << 10, 1 << 40):
        tables = local.tables([odd], Options(SIZED, record_sizes=True), size=size)
        assert_same({name: counted(tables[name].to_pylist()) for name in SIZED}, expected)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("preset", ["payloads", "hosts", "secrets"])
def test_redaction_changes_no_batch(capture: Path, preset: str, tmp_path: Path) -> None:
    """Redaction turns compressed batches into others, of which the tables tell nothing."""
    redacted = sized(capture, tmp_path / "redacted", "--redact", preset)
    plain = sized(capture, tmp_path / "plain")
    for name in ("record_batches", "exchange_topics"):
        hosts = {"exchange_id", "client_id", "client_ip", "broker_ip"}
        left, expected = (
            counted({column: row[column] for column in row if column not in hosts} for row in tables[name])
            for tables in (redacted, plain)
        )
        assert left == expected


def test_what_the_option_excludes(tmp_path: Path) -> None:
    where = ("--format", "parquet", "-o", tmp_path, "--record-sizes")
    text = "--record-sizes and --no-bodies exclude each other"
    for command in (["export", "--format", "parquet", "-o", str(tmp_path)], ["spark", "--out", str(tmp_path)]):
        options = ["--record-sizes", "--no-bodies", str(traffic.KAFKA_1_1)]
        result = CliRunner().invoke(main, [*command, *options])
        assert (result.exit_code, text in result.stderr) == (Exit.USAGE, True), result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = CliRunner().invoke(main, ["export", str(traffic.KAFKA_1_1), "--record-sizes"])
    assert (result.exit_code, "works with --format parquet only" in result.stderr) == (Exit.USAGE, True)
    export(traffic.KAFKA_1_1, *where, "--tables", "flows,exchanges")
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"flows", "exchanges"}
    none: Any = None
    with pytest.raises(ValueError, match="record_sizes needs bodies"):
        job.tables(none, traffic.KAFKA_1_1, bodies=False, record_sizes=True)


def test_the_command_spark_has_the_option(tmp_path: Path) -> None:
    options = ["--out", str(tmp_path / "a"), "--engine", "local", "--record-sizes"]
    result = CliRunner().invoke(main, ["spark", str(traffic.KAFKA_0_8), *options, "--json"])
    assert result.exit_code == Exit.OK, result.stderr
    assert json.loads(result.stdout)["engine"] == "local"
    names = {"record_batches", "exchange_topics"}
    found = {name: counted(table(tmp_path / "a", name)) for name in names}
    assert found == exported([traffic.KAFKA_0_8], "--record-sizes", tables=sorted(names))
