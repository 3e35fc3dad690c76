"""`kproxy torture` on the mock cluster and on a real one: two clients that do well, and programs that do not."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import cluster
from tests.support.patience import SECONDS
from tests.support.proxy import kproxy
from tests.torture.clients.table import CLIENTS

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CARELESS = """
import os, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": os.environ["KPROXY_BOOTSTRAP"], "socket.timeout.ms": 1000, "log_level": 0,
                     "retries": 5, "partitioner": "consistent"})
for number in range(int(os.environ["KPROXY_RECORDS"])):
    producer.produce(os.environ["KPROXY_TOPIC"], str(number), key="same")
    if number % 10 == 9:
        producer.flush(30)
"""
"""A producer without idempotence, which sends again what may have been appended."""

SKIPPING = """
import os
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": os.environ["KPROXY_BOOTSTRAP"], "group.id": os.environ["KPROXY_GROUP"],
                     "auto.offset.reset": "earliest"})
consumer.subscribe([os.environ["KPROXY_TOPIC"]])
with open(os.environ["KPROXY_READ"], "w") as read:
    for _ in range(30):
        message = consumer.poll(30)
        if message is not None and message.error() is None:
            print(message.value().decode(), file=read)
consumer.close()
"""
"""A consumer that ends before it has read all."""


def torture(directory: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, Any]]]:
    """The ended command, and its results by scenario."""
    results = directory / "results.jsonl"
    done = kproxy(directory, "torture", "--json", results, *arguments, timeout=SECONDS * 8)
    return done, {one["scenario"]: one for one in map(json.loads, results.read_text().splitlines())}


def chosen(*names: str) -> list[str]:
    return [word for name in names for word in ("--scenario", name)]


@pytest.mark.parametrize("client", ["librdkafka", "aiokafka"])
def test_clients_on_the_mock_cluster(tmp_path: Path, client: str) -> None:
    made = CLIENTS[client](tmp_path)
    names = ("timed-out-after-append", "not-leader-one-partition", "coordinator-moved", "concurrent-transactions")
    report = tmp_path / "torture.xml"
    done, results = torture(tmp_path, *chosen(*names), "--junit", str(report), "--", *made.command)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("4 of 4 scenarios went as they should\n")
    assert set(results) == set(names)
    assert all(one["verdict"] == "passed" and one["hits"] and one["story"][0].count("*") for one in results.values())
    assert ET.parse(report).getroot()[0].get("failures") == "0"


def test_programs_that_do_not_do_well(tmp_path: Path) -> None:
    python = [sys.executable, "-c"]
    done, results = torture(tmp_path, *chosen("timed-out-after-append"), "--", *python, CARELESS)
    assert done.returncode == 1, done.stderr
    assert results["timed-out-after-append"]["verdict"] == "doubled", done.stdout
    _, results = torture(tmp_path, *chosen("coordinator-moved"), "--", *python, SKIPPING)
    assert results["coordinator-moved"]["notes"] == ["10 of 40 records are missing"]
    _, results = torture(tmp_path, *chosen("throttled"), "--", "true")
    assert results["throttled"]["verdict"] == "not met"


def test_a_real_cluster(tmp_path: Path) -> None:
    made = CLIENTS["librdkafka"](tmp_path)
    keep = tmp_path / "kept"
    with cluster("4.4.0", 1) as brokers:
        names = chosen("endtxn-unknown-server-error", "illegal-generation-on-commit")
        arguments = ("--upstream", brokers.bootstrap, "--keep", str(keep), "--", *made.command)
        done, results = torture(tmp_path, *names, *arguments)
    assert done.returncode == 0, done.stdout
    assert {name: one["verdict"] for name, one in results.items()} == {
        "endtxn-unknown-server-error": "told",
        "illegal-generation-on-commit": "passed",
    }
    assert results["endtxn-unknown-server-error"]["notes"][0] == "30 of 40 records are missing"
    assert {Path(one["capture"]) for one in results.values()} == set(keep.iterdir())
