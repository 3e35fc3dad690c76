"""Output on a disk that becomes full, and has room again."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.cli.enduring import MOST_WAITING, EnduringOutput
from kproxy.decoders.plurals import counted

LINES = [f"line {number}\n" for number in range(10)]


class Disk:
    """Takes so many more bytes; then its error."""

    def __init__(self) -> None:
        self.room = 1 << 20
        self.error = errno.ENOSPC
        self._write = os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(self.error, os.strerror(self.error))
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk()
    monkeypatch.setattr("kproxy.cli.enduring.os.write", made.write)
    yield made
    monkeypatch.undo()


@pytest.mark.parametrize("room", range(30))
def test_what_is_there_is_whole_lines_in_order(disk: Disk, tmp_path: Path, room: int) -> None:
    said: list[str] = []
    path = tmp_path / "out"
    with path.open("w", encoding="utf-8") as file:
        out = EnduringOutput(file, said.append)
        out.write(LINES[0])
        out.flush()
        disk.room = room
        out.writelines(LINES[1:6])
        out.flush()
        out.write(LINES[6])
        out.flush()  # may be in vain as well
        disk.room = 1 << 20
        out.writelines(LINES[7:])
        out.flush()
    there = path.read_text().splitlines(keepends=True)
    assert there == [line for line in LINES if line in there]
    assert there[0] == LINES[0]
    assert there[-3:] == LINES[7:]
    assert said == [
        "standard output: No space left on device; lines are left out, traffic goes on",
        f"standard output has room again; missing before this: {counted(10 - len(there), 'line')}",
    ]


def test_other_errors_are_raised(disk: Disk, tmp_path: Path) -> None:
    disk.room, disk.error = 0, errno.EPIPE
    with (tmp_path / "out").open("w") as file:
        out = EnduringOutput(file, pytest.fail)
        out.write("x\n")
        with pytest.raises(BrokenPipeError):
            out.flush()


def test_little_waits(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("w") as file:
        out = EnduringOutput(file, pytest.fail)
        out.write("x" * MOST_WAITING + "\n")
        assert path.stat().st_size > MOST_WAITING
    assert disk.room < 1 << 20
