"""A Spark session as everything here wants it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from threading import Thread
from typing import Final

from pyspark.sql import SparkSession

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""What spark-submit tells a program that it started."""
_LOCAL: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
    # Each stage would be a job of its own, planned anew.
    "spark.sql.adaptive.enabled": "false",
    # Python and C do the work; what Java does is over before its second compiler's code pays.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""What a session on this machine is told."""
_NEEDED: Final = ("captures.spark.job", "captures.spark.writing", "pandas")
"""What a job imports."""


def session(master: str | None = None) -> SparkSession:
    """A session on `master` (what spark-submit was told unless given, else all cores of this machine)."""
    builder = SparkSession.builder.appName("kproxy").config("spark.sql.session.timeZone", "UTC")
    if master is None and _SUBMITTED not in os.environ:
        master = "local[*]"
    # Workers would take the first python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config(map=_LOCAL)
    # Java takes seconds to start, in which this process has nothing to do.
    importing = Thread(target=lambda: list(map(import_module, _NEEDED)), name="imports")
    importing.start()
    try:
        return builder.getOrCreate()
    finally:
        importing.join()
