"""Kept indexes: reused only if complete and for the same reading of the same captures, by several processes too."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kproxy.captures import cache
from kproxy.captures.errors import WARNING, CaptureError
from kproxy.captures.index import cached
from kproxy.captures.index import format as layout
from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.opening import open_source
from kproxy.captures.spool import Spooling
from tests.captures import traffic

KEYLOG = "CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48 + "\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kproxy"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copy(traffic.KAFKA_1_1, tmp_path / "capture.pcap"))


def indexed(capture: Path, directory: Path, spooling: Spooling | None = None, **reading: str | None) -> None:
    """Index as the indexer's process does; the spool lasts until the process is told to stop."""
    stopping = threading.Event()
    stopping.set()

    class Once(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            del timeout
            return True

    run([capture], directory, stopping=Once(), keep=True, spooling=spooling, **reading)  # type: ignore[arg-type]  # of a test


def lent(capture: Path, directory: Path, **reading: str | None) -> bool:
    entry = cached.entry([capture], **reading)  # type: ignore[arg-type]  # of a test
    assert entry is not None
    spools = cached.lend(entry, directory, Spooling())
    for spool in spools or ():
        spool.close()
    return spools is not None


def rows(directory: Path) -> list[object]:
    with IndexReader(directory) as index:
        return [(row, index.detail(row), index.string(row.label)) for row in index.rows(0, index.count)]


def test_the_same_index_comes_back(capture: Path, tmp_path: Path) -> None:
    assert not lent(capture, tmp_path / "early")
    indexed(capture, tmp_path / "made")
    assert lent(capture, tmp_path / "again")
    assert rows(tmp_path / "again") == rows(tmp_path / "made") != []
    with IndexReader(tmp_path / "again") as index:
        assert index.meta["state"] == "complete"
        assert index.meta["sources"] == [str(capture)]
        assert open_source(index.meta["sources"], ordered=True).size == capture.stat().st_size


def test_the_capture_changed(capture: Path, tmp_path: Path) -> None:
    indexed(capture, tmp_path / "made")
    status = capture.stat()
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert not lent(capture, tmp_path / "touched")
    indexed(capture, tmp_path / "made-again")
    assert lent(capture, tmp_path / "again")
    with capture.open("r+b") as file:
        file.seek(100_000)
        file.write(b"\0")
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert not lent(capture, tmp_path / "written-in-the-middle")
    indexed(capture, tmp_path / "made-of-that")
    with capture.open("ab") as file:
        file.write(b"\0")
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not lent(capture, tmp_path / "grown")


def test_the_reading_is_another(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.log").write_text(KEYLOG)
    indexed(capture, tmp_path / "made")
    assert not lent(capture, tmp_path / "ports", ports="9092")
    assert not lent(capture, tmp_path / "release", release="3.9")
    assert not lent(capture, tmp_path / "keylog", keylog=str(tmp_path / "keys.log"))
    assert lent(capture, tmp_path / "again")
    indexed(capture, tmp_path / "made-with-ports", ports="23001")
    assert lent(capture, tmp_path / "with-ports", ports="23001")


def test_definitions_changed(capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    plain = cached.entry([capture])
    first = cached.entry([capture], user_definitions=[str(folder)])
    (folder / "Odd.json").write_text("{}")
    second = cached.entry([capture], user_definitions=[str(folder)])
    (folder / "Odd.json").write_text("{ }")
    third = cached.entry([capture], user_definitions=[str(folder)])
    dialect = cached.entry([capture], user_definitions=["coordinator-draft-1"])
    assert len({plain, first, second, third, dialect}) == 5


def test_another_format_is_made_again(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(capture, tmp_path / "made")
    monkeypatch.setattr(layout, "VERSION", layout.VERSION + 1)
    assert not lent(capture, tmp_path / "newer")
    indexed(capture, tmp_path / "made-newer")
    assert lent(capture, tmp_path / "newer")
    assert rows(tmp_path / "newer")


def test_one_that_does_not_belong_is_silently_made_again(capture: Path, tmp_path: Path, own_cache: Path) -> None:
    indexed(capture, tmp_path / "made")
    first = rows(tmp_path / "made")
    (entry,) = (own_cache / "indexes").iterdir()
    os.truncate(entry / layout.ROWS, 4096)
    assert not lent(capture, tmp_path / "cut")
    indexed(capture, tmp_path / "made-again")
    assert lent(capture, tmp_path / "again")
    assert rows(tmp_path / "again") == first


def test_a_build_that_was_killed_leaves_nothing(tmp_path: Path, own_cache: Path) -> None:
    large = tmp_path / "large.pcap"
    data = traffic.KAFKA_1_1.read_bytes()
    with large.open("wb") as file:
        file.write(data[:24])
        for _ in range(400):
            file.write(data[24:])
    process = subprocess.Popen(
        [sys.executable, "-m", "kproxy.captures.index.indexer", "--keep", str(large), str(tmp_path / "killed")]
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "killed" / layout.ROWS).exists() or (tmp_path / "killed" / layout.ROWS).stat().st_size < 6400:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not lent(large, tmp_path / "again")
    assert not (own_cache / "indexes").exists()


def test_a_reading_that_was_stopped_is_not_kept(capture: Path, tmp_path: Path, own_cache: Path) -> None:
    stopping = threading.Event()
    stopping.set()
    run([capture], tmp_path / "made", stopping=stopping, keep=True)
    assert not lent(capture, tmp_path / "again")
    assert not (own_cache / "indexes").exists()


def test_what_grew_while_it_was_read_is_not_kept(capture: Path, tmp_path: Path, own_cache: Path) -> None:
    def grow(*_: object) -> None:
        os.utime(capture)

    run([capture], tmp_path / "made", keep=True, watch=grow)
    assert not (own_cache / "indexes").exists()


def test_a_cut_capture_is_kept_with_what_is_wrong(capture: Path, tmp_path: Path) -> None:
    os.truncate(capture, 100_000)
    indexed(capture, tmp_path / "made")
    assert lent(capture, tmp_path / "again")
    with IndexReader(tmp_path / "again") as index:
        assert index.meta["state"] == "failed"
        assert "ends inside a packet" in index.meta["error"]["text"]


@pytest.mark.parametrize(("error", "words"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only")])
def test_one_that_cannot_be_kept_is_made_and_said(
    error: int,
    words: str,
    capture: Path,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_arguments: object, **_more: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        indexed(capture, tmp_path / "made")
    assert len(rows(tmp_path / "made")) > 100
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"{WARNING}the index is not kept")
    assert words in line
    assert not list((own_cache / "indexes").iterdir())
    indexed(capture, tmp_path / "again")
    assert not capfd.readouterr().err
    assert lent(capture, tmp_path / "kept")


def test_where_there_may_be_no_cache_the_index_is_made_all_the_same(
    capture: Path, tmp_path: Path, own_cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own_cache.parent.mkdir()
    own_cache.write_bytes(b"a file where the directory should be")
    indexed(capture, tmp_path / "made")
    assert len(rows(tmp_path / "made")) > 100
    assert "is not kept for the next reading" in capfd.readouterr().err


def test_several_at_once(capture: Path, tmp_path: Path) -> None:
    """Several processes index and keep the same capture, while others use and remove the entry."""
    command = [sys.executable, "-m", "kproxy.captures.index.indexer", "--keep", str(capture)]
    processes = [subprocess.Popen([*command, str(tmp_path / f"made-{each}")]) for each in range(3)]
    found = 0
    while any(process.poll() is None for process in processes):
        taken = tmp_path / f"taken-{found}"
        if lent(capture, taken):
            found += 1
            assert len(rows(taken)) > 100
            cached.store().trim(0)
            assert len(rows(taken)) > 100
    assert [process.wait() for process in processes] == [0, 0, 0]
    indexed(capture, tmp_path / "made")
    assert lent(capture, tmp_path / "again")
    assert all(rows(tmp_path / f"made-{each}") == rows(tmp_path / "again") for each in range(3))


def test_the_oldest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    captures = [Path(shutil.copy(traffic.KAFKA_1_1, tmp_path / f"{each}.pcap")) for each in range(3)]
    indexed(captures[0], tmp_path / "first")
    (first,) = (own_cache / "indexes").iterdir()
    size = sum(path.stat().st_blocks * 512 for path in first.iterdir())
    monkeypatch.setattr(cached, "MOST", int(size * 2.5))
    os.utime(first, (1_000_000, 1_000_000))
    for capture in captures[1:]:
        indexed(capture, tmp_path / capture.stem)
    assert [lent(capture, tmp_path / f"again-{capture.stem}") for capture in captures] == [False, True, True]


def test_several_files_are_all_looked_at(tmp_path: Path) -> None:
    captures = [Path(shutil.copy(traffic.KAFKA_1_1, tmp_path / f"{each}.pcap")) for each in range(2)]
    first = cached.entry(captures)
    os.utime(captures[1], (1_000_000, 1_000_000))
    assert cached.entry(captures) != first
    assert cached.entry([*captures, tmp_path / "gone"]) is None


def test_a_compressed_capture_comes_back_with_its_bytes(tmp_path: Path, own_cache: Path) -> None:
    packed = tmp_path / "capture.pcap.gz"
    packed.write_bytes(gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    indexed(packed, tmp_path / "made")
    entry = cached.entry([packed])
    assert entry is not None
    spools = cached.lend(entry, tmp_path / "again", Spooling())
    assert spools is not None
    with IndexReader(tmp_path / "again") as index:
        assert index.meta["names"] == ["capture.pcap.gz"]
        source = open_source(index.meta["sources"], ordered=True)
        assert bytes(source.read(0, 1 << 30)) == traffic.KAFKA_1_1.read_bytes()
    source.close()
    for spool in spools:
        spool.close()
    assert not list((own_cache / "spool").glob("*.spool"))
    shutil.rmtree(own_cache / "spool" / "kproxy-kept")
    assert not lent(packed, tmp_path / "later"), "an index whose bytes are gone shows nothing"
    assert not (tmp_path / "later").exists()


def test_what_is_decrypted_is_not_kept(capture: Path, tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "keys.log").write_text(KEYLOG)
    indexed(capture, tmp_path / "made", keylog=str(tmp_path / "keys.log"))
    assert not lent(capture, tmp_path / "again", keylog=str(tmp_path / "keys.log"))
    assert not [path for path in own_cache.rglob("*") if path.is_file()]


def test_standard_input_is_not_kept() -> None:
    assert cached.entry(["-"]) is None


def test_what_could_not_be_spooled_is_not_kept(tmp_path: Path, own_cache: Path) -> None:
    packed = tmp_path / "capture.pcap.gz"
    packed.write_bytes(gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    indexed(packed, tmp_path / "made", Spooling(most=200_000))
    with IndexReader(tmp_path / "made") as index:
        assert "--spool-max" in index.meta["error"]["text"]
        assert index.count > 10
    assert not (own_cache / "indexes").exists()
    with pytest.raises(CaptureError, match="spool-max"):
        indexed(packed, tmp_path / "refused", Spooling(most=1000))


def test_names_hold_what_they_are_made_of(capture: Path) -> None:
    """The reading code is part of the name, so that another release has its own entries."""
    first = cached.entry([capture])
    cache._code.cache_clear()
    assert cached.entry([capture]) == first


def test_a_pipe_that_a_reading_depends_on_keeps_nothing(capture: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert cached.entry([capture]) is not None
    assert cached.entry([capture], keylog=tmp_path / "pipe") is None
    assert cached.entry([capture], user_definitions=[str(tmp_path / "pipe")]) is None
