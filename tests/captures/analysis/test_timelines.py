"""Timelines agree with the lines of the views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis import timelines
from kproxy.captures.analysis.snapshots import blocks
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
    for line in views.groups.lines():
        rows = drawn(line)["rows"]
        assert [letter for _, letter in rows[0]["marks"]] == ["G"] * len(line["generations"])
        assert len(rows) == 1 + len(line["members"])
        for row, member in zip(rows[1:], line["members"], strict=True):
            assert row["name"] == member["client_id"]
            if member["left"]:
                assert row["spans"][0][1] == nanoseconds(member["left"])


def test_transactions(views: Views) -> None:
    lines = [line for line in views.transactions.lines() if line["schema"] == "kproxy.transaction/1"]
    rows = [drawn(line)["rows"] for line in lines]
    assert [one[0]["spans"][0][2] for one in rows] == [OK if line["state"] == "committed" else FAILED for line in lines]
    marks = ["".join(letter for _, letter in one[0]["marks"]) for one in rows]
    assert marks == ["+PC", "!+PX", "!+PC"]


def test_the_start_up_of_clients(views: Views) -> None:
    lines = [line for line in views.connections.lines() if line["schema"] == "kproxy.client/1"]
    assert lines
    for line in lines:
        rows = drawn(line)["rows"]
        assert [row["name"] for row in rows] == [step["api"] for step in line["steps"]]
        assert [row["spans"][0][2] == OK for row in rows] == [step["done"] for step in line["steps"]]


def test_a_connection_has_that_of_its_client(views: Views) -> None:
    told = blocks("connections", views.connections.lines())
    assert told["timelines"]
    connected = [block for block in told["blocks"] if block["key"][0] == "kproxy.connection/1"]
    assert all(
        block["timeline"] in told["timelines"] for block in connected if block["timeline"] != '["", "127.0.0.1"]'
    )


def test_what_has_no_time_has_no_timeline(views: Views) -> None:
    assert all(timeline(line) is None for line in views.topics.lines())
    assert timeline({"schema": "kproxy.client/1", "client_id": "a", "steps": []}) is None


def test_only_so_many_rows(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_ROWS", 2)
    line = next(iter(views.groups.lines()))
    made = drawn(line)
    assert len(made["rows"]) == 2
    assert made["more"] == len(line["members"]) - 1
