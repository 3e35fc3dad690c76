"""`top` tells a run's processes apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.captures.processes import MOST
from kproxy.runs.launcher import wait_until
from tests.kproxy.test_run import free_port, running
from tests.support.patience import SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux names processes so")


def named_by(parent: int) -> set[str]:
    """The names of a process's children, as ps has them."""
    done = subprocess.run(["ps", "-o", "comm=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def test_relay_and_indexer_have_names(tmp_path: Path) -> None:
    with running(tmp_path, "--headless", "--metrics", str(free_port())) as run:
        wanted = {"kproxy-relay", "kproxy-indexer"}
        assert wait_until(lambda: wanted <= named_by(run.process.pid), SECONDS)


def test_names_are_as_long_as_linux_keeps_them() -> None:
    root = Path(__file__).parents[2]
    calls = [line for one in ("kproxy", "captures", "tui") for path in (root / one).rglob("*.py")
             for line in path.read_text().splitlines() if line.strip().startswith("name_process(")]  # fmt: skip
    assert len(calls) == 8
    assert all(len("kproxy-" + line.split('"')[1]) <= MOST for line in calls)
