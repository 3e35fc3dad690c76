"""CI passes over nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = {
    "skip": "import pytest\ndef test_it(): pytest.skip('no java')\n",
    "mark": "import pytest\n@pytest.mark.skipif(True, reason='no java')\ndef test_it(): pass\n",
    "module": "import pytest\npytest.skip('no java', allow_module_level=True)\n",
    "import": "import pytest\npytest.importorskip('no_such_module_at_all')\n",
    "fixture": "import pytest\n@pytest.fixture\ndef java(): pytest.skip('no java')\ndef test_it(java): pass\n",
}


def run(directory: Path, ci: str | None) -> str:
    """What pytest says of all cases."""
    shutil.copy(ROOT / "tests" / "conftest.py", directory)
    for name, text in CASES.items():
        (directory / f"test_{name}.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    environment["PYTHONPATH"] = str(ROOT)  # conftest.py imports from it
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "--continue-on-collection-errors",
         "-c", os.devnull, str(directory)],
        capture_output=True, text=True, check=False, timeout=100, cwd=directory,
        env=environment if ci is None else {**environment, "CI": ci},
    )  # fmt: skip
    return done.stdout


def test_every_kind_of_skip_is_a_failure_in_ci(tmp_path: Path) -> None:
    text = run(tmp_path, "true")
    assert "1 failed, 4 errors" in text
    assert text.count("no java") >= 3
    assert "no_such_module" in text


def test_elsewhere_a_skip_is_a_skip(tmp_path: Path) -> None:
    assert "5 skipped" in run(tmp_path, None)


def pytest_says(tmp_path: Path, test: str, *options: str) -> str:
    """What pytest prints of a test file."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=100, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip


NAMED = re.compile(r"^FAILED in call: .*test_it\.py::test_fails\n  E +assert \(6 \* 9\) == 42$", re.MULTILINE)


def test_a_run_that_is_killed_has_named_its_failures(tmp_path: Path) -> None:
    test = "import os\ndef test_fails(): assert 6 * 9 == 42\ndef test_kills(): os.kill(os.getpid(), 9)\n"
    assert NAMED.search(pytest_says(tmp_path, test))


def test_failures_are_named_once_where_workers_run_the_tests(tmp_path: Path) -> None:
    text = pytest_says(tmp_path, "def test_fails(): assert 6 * 9 == 42\n", "-n", "2")
    assert len(NAMED.findall(text[: text.index("= FAILURES =")])) == 1


def test_ci_runs_both_suites_and_stops_at_the_first_failure() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "set -euo pipefail" in script
    assert script.rstrip().endswith("make test\nmake test-system")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
