"""A driver that executors on other machines reach at two ports, with an environment that it sends them.

These are the settings of docs/spark.md for client mode on Kubernetes, on a standalone cluster: each worker has a
network of its own, as pods have. They know the driver by an address that its machine does not have itself, as that of a
service is, and the machine drops what comes to its other ports.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest

from kproxy.captures.tables.schema import USUAL
from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, exported, written
from tests.support.multiply import multiply
from tests.support.namespaces import Machine, require_namespaces, routed
from tests.support.require import require
from tests.support.spark_cluster import Place, spark_cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
ROOT: Final = Path(__file__).parents[2]
SERVICE: Final = "10.9.5.5"
DRIVER: Final = "10.9.1.1"
PORTS: Final = {"driver.port": "7078", "driver.blockManager.port": "7079"}
SETTINGS: Final = {
    "driver.host": SERVICE, "driver.bindAddress": "0.0.0.0", **PORTS, "executor.memory": "1g", "executor.cores": "1",
    # Kubernetes waits for most executors before the first job, a standalone cluster for none.
    "cores.max": "2", "scheduler.minRegisteredResourcesRatio": "1.0",
    "scheduler.maxRegisteredResourcesWaitingTime": "300s",
}  # fmt: skip


def served(machine: Machine, gateway: Machine, ports: str) -> None:
    """Make a machine reachable at the address SERVICE, and let it drop connections to any other of its ports."""
    gateway.run("ip", "route", "add", SERVICE, "via", DRIVER)
    for chain in ("PREROUTING", "OUTPUT"):
        machine.run("iptables", "-t", "nat", "-A", chain, "-d", SERVICE, "-j", "DNAT", "--to-destination", DRIVER)
    for rule in (
        ("-A", "INPUT", "-i", "lo", "-j", "ACCEPT"),
        ("-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT"),
        ("-A", "INPUT", "-p", "tcp", "-m", "multiport", "--dports", ports, "-j", "ACCEPT"),
        ("-P", "INPUT", "DROP"),
    ):
        machine.run("iptables", *rule)


def environment(folder: Path) -> Path:
    """An archive as venv-pack makes it, as far as executors see it: `bin/python` in it runs with this project."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}:$PYTHONPATH exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    archive = folder / "packed.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(program, "bin/python")
    return archive


def test_executors_that_reach_their_driver_at_two_ports(tmp_path: Path) -> None:
    require("java", "iptables")
    require_namespaces()
    path, out, cluster = tmp_path / "a.pcap", tmp_path / "out", tmp_path / "cluster"
    multiply(traffic.BENCH, 1, path)
    settings = " ".join(f"--conf spark.{name}={value}" for name, value in SETTINGS.items())
    given = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": "./packed/bin/python",
        "PYSPARK_SUBMIT_ARGS": f"{settings} --archives {environment(tmp_path)}#packed pyspark-shell",
    }  # fmt: skip
    given.pop("SPARK_LOCAL_IP", None)
    with routed() as (client, one, other):
        served(client, one, ",".join(PORTS.values()))
        workers = [Place("10.9.2.1", one.enter), Place("10.9.2.2", other.enter)]
        with spark_cluster(cluster, [workers[0], *workers]) as master:
            run = subprocess.run(
                [*client.enter, sys.executable, "-c", "from kproxy.cli.main import main; main()", "spark", str(path),
                 "--out", str(out), "--split-size", "1M", "--master", master],
                capture_output=True, text=True, check=False, timeout=500, cwd=tmp_path, env=given,
            )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert_same(written(out, USUAL), exported([path], tables=USUAL))
    for number in (1, 2):
        (log,) = (cluster / f"work-{number}").glob("app-*/*/stderr")
        assert "Finished task" in log.read_text("utf-8", "replace"), f"worker {number} has done nothing"
