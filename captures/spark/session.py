"""A Spark session as everything here wants it."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""What spark-submit tells a program that it started."""


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
            builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "8")
            builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR")
    return builder.getOrCreate()
