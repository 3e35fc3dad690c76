"""Timelines agree with the lines of the views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis import timelines
from kproxy.captures.analysis.timelines import FAILED, LEGEND, OK, nanoseconds, timeline
from kproxy.captures.analysis.views import Views
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.tui.widgets.timeline import LETTERS

CAPTURE = Path(__file__).parents[2] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"


@pytest.fixture(scope="module")
def views() -> Views:
    reader = read([CAPTURE])
    views = Views(reader.source, reader.definitions)
    for item in reader:
        if isinstance(item, Exchange):
            views.add(item)
    reader.close()
    return views


def drawn(line: dict[str, Any]) -> dict[str, Any]:
    made = timeline(line)
    assert made is not None
    for row in made["rows"]:
        assert all(made["from"] <= start <= end <= made["to"] for start, end, _ in row["spans"])
        assert all(made["from"] <= time <= made["to"] and letter in LEGEND for time, letter in row["marks"])
    return made


def test_times() -> None:
    assert nanoseconds("2026-11-21T06:11:20.820123456Z") == 1_795_241_480_820_123_456
    assert nanoseconds("1970-01-01T00:00:01Z") == 1_000_000_000


def test_the_pane_knows_all_letters() -> None:
    assert set(LETTERS) == set(LEGEND)


def test_groups(views: Views) -> None:
    for line in views["groups"].lines():
        every = drawn(line)["rows"]
        rows = [row for row in every if not row["levels"]]
        assert [letter for _, letter in rows[0]["marks"]] == ["G"] * len(line["generations"])
        assert len(rows) == 1 + len(line["members"])
        known = any(one["over_time"] for one in line["lag"])
        assert [row["levels"][-1][1] for row in every if row["levels"]] == [0] * known
        for row, member in zip(rows[1:], line["members"], strict=True):
            assert row["name"] == member["client_id"]
            if member["left"]:
                assert row["spans"][0][1] == nanoseconds(member["left"])


def test_the_records_of_a_partition() -> None:
    over_time = {"from": when(1), "ms": [0, 1000, 1010, 6000, 8000], "end": [100, 110, 600, 700, 700]}
    line = {"schema": "kproxy.partition/1", "topic": "t", "partition": 3, "over_time": over_time, "changes": []}
    (row,) = drawn(line)["rows"]
    # four slices of two seconds: points that lie close together do not make a rate of 49,000
    assert row == {
        "name": "records/s 0..260",
        "spans": [],
        "marks": [],
        "levels": [[*s(1), 260], [*s(3), 20], [*s(5), 20], [*s(7), 0], [*s(9), 0]],
    }


def test_transactions(views: Views) -> None:
    lines = [line for line in views["transactions"].lines() if line["schema"] == "kproxy.transaction/1"]
    rows = [drawn(line)["rows"] for line in lines]
    assert [one[0]["spans"][0][2] for one in rows] == [OK if line["state"] == "committed" else FAILED for line in lines]
    marks = ["".join(letter for _, letter in one[0]["marks"]) for one in rows]
    assert marks == ["+PC", "!+PX", "!+PC"]


def test_the_start_up_of_clients(views: Views) -> None:
    lines = list(views["clients"].lines())
    assert lines
    for line in lines:
        rows = drawn(line)["rows"]
        assert [row["name"] for row in rows] == [step["api"] for step in line["steps"]]
        assert [row["spans"][0][2] == OK for row in rows] == [step["done"] for step in line["steps"]]


def test_what_has_no_time_has_no_timeline(views: Views) -> None:
    assert all(timeline(line) is None for line in views["topics"].lines())
    assert timeline({"schema": "kproxy.client/1", "client_id": "a", "steps": []}) is None


def test_only_so_many_rows(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_ROWS", 2)
    line = next(iter(views["groups"].lines()))
    lag = any(one["over_time"] for one in line["lag"])
    made = drawn(line)
    assert len(made["rows"]) == 2
    assert made["more"] == len(line["members"]) - 1 + lag


def when(second: int) -> str:
    return f"1970-01-01T00:00:{second:02}.000000000Z"


def s(*seconds: int) -> list[int]:
    return [second * 1_000_000_000 for second in seconds]


def test_a_group_as_rows() -> None:
    def member(name: str, joined: int | None, left: int | None, client_id: str = "") -> dict[str, Any]:
        times = {"joined": None if joined is None else when(joined), "left": None if left is None else when(left)}
        return {"member_id": name, "client_id": client_id, **times}

    happened = [(2, "join", "a", ""), (3, "sync", "a", "t 0"), (4, "assigned", "a", ""), (5, "leave", "a", "")]
    happened += [(6, "heartbeat answered", "b", "27 REBALANCE_IN_PROGRESS"), (7, "heartbeat answered", "b", "")]
    line = {
        "schema": "kproxy.group/1", "kind": "classic", "group": "g",
        "generations": [{"time": when(2)}, {"time": when(6)}],
        "events": [{"time": when(at), "event": what, "member_id": who, "detail": detail}
                   for at, what, who, detail in happened],
        "members": [member("a", 1, 5, "shop"), member("b", 4, None), member("c", None, 9)],
        "lag": [],
    }  # fmt: skip
    marks = [[at * 1_000_000_000, letter] for at, letter in ((2, "J"), (3, "S"), (4, "A"), (5, "X"))]
    assert timeline(line) == {
        "title": "classic group g",
        "from": s(1)[0],
        "to": s(9)[0],
        "rows": [
            {"name": "generations", "spans": [], "marks": [[s(2)[0], "G"], [s(6)[0], "G"]], "levels": []},
            {"name": "shop", "spans": [[*s(1, 5), "ok"]], "marks": marks, "levels": []},
            {"name": "b", "spans": [[*s(4, 9), "ok"]], "marks": [[s(6)[0], "!"], [s(7)[0], "*"]], "levels": []},
            {"name": "c", "spans": [], "marks": [], "levels": []},
        ],
        "more": 0,
    }


@pytest.mark.parametrize(
    ("state", "ended", "end", "how"),
    [("open", None, 6, "ok"), ("committed", 7, 7, "ok"), ("aborted", 7, 7, "failed"), ("hanging", None, 6, "failed"),
     ("fenced", 1, 2, "failed")],
)  # fmt: skip
def test_a_transaction_as_a_row(state: str, ended: int | None, end: int, how: str) -> None:
    steps = ["1 partition added", "first Produce", "offsets of group g committed", "commit", "abort: UNKNOWN"]
    line = {
        "schema": "kproxy.transaction/1", "transactional_id": "pay", "state": state, "began": when(2),
        "ended": None if ended is None else when(ended),
        "steps": [{"time": when(2 + at), "step": step} for at, step in enumerate(steps)],
    }  # fmt: skip
    made = timeline(line)
    assert made is not None
    marks = [[second, letter] for second, letter in zip(s(2, 3, 4, 5, 6), "+P+C!", strict=True)]
    assert made["title"] == f"pay {state}"
    assert made["rows"] == [{"name": "pay", "spans": [[*s(2, end), how]], "marks": marks, "levels": []}]
    assert (made["from"], made["to"], made["more"]) == (s(2)[0], max(s(6)[0], s(end)[0]), 0)


def test_a_start_up_as_rows() -> None:
    steps = [
        {"api": "Metadata", "time": when(1), "latency_ms": 1.5, "done": True},
        {"api": "JoinGroup", "time": when(2), "latency_ms": None, "done": False},
        {"api": "SyncGroup", "time": when(3), "latency_ms": 1000.0, "done": False},
    ]
    assert timeline({"schema": "kproxy.client/1", "client_id": "shop", "steps": steps}) == {
        "title": "start-up of shop",
        "from": s(1)[0],
        "to": s(4)[0],
        "rows": [
            {"name": "Metadata", "spans": [[s(1)[0], 1_001_500_000, "ok"]], "marks": [], "levels": []},
            {"name": "JoinGroup", "spans": [[*s(2, 2), "failed"]], "marks": [[s(2)[0], "!"]], "levels": []},
            {"name": "SyncGroup", "spans": [[*s(3, 4), "failed"]], "marks": [[s(4)[0], "!"]], "levels": []},
        ],
        "more": 0,
    }


def test_only_the_last_marks_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_MARKS", 2)
    steps = [{"time": when(at), "step": "first Produce"} for at in (1, 2, 3)]
    line = {"schema": "kproxy.transaction/1", "transactional_id": "p", "state": "open", "began": when(1), "ended": None}
    made = timeline({**line, "steps": steps})
    assert made is not None
    assert made["rows"][0]["marks"] == [[s(2)[0], "P"], [s(3)[0], "P"]]


def test_the_lag_of_a_group_is_the_sum_of_its_partitions() -> None:
    def over_time(begin: int, *points: tuple[int, int]) -> dict[str, Any]:
        return {
            "from": when(begin),
            "ms": [1000 * (time - begin) for time, _ in points],
            "records": [records for _, records in points],
        }

    lags = [
        {"topic": "a", "partition": 0, "over_time": over_time(1, (1, 5), (3, 2500))},
        {"topic": "a", "partition": 1, "over_time": over_time(2, (2, 7), (3, 0))},
        {"topic": "b", "partition": 0, "over_time": over_time(1, (1, 0), (4, 0))},
        {"topic": "b", "partition": 1, "over_time": None},
    ]
    line = {"schema": "kproxy.group/1", "kind": "classic", "group": "g", "generations": [], "events": [], "members": []}
    rows = drawn({**line, "lag": lags})["rows"]
    assert [row["name"] for row in rows] == ["generations", "lag 0..2.5k", "lag a-0 0..2.5k", "lag a-1 0..7"]
    assert rows[1]["levels"] == [[*s(1), 5], [*s(2), 12], [*s(3), 2500], [*s(4), 2500]]


def test_the_changes_of_a_partition() -> None:
    changes = [
        {"time": when(1), "kind": "leader"}, {"time": when(2), "kind": "isr"}, {"time": when(3), "kind": "offline"},
        {"time": when(4), "kind": "replicas"},
    ]  # fmt: skip
    line = {"schema": "kproxy.partition/1", "topic": "t", "partition": 3, "over_time": None, "changes": changes}
    (row,) = drawn(line)["rows"]
    assert "".join(letter for _, letter in row["marks"]) == "LI!*"
    assert timeline({**line, "changes": []}) is None
