"""A wheel of this tree, built as an installation builds it but from nothing else than what is here."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILED = ("*.so", "*.pyd")
PACKAGES = ("kproxy", "pyspark_kproxy")
"""What can be imported where the wheel is installed."""
FOLDERS = (*PACKAGES, "decoders", "captures", "tui")
"""Where their sources are: kproxy has links to the last three."""


def build(directory: Path) -> Path:
    """A wheel in a folder, built of a copy of the tree that lacks what is compiled; one process builds it once."""
    return Path(shutil.copy(_built(), directory))


@cache
def _built() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="kproxy-wheel-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    copy = directory / "source"
    for name in (*FOLDERS, "tests"):
        shutil.copytree(
            ROOT / name,
            copy / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", *COMPILED, "data" if name == "tests" else ""),
        )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--no-build-isolation", "--no-index", "-w", str(directory), str(copy)],
        check=True,
        timeout=1000,
    )  # fmt: skip
    (wheel,) = directory.glob("kafka_kproxy-*.whl")
    return wheel
