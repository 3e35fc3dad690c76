"""What passes the relay is read into memory that it has."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from bench import peers
from bench.relay import BLOCK, PRODUCE, move
from tests.kproxy.support import places

MEGABYTES = 64


def faults(pid: int) -> int:
    """Pages that a process had to ask for since it started."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc" or not Path("/proc/self/stat").exists(), reason="glibc on Linux")
def test_recording_takes_no_new_memory_for_what_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places(monkeypatch, tmp_path)
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    with peers.process() as (address, _), peers.kproxy(address) as relay:
        move(relay, PRODUCE, 8)
        before = faults(relay.pid)
        move(relay, PRODUCE, MEGABYTES)
        pages = MEGABYTES * BLOCK // os.sysconf("SC_PAGE_SIZE")
        assert faults(relay.pid) - before < pages // 4
