"""The definitions' updater against the real jars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.system
def test_running_the_updater_again_changes_nothing(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tools.schema.update", str(tmp_path / "data")], cwd=ROOT, check=True, timeout=600
    )
    ours = {path.name: path.read_text() for path in (ROOT / "decoders/schema/data").iterdir()}
    assert {path.name: path.read_text() for path in (tmp_path / "data").iterdir()} == ours


@pytest.mark.system
def test_the_check_compares_with_the_newest_release() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.schema.check"], cwd=ROOT, check=False, timeout=600, capture_output=True, text=True
    )
    # 1 says that Kafka has released something since.
    assert done.returncode in {0, 1}, done.stderr
    assert done.stdout.startswith("kafka-clients ")
    assert done.stderr == ""
