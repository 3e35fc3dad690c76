"""What reading a large capture takes of memory, all processes together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.memory import Peak
from bench.summary import BASE
from tests.support.multiply import multiply

pytestmark = pytest.mark.system

COPIES = 12
"""Of bench-base: more than a hundred megabytes, of which nothing may be held."""
LEAST, MOST = 30_000_000, 150_000_000
"""Bytes: what Python and numpy take, and our bound for captures of any size."""

EXPORT = [sys.executable, "-c", "from kproxy.cli.main import main; main()", "export"]
INDEX = [sys.executable, "-m", "kproxy.captures.index.indexer"]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.pcap"
    multiply(BASE, COPIES, path)
    return path


@pytest.mark.parametrize(
    ("command", "after"),
    [(EXPORT, ["--jobs", "4", "-o", "/dev/null"]), (EXPORT, ["--jobs", "1", "-o", "/dev/null"]), (INDEX, ["index"])],
    ids=["four processes", "one process", "index"],
)
def test_memory_stays_within_its_bound(command: list[str], after: list[str], capture: Path, tmp_path: Path) -> None:
    arguments = [str(tmp_path / one) if one == "index" else one for one in after]
    with subprocess.Popen([*command, str(capture), *arguments]) as process, Peak(process.pid) as peak:
        assert process.wait() == 0
    assert LEAST < peak.bytes < MOST
