"""Three faults at once on a real cluster: one command names their causes first, and their fixes end them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipes.recipe import Stage
from tests.recipes.several import FAULTS, repaired, three_faults
from tests.support.brokers import UNHURRIED, Cluster, cluster
from tests.support.proxy import Proxy, kproxy

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def said(running: Cluster, directory: Path, day: Callable[[Stage], None]) -> str:
    """What `kproxy findings` says of a day behind the proxy."""
    with Proxy(running.bootstrap, directory, "--no-lines") as proxy:
        day(Stage(running, proxy.bootstrap))
        assert proxy.stop() == 0
    done = kproxy(directory, "findings", proxy.recording, "--severity", "warn", *UNHURRIED)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_causes_come_first_and_their_fixes_end_them(tmp_path: Path) -> None:
    with cluster("4.4.0", 1) as running:
        faulty = said(running, tmp_path / "faulty", three_faults)
        ranked = re.findall(r"^(?:ERROR|WARN)\s+(\S+)", faulty, re.MULTILINE)
        assert sorted(ranked[:3]) == sorted(FAULTS), faulty
        for advice in ("max.poll.interval.ms", "producer_byte_rate", "max.message.bytes"):
            assert advice in faulty
        assert not re.search(r"^(?:ERROR|WARN)", said(running, tmp_path / "repaired", repaired), re.MULTILINE)
