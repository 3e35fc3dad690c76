"""A standalone Spark cluster on this machine: a master, and workers with different addresses."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyspark

from tests.support.require import require

PATIENCE = 120
"""Timeout in seconds."""
LISTENS = re.compile(r"Starting Spark master at (spark://\S+)")
JOINED = re.compile(r"Successfully registered with master (spark://\S+)")


class Place(NamedTuple):
    """Where a process of the cluster runs: its address, and the command that runs another in its network namespace."""

    host: str
    enter: Sequence[str] = ()


HERE: Final = tuple(Place(f"127.0.0.{number}") for number in (1, 2, 3))
"""The addresses differ because Spark starts a speculative attempt of a slow task only on a host without an attempt of
it.
"""


@contextmanager
def spark_cluster(folder: Path, places: Sequence[Place] = HERE) -> Iterator[str]:
    """URL of the master of a cluster: a master in the first place, workers of two cores and 1 GB each in the others.

    What executors of worker i (from 1) write is in `folder`/work-i.
    """
    require("java", "bash")
    folder.mkdir()
    with ExitStack() as stack:
        master = _said(_started(stack, folder / "master", places[0], "master.Master"), LISTENS)
        joining = [
            _started(
                stack, folder / f"worker-{number}", place, "worker.Worker", "--cores", "2", "--memory", "1g",
                "--work-dir", str(folder / f"work-{number}"), master,
            )
            for number, place in enumerate(places[1:], 1)
        ]  # fmt: skip
        for worker in joining:
            _said(worker, JOINED)
        yield master


def _started(
    stack: ExitStack, log: Path, place: Place, kind: str, *arguments: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a process of the cluster; it ends with the stack."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    environment |= {"SPARK_DAEMON_MEMORY": "512m", "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false"}
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as file:
        process: Any = subprocess.Popen(
            [*place.enter, "bash", str(script), f"org.apache.spark.deploy.{kind}", "--host", place.host, "--port", "0",
             "--webui-port", "0", *arguments],
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
