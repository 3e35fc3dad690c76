"""The process that computes the views beside an index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis import snapshots
from kproxy.captures.analysis.snapshots import blocks
from kproxy.captures.analysis.views import view_text
from kproxy.captures.findings.model import finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.index.format import ROWS, ROWS_HEADER
from kproxy.captures.index.indexer import run
from kproxy.captures.reader import read
from kproxy.captures.views import FINDINGS, VIEWS
from kproxy.decoders.filters import parse
from tests.captures.analysis.support import views

CAPTURE = Path(__file__).parents[2] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
COMMAND = [sys.executable, "-m", "kproxy.captures.analysis.snapshots"]


def snapshot(index: Path, view: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((index / "views" / f"{view}.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def index(tmp_path: Path) -> Path:
    run([CAPTURE], tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize("view", [view for view in VIEWS if view != FINDINGS])
def test_a_snapshot_says_what_the_command_prints(index: Path, view: str) -> None:
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60, env={**os.environ, "TZ": "UTC"})
    found = snapshot(index, view)
    assert found["state"] == "complete"
    assert found["exchanges"] == 176
    assert found["renumbered"] is False
    assert found["bytes_read"] == found["bytes_total"] == CAPTURE.stat().st_size
    command = {"transactions": "txns", "connections": "conns"}.get(view, view)
    told = subprocess.run(
        [sys.executable, "-c", "import sys; from kproxy.cli.main import main; main(sys.argv[1:])", command, CAPTURE],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [text for one in found["blocks"] for text in one["lines"]] == told.stdout.splitlines()
    keys = [json.dumps(one["key"]) for one in found["blocks"]]
    assert len(set(keys)) == len(keys)
    assert all(len(one["filters"]) == len(one["lines"]) for one in found["blocks"])


def test_findings_are_those_of_the_command(index: Path) -> None:
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60, env={**os.environ, "TZ": "UTC"})
    reader = read([CAPTURE])
    findings = Findings(reader.source, reader.definitions)
    for batch in reader.batches():
        findings.add(batch, reader.closings)
    reader.close()
    objects = [finding_json(one) for one in findings.finish()]
    blocks = snapshot(index, FINDINGS)["blocks"]
    assert [line for block in blocks for line in block["lines"]] == list(view_text(FINDINGS, objects))
    for block, one in zip(blocks, objects, strict=True):
        assert block["key"] == ["kproxy.finding/1", one["id"]]
        numbers = [proof["exchange"] for proof in one["evidence"]]
        assert block["filters"][0] == [f"exchange in ({', '.join(map(str, numbers))})"]
        assert parse(block["filters"][0][0]).expression is not None
        assert [int(line.rpartition("#")[2]) for line in block["lines"] if "#" in line] == numbers


def test_times_are_those_of_the_local_clock(index: Path) -> None:
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60, env={**os.environ, "TZ": "XST-03:30"})
    text = json.dumps(snapshot(index, "transactions"))
    assert "09:41:12.313 1 partition added" in text
    assert "06:11:12" not in text


def test_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_LINES", 3)
    topic: dict[str, Any] = {
        "schema": "kproxy.topic/1", "topic_id": None, "partitions": 1, "records_in": 0, "bytes_in": 0, "records_out": 0,
        "bytes_out": 0, "producers": [], "consumers": [], "groups": [],
    }  # fmt: skip
    told = blocks("topics", [{**topic, "topic": f"t{number}"} for number in range(5)])
    shown, left_out = told["blocks"], told["left_out"]
    assert [one["filters"] for one in shown] == [[[f'topic == "t{number}"']] for number in range(3)]
    assert left_out == 2


def test_a_recording_is_followed_until_its_index_is_complete(tmp_path: Path) -> None:
    capture, index = tmp_path / "growing.pcap", tmp_path / "index"
    data = CAPTURE.read_bytes()
    half = len(data) // 2
    capture.write_bytes(data[:half])
    index.mkdir()
    with subprocess.Popen([*COMMAND, str(index)]) as process:
        indexer = subprocess.Popen(
            [sys.executable, "-m", "kproxy.captures.index.indexer", "--follow", str(capture), str(index)]
        )  # fmt: skip
        eventually(lambda: 0 < snapshot(index, "topics").get("exchanges", 0) < 176)
        assert snapshot(index, "topics")["state"] == "following"
        with capture.open("ab") as file:
            file.write(data[half:])
        eventually(lambda: snapshot(index, "topics")["bytes_read"] == len(data))
        indexer.terminate()
        assert indexer.wait(60) == 0
        assert process.wait(60) == 0
    assert snapshot(index, "topics")["state"] == "complete"
    assert snapshot(index, "topics")["exchanges"] == 176


def test_the_process_ends_with_its_parent(index: Path) -> None:
    meta = json.loads((index / "meta.json").read_text())
    (index / "meta.json").write_text(json.dumps({**meta, "state": "following"}))
    script = (
        "import os, subprocess, sys, time\n"
        "print(subprocess.Popen([sys.executable, *sys.argv[1:], '--parent', str(os.getpid())]).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, "-m", "kproxy.captures.analysis.snapshots", str(index)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        eventually(lambda: snapshot(index, "cluster").get("state") == "following")
        assert not gone(pid)
        parent.kill()
    eventually(lambda: gone(pid))


def test_an_unreadable_capture_is_told(tmp_path: Path) -> None:
    capture, index = tmp_path / "cut.pcap", tmp_path / "index"
    capture.write_bytes(CAPTURE.read_bytes()[:20_000])
    run([capture], index)
    done = subprocess.run([*COMMAND, str(index)], check=False, timeout=60)
    assert done.returncode == 3
    found = snapshot(index, "topics")
    assert found["state"] == "failed"
    assert found["error"]
    assert found["blocks"]


def test_a_ring_whose_beginning_is_gone_numbers_anew(index: Path) -> None:
    with (index / ROWS).open("r+b") as rows:
        header = ROWS_HEADER.unpack(rows.read(ROWS_HEADER.size))
        rows.seek(0)
        rows.write(ROWS_HEADER.pack(*header[:-1], 5))
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60)
    assert snapshot(index, "topics")["renumbered"] is True


def test_what_finds_the_exchanges_of_each_line_of_text() -> None:
    """A user of a topic has a line of text, and each of its errors one more."""
    topics = [{"name": "t", "partitionResponses": [{"index": 0, "errorCode": 6}]}]
    data = [{"name": "t", "partitionData": [{"index": 0, "records": None}]}]
    found = views((0, 8, {"acks": 1, "topicData": data}, {"responses": topics}), (3, 12, {}, {"clusterId": "c"}))

    def shown(view: str) -> list[Any]:
        told = blocks(view, found[view].lines())
        assert told["left_out"] == 0
        assert all(len(one["lines"]) == len(one["filters"]) for one in told["blocks"])
        return [(one["key"], one["filters"][:3], one["timeline"]) for one in told["blocks"]]

    own, client = 'topic == "t"', 'client.id == "shop"'
    assert shown("topics") == [(["kproxy.topic/1", "t"], [[own], [own, client], [own, client, "error == 6"]], None)]
    assert shown("connections") == [
        (["kproxy.connection/1", 1], [["connection == 1"]], '["shop", "10.0.0.1"]'),
        (["kproxy.client/1", "shop", "10.0.0.1"], [[client]] * 3, '["shop", "10.0.0.1"]'),
    ]
    assert shown("cluster") == [(["kproxy.cluster/1"], [[]], None)]
    assert list(blocks("connections", found["connections"].lines())["timelines"]) == ['["shop", "10.0.0.1"]']


def test_what_finds_the_exchanges_of_a_transaction_and_a_group() -> None:
    added = {"v3AndBelowTransactionalId": 'a "b"', "v3AndBelowTopics": [{"name": "t", "partitions": [0]}]}
    end = {"transactionalId": 'a "b"', "committed": True}
    found = views((12, 3, {"groupId": "g"}, {}), (24, 3, added, {}), (26, 3, end, {}), (24, 3, added, {}))
    ended, still_open = blocks("transactions", found["transactions"].lines())["blocks"]
    txn = 'txn == "a \\"b\\""'
    assert ended["filters"][0] == [txn, "exchange >= 2", "exchange <= 3"]
    assert still_open["filters"][0] == [txn, "exchange >= 4"]
    assert (ended["timeline"], still_open["key"][1:]) == ('["a \\"b\\"", 2]', ['a "b"', 4])
    (group,) = blocks("groups", found["groups"].lines())["blocks"]
    assert (group["filters"][0], group["timeline"]) == (['group == "g"'], '["g"]')


def test_lines_beyond_the_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = views((3, 12, {}, {}))
    (whole,) = blocks("cluster", found["cluster"].lines())["blocks"]
    connection, client = found["connections"].lines()
    texts = len(blocks("connections", [connection])["blocks"][0]["lines"])
    monkeypatch.setattr(snapshots, "MOST_LINES", texts)
    told = blocks("connections", [connection, client, client])
    assert ([one["key"][0] for one in told["blocks"]], told["left_out"]) == (["kproxy.connection/1"], 2)
    monkeypatch.setattr(snapshots, "MOST_LINES", texts + 1)
    told = blocks("connections", [connection, client, client])
    assert ([len(one["lines"]) for one in told["blocks"]], told["left_out"]) == ([texts, 1], 1)
    assert len(told["blocks"][1]["filters"]) == 1
    assert whole["lines"]


@pytest.mark.parametrize(
    ("following", "meta", "state", "stopped"),
    [
        (True, {"state": "following"}, "following", False),
        (True, {"state": "complete"}, "following", True),
        (True, {"state": "failed"}, "following", True),
        (False, {"state": "complete"}, "reading", False),
        (True, {}, "following", False),
        (True, {"state": "stopped", "bytes_read": 0}, "stopped", True),
        (True, {"state": "stopped", "bytes_read": 1}, "following", False),
        (False, {"state": "stopped", "bytes_read": 0}, "stopped", True),
    ],
)
def test_reading_ends_with_the_index(
    tmp_path: Path, following: bool, meta: dict[str, Any], state: str, stopped: bool
) -> None:
    stopping = threading.Event()
    written = snapshots.Snapshots(tmp_path, stopping, following=following)
    written._stop_with(meta)
    written.write()
    assert stopping.is_set() == stopped
    told = snapshot(tmp_path, "topics")
    assert (told["state"], told["exchanges"], told["blocks"]) == (state, 0, [])
    assert told["bytes_total"] == (None if state == "following" else 0)
    assert snapshot(tmp_path, "stats-api")["lines"] == []
    written.end(None)
    assert snapshot(tmp_path, "topics")["state"] == ("stopped" if state == "stopped" else "complete")
