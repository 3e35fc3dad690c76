"""Each row of files of the same time, which are merged, has the id of its own file, whichever engine reads."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.captures.spark.test_captures_table import alone
from tests.captures.spark.test_carrying import streamed
from tests.captures.spark.test_damaged import fragmented
from tests.captures.spark.test_files_of_rows import rows
from tests.captures.spark.test_joined import COORDINATOR, START, Talk, find_coordinator, response
from tests.captures.spark.test_overlapping import at_both_ends, by_host, in_turns, one_way, written

OF_ITEMS = tuple(name for name in TABLES if name != "captures")
KEY = ("exchange_id", "flow_id", "conn_epoch", "kind", "side", "off")
"""Columns by which rows are found again in a reading of other files."""
SIZE = 1 << 12
LATEST = 1 << 62
SECOND = 1_000_000_000
PACKETS = traffic.packets(traffic.LIBRDKAFKA)
SOME = PACKETS[:900]
LOSSY = [one for number, one in enumerate(SOME) if number % 41]


def read(paths: Sequence[Path], *more: str, slices: bool) -> Rows:
    """The rows of all tables, which all engines agree on; `slices`: whether Spark reads slices."""
    found = exported(paths, *more)
    _, planned, _ = local.ordered(plan(paths, SIZE), SIZE)
    assert [split.slice is not None for split in planned.splits] == [slices] * len(planned.splits)
    made = local.of_plan(planned, Options(tuple(TABLES)), size=SIZE)
    assert_same({name: counted(made[name].to_pylist()) for name in TABLES}, found)
    (followed,) = streamed([paths])
    assert_same(followed, found)
    return found


def packed(path: Path) -> Path:
    """The capture compressed, so that it cannot be cut."""
    return files.write(path.with_suffix(".pcap.gz"), gzip.compress(path.read_bytes()))


def ids(found: Rows) -> dict[tuple[Any, ...], set[str | None]]:
    """The ids of files by table and KEY."""
    held: dict[tuple[Any, ...], set[str | None]] = {}
    for table in OF_ITEMS:
        for row in rows(found, table):
            held.setdefault((table, *map(row.get, KEY)), set()).add(row["capture_id"])
    return held


def frames(taken: Sequence[files.Packet], row: Mapping[str, Any]) -> list[bytes]:
    """The packets in which the first byte of an exchange's request was captured, found by their bytes and times."""
    header = struct.pack(">hhi", row["api_key"], row["api_version"], row["correlation_id"])
    ends = row["client_port"], row["broker_port"]
    return [
        frame
        for time, frame in taken
        if time == row["req_ts_ns"] and traffic.ports(frame) == ends and header in frame
    ]  # fmt: skip


def known_of(
    parts: Sequence[Sequence[files.Packet]], folder: Path, *, slices: bool
) -> tuple[list[str | None], list[Path]]:
    """(ids that the captures have alone, paths of the captures); without `slices` the first one is compressed."""
    paths = written(folder, parts)
    if not slices:
        paths[0] = packed(paths[0])
    return [alone(path)["capture_id"] for path in paths], paths


@pytest.mark.parametrize("slices", [True, False])
def test_connections_that_one_file_holds_each(slices: bool, tmp_path: Path) -> None:
    """Their rows have the id that the file has alone, also those of problems and of the end of the capture."""
    paths = written(tmp_path, by_host(LOSSY, 3))
    if not slices:
        paths[1] = packed(paths[1])
    expected: dict[tuple[Any, ...], set[str | None]] = {}
    for path in paths:
        expected |= ids(exported([path]))
    found = ids(read(paths, slices=slices))
    assert found == expected
    assert len({number for one in found.values() for number in one}) == len(paths)
    assert any(table == "anomalies" and exchange is None for table, exchange, *_ in found)


@pytest.mark.parametrize("slices", [True, False])
@pytest.mark.parametrize("parted", [in_turns, one_way, at_both_ends])
def test_connections_that_several_files_hold(parted: Any, slices: bool, tmp_path: Path) -> None:
    """A row has the file in which its exchange began; of copies, the file of the first."""
    parts = parted(SOME, 2)
    known, paths = known_of(parts, tmp_path, slices=slices)
    found = read(paths, slices=slices)
    judged = 0
    of_exchange = {row["exchange_id"]: row["capture_id"] for row in rows(found, "exchanges")}
    for row in rows(found, "exchanges"):
        holding = [number for number, taken in enumerate(parts) if frames(taken, row)]
        if len(holding) == 1:
            assert row["capture_id"] == known[holding[0]]
            judged += 1
    assert judged > len(of_exchange) * 0.9
    assert set(of_exchange.values()) == ({known[0]} if parted is not in_turns else set(known))
    for table in OF_ITEMS:
        for row in rows(found, table):
            if row.get("exchange_id") is not None:
                assert row["capture_id"] == of_exchange[row["exchange_id"]]
    for row in rows(found, "flows"):
        first = f"{row['flow_id']}:{row['conn_epoch']}:"
        mine = [one for one in rows(found, "exchanges") if one["exchange_id"].startswith(first)]
        assert row["capture_id"] == min(mine, key=lambda one: one["rsp_last_ts_ns"] or LATEST)["capture_id"]


@pytest.mark.parametrize("slices", [True, False])
def test_problems_have_the_file_in_which_they_are_found(slices: bool, tmp_path: Path) -> None:
    """A loss is found when the missing bytes are acknowledged, or when the wait for them ends. At the end of the
    capture, the last packet of the connection counts.
    """
    one, other, old, last = (Talk(40000 + number, 1000 * (number + 1)) for number in range(4))
    parts: list[list[files.Packet]] = [[], []]
    clock = START

    def put(number: int, frame: bytes, seconds: int = 1) -> None:
        nonlocal clock
        clock += seconds * SECOND
        parts[number].append((clock, frame))

    for talk in (one, other, old, last):
        for frame in talk.opening:
            put(0, frame)
        put(0, talk.send(0, find_coordinator(1)))
    one.send(1, response(1, COORDINATOR))  # is lost
    put(0, one.send(0, find_coordinator(2)))
    put(0, one.send(1, response(2, COORDINATOR)))
    put(1, one.send(0, find_coordinator(3)))  # acknowledges what was lost
    put(1, other.send(1, response(1, COORDINATOR)))
    other.send(0, find_coordinator(2))  # is lost
    put(0, other.send(0, find_coordinator(3)))
    old.send(0, find_coordinator(2))  # is lost
    put(0, old.send(0, find_coordinator(3)))
    put(1, old.send(0, find_coordinator(4)), 61)  # comes when what was lost is waited for no longer
    put(1, last.send(1, response(1, COORDINATOR)))
    known, paths = known_of(parts, tmp_path, slices=slices)
    found = read(paths, slices=slices)
    ports = {row["flow_id"]: row["client_port"] for row in rows(found, "flows")}
    problems = [row for row in rows(found, "anomalies") if row["exchange_id"] is None]
    assert {(ports[row["flow_id"]], row["kind"], row["capture_id"]) for row in problems} == {
        (40000, "gap", known[1]), (40000, "resync", known[1]), (40001, "gap", known[0]), (40001, "resync", known[0]),
        (40002, "gap", known[1]), (40002, "resync", known[1]),
    }  # fmt: skip


@pytest.mark.parametrize("compressed", [(), (0,), (4,), (0, 4)])
def test_groups_of_files_that_follow_one_another(compressed: Sequence[int], tmp_path: Path) -> None:
    """Exchanges cross from merged files to others, and back to merged ones, some of which are read in slices."""
    third = len(SOME) // 3
    stretches = [
        [(time + number * 9 * SECOND, frame) for time, frame in SOME[number * third :][:third]] for number in range(3)
    ]
    parts = [*in_turns(stretches[0], 2), stretches[1], *in_turns(stretches[2], 3)]
    paths = written(tmp_path, parts)
    for number in compressed:
        paths[number] = packed(paths[number])
    known = [alone(path)["capture_id"] for path in paths]
    found = exported(paths)
    _, planned, _ = local.ordered(plan(paths, SIZE), SIZE)
    assert [len(group) for group in planned.groups] == [2, 1, 3]
    made = local.of_plan(planned, Options(tuple(TABLES)), size=SIZE)
    assert_same({name: counted(made[name].to_pylist()) for name in TABLES}, found)
    assert_same(streamed([paths[:2], paths[2:3], paths[3:]])[-1], found)
    holding = {
        row["exchange_id"]: [known[number] for number, taken in enumerate(parts) if frames(taken, row)]
        for row in rows(found, "exchanges")
    }
    judged = [row for row in rows(found, "exchanges") if holding[row["exchange_id"]]]
    assert len(judged) > 100
    assert all([row["capture_id"]] == holding[row["exchange_id"]] for row in judged)
    assert {row["capture_id"] for row in judged} == set(known)


def test_fragments(tmp_path: Path) -> None:
    """The last fragment of a packet may come first, and packets of another file between them."""
    parts = in_turns(SOME, 2)
    forms = [pieces_of(fragmented(list(taken), random.Random(3))) for taken in parts]
    paths = [files.write(tmp_path / f"{number}.pcap", files.pcap(taken)) for number, taken in enumerate(forms)]
    found = read(paths, slices=False)
    assert {row["capture_id"] for row in rows(found, "exchanges")} == {alone(path)["capture_id"] for path in paths}


def pieces_of(taken: Sequence[files.Packet]) -> list[files.Packet]:
    """The packets, every third of them 50 ms later, in the order of their times."""
    return sorted((time + (number % 3 == 0) * 50_000_000, frame) for number, (time, frame) in enumerate(taken))


def test_redacted_connections_keep_their_files(tmp_path: Path) -> None:
    paths = written(tmp_path, in_turns(SOME, 2))
    plain, redacted = (
        {row["exchange"]: row["capture_id"] for row in rows(exported(paths, *more), "exchanges")}
        for more in ((), ("--redact", "hosts"))
    )
    assert plain == redacted
    assert len(set(plain.values())) == len(paths)


@pytest.mark.parametrize("count", [1, 2])
def test_a_problem_where_no_file_has_the_connection(count: int, tmp_path: Path) -> None:
    """It is found at the end of merged files, none of which has a packet of its connection."""
    one, other, third = (Talk(40000 + number, 1000 * (number + 1)) for number in range(3))
    before = [*one.opening, one.send(0, find_coordinator(1))]
    one.send(0, find_coordinator(2))  # is lost
    parts = [
        *in_turns(spread([*before, one.send(0, find_coordinator(3))], START), count),
        spread([*other.opening, other.send(0, find_coordinator(1))], START + 60 * SECOND),
        spread([*third.opening, third.send(0, find_coordinator(1))], START + 61 * SECOND),
    ]
    paths = written(tmp_path, parts)
    found = exported(paths)
    assert {row["capture_id"] for row in rows(found, "exchanges")} >= {
        alone(one)["capture_id"] for one in paths[count:]
    }
    assert {row["capture_id"] for row in rows(found, "anomalies") if row["exchange_id"] is None} == {None}
    made = local.tables(paths, Options(tuple(TABLES)), size=SIZE)
    assert_same({name: counted(made[name].to_pylist()) for name in TABLES}, found)
    assert_same(streamed([paths[:count], paths[count:]])[-1], found)


def test_a_connection_goes_on_in_slices(tmp_path: Path) -> None:
    """One task merges the first two files and sends their bytes; those of the other two are read by address.

    An exchange crosses from the second file of the first two to the others.
    """
    talk = Talk()
    both = [*talk.opening, talk.send(0, b"")]
    for number in range(1, 9):
        both += [talk.send(0, find_coordinator(number)), talk.send(1, response(number, COORDINATOR))]
    parts = [
        part
        for taken in (spread(both[:8], START), spread(both[8:], START + 99 * SECOND))
        for part in in_turns(taken, 2)
    ]
    paths = written(tmp_path, parts)
    paths[0] = packed(paths[0])
    found = exported(paths)
    _, planned, _ = local.ordered(plan(paths, SIZE), SIZE)
    assert [split.slice is not None for split in planned.splits] == [False, True]
    made = local.of_plan(planned, Options(tuple(TABLES)), size=SIZE)
    assert_same({name: counted(made[name].to_pylist()) for name in TABLES}, found)
    assert [row["capture_id"] for row in sorted(rows(found, "exchanges"), key=lambda row: row["exchange"])] == [
        alone(paths[number])["capture_id"] for number in (1, 1, 1, 3, 3, 3, 3, 3)
    ]
    assert_same(streamed([paths[:2], paths[2:]])[-1], found)


def spread(frames: Sequence[bytes], begin: int) -> list[files.Packet]:
    """Frames with times a second apart."""
    return [(begin + number * SECOND, frame) for number, frame in enumerate(frames)]
