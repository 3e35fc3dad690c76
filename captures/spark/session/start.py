"""Starts Spark sessions with the settings that kproxy's jobs need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from kproxy.captures.spark.session import workers

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets for the program that it starts."""
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
    # Rows of items are small and alike: zstd makes half the bytes of lz4 for little time.
    "spark.io.compression.codec": "zstd",
}
"""Options of a session on this machine."""
_IN_PYTHON: Final = {
    # With adaptive execution, Spark would plan and run each stage as a separate job.
    "spark.sql.adaptive.enabled": "false",
    # There are few and large rows: generating Java code for them would take longer than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Small batches: for each row with nested lists, Java counts all earlier rows of its batch again.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # A row may be a bundle of thousands of items.
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    # Java ends before its C2 compiler pays off, and its default garbage collector marks the heap repeatedly if values
    # have megabytes.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # Otherwise functions of a DataFrame would run in other workers than those that _start_workers starts.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Options of a session whose work is done in Python workers."""


def session(master: str | None = None, *, queries: bool = False) -> SparkSession:
    """A Spark session on `master` (by default that of spark-submit, otherwise all cores of this machine).

    It is set up to make tables, which Python workers do; with `queries`, for SQL, which Java does.
    """
    conf = SparkConf().setAppName("kproxy").set("spark.sql.session.timeZone", "UTC")
    if master is None and _SUBMITTED not in os.environ:
        master = "local[*]"
    # By default workers use the first python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None:
        conf.setMaster(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            conf.setAll([*_LOCAL.items(), *(() if queries else _IN_PYTHON.items())])
    if queries:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    # Java takes seconds to start; Python works meanwhile.
    importing = Thread(target=workers.load)
    importing.start()
    try:
        if master is not None and master.startswith("local[") and SparkSession.getActiveSession() is None:
            Thread(target=_start_workers, args=[SparkContext.getOrCreate(conf)], daemon=True).start()
        return SparkSession.builder.config(conf=conf).getOrCreate()
    finally:
        importing.join()


def _start_workers(context: SparkContext) -> None:
    """Make the Python workers of all cores import what they need, while Java makes the session and the first plan."""
    with suppress(Exception):  # a failure shows up again where the result is awaited
        cores = context.defaultParallelism
        context.parallelize(range(cores), cores).mapPartitions(_ready).count()


def _ready(_: Iterable[Any]) -> Iterator[Any]:
    workers.ready()
    return iter(())
