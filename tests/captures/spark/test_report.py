"""Every analysis agrees with plain Python over the exchange JSON of the same captures, whoever runs it."""

from __future__ import annotations

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kproxy.captures.spark.report import (
    batches,
    by_duckdb,
    by_spark,
    errors,
    findings,
    journeys,
    latency,
    overview,
    rebalances,
    rollup,
    sections,
    throttling,
    throughput,
    usage,
    versions,
)
from kproxy.captures.spark.report.page import page
from kproxy.captures.spark.report.tables import Executor, NoTables, OldTables
from kproxy.captures.tables.schema import OF_RECORDS as SIZES
from kproxy.captures.tables.schema import TABLES
from kproxy.cli.main import main
from tests.captures import traffic
from tests.captures.spark import by_json
from tests.support.spark import local_session

CAPTURES = (traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1)
REFUSED = {
    "Produce": 3, "Fetch": 4, "ListOffsets": 1, "OffsetCommit": 2, "OffsetFetch": 1, "OffsetForLeaderEpoch": 2,
    "CreateTopics": 2, "DeleteTopics": 1,
}  # fmt: skip
"""The lowest version of an API that Kafka 4 supports (KIP-896), if it is not 0."""
Read: TypeAlias = Callable[[Path], Executor]
GONE = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
"""APIs between brokers of clusters with ZooKeeper."""


def export(*arguments: str | Path) -> str:
    result = CliRunner().invoke(main, ["export", *map(str, arguments)])
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report") / "tables"
    for capture in CAPTURES:
        export(capture, "--format", "parquet", "-o", directory, "--tables", ",".join(TABLES))
    return directory


@pytest.fixture(scope="module")
def lines() -> list[by_json.Line]:
    found: list[by_json.Line] = []
    for capture in CAPTURES:
        found += traffic.exchanges([json.loads(line) for line in export(capture).splitlines()])
    return found


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("cache")) as session:
        yield session


@pytest.fixture(scope="module", params=["duckdb", pytest.param("spark", marks=pytest.mark.system)])
def read(request: pytest.FixtureRequest) -> Iterator[Read]:
    """Opens a folder of tables with each executor in turn."""
    if request.param == "spark":
        spark = request.getfixturevalue("spark")
        yield lambda folder: by_spark.read(spark, str(folder))
        return
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(by_duckdb.opened(str(folder)))


@pytest.fixture(scope="module")
def tables(read: Read, folder: Path) -> Executor:
    return read(folder)


def changed(folder: Path, to: Path, **changes: Callable[[Any], Any]) -> Path:
    """A folder with the same tables, in which functions of a pyarrow.Table have changed those of their name."""
    to.mkdir()
    for path in folder.iterdir():
        if path.name not in changes:
            (to / path.name).symlink_to(path)
            continue
        table = pq.read_table(path).drop_columns(["capture_date", "capture_hour"])
        (to / path.name).mkdir()
        pq.write_table(changes[path.name](table), to / path.name / "1.parquet")
    return to


def replaced(table: Any, **columns: Any) -> Any:
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), values.cast(table.schema.field(index).type))
    return table


def micros(time: datetime) -> int:
    """Microseconds since the epoch; Spark's times have no zone and are in the session's, UTC."""
    return round(time.replace(tzinfo=UTC).timestamp() * 1_000_000)


def test_overview(tables: Executor, lines: list[by_json.Line]) -> None:
    (row,) = tables.rows(overview.overview())
    assert row["exchanges"] == len(lines)
    assert row["captures"] == len(CAPTURES)
    assert row["clients"] == len({by_json.client(line) for line in lines})
    assert row["brokers"] == len({line["broker"] for line in lines})
    assert row["errors"] == sum(bool(line["error_codes"]) for line in lines)
    assert row["unfinished"] == sum(line["status"] not in {"ok", "no_reply_expected"} for line in lines)
    assert row["bytes"] == sum(
        line[side]["size"] + 4 for line in lines for side in ("request", "response") if line[side]
    )


def test_findings(tables: Executor) -> None:
    expected: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for capture in CAPTURES:
        result = CliRunner().invoke(main, ["findings", str(capture), "--json", "--severity", "info"])
        for one in map(json.loads, result.stdout.splitlines()):
            if one["schema"] == "kproxy.finding/1":
                expected[one["severity"], one["rule"], one["confidence"], one["impact"]["unit"]].append(one)
    found = tables.rows(findings.findings())
    for row in found:
        of_rule = expected.pop((row["severity"], row["rule"], row["confidence"], row["impact_unit"]))
        assert row["findings"] == len(of_rule)
        assert row["occurrences"] == sum(one["occurrences"] for one in of_rule)
        assert row["impact"] == sum(one["impact"]["value"] for one in of_rule)
        assert row["scopes"] == sorted({one["scope"]["name"] for one in of_rule})
        assert row["example"] in {one["summary"] for one in of_rule}
        assert row["title"] == of_rule[0]["title"]
    assert not expected
    worst = [("error", "warn", "note", "info").index(row["severity"]) for row in found]
    assert worst == sorted(worst)
    texts = findings.rule_texts([*found, {"rule": "gone"}])
    assert texts.keys() == {row["rule"] for row in found}
    assert texts["upgrade.cutoff"].startswith("upgrade.cutoff (#")


@pytest.mark.parametrize("by", ["api", "client", "broker", "minute"])
def test_percentiles(tables: Executor, lines: list[by_json.Line], by: str) -> None:
    names = {
        "api": by_json.api, "client": by_json.client, "broker": lambda line: line["broker"],
        "minute": lambda line: by_json.micros(line, "request") // 60_000_000,
    }  # fmt: skip
    expected = by_json.latencies(lines, names[by])
    found = tables.rows(latency.percentiles((by,)))
    assert {micros(row[by]) // 60_000_000 if by == "minute" else row[by] for row in found} == expected.keys()
    for row in found:
        values = expected[micros(row[by]) // 60_000_000 if by == "minute" else row[by]]
        assert row["exchanges"] == len(values)
        assert row["max_us"] == values[-1]
        for column, rank in (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999)):
            assert row[column] == pytest.approx(by_json.percentile(values, rank), abs=0.01)


def test_percentiles_by_several(tables: Executor, lines: list[by_json.Line]) -> None:
    expected = by_json.latencies(lines, lambda line: (by_json.client(line), line["broker"]))
    found = tables.rows(latency.percentiles(("client", "broker")))
    assert {(row["client"], row["broker"]): row["exchanges"] for row in found} == {
        key: len(values) for key, values in expected.items()
    }


@pytest.mark.parametrize("seconds", [1, 60])
def test_over_time(tables: Executor, lines: list[by_json.Line], seconds: int) -> None:
    def interval(line: by_json.Line) -> int:
        return by_json.micros(line, "request") // 1_000_000 // seconds * seconds

    counts = Counter(map(interval, lines))
    expected = by_json.latencies(lines, interval)
    found = {micros(row["time"]) // 1_000_000: row for row in tables.rows(latency.over_time(seconds))}
    assert {when: row["exchanges"] for when, row in found.items()} == counts
    assert sum(row["errors"] for row in found.values()) == sum(bool(line["error_codes"]) for line in lines)
    for when, row in found.items():
        for column, rank in (("p50_us", 0.5), ("p99_us", 0.99)):
            values = expected.get(when)
            assert row[column] == (
                None if values is None else pytest.approx(by_json.percentile(values, rank), abs=0.01)
            )


@pytest.mark.system
@pytest.mark.parametrize("seconds", [1, 60])
def test_rolled_up_figures_merge_into_those_of_all(
    spark: SparkSession, folder: Path, lines: list[by_json.Line], seconds: int
) -> None:
    kept = rollup.rollup(by_spark.read(spark, str(folder)), seconds)
    expected = by_json.latencies(lines, by_json.api)
    counts = Counter(by_json.api(line) for line in lines)
    failed = Counter(by_json.api(line) for line in lines if line["error_codes"])
    found = {row["api"]: row for row in rollup.merged(kept, ("api",)).collect()}
    assert {name: row["exchanges"] for name, row in found.items()} == counts
    assert +Counter({name: row["errors"] for name, row in found.items()}) == failed
    for name, values in expected.items():
        for column, rank in (("p50_us", 0.5), ("p99_us", 0.99)):
            # a sketch returns an existing value; with so few values it holds all of them
            place = rank * len(values)
            near = range(max(0, math.floor(place) - 1), min(len(values), math.ceil(place) + 1))
            assert found[name][column] in {values[at] for at in near}
    times = {micros(row["time"]) // 1_000_000 for row in rollup.merged(kept).collect()}
    assert times == {by_json.micros(line, "request") // 1_000_000 // seconds * seconds for line in lines}


def test_errors(tables: Executor, lines: list[by_json.Line]) -> None:
    expected = Counter(
        (error, by_json.api(line), by_json.client(line), line["broker"])
        for line in lines
        for error in line["error_codes"]
    )
    found = tables.rows(errors.errors())
    assert {(row["error"], row["api"], row["client"], row["broker"]): row["exchanges"] for row in found} == expected
    unfinished = Counter(
        (line["status"], line["api"], by_json.client(line))
        for line in lines
        if line["status"] not in {"ok", "no_reply_expected"}
    )
    counted: Counter[Any] = Counter()
    for row in tables.rows(errors.unfinished()):
        counted[row["status"], row["api"], row["client"]] += row["exchanges"]
    assert counted == unfinished


def test_throttling(read: Read, tables: Executor, folder: Path, lines: list[by_json.Line], tmp_path: Path) -> None:
    """These captures have no throttling, so the test adds a throttle time to each exchange: its API key in ms."""
    assert tables.rows(throttling.throttled()) == []

    def slowed(table: Any) -> Any:
        return replaced(table, throttle_time_ms=pc.add(table["throttle_time_ms"], table["api_key"]))

    expected: dict[Any, list[int]] = defaultdict(list)
    for line in lines:
        if "throttleTimeMs" in by_json.body(line, "response"):
            expected[by_json.client(line), by_json.api(line), line["broker"]].append(line["api_key"])
    found = read(changed(folder, tmp_path / "slowed", exchanges=slowed)).rows(throttling.throttled())
    assert {
        (row["client"], row["api"], row["broker"]): (
            row["exchanges"], row["throttled"], row["throttle_ms"], row["max_ms"],
        )
        for row in found
    } == {
        key: (len(values), len(values), sum(values), max(values)) for key, values in expected.items() if any(values)
    }  # fmt: skip


def test_throughput(tables: Executor, lines: list[by_json.Line]) -> None:
    moved: Counter[tuple[str, str]] = Counter()
    for part in by_json.produced(lines):
        if not part.answer.get("errorCode", 0):
            moved[part.topic, "in"] += part.records["sizeInBytes"]
    for part in by_json.fetched(lines):
        way = "replicated" if by_json.by_broker(part.line) else "out"
        moved[part.topic, way] += part.records["sizeInBytes"]
    found = tables.rows(throughput.by_topic())
    assert (
        Counter({(row["topic"], way): row[f"{way}_bytes"] for row in found for way in ("in", "out", "replicated")})
        == +moved
    )
    records: Counter[str] = Counter()
    for part in by_json.produced(lines):
        records[part.topic] += by_json.counted(part.records)
    assert Counter({row["topic"]: row["in_records"] or 0 for row in found}) == records
    over_time: Counter[tuple[str, str]] = Counter()
    for row in tables.rows(throughput.over_time(5)):
        over_time[row["topic"], row["way"]] += row["bytes"]
    assert over_time == +moved


def test_batches(tables: Executor, lines: list[by_json.Line]) -> None:
    expected: dict[Any, list[Any]] = defaultdict(list)
    for part in by_json.produced(lines):
        for batch in part.records["batches"]:
            expected[part.topic, by_json.client(part.line), batch["compression"]].append(batch)
    found = tables.rows(batches.sizes())
    assert {(row["topic"], row["client"], row["codec"]) for row in found} == expected.keys()
    for row in found:
        held = expected[row["topic"], row["client"], row["codec"]]
        sizes = sorted(batch["sizeInBytes"] for batch in held)
        assert (row["batches"], row["bytes"], row["max_bytes"]) == (len(held), sum(sizes), sizes[-1])
        assert row["p50_bytes"] == by_json.percentile(sizes, 0.5)
        if row["records"] is not None:
            assert row["records"] == sum(batch["recordCount"] for batch in held)


def test_compression(tables: Executor, lines: list[by_json.Line]) -> None:
    stored: Counter[tuple[str, str]] = Counter()
    held: Counter[tuple[str, str]] = Counter()
    for part in [*by_json.produced(lines), *by_json.fetched(lines)]:
        found = part.records["batches"]
        codecs = {batch["compression"] for batch in found}
        listed = [record for batch in found for record in batch["records"]]
        # skip internal topics: the table does not hold their payloads, with members' names, as they are
        if not listed or part.topic.startswith("__") or any(batch.get("isControl") for batch in found):
            continue
        key = part.topic, codecs.pop() if len(codecs) == 1 else "mixed"
        stored[key] += sum(batch["sizeInBytes"] for batch in found)
        held[key] += sum(
            by_json.payload(record["key"])
            + by_json.payload(record["value"])
            + sum(len(one["key"].encode()) + by_json.payload(one["value"]) for one in record.get("headers", ()))
            for record in listed
        )
    rows_ = [row for row in tables.rows(batches.compression()) if not row["topic"].startswith("__")]
    assert {(row["topic"], row["codec"]): row["batch_bytes"] for row in rows_} == stored
    assert {(row["topic"], row["codec"]): row["payload_bytes"] for row in rows_} == held
    assert {codec for _, codec in held} >= {"none", "gzip", "snappy", "lz4", "zstd", "mixed"}
    for row in rows_:
        assert row["ratio"] == pytest.approx(held[row["topic"], row["codec"]] / stored[row["topic"], row["codec"]])


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with sizes of records, without the table records."""
    directory = tmp_path_factory.mktemp("report") / "sized"
    for capture in CAPTURES:
        export(capture, "--format", "parquet", "-o", directory, "--record-sizes")
    assert not (directory / "records").exists()
    return directory


def of_sizes(lines: Sequence[by_json.Line]) -> dict[tuple[str, str], list[int]]:
    """[batches, records, bytes of batches, bytes of their records] by topic and codec, batch by batch."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 4)
    for part in [*by_json.produced(lines), *by_json.fetched(lines)]:
        # skip internal topics: this JSON does not hold all of their payloads
        for batch in [] if part.topic.startswith("__") else part.records["batches"]:
            if batch.get("isControl"):
                continue
            held = sum(
                by_json.payload(record["key"])
                + by_json.payload(record["value"])
                + sum(len(one["key"].encode()) + by_json.payload(one["value"]) for one in record.get("headers", ()))
                for record in batch["records"]
            )
            total = found[part.topic, batch["compression"]]
            for index, more in enumerate((1, len(batch["records"]), batch["sizeInBytes"], held)):
                total[index] += more
    return found


def found_compression(tables: Executor) -> dict[tuple[str, str], list[int]]:
    names = ("batches", "records", "batch_bytes", "payload_bytes")
    rows = [row for row in tables.rows(batches.compression()) if not row["topic"].startswith("__")]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["payload_bytes"] / row["batch_bytes"])
    return {(row["topic"], row["codec"]): [row[name] for name in names] for row in rows}


def test_compression_needs_only_sizes_of_records(read: Read, sized: Path, lines: list[by_json.Line]) -> None:
    expected = of_sizes(lines)
    assert {codec for _, codec in expected} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert found_compression(read(sized)) == expected


def test_compression_counts_nothing_twice(
    read: Read, sized: Path, folder: Path, lines: list[by_json.Line], tmp_path: Path
) -> None:
    """With the table records too, it adds only partitions of exchanges whose batches have no sizes."""
    both = tmp_path / "both"
    both.mkdir()
    for path in sized.glob("[!.]*"):
        (both / path.name).symlink_to(path)
    (both / "records").symlink_to(folder / "records")
    assert found_compression(read(both)) == of_sizes(lines)

    def of_some(table: Any) -> Any:
        plain = pc.equal(table["codec"], "none")
        return replaced(table, **{name: pc.if_else(plain, None, table[name]) for name in SIZES})

    some = found_compression(read(changed(both, tmp_path / "some", record_batches=of_some)))
    without_mixed = {key: sums for key, sums in of_sizes(lines).items() if key[1] != "none"}
    assert {key: sums for key, sums in some.items() if key[1] not in {"none", "mixed"}} == without_mixed
    assert {key for key in some if key[1] == "none"}


def test_compression_of_tables_of_before(read: Read, tables: Executor, folder: Path, tmp_path: Path) -> None:
    """Tables that were written before there were sizes lack their columns."""

    def without(table: Any) -> Any:
        return table.drop_columns([name for name in SIZES if name in table.schema.names])

    before = changed(folder, tmp_path / "before", record_batches=without, exchange_topics=without)
    assert read(before).rows(batches.compression()) == tables.rows(batches.compression()) != []
    (before / "records").unlink()
    assert read(before).rows(batches.compression()) == []


def test_who_uses_which_topic(tables: Executor, lines: list[by_json.Line]) -> None:
    expected: dict[Any, set[int]] = defaultdict(set)
    groups: dict[Any, set[str]] = defaultdict(set)
    for number, line in enumerate(lines):
        for part in by_json.produced([line]):
            expected[part.topic, "produces", by_json.client(line)].add(number)
        asked = by_json.body(line, "request")
        if line["api"] == "Fetch":
            use = "replicates" if by_json.by_broker(line) else "fetches"
            for topic in [*asked.get("topics", ()), *by_json.body(line, "response").get("responses", ())]:
                expected[by_json.topic(line, topic), use, by_json.client(line)].add(number)
        if line["api"] == "OffsetCommit":
            for topic in asked["topics"]:
                key = by_json.topic(line, topic), "commits", by_json.client(line)
                expected[key].add(number)
                groups[key].add(asked["groupId"])
    found = [row for row in tables.rows(usage.users()) if row["use"] != "asks"]
    assert {(row["topic"], row["use"], row["client"]): row["exchanges"] for row in found} == {
        key: len(numbers) for key, numbers in expected.items()
    }
    for row in found:
        assert set(row["groups"]) == groups[row["topic"], row["use"], row["client"]]


def test_versions_and_what_kafka_4_refuses(tables: Executor, lines: list[by_json.Line]) -> None:
    expected = Counter(
        (line["api"], line["api_version"]) for line in lines if line["api"] and line["api_version"] is not None
    )
    counted: Counter[Any] = Counter()
    for row in tables.rows(versions.versions()):
        counted[row["api"], row["version"]] += row["exchanges"]
        lowest = REFUSED.get(row["api"], 0)
        refused = "gone" if row["api"] in GONE else f"below {lowest}" if row["version"] < lowest else None
        assert row["refused"] == refused, row
        if row["api"] in GONE:
            assert row["between_brokers"]
    assert counted == expected
    software = {row["software"] for row in tables.rows(versions.versions())}
    assert "apache-kafka-java 4.4.0" in software


def test_rebalances(tables: Executor, lines: list[by_json.Line]) -> None:
    joined: dict[Any, list[Any]] = defaultdict(list)
    for line in lines:
        answer = by_json.body(line, "response")
        if line["api"] == "JoinGroup" and answer and not answer["errorCode"]:
            group = by_json.body(line, "request")["groupId"]
            joined[group, answer["generationId"]].append((by_json.micros(line, "request"), answer["memberId"]))
    synced: dict[Any, int] = defaultdict(int)
    epochs: dict[Any, set[str]] = defaultdict(set)
    for line in lines:
        asked, answer = by_json.body(line, "request"), by_json.body(line, "response")
        if line["api"] == "SyncGroup" and answer and not answer["errorCode"]:
            key = asked["groupId"], asked["generationId"]
            synced[key] = max(synced[key], by_json.micros(line, "response"))
        if line["api"] == "ConsumerGroupHeartbeat" and answer and answer["memberEpoch"] > 0:
            epochs[asked["groupId"], answer["memberEpoch"]].add(answer["memberId"])
    found = {(row["group_id"], row["generation"]): row for row in tables.rows(rebalances.timeline())}
    assert found.keys() == joined.keys() | epochs.keys()
    for key, members in joined.items():
        row = found[key]
        assert row["protocol"] == "classic"
        assert set(row["member_ids"]) == {member for _, member in members}
        assert micros(row["began"]) == min(time for time, _ in members)
        assert micros(row["stable"]) == synced[key]
        assert row["took_us"] == synced[key] - min(time for time, _ in members)
    for key, names in epochs.items():
        assert (found[key]["protocol"], set(found[key]["member_ids"])) == ("consumer", names)
    left: Counter[str] = Counter()
    for line in lines:
        asked = by_json.body(line, "request")
        if line["api"] == "LeaveGroup":
            left[asked["groupId"]] += len(asked.get("members", ())) or 1
        elif line["api"] == "ConsumerGroupHeartbeat" and asked["memberEpoch"] < 0:
            left[asked["groupId"]] += 1
    leaves: Counter[str] = Counter()
    for (group, _), row in found.items():
        leaves[group] += row["leaves"]
    assert leaves == left


def expected_journeys(lines: Sequence[by_json.Line]) -> dict[Any, Any]:
    """(records, delay, fetches) by topic, partition, offset, producer, consumer, for all produced and all fetched."""
    expected: dict[Any, Any] = {}
    arrivals = list(by_json.fetched(lines))
    for part in by_json.produced(lines):
        if part.answer.get("errorCode") != 0 or part.answer["baseOffset"] < 0:
            continue
        base, count = part.answer["baseOffset"], max(1, by_json.counted(part.records))
        came: dict[str, list[int]] = defaultdict(list)
        for arrival in arrivals:
            if (arrival.topic, arrival.partition) == (part.topic, part.partition):
                came[by_json.client(arrival.line)] += [
                    by_json.micros(arrival.line, "response")
                    for batch in arrival.records["batches"]
                    if base <= batch["baseOffset"] < base + count and not batch.get("isControl")
                ]
        at = by_json.micros(part.line, "request")
        known = (part.topic, part.partition, base, by_json.client(part.line))
        for consumer, times in came.items():
            if times:
                expected[*known, consumer] = (count, min(times) - at, len(times))
        if not any(came.values()):
            expected[*known, None] = (count, None, 0)
    return expected


def found_journeys(tables: Executor) -> dict[Any, Any]:
    return {
        (row["topic"], row["partition"], row["offset"], row["producer"], row["consumer"]): (
            row["records"], row["delay_us"], row["fetches"],
        )
        for row in tables.rows(journeys.journeys())
    }  # fmt: skip


def test_journeys(tables: Executor, lines: list[by_json.Line]) -> None:
    expected = expected_journeys(lines)
    assert found_journeys(tables) == expected
    assert len({key[4] for key in expected}) > 5
    assert sum(row["batches"] for row in tables.rows(journeys.delays())) == len(expected)


def test_journeys_of_what_is_fetched_again(read: Read, tables: Executor, folder: Path, tmp_path: Path) -> None:
    """Every Fetch comes again a second later: of several fetches the first counts."""

    def fetched_again(table: Any) -> Any:
        again = table.filter(pc.equal(table["api_key"], 1))
        second = pa.scalar(1_000_000, pa.duration("us"))
        later = {name: pc.add(again[name], second) for name in ("req_ts", "rsp_last_ts")}
        return pa.concat_tables([table, renamed(replaced(again, **later))])

    def renamed(table: Any) -> Any:
        return replaced(table, exchange_id=pc.binary_join_element_wise(table["exchange_id"], "x", ""))

    def brought_again(table: Any) -> Any:
        return pa.concat_tables([table, renamed(table)])

    doubled = changed(folder, tmp_path / "doubled", exchanges=fetched_again, record_batches=brought_again)
    assert found_journeys(read(doubled)) == {
        key: (records, delay, fetches * 2) for key, (records, delay, fetches) in found_journeys(tables).items()
    }


def test_what_others_produced_is_nobodys_journey(
    read: Read, folder: Path, lines: list[by_json.Line], tmp_path: Path
) -> None:
    def without(table: Any) -> Any:
        return table.filter(pc.not_equal(table["client_id"], "shop-gzip"))

    seen = read(changed(folder, tmp_path / "seen", exchanges=without))
    expected = expected_journeys([line for line in lines if line["client_id"] != "shop-gzip"])
    assert found_journeys(seen) == expected
    assert len(expected) < len(expected_journeys(lines))


def test_a_folder_without_tables_is_refused(read: Read, tmp_path: Path) -> None:
    with pytest.raises(NoTables, match="holds no tables"):
        read(tmp_path)


def test_tables_of_an_earlier_version_are_refused(read: Read, folder: Path, tmp_path: Path) -> None:
    """Their rows have no source_id, so that joins would find nothing."""
    old = changed(folder, tmp_path / "old", exchanges=lambda table: table.drop_columns(["source_id"]))
    with pytest.raises(OldTables, match="earlier version"):
        read(old)


def test_tables_that_were_not_written_are_empty(read: Read, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "exchanges").symlink_to(folder / "exchanges")
    found = read(tmp_path)
    assert found.rows(latency.percentiles())
    assert not found.rows(journeys.journeys())
    assert found.rows(overview.overview())[0]["anomalies"] == 0


def test_every_section_is_made_of_empty_tables(read: Read, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    assert [bool(found.rows) for found in sections.find(read(tmp_path))] == [True] + [False] * (
        len(sections.SECTIONS) - 1
    )


@pytest.mark.system
def test_both_make_the_same_page(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever time zone Python runs."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        try:
            by_java = list(sections.find(by_spark.read(spark, str(folder))))
        finally:
            patch.undo()
            time.tzset()
    with by_duckdb.opened(str(folder)) as tables:
        here = list(sections.find(tables))
    for one, other in zip(by_java, here, strict=True):
        assert (one.section.name, one.rows, one.more) == (other.section.name, other.rows, other.more)
    assert page("tables", by_java) == page("tables", here)


def test_damaged_tables_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("exchanges", "flows"):
        (tmp_path / name).mkdir()
    (tmp_path / "exchanges" / "1.parquet").write_bytes(b"PAR1 and no more PAR1")
    with pytest.raises(by_duckdb.Unreadable, match=r"1\.parquet"), by_duckdb.opened(str(tmp_path)):
        pass
    whole = max(folder.glob("exchanges/*/*/*.parquet"), key=lambda path: path.stat().st_size)
    (tmp_path / "exchanges" / "1.parquet").write_bytes(bytes(1000).join([b"PAR1", whole.read_bytes()[1004:]]))
    with by_duckdb.opened(str(tmp_path)) as tables, pytest.raises(by_duckdb.Unreadable):
        list(sections.find(tables))
