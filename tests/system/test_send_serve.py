"""A failure on a real cluster is served to the same client, which fails in the same way without a cluster.

The recorded requests, sent again to a new cluster, get the recorded answers, and what differs is named.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.brokers import cluster
from tests.support.patience import SECONDS
from tests.support.proxy import KPROXY, Proxy, environment, kproxy

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

FAILING = """
import sys
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

said = []
producer = Producer({"bootstrap.servers": sys.argv[1], "client.id": "shop", "enable.idempotence": True,
                     "linger.ms": 0, "message.max.bytes": 4000000})
def delivered(error, message):
    said.append(f"{message.key().decode()}: {error.name() if error else message.offset()}")
for key, size in (("small", 10), ("large", 3000), ("after", 10)):
    producer.produce("orders", bytes(size), key, on_delivery=delivered)
    producer.flush(30)
consumer = Consumer({"bootstrap.servers": sys.argv[1], "client.id": "reader", "group.id": "billing",
                     "auto.offset.reset": "error", "enable.auto.commit": False})
consumer.assign([TopicPartition("orders", 0, 99)])
while True:
    message = consumer.poll(30)
    if message is None:
        said.append("nothing")
        break
    if message.error():
        said.append(message.error().name())
        break
    said.append(f"read {message.offset()}")
consumer.close()
print(*said, sep="\\n")
"""
"""Sends a record that is too large, then reads from an offset that does not exist."""

AS_EXPECTED = ["small: 0", "large: MSG_SIZE_TOO_LARGE", "after: 1", "_AUTO_OFFSET_RESET"]


def client(bootstrap: str) -> list[str]:
    """What the client says of its failure."""
    done = subprocess.run(
        [sys.executable, "-c", FAILING, bootstrap], capture_output=True, text=True, timeout=SECONDS * 4, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def create(bootstrap: str) -> None:
    """Create the client's topic, and wait until the broker gives out producer ids."""
    topics = [NewTopic("orders", 1, 1, config={"max.message.bytes": "1000"}), NewTopic("warm", 1, 1)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce("warm", b"")
    assert producer.flush(30) == 0


@contextlib.contextmanager
def served(recording: Path, directory: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    arguments: list[str | Path] = [KPROXY, "serve", recording, "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(arguments, env=environment(directory), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            assert line.startswith("bootstrap.servers="), line
            yield line.removeprefix("bootstrap.servers=").strip(), server
        finally:
            server.kill()


def recorded(tmp_path: Path) -> Path:
    """A recording of the client's failure on a real cluster."""
    with cluster("4.4.0", 1) as running:
        create(running.bootstrap)
        with Proxy(running.bootstrap, tmp_path / "proxy") as proxy:
            assert client(proxy.bootstrap) == AS_EXPECTED
            assert proxy.stop() == 0, proxy.said()
        return proxy.recording


def test_a_failure_is_served_and_sent_again(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    with served(recording, tmp_path) as (bootstrap, server):
        assert client(bootstrap) == AS_EXPECTED
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) == 0
        assert server.stdout is not None
        assert "recorded answers were given" in server.stdout.read()
    again = ["--from", str(recording), "--expect", "--yes"]
    with cluster("4.4.0", 1) as other:
        create(other.bootstrap)
        address = other.bootstrap.partition(",")[0]
        done = kproxy(tmp_path, "send", address, *again, "-Y", "api in (InitProducerId, Produce, ListOffsets, Fetch)")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert not [line for line in lines if "differs" in line], done.stdout
        assert done.returncode == 0, done.stderr
        assert {10, 1} <= {
            one["errorCode"]
            for line in lines
            for topic in line["response"]["body"].get("responses", ())
            for one in topic.get("partitionResponses", topic.get("partitions"))
        }
        (version,) = {line["api_version"] for line in lines if line["api"] == "InitProducerId"}
        alone = kproxy(tmp_path, "send", address, "InitProducerId", '{"transactionalId": null}', "--yes")
        given = json.loads(alone.stdout)
        assert given["api_version"] >= version
        assert given["response"]["body"]["errorCode"] == 0
        admin = AdminClient({"bootstrap.servers": other.bootstrap})
        for future in admin.delete_topics(["orders"]).values():
            future.result(30)
        gone = kproxy(tmp_path, "send", address, *again, "-Y", "api == Produce")
        assert gone.returncode == 1, gone.stderr
        assert "0 of" in gone.stderr
        assert '"path": "response.responses[0].partitionResponses[0].errorCode", "recorded": 0' in gone.stdout
