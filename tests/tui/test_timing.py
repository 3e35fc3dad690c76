"""The Timing tab: bars, neighbours on the connection, requests in flight, and how others alike did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kproxy.captures.index.reader import IndexReader
from kproxy.decoders import schema
from kproxy.decoders.exchange import Exchange, Status
from kproxy.tui.app import KproxyApp
from kproxy.tui.detail.timing import Timing, duration_text, timing
from kproxy.tui.listing.rows import RowText
from kproxy.tui.widgets.timing import place
from tests.support.indexes import START, STEP, IndexBuilder, heartbeat
from tests.tui.screen import grid
from tests.tui.test_views import captured, until

__all__ = ["captured"]


def told(path: Path, number: int, max_wait: int | None = None) -> Timing:
    """The timing of exchange `number`."""
    with IndexReader(path) as index:
        row = index.row(number - 1)
        text = RowText(index, schema.definitions())
        return timing(number - 1, row, index.detail(row), index, text, max_wait)


def facts(path: Path, number: int, max_wait: int | None = None) -> dict[str, str]:
    return {name: value for name, value, _ in told(path, number, max_wait).lines}


def unanswered(builder: IndexBuilder, **options: Any) -> Exchange:
    asked = {"groupId": "billing", "generationId": 4, "memberId": "m-1", "groupInstanceId": None}
    return builder.exchange("Heartbeat", 3, asked, **options)


@pytest.fixture
def pipelined(tmp_path: Path) -> Path:
    """Three requests of one connection before the first answer, which come in turn; one of another between them."""
    builder = IndexBuilder(tmp_path)
    made = [unanswered(builder) for _ in range(2)]
    heartbeat(builder, "other", connection=2)
    made.append(unanswered(builder))
    for one in made:
        builder.answer(one, {"throttleTimeMs": 0, "errorCode": 0})
        builder.put(one)
    return builder.finish()


def test_requests_in_flight_and_their_gaps(pipelined: Path) -> None:
    # requests 10, 20, (30, 40 on the other), 50; responses 60, 70, 80 ms
    last = facts(pipelined, 4)
    assert last["in flight"] == "2 before it: 1 Heartbeat v3, 2 Heartbeat v3"
    gap = "later request 30.000 ms after earlier request, 20.000 ms before its response"
    assert last["previous"] == f"2 Heartbeat v3: {gap}"
    assert last["next"] == "none: it is the last so far of its connection"
    assert last["latency"].startswith("30.000 ms")
    assert last["comparison"] == "slower than 1 of 3 other Heartbeat v3"
    assert facts(pipelined, 1)["in flight"] == "nothing before it"
    assert facts(pipelined, 3)["previous"] == "none: it is the first of its connection"
    bars = {bar.name: (bar.start - START, bar.end - START) for bar in told(pipelined, 4).bars}
    assert bars["queued"] == (5 * STEP, 7 * STEP)
    assert bars["broker"] == (7 * STEP, 8 * STEP)


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    unanswered(builder)
    unanswered(builder, status=Status.NO_RESPONSE)
    heartbeat(builder)
    path = builder.finish()
    waiting, lost, last = (facts(path, number) for number in (1, 2, 3))
    assert waiting["unknown"] == "the latency: no response has come yet"
    assert lost["unknown"] == "the latency: no response was seen"
    assert "latency" not in waiting
    assert last["in flight"] == "1 before it: 1 Heartbeat v3; of 1 no response was seen"
    assert last["previous"].endswith("whose response was not seen")
    assert last["comparison"] == "no other Heartbeat v3"


async def test_a_fetch(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Fetch", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.main.pane.count > 2, pilot)
        await pilot.press("j", "j", "enter", "right_curly_bracket", "right_curly_bracket", "j")
        await until(lambda: "max wait" in "\n".join(grid(app)), pilot)
        text = "\n".join(grid(app))
        assert app.main.detail.tab == "Timing"
        assert grid(app)[-2].startswith(" Timing: ")
        assert "Overview:" not in text
        await pilot.press("space")
        await until(lambda: "\n".join(grid(app)) != text, pilot)  # the next exchange's


async def test_ascii_and_narrow(captured: Path) -> None:
    app = KproxyApp(captured, filter_text="api == Fetch", ascii_only=True)
    async with app.run_test(size=(60, 15)) as pilot:
        await until(lambda: app.main.pane.count > 2, pilot)
        await pilot.press("enter", "right_curly_bracket", "right_curly_bracket")
        await pilot.pause()
        assert "".join(grid(app)).isascii()
        assert "broker" in "\n".join(grid(app))


TIMES = st.integers(0, 2**62)


@given(TIMES, TIMES, TIMES, TIMES, st.integers(1, 300))
def test_a_bar_lies_in_its_room(start: int, end: int, first: int, last: int, room: int) -> None:
    before, length = place(start, end, first, last, room)
    assert before >= 0
    assert length >= 1
    assert before + length <= room


def test_durations() -> None:
    assert [duration_text(value) for value in (0, 1_500, 999_000_000, 2_400_000_000)] == [
        "0.000 ms", "0.002 ms", "999.000 ms", "2.400 s",
    ]  # fmt: skip


async def test_the_end_is_that_of_the_whole_capture_once_it_is_read(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    for _ in range(5):
        heartbeat(builder)  # 20 ms apart
    builder.flush()
    app = KproxyApp(builder.path, filter_text="time >= -20ms", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.main.pane.count == 2, pilot)
        for _ in range(5):
            heartbeat(builder)
        builder.finish()
        await until(lambda: app.main.pane.rows_shown is not None and app.main.pane.selected in {8, 9}, pilot)
        assert app.main.pane.count == 2
        assert app.main.bar.applied == "time >= -20ms"
