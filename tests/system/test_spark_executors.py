"""Executors with less memory than a capture has bytes, all of which are of one connection."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

import psutil
import pytest

from kproxy.captures.tables.schema import USUAL
from tests.captures import files
from tests.captures.spark.comparing import assert_same, exported, written
from tests.captures.spark.test_joined import Talk, timed
from tests.decoders.batches.support import batch, record
from tests.support.multiply import lengthen
from tests.support.scripts import request, response
from tests.support.spark_cluster import spark_cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
ROOT: Final = Path(__file__).parents[2]
SIZE: Final = 1_500_000_000
"""Size of the capture in bytes."""
LIMIT: Final = 1 << 30
"""Bytes of address space of each Python worker, by Spark, and of each executor's heap, by Java."""
HELD: Final = 400 << 20
"""Maximum bytes of memory of its own that a Python worker may have; mapped files do not count."""
PRODUCE: Final = 0
SETTINGS: Final = " ".join(
    f"--conf spark.{name}={value}"
    for name, value in {
        "executor.memory": "1g", "executor.cores": "1", "executor.pyspark.memory": "1g",
        "driver.host": "127.0.0.1", "ui.enabled": "false",
    }.items()
)  # fmt: skip
KINDS: Final = {"CoarseGrainedExecutorBackend": "Java", "pyspark.daemon": "Python"}
"""Maps a word in the command line of an executor's process to the kind of the process."""
_FIGURE: Final = re.compile(r"^(VmPeak|VmHWM|RssAnon):\s+(\d+) kB$", re.MULTILINE)


def capture(path: Path) -> None:
    """A connection with a Produce of 64 KB each time, in segments as Ethernet has them."""
    talk, rng = Talk(), random.Random(1)
    frames = [*talk.opening]
    for number in range(1, 17):
        records = batch(b"".join(record(i, None, rng.randbytes(4000)) for i in range(16)), 16)
        sent = request(
            PRODUCE, 9, number, acks=-1, timeoutMs=100,
            topicData=[{"name": "orders", "partitionData": [{"index": 0, "records": records}]}],
        )  # fmt: skip
        frames += [talk.send(0, sent[at : at + 1448]) for at in range(0, len(sent), 1448)]
        frames.append(talk.send(1, response(PRODUCE, 9, number)))
    base = path.with_suffix(".base")
    base.write_bytes(files.pcap(timed(frames, step=1000)))
    lengthen(base, -(-SIZE // base.stat().st_size), path)


@contextmanager
def watched() -> Iterator[dict[str, Counter[str]]]:
    """The largest figures of the processes of each kind, in bytes, by their names in /proc/PID/status."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS.values()}
    over = Event()

    def watch() -> None:
        while not over.wait(0.2):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, OSError):
                    line = " ".join(process.cmdline())
                    text = Path(f"/proc/{process.pid}/status").read_text()
                    for kind in (kind for word, kind in KINDS.items() if word in line):
                        found[kind] |= Counter({name: int(size) << 10 for name, size in _FIGURE.findall(text)})

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def test_one_connection_larger_than_the_memory_of_executors(tmp_path: Path) -> None:
    path, out = tmp_path / "a.pcap", tmp_path / "out"
    capture(path)
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{SETTINGS} pyspark-shell",
    }  # fmt: skip
    with spark_cluster(tmp_path / "cluster") as master, watched() as most:
        run = subprocess.run(
            [sys.executable, "-c", "from kproxy.cli.main import main; main()", "spark", str(path), "--out", str(out),
             "--master", master],
            capture_output=True, text=True, check=False, timeout=800, env=environment, cwd=tmp_path,
        )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    print({kind: {name: f"{size >> 20} MiB" for name, size in figures.items()} for kind, figures in most.items()})
    assert path.stat().st_size > LIMIT
    assert 0 < most["Python"]["VmPeak"] <= LIMIT, "Spark has not limited its workers"
    assert most["Python"]["RssAnon"] < HELD
    expected = exported([path], tables=USUAL)
    assert expected["flows"].total() == 1
    assert expected["exchanges"].total() > SIZE // 70_000
    assert_same(written(out, USUAL), expected)
    path.unlink()  # pytest keeps the folders of some runs
