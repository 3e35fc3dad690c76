"""A Spark session for tests; a process can have one at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kproxy.captures.spark.session import java
from kproxy.captures.spark.session.start import session
from tests.support.require import require

ROOT = Path(__file__).parents[2]


@contextmanager
def local_session(cache: Path, cores: int = 2) -> Iterator[SparkSession]:
    """A local session without web pages; the end of the block stops session and Java and restores os.environ."""
    require("java")
    with patch.dict(os.environ):
        java.prepare(cache)
        spark = session(f"local[{cores}]")
        try:
            yield spark
        finally:
            spark.stop()
            _end_java()


def _end_java() -> None:
    """Close the connections to Java, so that they are not left to garbage collection, and wait for its end."""
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None


def kproxy(*arguments: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a kproxy command in a folder."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", "from kproxy.cli.main import main; main()", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=280, cwd=folder, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def without_java(directory: Path) -> dict[str, str]:
    """An environment whose PATH is a new folder with links to all programs of this machine but Java.

    It does not point to this tree, and has its cache in the same directory.
    """
    programs = directory / "bin"
    programs.mkdir(parents=True)
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if not program.name.startswith("java") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    left_out = {"JAVA_HOME", "SPARK_HOME"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name not in left_out}
    return kept | {"PATH": str(programs), "XDG_CACHE_HOME": str(directory / "cache")}
