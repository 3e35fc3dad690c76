"""Records on screen: the table, one record, and the tree beside decompressed bytes."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import lz4.frame
import pytest

from kproxy.decoders.records.places import Place
from kproxy.tui.app import KproxyApp
from kproxy.tui.detail.records import RecordLine, RecordLines, TextLine
from kproxy.tui.detail.viewing import Read
from kproxy.tui.widgets.record import HEAD, RecordPane
from kproxy.tui.widgets.records import RecordTable
from tests.decoders.batches.support import batch, message, record
from tests.support.indexes import IndexBuilder
from tests.support.scripts import request, response
from tests.tui.screen import grid, styled

SIZES = [(80, 24), (120, 40)]
TIME = 1_700_000_000_000
ABORT = struct.pack(">hh", 0, 0)
MARKER = struct.pack(">hi", 0, 7)


def produce(builder: IndexBuilder, records: bytes, base: int = 1045) -> None:
    partition = {"index": 3, "records": records}
    told = {"index": 3, "errorCode": 0, "baseOffset": base, "logAppendTimeMs": -1}
    builder.exchange(
        "Produce",
        7,
        {
            "transactionalId": None,
            "acks": -1,
            "timeoutMs": 1500,
            "topicData": [{"name": "orders", "partitionData": [partition]}],
        },
        {
            "responses": [{"name": "orders", "partitionResponses": [{**told, "logStartOffset": 0}]}],
            "throttleTimeMs": 0,
        },
    )


def fetch(builder: IndexBuilder, records: bytes, offset: int, aborted: list[dict[str, int]] | None = None) -> None:
    asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    told: dict[str, Any] = {
        "partitionIndex": 0,
        "errorCode": 0,
        "highWatermark": 50,
        "lastStableOffset": 50,
        "abortedTransactions": aborted,
        "records": records,
    }
    builder.exchange(
        "Fetch",
        4,
        {
            "replicaId": -1,
            "maxWaitMs": 0,
            "minBytes": 1,
            "maxBytes": 1 << 20,
            "isolationLevel": 1,
            "topics": [{"topic": "payments", "partitions": [asked]}],
        },
        {"throttleTimeMs": 0, "responses": [{"topic": "payments", "partitions": [told]}]},
    )


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return with_records(tmp_path)


def with_records(directory: Path) -> Path:
    """An index of a Produce with every kind of value, and a Fetch with every kind of mark."""
    builder = IndexBuilder(directory)
    inner = (
        record(0, b"order-1", b'{"total": 12}', [(b"trace", b"4f\x1b[31m"), (b"trace", None)])
        + record(1, None, None, time=5)
        + record(2, b"", b"", time=7)
        + record(3, b"evil\x1b]0;x\x07", "tabs\tand \u202e 漢字".encode(), time=9)
        + record(4, b"big", b"x" * (HEAD + 5))
    )
    produce(
        builder, batch(lz4.frame.compress(inner), 5, attributes=3, base_time=TIME, producer=4001) + batch(inner[:30], 9)
    )
    plain = batch(b"".join(record(i, b"k", b"v%d" % i) for i in range(4)), 4, offset=10, base_time=TIME)
    lost = batch(record(0, b"k", b"lost"), 1, offset=14, attributes=16, producer=9, base_time=TIME)
    end = batch(record(0, ABORT, MARKER), 1, offset=15, attributes=16 | 32, producer=9, base_time=TIME)
    fetch(builder, plain + lost + end + plain[:40], 12, [{"producerId": 9, "firstOffset": 14}])
    fetch(
        builder,
        message(
            1, 9, None, gzip.compress(message(1, 0, b"a", b"1") + message(1, 1, b"b", b"2")), attributes=1, time=TIME
        ),
        8,
    )
    builder.exchange("Heartbeat", 3, {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None})
    return builder.finish()


async def open_tab(pilot: Any, row: int) -> None:
    await pilot.press("g", *["j"] * row, "enter")
    while pilot.app.main.detail.tab != "Records":
        await pilot.press("right_curly_bracket")
    await pilot.pause()


async def test_records_of_a_produce(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_tab(pilot, 0)
        text = "\n".join(grid(app))
        assert "\x1b" not in text
        assert "1045" in text
        assert "∅ tombstone" in text


async def test_records_of_a_fetch(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_tab(pilot, 1)
        text = "\n".join(grid(app))
        assert "6 records, 2 below fetch offset, 1 aborted" in text
        assert "partial message, 40 of" in text
        assert "ABORT (con" in text


async def test_ascii_only(records: Path) -> None:
    app = KproxyApp(records, ascii_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_tab(pilot, 0)
        assert "".join(grid(app)).isascii()


async def test_what_carries_no_records_says_so(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_tab(pilot, 3)
        assert "no message of this API carries records" in "\n".join(grid(app))


async def test_records_of_a_produce_in_an_envelope(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    partition = {"index": 3, "records": batch(record(0, b"order-1", b"{}"), 1, base_time=TIME)}
    asked = request(0, 9, 7, acks=1, topicData=[{"name": "orders", "partitionData": [partition]}])
    told = {"index": 3, "baseOffset": 1045}
    answered = response(0, 9, 7, responses=[{"name": "orders", "partitionResponses": [told]}])
    host = b"\x0a\0\0\1"
    for inner, answer in ((asked, answered), (request(3, 12, 5)[4:], None)):
        data = inner if answer is None else inner[4:]
        envelope = {"requestData": data, "requestPrincipal": None, "clientHostAddress": host}
        builder.exchange(
            "Envelope", 0, envelope, {"responseData": None if answer is None else answer[4:], "errorCode": 0}
        )
    app = KproxyApp(builder.finish(), ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_tab(pilot, 0)
        text = "\n".join(grid(app))
        assert "order-1" in text
        assert "orders" in text
        assert "1045" in text
        assert "1 record" in text
        await pilot.press("escape")
        await open_tab(pilot, 1)
        assert "no records" in "\n".join(grid(app))


async def test_a_long_value_shows_its_head_and_then_more(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_tab(pilot, 0)
        await pilot.press(*["j"] * 4, "enter", "G")
        await pilot.pause()
        pane = app.main.detail.records.record
        assert app.focused is pane
        assert any("5 B more" in text for _, text, _, _ in pane._lines)
        await pilot.press("enter")
        await pilot.pause()
        assert not any("more" in text for _, text, _, _ in pane._lines)
        shown = "".join(text for _, text, _, part in pane._lines if part == "value")
        assert shown.count("x") >= HEAD + 5


async def test_a_viewer_is_chosen_for_a_topic_and_remembered(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_tab(pilot, 0)
        assert "text (UTF-8" in "\n".join(grid(app))
        await pilot.press("v", "v")
        await pilot.pause()
        assert "hex (chosen)" in "\n".join(grid(app))
        assert "7b 22 74 6f" in "\n".join(grid(app))
        # keys are others, and so are topics
        assert "order-1" in "\n".join(grid(app))
        await pilot.press("space", "p")
        await pilot.pause()
        assert "hex (chosen)" in "\n".join(grid(app))
        await pilot.press("v")
        await pilot.pause()
        assert "hex (chosen)" not in "\n".join(grid(app))


async def test_a_viewer_that_fails_says_why_and_shows_the_bytes(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_tab(pilot, 0)
        table, pane = app.main.detail.query_one(RecordTable), app.main.detail.query_one(RecordPane)
        await pilot.press("v")
        await pilot.pause()
        pane.show(with_value(table, b"\xff\xfe"))
        await pilot.pause()
        assert any("text: not UTF-8 at byte 0" in text for text in styled(app, "red"))
        assert "ff fe" in "\n".join(grid(app))


def with_value(table: RecordTable, value: bytes) -> RecordLine:
    line = table.line
    assert isinstance(line, RecordLine)
    offset, timestamp, key, _, headers = line.record
    return replace(line, record=(offset, timestamp, key, value, headers))


class Waiting:
    """Viewers whose schema comes later."""

    names = ("late",)

    def __init__(self) -> None:
        self.there = False

    def look(self, topic: str | None, part: str, data: bytes, headers: Any, viewer: str | None) -> Read:
        del topic, part, data, headers, viewer
        return Read("late", "chosen", "the schema is here") if self.there else Read("late", "chosen", error="not yet")


async def test_payloads_are_shown_again_when_a_schema_arrives(records: Path) -> None:
    viewers, arrived = Waiting(), Event()
    app = KproxyApp(records, viewers=viewers, arrived=arrived, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_tab(pilot, 0)
        assert "the schema is here" not in "\n".join(grid(app))
        viewers.there = True
        arrived.set()
        app.main._tick()
        await pilot.pause()
        assert "\n".join(grid(app)).count("the schema is here") > 2
        assert not arrived.is_set()


METADATA_ID = bytes(15) + b"\1"


@pytest.mark.parametrize("show_secrets", [False, True])
@pytest.mark.parametrize("whole", [False, True])
async def test_credentials_in_the_cluster_s_metadata_are_withheld(
    tmp_path: Path, *, whole: bool, show_secrets: bool
) -> None:
    credential = b"\1\x0b\0\3us\1\5SALT\7STORED\7SERVER\0"
    partition = {"partitionIndex": 0, "records": batch(record(0, None, credential, [(b"h", b"hunter2")]), 1)}
    answer = response(1, 13, 1, responses=[{"topicId": METADATA_ID, "partitions": [partition]}])[8:]
    builder = IndexBuilder(tmp_path)
    builder.exchange("Fetch", 13, {"topics": []}, raw_response=answer if whole else answer[:-4])
    app = KproxyApp(builder.finish(), show_secrets=show_secrets, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("g", "enter")
        await pilot.pause()
        opened = app.main.detail._opened
        assert opened is not None
        at = opened.data.index(b"STORED")
        withheld = any(start <= at < at + 6 <= end for start, end in opened.secret)
        assert withheld != show_secrets
        if whole:
            await open_tab(pilot, 0)
            assert ("hunter2" in "\n".join(grid(app))) == show_secrets


async def test_fields_lead_into_decompressed_bytes_and_back(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("g", "enter")
        detail = app.main.detail
        while detail.tab != "Request":
            await pilot.press("left_curly_bracket")
        tree = detail.fields
        assert tree._opened is not None
        assert tree._opened.root is not None
        field = next(node for node in tree._opened.root.walk() if node.type == "records")
        packed = field.children[0].children[0].children[-1]
        value = packed.children[0].children[5]
        tree._unfold_to(value)
        tree.move_to(next(i for i, item in enumerate(tree._items) if item.node is value))
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "wire │ batch 0 (lz4, " in text
        assert '{"total"' in text
        buffer = packed.children[0].buffer
        assert buffer is not None
        assert detail.hex.length == len(buffer)
        await pilot.press("tab", "right")
        assert app.focused is detail.hex
        assert (detail.fields.node, detail.hex.marked) == (value, (value.start, value.end))
        await pilot.press(*["right"] * 13)
        assert detail.fields.node is not None
        assert detail.fields.node.path.startswith("topicData[0].partitionData[0].records.batches[0].records[0].headers")
        tree.move_to(next(i for i, item in enumerate(tree._items) if item.node is packed))
        await pilot.pause()
        assert "wire │" not in "\n".join(grid(app))
        assert detail.hex.marked == (packed.start, packed.end)


async def test_lists_mark_records_that_end_within_a_batch(records: Path) -> None:
    app = KproxyApp(records, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        rows = [line for line in grid(app) if "Fetch v4" in line]
        assert rows[0][2] == "/"
        assert rows[1][2] == " "


def test_many_records_are_read_a_piece_at_a_time() -> None:
    data = batch(record(0, None, b"v") * 2500, 2500)
    lines = RecordLines([Place("records", "t", None, 0, data)])
    lines.take(1000)
    assert len(lines.lines) == 1000
    assert isinstance(lines.lines[0], TextLine)
    assert lines.summary() == "the first 999 records"
    lines.take(1000)
    lines.take(1000)
    assert lines.complete
    assert lines.summary() == "2,500 records"
