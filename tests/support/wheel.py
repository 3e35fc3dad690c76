"""Builds a wheel of this tree as an installation does, but without the network."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILED = ("*.so", "*.pyd")
PACKAGES = ("kproxy", "pyspark_kproxy")
"""Packages that the wheel installs."""
FOLDERS = (*PACKAGES, "decoders", "captures", "tui")
"""Folders of their sources: kproxy has links to the last three."""


def build(directory: Path, *, pure: bool = False) -> Path:
    """Put a wheel into a folder, built from a copy of the tree without compiled files, once in a process.

    For a `pure` one, there is no C compiler.
    """
    return Path(shutil.copy(_built(pure=pure), directory))


@cache
def _built(*, pure: bool) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="kproxy-wheel-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    copy = directory / "source"
    for name in (*FOLDERS, "packages", "tests"):
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
        # Compiling takes a third of the time; nothing measures this wheel's speed.
        env={**os.environ, **({"KPROXY_PURE": "1", "CC": "false"} if pure else {"CFLAGS": "-O0"})},
    )  # fmt: skip
    (wheel,) = directory.glob("kafka_kproxy-*.whl")
    return wheel
