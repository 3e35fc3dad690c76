"""Each row of a reading has the id of the file that it comes from, whichever engine reads, and the reading's id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tables.schema import TABLES
from kproxy.captures.tls.keylog import read as read_secrets
from tests.captures import files, traffic
from tests.captures.spark.comparing import Rows, assert_same, counted, exported
from tests.captures.spark.test_captures_table import alone
from tests.captures.tls.test_decrypting import captured, conversation, spoken
from tests.captures.tls.wire import Wire
from tests.support.certificates import TestCa

PACKETS = traffic.packets(traffic.LIBRDKAFKA)
ALL = tuple(name for name in TABLES if name != "findings")
OF_EXCHANGES = ("exchange_topics", "record_batches", "records", "group_events")


@pytest.fixture(autouse=True)
def _spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def rows(found: Rows, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in found[table].elements()]


def both(paths: Sequence[Path], *options: str, **secrets: Any) -> Rows:
    """The rows of all tables, which an export and the stages of Spark agree on."""
    found = exported(paths, *options, tables=ALL)
    made = local.tables(paths, Options(ALL), size=1 << 14, **secrets)
    assert_same({name: counted(made[name].to_pylist()) for name in ALL}, found)
    return found


def in_turn(folder: Path, packets: Sequence[files.Packet], count: int) -> list[Path]:
    """The packets in `count` files, one after the other."""
    each = -(-len(packets) // count)
    starts = range(0, len(packets), each)
    return [files.write(folder / f"{n}.pcap", files.pcap(packets[n : n + each])) for n in starts]


def test_files_one_after_the_other(tmp_path: Path) -> None:
    paths = in_turn(tmp_path, PACKETS, 3)
    ids = {str(path): alone(path)["capture_id"] for path in paths}
    assert len(set(ids.values())) == len(paths)
    found = both(paths)
    exchanges = rows(found, "exchanges")
    assert {row["req_file"] or row["rsp_file"] for row in exchanges} == set(ids)
    assert all(row["capture_id"] == ids[row["req_file"] or row["rsp_file"]] for row in exchanges)
    of_exchange = {row["exchange_id"]: row["capture_id"] for row in exchanges}
    for table in OF_EXCHANGES:
        assert rows(found, table), table
        assert all(row["capture_id"] == of_exchange[row["exchange_id"]] for row in rows(found, table)), table
    for row in rows(found, "flows"):
        of_flow = [one for one in exchanges if one["exchange_id"].startswith(f"{row['flow_id']}:{row['conn_epoch']}:")]
        assert row["capture_id"] == min(of_flow, key=lambda one: one["rsp_last_ts_ns"] or 0)["capture_id"]
    readings = {row["source_id"] for table in ALL for row in rows(found, table)}
    assert readings == {ids[str(paths[0])]}


def test_a_problem_is_in_the_file_where_it_was_found(tmp_path: Path) -> None:
    """A file ends in the middle of a connection whose next bytes are missing."""
    half = len(PACKETS) // 2
    missing = next(n for n in range(half, len(PACKETS)) if len(PACKETS[n][1]) > 400)
    paths = in_turn(tmp_path, [*PACKETS[:missing], *PACKETS[missing + 1 :]], 2)
    problems = [row for row in rows(both(paths), "anomalies") if row["exchange_id"] is None]
    assert problems
    assert {row["capture_id"] for row in problems} == {alone(paths[1])["capture_id"]}


def test_a_file_whose_tls_is_decrypted(tmp_path: Path) -> None:
    wire = Wire(tmp_path, TestCa(tmp_path, "ca").leaf("broker", "localhost"))
    spoken(wire, conversation())
    path = captured(tmp_path / "a.pcap", wire.packets)
    log = files.write(tmp_path / "keys.log", wire.log.read_bytes())
    found = both([path], "--keylog", str(log), secrets=read_secrets(log))
    held = {table: {row["capture_id"] for row in rows(found, table)} for table in ("captures", "flows", "exchanges")}
    assert set(map(frozenset, held.values())) == {frozenset({alone(path)["capture_id"]})}
    assert {row["source_id"] for row in rows(found, "exchanges")} != held["exchanges"]


def test_several_files_whose_tls_is_decrypted(tmp_path: Path) -> None:
    wire = Wire(tmp_path, TestCa(tmp_path, "ca").leaf("broker", "localhost"))
    spoken(wire, conversation())
    half = len(wire.packets) // 2
    paths = [captured(tmp_path / f"{n}.pcap", wire.packets[n * half :][: half + n]) for n in range(2)]
    log = files.write(tmp_path / "keys.log", wire.log.read_bytes())
    found = both(paths, "--keylog", str(log), secrets=read_secrets(log))
    assert {row["capture_id"] for row in rows(found, "captures")} == {alone(path)["capture_id"] for path in paths}
    for table in ("flows", "exchanges"):
        assert [row["capture_id"] for row in rows(found, table)].count(None) == len(rows(found, table)) > 0
