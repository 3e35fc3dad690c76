"""What `make` says on a machine that lacks something: one line, with what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIND = ROOT / "tools" / "find-python"

OLD = '#!/bin/sh\ncase "$*" in -V) echo "Python 3.9.2";; *version_info*) exit 1;; esac\n'
WITHOUT_VENV = '#!/bin/sh\ncase "$*" in *"import venv"*) exit 1;; esac\n'
GOOD = "#!/bin/sh\nexit 0\n"


def find(directory: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    for name, text in programs.items():
        path = directory / name.replace("_", ".")
        path.write_text(text)
        path.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(FIND)], env={"PATH": str(directory)}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ({}, "there is no python3: install one (Debian, Ubuntu: apt-get install python3 python3-venv)"),
        ({"python3": OLD}, "python3 is Python 3.9.2: install one"),
        ({"python3": WITHOUT_VENV}, "cannot make virtual environments: install its venv module"),
        ({"python3": OLD, "python3_12": WITHOUT_VENV}, "python3.12 cannot make virtual environments"),
    ],
)
def test_what_is_missing_is_said_in_one_line(tmp_path: Path, programs: dict[str, str], message: str) -> None:
    result = find(tmp_path, **programs)
    assert result.returncode == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout


@pytest.mark.parametrize("name", ["python3", "python3_11", "python3_13", "python"])
def test_a_usable_python_is_found_under_any_name(tmp_path: Path, name: str) -> None:
    result = find(tmp_path, **{"python3": OLD, name: GOOD})
    assert result.stdout.strip() == str(tmp_path / name.replace("_", "."))


def test_the_chosen_one_is_taken() -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    result = subprocess.run(
        ["/bin/sh", str(FIND)], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stdout.strip() == sys.executable
