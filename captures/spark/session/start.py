"""Starts Spark sessions with the settings that all jobs here need."""

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
"""The options with which spark-submit started this program."""
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}
"""The options of a session on this machine."""
_IN_PYTHON: Final = {
    # With it each stage would be a job of its own, planned anew.
    "spark.sql.adaptive.enabled": "false",
    # Rows are few and large, so generating Java code for them would take longer than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # For each row, Java would recount all earlier rows of the batch, wherever lists are nested.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # Java ends before its second compiler pays, and its default collector marks the heap again
    # and again for values of megabytes.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # Otherwise functions of a DataFrame run in other workers than those that _start_workers starts.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""The options of a session in which Python and C do the work."""


def session(master: str | None = None, *, queries: bool = False) -> SparkSession:
    """A session on `master` (by default that of spark-submit, else all cores of this machine).

    It is meant for making tables, which Python workers do, or with `queries` for SQL, which Java does.
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
    # Java takes seconds to start; Python can work meanwhile.
    importing = Thread(target=workers.load)
    importing.start()
    try:
        if master is not None and master.startswith("local[") and SparkSession.getActiveSession() is None:
            Thread(target=_start_workers, args=[SparkContext.getOrCreate(conf)], daemon=True).start()
        return SparkSession.builder.config(conf=conf).getOrCreate()
    finally:
        importing.join()


def _start_workers(context: SparkContext) -> None:
    """Have the workers of all cores import what they need, while Java makes the session and the first plan."""
    with suppress(Exception):  # a failure repeats where its result is awaited
        cores = context.defaultParallelism
        context.parallelize(range(cores), cores).mapPartitions(_ready).count()


def _ready(_: Iterable[Any]) -> Iterator[Any]:
    workers.ready()
    return iter(())
