"""CI passes over nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = {
    "skip": "import pytest\ndef test_it(): pytest.skip('no java')\n",
    "mark": "import pytest\n@pytest.mark.skipif(True, reason='no java')\ndef test_it(): pass\n",
    "module": "import pytest\npytest.skip('no java', allow_module_level=True)\n",
    "import": "import pytest\npytest.importorskip('no_such_module_at_all')\n",
    "fixture": "import pytest\n@pytest.fixture\ndef java(): pytest.skip('no java')\ndef test_it(java): pass\n",
}


@pytest.mark.parametrize(("case", "ci"), [*((case, "true") for case in CASES), ("skip", "")])
def test_a_skip_is_a_failure_in_ci(tmp_path: Path, case: str, ci: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_case.py").write_text(CASES[case] + "\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    if ci:
        environment["CI"] = ci
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=100, env=environment, cwd=tmp_path,
    )  # fmt: skip
    failed = run.returncode in {1, 2}
    assert failed == bool(ci), run.stdout + run.stderr
    assert ("no java" in run.stdout or "no_such_module" in run.stdout) or not ci


def test_ci_runs_both_suites_and_stops_at_the_first_failure() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "set -euo pipefail" in script
    assert script.rstrip().endswith("make test\nmake test-system")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
