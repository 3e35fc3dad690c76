"""A standalone Spark cluster on this machine: a master, and workers with different addresses.

The addresses differ because Spark starts a speculative attempt of a slow task only on a host without an attempt of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark

from tests.support.require import require

PATIENCE = 120
"""Timeout in seconds."""
LISTENS = re.compile(r"Starting Spark master at (spark://\S+)")
JOINED = re.compile(r"Successfully registered with master (spark://\S+)")


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """URL of the master of a cluster with `workers` workers of two cores each, at 127.0.0.2 and following."""
    require("java", "bash")
    folder.mkdir()
    with ExitStack() as stack:
        master = _said(_started(stack, folder / "master", "master.Master", "--host", "127.0.0.1"), LISTENS)
        joining = [
            _started(
                stack, folder / f"worker-{number}", "worker.Worker", "--host", f"127.0.0.{number}", "--cores", "2",
                "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), master,
            )
            for number in range(2, workers + 2)
        ]  # fmt: skip
        for worker in joining:
            _said(worker, JOINED)
        yield master


def _started(stack: ExitStack, log: Path, kind: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a process of the cluster; it ends with the stack."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    environment |= {"SPARK_DAEMON_MEMORY": "512m", "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false"}
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as file:
        process: Any = subprocess.Popen(
            ["bash", str(script), f"org.apache.spark.deploy.{kind}", "--port", "0", "--webui-port", "0", *arguments],
            stdout=file, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
    stack.callback(process.wait, PATIENCE)
    stack.callback(process.terminate)
    return process, log


def _said(started: tuple[subprocess.Popen[bytes], Path], words: re.Pattern[str]) -> str:
    """Wait until a process logs that it is ready; the first group of the pattern."""
    process, log = started
    until = time.monotonic() + PATIENCE
    while (found := words.search(log.read_text("utf-8", "replace"))) is None:
        over = process.poll() is not None or time.monotonic() > until
        assert not over, log.read_text("utf-8", "replace")[-2000:]
        time.sleep(0.1)
    return found[1]
