"""A Spark session as everything here wants it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.spark import java

FAILURES: Final = (PySparkException, Py4JError)
"""What Spark raises."""
__all__ = ["FAILURES", "SparkSession", "session", "standard_error_to"]

LOCAL: Final = "local[*]"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""What spark-submit tells a program that it started."""


def session(name: str, cache: Path, master: str | None = None) -> SparkSession:
    """The session there is, else a new one.

    Without a master it is that of spark-submit where that started us, else this machine. `cache` is a folder of ours.
    Raises java.NoJava.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if _SUBMITTED in os.environ:
        return (builder if master is None else builder.master(master)).getOrCreate()
    home = java.find(os.environ, cache)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    # Workers would take the first python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or LOCAL
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.sql.shuffle.partitions", "8").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR")
    return builder.master(master).getOrCreate()


@contextmanager
def standard_error_to(path: Path) -> Iterator[None]:
    """Give what processes started within as standard error to a file: a Java started so keeps it while it lives."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
