"""Tables, read back by pyarrow, agree with the exchange JSON of the same captures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kproxy.captures.reader import Reader, read
from kproxy.captures.tables import parquet
from kproxy.captures.tables.rows import Maker, Place
from kproxy.captures.tables.schema import FROM_BODIES, TABLES, USUAL, WITHOUT_BODIES
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

CAPTURES = (traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1)
GOLDEN = traffic.DATA / "golden" / "golden-4.4.0.pcap"


def export(*arguments: str | Path, code: Exit = Exit.OK) -> str:
    result = CliRunner().invoke(main, ["export", *map(str, arguments)])
    assert result.exit_code == code, result.stderr
    return result.stdout


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    if not (folder / name).exists():
        return []
    rows: list[dict[str, Any]] = ds.dataset(folder / name, format="parquet", partitioning="hive").to_table().to_pylist()
    return rows


def lines(capture: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export(capture, *arguments).splitlines()]


def nanoseconds(text: str) -> int:
    whole, _, rest = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(rest.ljust(9, "0"))


@pytest.mark.parametrize("capture", [*CAPTURES, GOLDEN], ids=lambda path: path.stem)
def test_each_exchange_is_that_of_the_json(capture: Path, tmp_path: Path) -> None:
    export(capture, "--format", "parquet", "-o", tmp_path)
    rows = sorted(table(tmp_path, "exchanges"), key=lambda row: row["exchange"])
    exchanges = traffic.exchanges(lines(capture))
    exchanges.sort(key=lambda line: line["exchange"])
    assert len(rows) == len(exchanges)
    assert len({row["exchange_id"] for row in rows}) == len(rows)
    for row, line in zip(rows, exchanges, strict=True):
        assert f"{row['client_ip']}:{row['client_port']}" == line["client"]
        assert f"{row['broker_ip']}:{row['broker_port']}" == line["broker"]
        for column, member in (
            ("exchange", "exchange"), ("api_key", "api_key"), ("api_name", "api"), ("api_version", "api_version"),
            ("correlation_id", "correlation_id"), ("client_id", "client_id"), ("status", "status"),
        ):  # fmt: skip
            assert row[column] == line[member], (column, row["exchange"])
        for side, prefix in (("request", "req"), ("response", "rsp")):
            if line[side] is None:
                assert row[f"{prefix}_last_ts_ns"] is None
                continue
            assert row[f"{side}_bytes"] == line[side]["size"] + 4
            assert row[f"{prefix}_last_ts_ns"] == nanoseconds(line[side]["timestamp"])
            twin = row[f"{prefix}_last_ts"]
            assert int(twin.timestamp()) == row[f"{prefix}_last_ts_ns"] // 1_000_000_000
            assert twin.microsecond == row[f"{prefix}_last_ts_ns"] // 1000 % 1_000_000
        latency = line["latency_ms"]
        assert row["latency_us"] == (None if latency is None else round(latency * 1000))
        assert len(row["error_counts"] or ()) == len(line["error_codes"])
        assert row["ts_ns"] == row["rsp_ts_ns" if line["request"] is None else "req_ts_ns"]
        time = datetime.fromtimestamp(row["ts_ns"] // 1_000_000_000, UTC)
        assert (row["capture_date"], row["capture_hour"]) == (f"{time:%Y-%m-%d}", time.hour)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_records_and_batches_are_those_of_the_json(capture: Path, tmp_path: Path) -> None:
    export(
        capture, "--format", "parquet", "-o", tmp_path, "--tables", "exchanges,records,record_batches,exchange_topics"
    )
    numbers = {row["exchange_id"]: row["exchange"] for row in table(tmp_path, "exchanges")}
    rows = defaultdict(list)
    for row in table(tmp_path, "records"):
        rows[numbers[row["exchange_id"]], row["topic"], row["partition"]].append(row)
    expected = defaultdict(list)
    for line in lines(capture, "--format", "records"):
        expected[line["exchange"], line["topic"], line["partition"]].append(line)
    assert rows.keys() == expected.keys()
    for key, found in rows.items():
        assert [row["offset"] for row in found] == [line["offset"] for line in expected[key]]
        for row, line in zip(found, expected[key], strict=True):
            if isinstance(line["value"], str):
                assert row["value"] == line["value"].encode()
            assert row["timestamp_ms"] == line["timestamp"]
    carried = Counter(key[0] for key, found in expected.items() for _ in found)
    batches = table(tmp_path, "record_batches")
    if all(row["records"] is not None for row in batches):
        counted: Counter[int] = Counter()
        for row in batches:
            counted[numbers[row["exchange_id"]]] += row["records"]
        assert +counted == carried
        told: Counter[int] = Counter()
        for row in table(tmp_path, "exchange_topics"):
            told[numbers[row["exchange_id"]]] += row["records"] or 0
        assert +told == carried


@pytest.mark.parametrize("capture", [*CAPTURES, GOLDEN], ids=lambda path: path.stem)
def test_who_took_part_is_that_of_the_exchange(capture: Path, tmp_path: Path) -> None:
    export(capture, "--format", "parquet", "-o", tmp_path)
    exchanges = {row["exchange_id"]: row for row in table(tmp_path, "exchanges")}
    for name, columns in {
        "exchange_topics": ("api_key", "api_name", "client_id", "client_ip", "broker_ip", "broker_port"),
        "group_events": ("client_id", "client_ip", "broker_ip", "broker_port"),
    }.items():
        rows = table(tmp_path, name)
        assert rows or capture == traffic.KAFKA_0_8
        for row in rows:
            exchange = exchanges[row["exchange_id"]]
            assert {column: row[column] for column in columns} == {column: exchange[column] for column in columns}


def test_topics_join_request_and_response(tmp_path: Path) -> None:
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path)
    numbers = {row["exchange_id"]: row["exchange"] for row in table(tmp_path, "exchanges")}
    found = {
        (numbers[row["exchange_id"]], row["topic"], row["partition"]): row for row in table(tmp_path, "exchange_topics")
    }
    checked = 0
    for line in traffic.exchanges(lines(traffic.LIBRDKAFKA)):
        if line["api"] != "ListOffsets" or line["response"] is None:
            continue
        for topic in line["response"]["body"]["topics"]:
            for partition in topic["partitions"]:
                row = found[line["exchange"], topic["name"], partition["partitionIndex"]]
                assert row["error_code"] == partition["errorCode"]
                assert row["fetch_offset"] == partition["offset"]
                checked += 1
    assert checked
    assert {row["event"] for row in table(tmp_path, "group_events")} >= {"join", "sync", "heartbeat", "leave", "commit"}


def test_flows_count_every_packet(tmp_path: Path) -> None:
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path)
    flows, (capture,) = table(tmp_path, "flows"), table(tmp_path, "captures")
    packets = traffic.packets(traffic.LIBRDKAFKA)
    assert capture["packets"] == sum(row["packets"] for row in flows) == len(packets)
    assert capture["size"] == traffic.LIBRDKAFKA.stat().st_size
    assert not capture["truncated"]
    sent = sum(row["client_bytes"] + row["broker_bytes"] for row in flows)
    assert sent == sum(traffic.payload(frame) for _, frame in packets)
    assert sum(row["exchanges"] for row in flows) == len(table(tmp_path, "exchanges"))
    assert {(row["flow_id"], row["conn_epoch"]) for row in flows} == {
        (row["flow_id"], row["conn_epoch"]) for row in table(tmp_path, "exchanges")
    }
    assert all(row["syn"] == 2 for row in flows)


def test_flows_count_what_came_again_and_what_came_late(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    flows, again, late = (Counter[frozenset[bytes]]() for _ in range(3))
    sent: set[bytes] = set()
    packets: list[files.Packet] = []
    for time, frame in taken:
        flow = frozenset((frame[34:36], frame[36:38]))
        data = traffic.payload(frame)
        flows[flow] += data > 0
        if data:
            again[flow] += frame[34:42] in sent  # the capture has retransmissions of its own
            sent.add(frame[34:42])
        if data > 1 and flows[flow] % 10 == 3:
            packets += [(time, frame), (time, frame)]
            again[flow] += 1
        elif data > 1 and flows[flow] % 10 == 6 and packets and packets[-1][1][34:38] == frame[34:38]:
            # swaps the packet with the one before, of the same direction
            before = packets.pop()
            late[flow] += traffic.payload(before[1]) > 0
            packets += [(before[0], frame), (time, before[1])]
        else:
            packets.append((time, frame))
    assert sum(again.values()) > 10
    assert sum(late.values()) > 3
    path = files.write(tmp_path / "a.pcap", files.pcap(packets))
    export(path, "--format", "parquet", "-o", tmp_path / "out")
    found = {
        frozenset(row[port].to_bytes(2) for port in ("client_port", "broker_port")): row
        for row in table(tmp_path / "out", "flows")
    }
    assert {flow: row["retransmissions"] for flow, row in found.items()} == {flow: again[flow] for flow in found}
    assert {flow: row["out_of_order"] for flow, row in found.items()} == {flow: late[flow] for flow in found}


def test_groups_as_their_coordinator_describes_them(tmp_path: Path) -> None:
    export(GOLDEN, "--format", "parquet", "-o", tmp_path)
    expected = Counter(
        (group["groupId"], group["groupState"] or None, group["errorCode"])
        for line in traffic.exchanges(lines(GOLDEN))
        if line["api"] in {"DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe"}
        for group in line["response"]["body"]["groups"]
    )
    rows = table(tmp_path, "group_events")
    found = Counter((row["group_id"], row["state"], row["error_code"]) for row in rows if row["event"] == "describe")
    assert len(found) > 10
    assert found == expected
    assert not any(row["state"] for row in rows if row["event"] != "describe")


def test_a_flow_that_opens_again_is_another_epoch(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    hours = 3_600_000_000_000
    again = [(time + hours, frame) for time, frame in taken]
    path = files.write(tmp_path / "twice.pcap", files.pcap([*taken, *again]))
    out = tmp_path / "out"
    export(path, "--format", "parquet", "-o", out)
    rows = table(out, "exchanges")
    # One connection had not ended, so its segments count as retransmissions.
    assert Counter(row["conn_epoch"] for row in rows) == {0: 176, 1: 168}
    assert len({row["exchange_id"] for row in rows}) == len(rows)
    packets: dict[int, set[int]] = defaultdict(set)
    for row in table(out, "flows"):
        packets[row["flow_id"]].add(row["packets"])
    assert all(len(found) == 1 for found in packets.values())
    assert {path.name for path in (out / "exchanges").glob("*/*")} == {"capture_hour=06", "capture_hour=07"}


@pytest.mark.parametrize("capture", [*CAPTURES, GOLDEN], ids=lambda path: path.stem)
def test_without_bodies_there_is_what_headers_tell(capture: Path, tmp_path: Path) -> None:
    export(capture, "--format", "parquet", "-o", tmp_path / "all")
    export(capture, "--format", "parquet", "-o", tmp_path / "headers", "--no-bodies")
    assert {path.name for path in (tmp_path / "headers").glob("[!.]*")} <= set(WITHOUT_BODIES)
    whole = {row["exchange_id"]: row for row in table(tmp_path / "all", "exchanges")}
    rows = table(tmp_path / "headers", "exchanges")
    assert {row["exchange_id"] for row in rows} == whole.keys()
    for row in rows:
        expected = whole[row["exchange_id"]] | dict.fromkeys(FROM_BODIES)
        if expected["status"] == "undecodable":
            expected |= {"status": "ok"}
        if row["problems"] != expected["problems"]:
            # problems inside of bodies have not been found
            assert set(row["problems"]) < set(expected["problems"])
            expected |= {"problems": row["problems"], "decode_error": row["decode_error"]}
        assert row == expected
    assert any(row["topics"] for row in whole.values())
    assert table(tmp_path / "headers", "flows") == table(tmp_path / "all", "flows")
    assert table(tmp_path / "headers", "captures") == table(tmp_path / "all", "captures")


def test_what_has_no_meaning_without_bodies(tmp_path: Path) -> None:
    where = ("--format", "parquet", "-o", tmp_path, "--no-bodies")
    export(traffic.KAFKA_1_1, *where, "--tables", "flows,exchanges")
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"flows", "exchanges"}
    export(traffic.KAFKA_1_1, *where, "--tables", "exchanges,records", code=Exit.USAGE)
    export(traffic.KAFKA_1_1, "--no-bodies", code=Exit.USAGE)


def rows_of(reader: Reader) -> dict[str, list[Any]]:
    maker = Maker("c", reader.source, reader.definitions, lambda address: Place("", address, "f"), list(TABLES))
    for item in reader.batches():
        for one in item:
            maker.add(one)
    return maker.take()


def test_rows_do_not_depend_on_how_the_capture_is_cut() -> None:
    whole = rows_of(read(traffic.LIBRDKAFKA))
    reader = read(traffic.LIBRDKAFKA)
    cut = rows_of(Reader(reader.source, reader.definitions, batch=7))
    assert {name: sorted(map(repr, rows)) for name, rows in whole.items()} == {
        name: sorted(map(repr, rows)) for name, rows in cut.items()
    }
    for name, rows in whole.items():
        assert {len(row) for row in rows} <= {len(TABLES[name].given)}


def test_writing_again_replaces_its_own_files_only(tmp_path: Path) -> None:
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path)
    export(traffic.KAFKA_1_1, "--format", "parquet", "-o", tmp_path)
    both = len(table(tmp_path, "exchanges"))
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path, "-Y", "api == Fetch", "--tables", "exchanges")
    rows = table(tmp_path, "exchanges")
    assert len(rows) < both
    apis = Counter(row["api_name"] for row in rows if row["client_id"] and row["client_id"].startswith("shop"))
    assert set(apis) == {"Fetch"}
    assert len({row["source_id"] for row in table(tmp_path, "flows")}) == 1
    assert not list(tmp_path.glob(".*.partial"))


def test_what_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path)
    before = sorted(tmp_path.rglob("*"))

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(parquet.Files, "_write", refuse)
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path, code=Exit.USAGE)
    assert sorted(tmp_path.rglob("*")) == before


def test_many_row_groups_and_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS", 10)
    monkeypatch.setattr(parquet, "OPEN", 1)
    export(traffic.LIBRDKAFKA, "--format", "parquet", "-o", tmp_path)
    assert sorted(row["exchange"] for row in table(tmp_path, "exchanges")) == list(range(1, 177))


NAMED = {"exchange_id": "plain", "flow_id": "dictionary", "producer_id": "dictionary"}
ENCODED = {"bigint": "delta", "timestamp": "delta", "boolean": "plain", "binary": "plain"}


def test_only_what_repeats_has_a_dictionary(tmp_path: Path) -> None:
    export(traffic.LIBRDKAFKA, "--format", "parquet", "--tables", ",".join(TABLES), "-o", tmp_path)
    seen = set()
    for name, told in TABLES.items():
        for path in (tmp_path / name).rglob("*.parquet"):
            group = pq.read_metadata(path).row_group(0)
            found = {column.path_in_schema: encoded(column) for column in map(group.column, range(group.num_columns))}
            for column in told.columns:
                path_within = column.name + (".list.element" if column.type == "array<string>" else "")
                if path_within in found:
                    expected = NAMED.get(column.name) or ENCODED.get(column.type, "dictionary")
                    assert found[path_within] == expected
                    seen.add(column.type)
    assert seen >= {*ENCODED, "string", "int", "tinyint", "array<string>"}


def encoded(column: Any) -> str:
    if "DELTA_BINARY_PACKED" in column.encodings:
        return "delta"
    return "dictionary" if column.has_dictionary_page else "plain"


def test_a_cut_capture_is_told_in_its_table(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(traffic.LIBRDKAFKA.read_bytes()[:100_000])
    export(cut, "--format", "parquet", "-o", tmp_path / "out", code=Exit.INPUT)
    (row,) = table(tmp_path / "out", "captures")
    assert row["truncated"]
    assert "ends inside a packet" in row["error"]


def test_anomalies_are_the_problems_of_the_json(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.LIBRDKAFKA)
    path = files.write(tmp_path / "holes.pcap", files.pcap([one for i, one in enumerate(packets) if i % 40 != 17]))
    export(path, "--format", "parquet", "-o", tmp_path / "out")
    found = lines(path)
    expected = Counter(problem["code"] for line in traffic.exchanges(found) for problem in line["problems"])
    expected += Counter(line["code"] for line in traffic.problems(found))
    assert Counter(row["kind"] for row in table(tmp_path / "out", "anomalies")) == expected
    assert expected


def test_every_capture_that_cannot_be_read_to_its_end_is_named(tmp_path: Path) -> None:
    good, cut, odd, late = (tmp_path / f"{name}.pcap" for name in ("good", "cut", "odd", "late"))
    packets = traffic.packets(traffic.LIBRDKAFKA)
    good.write_bytes(files.pcap(packets[:100]))
    cut.write_bytes(files.pcap(packets[100:200])[:-5])
    odd.write_bytes(b"nothing that is a capture")
    late.write_bytes(files.pcap(packets[200:300])[:-7])
    out = tmp_path / "out"
    command = ["export", *map(str, (good, cut, odd, late)), "--format", "parquet", "-o", str(out)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == Exit.INPUT
    assert [sum(str(one) in line for line in result.stderr.splitlines()) for one in (good, cut, odd, late)] == [
        0,
        1,
        1,
        1,
    ]
    errors = {row["path"]: row["error"] for row in table(out, "captures")}
    assert errors[str(good)] is None
    assert "ends inside a packet" in errors[str(cut)]
    assert "not a capture" in errors[str(odd)]
    assert "ends inside a packet" in errors[str(late)]


def test_usage(tmp_path: Path) -> None:
    capture = traffic.LIBRDKAFKA
    export(capture, "--format", "parquet", code=Exit.USAGE)
    export(capture, "--format", "parquet", "-o", "-", code=Exit.USAGE)
    export(capture, "--format", "parquet", "-o", tmp_path, "--tables", "exchange", code=Exit.USAGE)
    export(capture, "--tables", "exchanges", code=Exit.USAGE)
    (tmp_path / "file").write_text("x")
    export(capture, "--format", "parquet", "-o", tmp_path / "file", code=Exit.USAGE)
    assert "records" not in USUAL


def test_of_merged_captures_of_which_some_are_cut_the_rest_is_there(tmp_path: Path) -> None:
    whole, cut, short = tmp_path / "whole.pcap", tmp_path / "cut.pcap", tmp_path / "short.pcap"
    packets = traffic.packets(traffic.LIBRDKAFKA)
    whole.write_bytes(files.pcap(packets[:100]))
    cut.write_bytes(files.pcap(packets[:9])[:-5])
    short.write_bytes(files.pcap(packets[:12])[:-7])
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["export", *map(str, (whole, cut, short)), "--format", "parquet", "-o", str(out)])
    assert result.exit_code == Exit.INPUT
    assert [str(path) in result.stderr for path in (whole, cut, short)] == [False, True, True]
    rows = {row["path"]: row for row in table(out, "captures")}
    assert {path: row["packets"] for path, row in rows.items()} == {str(whole): 100, str(cut): 8, str(short): 11}
    assert {path: row["size"] for path, row in rows.items()} == {
        str(path): path.stat().st_size for path in (whole, cut, short)
    }
    assert rows[str(whole)]["error"] is None
    assert not rows[str(whole)]["truncated"]
    for path in (cut, short):
        assert "ends inside a packet" in rows[str(path)]["error"]
        assert rows[str(path)]["truncated"]
    assert len({row["capture_id"] for row in rows.values()}) == 3
    assert {row["source_id"] for row in rows.values()} == {row["source_id"] for row in table(out, "flows")}
    assert len(table(out, "exchanges")) > 10
