"""A Spark session as everything here wants it."""

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
"""What spark-submit tells a program that it started."""
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}
"""What a session on this machine is told."""
_IN_PYTHON: Final = {
    # Each stage would be a job of its own, planned anew.
    "spark.sql.adaptive.enabled": "false",
    # Rows are few and have much in them, so Java's code for them would be longer in the making than in use.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Before each row Java counts again what all before it in a batch have, wherever lists are in lists.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # What Java does is over before the code of its second compiler pays, and its usual collector marks the heap again
    # and again for values of megabytes.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # Otherwise workers that run functions of a DataFrame are others than those that _start_workers starts.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""The same where Python and C do the work."""


def session(master: str | None = None, *, queries: bool = False) -> SparkSession:
    """A session on `master` (what spark-submit was told unless given, else all cores of this machine).

    It is for making tables, which Python's workers do, or for `queries`, which Java answers.
    """
    conf = SparkConf().setAppName("kproxy").set("spark.sql.session.timeZone", "UTC")
    if master is None and _SUBMITTED not in os.environ:
        master = "local[*]"
    # Workers would take the first python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None:
        conf.setMaster(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            conf.setAll([*_LOCAL.items(), *(() if queries else _IN_PYTHON.items())])
    if queries:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    # Java takes seconds to start, in which Python has nothing to do.
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
    with suppress(Exception):  # whatever fails does so again where somebody waits for it
        cores = context.defaultParallelism
        context.parallelize(range(cores), cores).mapPartitions(_ready).count()


def _ready(_: Iterable[Any]) -> Iterator[Any]:
    workers.ready()
    return iter(())
