"""The process that computes the views beside an index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis import snapshots
from kproxy.captures.analysis.snapshots import blocks
from kproxy.captures.export.views import TEXTS
from kproxy.captures.index.format import ROWS, ROWS_HEADER
from kproxy.captures.index.indexer import run

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


@pytest.mark.parametrize("view", TEXTS)
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


def test_times_are_those_of_the_local_clock(index: Path) -> None:
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60, env={**os.environ, "TZ": "XST-03:30"})
    text = json.dumps(snapshot(index, "transactions"))
    assert "09:41:12.313 1 partition added" in text
    assert "06:11:12" not in text


def test_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_LINES", 3)
    topic: dict[str, Any] = {
        "schema": "kproxy.topic/1", "topic_id": None, "partitions": 1, "records_in": 0, "bytes_in": 0, "records_out": 0,
        "bytes_out": 0, "producers": [], "consumers": [],
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
