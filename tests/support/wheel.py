"""A wheel of this tree, built as an installation builds it but from nothing else than what is here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILED = ("*.so", "*.pyd")
PACKAGES = ("decoders", "captures", "tui", "kproxy", "pyspark_kproxy")


def build(directory: Path) -> Path:
    """Build one in a folder, from a copy of the tree without what is compiled in it; where it is."""
    copy = directory / "source"
    for name in (*PACKAGES, "tests"):
        shutil.copytree(
            ROOT / name,
            copy / name,
            ignore=shutil.ignore_patterns("__pycache__", *COMPILED, "data" if name == "tests" else ""),
        )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--no-build-isolation", "--no-index", "-w", str(directory), str(copy)],
        check=True,
        timeout=200,
    )  # fmt: skip
    (wheel,) = directory.glob("kafka_kproxy-*.whl")
    return wheel
