"""Guarantees for readers of an index while it grows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kproxy.captures.errors import CaptureError
from kproxy.captures.index import format as layout
from kproxy.captures.index.format import State
from kproxy.captures.index.indexer import Indexer, run
from kproxy.captures.index.reader import IndexReader, IndexUnreadableError
from kproxy.captures.index.writer import IndexWriter
from kproxy.decoders.exchange import Connection, Exchange, Status
from tests.support.indexes import IndexBuilder, heartbeat, sample

DATA = Path(__file__).parents[2] / "data" / "captures"


def test_rows_appear_and_are_completed_in_place(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    asked = {"groupId": "late", "generationId": 1, "memberId": "m", "groupInstanceId": None}
    waiting = builder.exchange("Heartbeat", 3, asked)
    builder.flush()
    with IndexReader(builder.path) as index:
        assert index.count == 1
        assert index.row(0).state == State.WAITING
        assert index.string(index.row(0).label) == "g:late"
        assert not index.refresh()
        heartbeat(builder)
        builder.flush()
        assert index.refresh()
        assert index.count == 2
        builder.answer(waiting, {"throttleTimeMs": 7, "errorCode": 27})
        builder.put(waiting)
        builder.flush()
        assert index.refresh()
        row = index.row(0)
        assert (row.state, row.error) == (State.OK, 27)
        detail = index.detail(row)
        assert detail.throttle_ms == 7
        assert detail.response is not None
        with pytest.raises(IndexError):
            index.row(2)
    builder.writer.close()


def test_a_row_before_its_number_comes_is_empty(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index", []) as writer:
        writer.put(Exchange(3, Connection(1, "a:1", "b:2", 5), 18, 3, 9, "x", status=Status.NO_RESPONSE))
        writer.flush()
        with IndexReader(tmp_path / "index") as index:
            assert [row.state for row in index.rows(0, 9)] == [State.EMPTY, State.EMPTY, State.NO_RESPONSE]


def test_strings_are_kept_once_and_cut_when_absurd(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index", []) as writer:
        one, again, long = writer.string("größe"), writer.string("größe"), writer.string("ä" * 40_000)
        writer.flush()
        assert one == again
        writer.put(Exchange(1, Connection(1, "a:1", "b:2", 5), 18, 3, 9, "x"))
        writer.flush()
        with IndexReader(tmp_path / "index") as index:
            assert index.string(one) == "größe"
            assert index.string(long).endswith("ä…")
            assert len(index.string(long).encode()) <= layout.STRING_LIMIT
            assert index.string(0) == ""
            assert index.string(2**31) == ""


def test_another_writer_makes_new_files_and_is_noticed(tmp_path: Path) -> None:
    path = sample(tmp_path, rows=30)
    with IndexReader(path) as index:
        first = index.row(0)
        with IndexWriter(path, []) as writer:
            assert index.row(0) == first  # still the old files
            assert index.refresh()
            assert index.count == 0
            writer.put(Exchange(1, Connection(1, "a:1", "b:2", 5), 18, 3, 9, "new"))
            writer.flush()
            writer.write_meta()
            index.refresh()
            assert index.count == 1
            assert index.string(index.row(0).client) == "new"


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexUnreadableError, match="no index here"):
        IndexReader(tmp_path)
    path = sample(tmp_path, rows=8)
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps({**meta, "format": 99}))
    with pytest.raises(IndexUnreadableError, match="index format 99"):
        IndexReader(path)


def test_files_are_the_users_alone(tmp_path: Path) -> None:
    path = sample(tmp_path, rows=8)
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}


def test_a_growing_capture_gives_the_same_rows(tmp_path: Path) -> None:
    whole = (DATA / "kafka-1.1.1.pcap").read_bytes()
    run([DATA / "kafka-1.1.1.pcap"], tmp_path / "whole")
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(whole[:100])
    indexer = Indexer([growing], tmp_path / "grown", follow=True)
    counts = []
    with growing.open("ab") as file:
        for at in range(100, len(whole), 20_011):
            file.write(whole[at : at + 20_011])
            file.flush()
            while indexer.step():
                pass
            counts.append(indexer.writer.meta["rows"])
    indexer.stop()
    indexer.close()
    assert counts == sorted(counts)
    with IndexReader(tmp_path / "whole") as one, IndexReader(tmp_path / "grown") as two:
        assert one.count == two.count
        for number in range(one.count):
            # details of a request that waited are written twice: at other places, with the same content
            assert one.row(number)._replace(details=0, label=0, client=0, subject=0) == two.row(number)._replace(
                details=0, label=0, client=0, subject=0
            )
            assert one.string(one.row(number).label) == two.string(two.row(number).label)
            assert one.string(one.row(number).subject) == two.string(two.row(number).subject)
            assert one.detail(one.row(number)) == two.detail(two.row(number))


def test_the_first_rows_are_told_at_once(tmp_path: Path) -> None:
    indexer = Indexer([DATA / "kafka-4.4.0-librdkafka.pcap"], tmp_path / "index")
    indexer.step()
    assert not indexer.finished
    meta = json.loads((tmp_path / "index" / layout.META).read_text())
    assert meta["rows"] > 10
    indexer.close()


def test_a_cut_capture_is_indexed_up_to_the_cut(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((DATA / "kafka-0.8.2.2.pcap").read_bytes()[:100_000])
    error = run([cut], tmp_path / "index")
    assert isinstance(error, CaptureError)
    with IndexReader(tmp_path / "index") as index:
        assert index.meta["state"] == "failed"
        assert index.meta["error"]["path"] == str(cut)
        assert index.count > 50


def indexer_process(*arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kproxy.captures.index.indexer", *arguments], stdin=stdin, stderr=subprocess.PIPE
    )


def rows_of(path: Path, wanted: int) -> int:
    """Wait until an index that another process writes has `wanted` rows; their number."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with IndexReader(path) as index:
                if index.count >= wanted:
                    return index.count
        except IndexUnreadableError:
            pass
        time.sleep(0.02)
    raise AssertionError(f"no {wanted} rows in time")


def test_the_process_follows_a_recording_until_it_is_told_to_stop(tmp_path: Path) -> None:
    growing = tmp_path / "growing.pcap"
    process = indexer_process("--follow", str(growing), str(tmp_path / "index"))
    try:
        # the recording begins after its indexer has started
        growing.write_bytes((DATA / "kafka-1.1.1.pcap").read_bytes())
        rows_of(tmp_path / "index", 200)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
    with IndexReader(tmp_path / "index") as index:
        assert index.meta["state"] == "complete"
        assert index.count == 249


SIGNALLED = """
import os, signal, threading
from kproxy.captures.index.indexer import _stop_on_signal
stopping = threading.Event()
_stop_on_signal(stopping)
with stopping._cond:  # what the main thread holds for a moment whenever it waits
    os.kill(os.getpid(), signal.SIGTERM)
assert stopping.wait(30)
"""


def test_a_signal_may_come_at_any_moment() -> None:
    subprocess.run([sys.executable, "-c", SIGNALLED], check=True, timeout=60)


def test_details_may_lie_beyond_32_gibibytes(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index", []) as writer:
        far = 1 << 36
        os.ftruncate(writer._details._fd, far)
        os.lseek(writer._details._fd, far, os.SEEK_SET)
        writer._details._pending.clear()
        writer._details.end = far
        writer.put(Exchange(1, Connection(1, "a:1", "b:2", 5), 18, 3, 9, "x", reason="far away"))
        writer.flush()
        with IndexReader(tmp_path / "index") as index:
            assert index.detail(index.row(0)).reason == "far away"


def test_the_process_reads_a_pipe_and_keeps_its_bytes(tmp_path: Path) -> None:
    process = indexer_process("-", str(tmp_path / "index"), stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write((DATA / "kafka-1.1.1.pcap").read_bytes())
        process.stdin.close()
        process.stdin = None
        assert rows_of(tmp_path / "index", 249) == 249
        with IndexReader(tmp_path / "index") as index:
            (spool,) = index.meta["sources"]
            assert Path(spool).stat().st_size == (DATA / "kafka-1.1.1.pcap").stat().st_size
        process.terminate()
        assert process.wait(20) == 0
        assert not Path(spool).exists()
    finally:
        process.kill()
        process.communicate()


def test_unreadable_input_is_exit_code_3(tmp_path: Path) -> None:
    process = indexer_process(str(tmp_path / "nothing.pcap"), str(tmp_path / "index"))
    _, said = process.communicate(timeout=30)
    assert process.returncode == 3
    assert b"nothing.pcap" in said
