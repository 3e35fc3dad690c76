"""Spools: kept and reused, bounded, with a check for room on the disk, and removed after their process was killed."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures import spool
from kproxy.captures.errors import CaptureError
from kproxy.captures.opening import open_source
from kproxy.captures.reader import read
from kproxy.captures.spool import Spool, Spooling, lent
from tests.captures import traffic

PIECE = b"x" * 100_000
ABC, DEF = "abc0" * 10, "def0" * 10
"""Names of entries."""


def stream(pieces: int = 3) -> Iterator[bytes]:
    for _ in range(pieces):
        yield PIECE


def left(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*") if path.is_file())


def test_what_can_be_made_again_is_kept(tmp_path: Path) -> None:
    spooling = Spooling(tmp_path)
    first = Spool(stream(), "a.gz", spooling, entry=ABC)
    assert lent(ABC, "a.gz", spooling) is None, "it is not whole yet"
    first.take(1 << 30)
    second = Spool(stream(99), "a.gz", spooling, entry=ABC)
    assert second.lent
    assert second.ended
    assert second.path.read_bytes() == first.path.read_bytes() == PIECE * 3
    assert second.path != first.path
    first.close()
    second.close()
    assert left(tmp_path) == ["capture", "seals.json"]
    spooling.store.trim(0)
    third = lent(ABC, "a.gz", spooling)
    assert third is None
    assert left(tmp_path) == []


def test_what_ended_early_or_was_left_is_not_kept(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield PIECE
        raise CaptureError("is damaged", "a.gz")

    spooling = Spooling(tmp_path)
    damaged = Spool(broken(), "a.gz", spooling, entry=ABC)
    damaged.take(1 << 30)
    assert damaged.error is not None
    damaged.close()
    begun = Spool(stream(), "a.gz", spooling, entry=ABC)
    begun.take()
    begun.close()
    anonymous = Spool(stream(), "-", spooling)
    anonymous.take(1 << 30)
    anonymous.close()
    assert lent(ABC, "a.gz", spooling) is None
    assert left(tmp_path) == []


def test_a_compressed_capture_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, spooling = tmp_path / "a.pcap.gz", Spooling(tmp_path / "spool")
    path.write_bytes(gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    whole = traffic.exported(traffic.KAFKA_1_1)
    reader = read(path, spooling=spooling)
    assert traffic.lines(reader) == whole
    reader.close()

    def never(_: int) -> Iterator[bytes]:
        pytest.fail("it is read again")

    monkeypatch.setattr("kproxy.captures.source.pieces", never)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    reader = read(path, spooling=spooling)
    assert traffic.lines(reader) == whole
    reader.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
    os.utime(path, (1_000_000, 1_000_000))
    with pytest.raises(pytest.fail.Exception, match="again"):
        list(read(path, spooling=spooling))


def test_merged_captures_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in paths:
        path.write_bytes(traffic.KAFKA_1_1.read_bytes())
    first = open_source(paths, spooling=Spooling(tmp_path / "spool"))
    data = bytes(first.read(0, 1 << 30))
    first.close()
    monkeypatch.setattr("kproxy.captures.joining.merged", lambda _: iter(()))
    second = open_source(paths, spooling=Spooling(tmp_path / "spool"))
    assert bytes(second.read(0, 1 << 30)) == data != b""
    second.close()


def test_no_more_than_was_allowed(tmp_path: Path) -> None:
    one = Spool(stream(), "-", Spooling(tmp_path, most=250_000))
    one.take(1 << 30)
    assert one.size == 250_000, "what fits is read"
    assert one.error is not None
    assert "more than 250000 bytes" in one.error.message
    one.close()
    with pytest.raises(CaptureError, match="spool-max"):
        Spool(stream(), "a.gz", Spooling(tmp_path, most=250_000), least=250_001)


def test_what_is_kept_makes_room(tmp_path: Path) -> None:
    spooling = Spooling(tmp_path, most=500_000)
    for entry in (ABC, DEF):
        one = Spool(stream(), entry, spooling, entry=entry, least=300_000)
        one.take(1 << 30)
        one.close()
    assert lent(ABC, ABC, spooling) is None
    found = lent(DEF, DEF, spooling)
    assert found is not None
    found.close()


def test_room_is_looked_for_first_and_while_it_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10 << 30
    monkeypatch.setattr(spool, "_free", lambda _: free)
    monkeypatch.setattr(spool, "STEP", 100_000)
    kept = Spool(stream(), "a.gz", Spooling(tmp_path), entry=ABC)
    kept.take(1 << 30)
    kept.close()
    filling = Spool(stream(), "-", Spooling(tmp_path))
    filling.take()
    free = spool.MARGIN - 1
    filling.take(1 << 30)
    assert filling.size < 300_000
    assert filling.error is not None
    assert "--spool-dir" in filling.error.message
    filling.close()
    assert left(tmp_path) == [], "what was kept went first"
    with pytest.raises(CaptureError, match=r"a\.gz: cannot be spooled to .*--spool-dir"):
        Spool(stream(), "a.gz", Spooling(tmp_path))


def test_a_large_one_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "STEP", 250_000)
    said: list[str] = []
    for pieces in (2, 9):
        one = Spool(stream(pieces), "standard input", Spooling(tmp_path, say=said.append))
        one.take(1 << 30)
        one.close()
    assert said == [f"standard input is unpacked to {tmp_path} while it is read (21GB at most)"]


KILLED = """
import sys, time
from pathlib import Path
from kproxy.captures.spool import Spool, Spooling
spool = Spool(iter([b"x" * 1000]), "-", Spooling(Path(sys.argv[1])))
spool.take()
print(spool.path, flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_left_goes_with_the_next_spool(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        mine = Spool(stream(), "-", Spooling(tmp_path))
        assert path.exists(), "it lives"
        process.send_signal(signal.SIGKILL)
    assert path.exists()
    other = Spool(stream(), "-", Spooling(tmp_path))
    assert not path.exists()
    assert mine.path.exists()
    mine.close()
    other.close()
    assert left(tmp_path) == []


def test_what_others_have_there_stays(tmp_path: Path) -> None:
    """The user chose the directory, so other files in it stay."""
    for name in ("mine.spool", "capture-mine.spool", "kproxy-kept/mine/capture", "kproxy-kept/.half/capture"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"mine")
        os.utime((tmp_path / name).parent, (1_000_000, 1_000_000))
    before = left(tmp_path)
    one = Spool(stream(), "-", Spooling(tmp_path))
    one.close()
    Spooling(tmp_path).store.trim(0)
    assert left(tmp_path) == before


def test_where_there_can_be_no_spool(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CaptureError, match="cannot be spooled to"):
        Spool(stream(), "-", Spooling(tmp_path / "file"))
