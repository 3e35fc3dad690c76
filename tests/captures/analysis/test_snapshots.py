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
from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.analysis.columns.tables import tables
from kproxy.captures.analysis.texts import view_text
from kproxy.captures.findings.model import finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.index.format import ROWS, ROWS_HEADER
from kproxy.captures.index.indexer import run
from kproxy.captures.reader import read
from kproxy.captures.views import FINDINGS, VIEWS
from kproxy.decoders.filters import parse

CAPTURE = Path(__file__).parents[2] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
COMMAND = [sys.executable, "-m", "kproxy.captures.analysis.snapshots"]


def facts(index: Path, view: str) -> dict[str, Any]:
    """The members of a snapshot with tables; {} before it is written."""
    try:
        return Stored(index / "views" / f"{view}.table").facts
    except FileNotFoundError:
        return {}


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


@pytest.mark.parametrize("name", tables())
def test_a_snapshot_has_the_rows_that_the_command_prints(index: Path, name: str) -> None:
    table = tables()[name]
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60, env={**os.environ, "TZ": "UTC"})
    stored = Stored(index / "views" / f"{table.view}.table")
    assert (stored.facts["state"], stored.facts["exchanges"], stored.facts["renumbered"]) == ("complete", 176, False)
    assert stored.facts["bytes_read"] == stored.facts["bytes_total"] == CAPTURE.stat().st_size
    rows = stored.rows(table)
    assert rows is not None
    arranged = rows.order(table.order.removeprefix("-"), descending=table.order.startswith("-")) if table.order else ()
    shown = [rows.cells(row)[1] for row in arranged or range(rows.count)]
    view = next(view for view in VIEWS.values() if view.command is not None and name in view.screen.tables)
    assert view.command is not None
    columns = ",".join(column.name for column in table.columns)
    asked = [view.command.name, str(CAPTURE), "--table", name, "--columns", columns]
    told = subprocess.run(
        [sys.executable, "-c", "import sys; from kproxy.cli.main import main; main(sys.argv[1:])", *asked],
        capture_output=True,
        text=True,
        check=True,
    )
    heading, *lines = told.stdout.splitlines()
    assert heading.split() == [word for column in table.columns for word in column.title.split()]
    assert [line.split() for line in lines] == [" ".join(cells).split() for cells in shown]
    assert len({rows.key(row) for row in range(rows.count)}) == rows.count


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
    text = (index / "views" / "transactions.table").read_text(errors="replace")
    assert "09:41:12.313" in text
    assert "06:11:12.313\t" not in text


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
        eventually(lambda: 0 < facts(index, "topics").get("exchanges", 0) < 176)
        assert facts(index, "topics")["state"] == "following"
        with capture.open("ab") as file:
            file.write(data[half:])
        eventually(lambda: facts(index, "topics")["bytes_read"] == len(data))
        indexer.terminate()
        assert indexer.wait(60) == 0
        assert process.wait(60) == 0
    assert facts(index, "topics")["state"] == "complete"
    assert facts(index, "topics")["exchanges"] == 176


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
        eventually(lambda: facts(index, "cluster").get("state") == "following")
        assert not gone(pid)
        parent.kill()
    eventually(lambda: gone(pid))


def test_an_unreadable_capture_is_told(tmp_path: Path) -> None:
    capture, index = tmp_path / "cut.pcap", tmp_path / "index"
    capture.write_bytes(CAPTURE.read_bytes()[:20_000])
    run([capture], index)
    done = subprocess.run([*COMMAND, str(index)], check=False, timeout=60)
    assert done.returncode == 3
    stored = Stored(index / "views" / "topics.table")
    assert stored.facts["state"] == "failed"
    assert stored.facts["error"]
    rows = stored.rows(tables()["topics"])
    assert rows is not None
    assert rows.count


def test_a_ring_whose_beginning_is_gone_numbers_anew(index: Path) -> None:
    with (index / ROWS).open("r+b") as rows:
        header = ROWS_HEADER.unpack(rows.read(ROWS_HEADER.size))
        rows.seek(0)
        rows.write(ROWS_HEADER.pack(*header[:-1], 5))
    subprocess.run([*COMMAND, str(index)], check=True, timeout=60)
    assert facts(index, "topics")["renumbered"] is True


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
    told = facts(tmp_path, "topics")
    assert (told["state"], told["exchanges"]) == (state, 0)
    assert told["bytes_total"] == (None if state == "following" else 0)
    assert snapshot(tmp_path, "stats-api")["lines"] == []
    written.end(None)
    assert facts(tmp_path, "topics")["state"] == ("stopped" if state == "stopped" else "complete")
