"""The ledger: each file of a folder is read once, after it is complete."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark.follow.closed_files import ClosedFiles
from kproxy.captures.spark.follow.ledger import Ledger
from tests.captures import files, traffic

TAKEN = traffic.packets(traffic.LIBRDKAFKA)


def written(path: Path, start: int, end: int, ago: float) -> Path:
    """Write packets into a file whose last change was `ago` seconds ago."""
    path.write_bytes(files.pcap(TAKEN[start:end]))
    return aged(path, ago)


def aged(path: Path, ago: float) -> Path:
    then = time.time() - ago
    os.utime(path, (then, then))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def ledger(folder: Path, quiet: float = 3600) -> Ledger:
    return Ledger(folder.parent / "files", folder, quiet)


def names(folder: Path) -> list[str]:
    return [Path(one.path).name for one in ledger(folder).entries()]


def test_the_newest_file_is_left_alone(folder: Path) -> None:
    assert ledger(folder).update() == 0
    written(folder / "b.pcap", 0, 50, 30)
    assert ledger(folder).update() == 0
    written(folder / "a.pcap", 50, 90, 20)
    assert ledger(folder).update() == 1
    assert ledger(folder).update() == 1
    assert names(folder) == ["b.pcap"]
    assert ledger(folder, quiet=10).update() == 2
    assert names(folder) == ["b.pcap", "a.pcap"]


def test_files_are_in_the_order_of_their_first_packets(folder: Path) -> None:
    for name, start, ago in (("c", 100, 50), ("a", 200, 40), ("b", 0, 30), ("newest", 300, 20)):
        written(folder / f"{name}.pcap", start, start + 100, ago)
    (folder / "notes.txt").write_text("no capture")
    written(folder / ".part", 0, 10, 60)
    ledger(folder).update()
    assert names(folder) == ["b.pcap", "c.pcap", "a.pcap"]


def test_a_batch_is_bounded_by_files_and_bytes(folder: Path) -> None:
    sizes = [written(folder / f"{i}.pcap", 10 * i, 10 * i + 10, 50 - i).stat().st_size for i in range(6)]
    options = {"path": str(folder), "ledger": str(folder.parent / "files"), "quiet": "0"}

    def batches(most: int, size: int) -> list[int]:
        reader: Any = ClosedFiles(options | {"most": str(most), "bytes": str(size)}).streamReader(None)
        reader.prepareForTriggerAvailableNow()
        ends = [reader.initialOffset()]
        while len(ends) < 2 or ends[-1] != ends[-2]:
            ends.append(reader.latestOffset(ends[-1], reader.getDefaultReadLimit()))
        return [end["files"] for end in ends[1:-1]]

    assert batches(4, 1 << 40) == [4, 6]
    assert batches(64, 1) == [1, 2, 3, 4, 5, 6]
    assert batches(64, sum(sizes[:2])) == [2, *batches(64, sum(sizes[:2]))[1:]]
    assert batches(64, sum(sizes)) == [6]


def test_a_file_is_read_once(folder: Path) -> None:
    one = written(folder / "one.pcap", 0, 50, 50)
    written(folder / "newest.pcap", 50, 90, 1)
    assert ledger(folder).update() == 1
    aged(one, 40)
    assert ledger(folder).update() == 1
    (folder / "one.pcap.gz").write_bytes(gzip.compress(one.read_bytes()))
    aged(folder / "one.pcap.gz", 30)
    one.unlink()
    assert ledger(folder).update() == 1
    written(one, 0, 60, 20)  # the file has grown after all
    assert ledger(folder).update() == 1
    written(one, 300, 350, 10)  # another file with the same name
    assert ledger(folder).update() == 2
    assert [entry.size for entry in ledger(folder).entries()][1] == one.stat().st_size
