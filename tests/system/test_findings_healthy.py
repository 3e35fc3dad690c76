"""Nothing is wrong: healthy clusters, through ordinary events, give no finding that calls something wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.brokers import UNHURRIED, Cluster, cluster
from tests.support.java import broker_classpath
from tests.support.proxy import Proxy, kproxy
from tests.support.tcpdump import captured

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def ports_of(running: Cluster) -> str:
    """A filter for all that passes brokers and controllers, between them as well."""
    return " or ".join(f"tcp port {port}" for port in (*running.ports, *running.controllers))


def wrong(directory: Path, capture: Path) -> list[str]:
    """The warnings and errors of a capture."""
    done = kproxy(directory, "findings", capture, "--json", "--severity", "warn", *UNHURRIED, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return [f"{one['severity']} {one['rule']} {one['summary']}" for one in found if "rule" in one]


class Traffic:
    """Clients in threads, each until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._running: list[tuple[threading.Event, threading.Thread]] = []

    def start(self, work: Callable[[threading.Event], None]) -> threading.Event:
        stop = threading.Event()
        thread = threading.Thread(target=work, args=(stop,))
        thread.start()
        self._running.append((stop, thread))
        return stop

    def close(self) -> None:
        for stop, _ in self._running:
            stop.set()
        for _, thread in self._running:
            thread.join(60)
            assert not thread.is_alive()

    def produce(self, stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": "steady", "enable.idempotence": True})
        while not stop.wait(0.02):
            producer.produce("orders", os.urandom(200), key=os.urandom(2))
            producer.poll(0)
        producer.flush(60)

    def transact(self, stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": "exact", "transactional.id": "exact"})
        producer.init_transactions(60)
        while not stop.wait(0.5):
            producer.begin_transaction()
            for _ in range(20):
                producer.produce("payments", os.urandom(100))
            try:
                producer.commit_transaction(60)
            except KafkaException:
                producer.abort_transaction(60)

    def consume(self, group: str, name: str, topic: str = "orders", **more: Any) -> Callable[[threading.Event], None]:
        def work(stop: threading.Event) -> None:
            consumer = Consumer({
                "bootstrap.servers": self.bootstrap, "client.id": name, "group.id": group,
                "auto.offset.reset": "earliest", **more,
            })  # fmt: skip
            with closing(consumer):
                consumer.subscribe([topic])
                while not stop.is_set():
                    consumer.poll(0.2)

        return work


def restart(running: Cluster, node: int) -> None:
    """Restart a broker as an operator does: it moves its leaders away first."""
    process = next(one for one in running.processes if one.name == f"kafka-{node}")
    os.kill(process.pid, signal.SIGTERM)
    process._process.wait(60)
    running.processes.remove(process)
    running.start_node(node)
    running._await_ready()


def test_a_cluster_that_is_restarted_in_turn(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pcap"
    with ExitStack() as stack:
        running = stack.enter_context(cluster("4.4.0", 3))
        stack.enter_context(captured(whole, ports_of(running)))
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, 6, 3) for name in ("orders", "payments", "empty")]
        for future in admin.create_topics(topics).values():
            future.result(60)
        proxy = stack.enter_context(Proxy(running.bootstrap, tmp_path))
        with closing(Traffic(proxy.bootstrap)) as traffic:
            traffic.start(traffic.produce)
            traffic.start(traffic.transact)
            traffic.start(traffic.consume("classic", "classic-1"))
            leaving = traffic.start(traffic.consume("classic", "classic-2"))
            for number in range(2):
                name = f"next-{number}"
                traffic.start(traffic.consume("next", name, **{"group.protocol": "consumer"}))
            traffic.start(traffic.consume("reader", "reader", "payments", **{"isolation.level": "read_committed"}))
            traffic.start(traffic.consume("idle", "idle", "empty"))
            time.sleep(15)
            traffic.start(traffic.consume("classic", "classic-3"))
            time.sleep(10)
            leaving.set()
            for node in running.nodes, 1:
                restart(running, node)
                time.sleep(10)
        assert proxy.stop() == 0
    assert wrong(tmp_path, proxy.recording) == []
    assert wrong(tmp_path, whole) == []


def test_clients_of_all_libraries(tmp_path: Path) -> None:
    """Groups that grow and shrink, share groups, transactions of the newer protocol, and members idle for 2 minutes."""
    whole = tmp_path / "whole.pcap"
    source = Path(__file__).parent / "clients" / "Calm.java"
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", broker_classpath("4.4.0"), str(source)]
    with ExitStack() as stack:
        running = stack.enter_context(cluster("4.4.0", 1))
        stack.enter_context(captured(whole, ports_of(running)))
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic(name, 6, 1) for name in ("orders", "payments", "empty")]).values():
            future.result(60)
        python = [sys.executable, "-m", "tests.system.clients.calm"]
        with subprocess.Popen([*java, running.bootstrap, "120"], stdout=subprocess.PIPE, text=True) as members:
            subprocess.run([*python, running.bootstrap, "120"], check=True, timeout=240, stderr=subprocess.DEVNULL)
            said, _ = members.communicate(timeout=120)
        assert "FAILED" not in said
    assert wrong(tmp_path, whole) == []


@pytest.mark.parametrize("release", ["1.1.1", "2.8.2", "3.9.2"])
def test_older_brokers(release: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole.pcap"
    with ExitStack() as stack:
        running = stack.enter_context(cluster(release, 1))
        stack.enter_context(captured(whole, ports_of(running)))
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic(name, 3, 1) for name in ("orders", "payments")]).values():
            future.result(60)
        with closing(Traffic(running.bootstrap)) as traffic:
            traffic.start(traffic.produce)
            traffic.start(traffic.transact)
            traffic.start(traffic.consume("classic", "classic-1"))
            traffic.start(traffic.consume("reader", "reader", "payments", **{"isolation.level": "read_committed"}))
            time.sleep(8)
            traffic.start(traffic.consume("classic", "classic-2"))
            time.sleep(12)
    assert wrong(tmp_path, whole) == []
