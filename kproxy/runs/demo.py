"""The demo's cluster and clients, in a process of their own: librdkafka's mock cluster and real librdkafka clients.

    python -m kproxy.runs.demo [TOPIC]

The process prints one line of JSON, {"bootstrap": "host:port,…"}, when the cluster listens; with a topic, which it
creates, also {"leader": NODE}, the leader of the topic's partition 0. Then it reads a line with the bootstrap servers
for the clients, which produce and consume until standard input ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from kproxy.decoders.extras import installing
from kproxy.runs.demo_clients import START_SECONDS, run_all

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import Producer

BROKERS = 3
STOP_SECONDS = 5.0
GOODBYE_SECONDS = 2.0


class DemoError(Exception):
    """The demo cannot start; the message says why. `missing` is true if a package is not installed."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


# --- in kproxy's process ---------------------------------------------------------------------------------------------


class Traffic:
    """The demo's process, which ends with the `with` block.

    `bootstrap` has the addresses of the mock cluster, `leader` the node that leads partition 0 of `topic`, if one is
    given.
    """

    def __init__(self, topic: str | None = None) -> None:
        self.bootstrap = ""
        self.leader = 0
        self._arguments = [] if topic is None else [topic]

    def __enter__(self) -> Self:
        """Starts the cluster. Raises DemoError if it does not start."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kproxy.runs.demo", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101 (a pipe was asked for)
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the demo's cluster did not start"}
        if "error" in answer:
            self._end()
            raise DemoError(answer["error"], missing=answer.get("missing", False))
        self.bootstrap = answer["bootstrap"]
        self.leader = answer.get("leader", 0)
        return self

    def start_clients(self, bootstrap: str) -> None:
        """Starts the clients; `bootstrap` are their bootstrap servers."""
        assert self._process.stdin is not None  # noqa: S101 (a pipe was asked for)
        self._process.stdin.write(f"{bootstrap}\n")
        self._process.stdin.flush()

    def stop_clients(self) -> None:
        """Ends the clients, which first leave their groups, and then the mock cluster."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self.stop_clients()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


# --- in the demo's process: cluster and clients ----------------------------------------------------------------------


def main() -> None:
    """Runs the cluster, then the clients with the bootstrap servers from standard input, until that ends."""
    try:
        cluster, bootstrap = start_cluster()
        leaders = {"leader": leader_of(cluster, sys.argv[1])} if sys.argv[1:] else {}
    except (ImportError, DemoError) as error:
        missing = isinstance(error, ImportError)
        reason = f"the demo needs librdkafka: {installing('demo')}" if missing else str(error)
        print(json.dumps({"error": reason, "missing": missing}), flush=True)
        return
    print(json.dumps({"bootstrap": bootstrap, **leaders}), flush=True)
    servers = sys.stdin.readline().strip()
    if servers:
        stop = threading.Event()
        threads = run_all(servers, stop)
        sys.stdin.read()
        stop.set()
        deadline = time.monotonic() + GOODBYE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    del cluster
    os._exit(0)  # clients may hang in close() if the proxy has ended before them


def start_cluster() -> tuple[Producer, str]:
    """Starts the mock cluster; returns (client that keeps the cluster running while it exists, bootstrap servers).

    Raises DemoError.
    """
    from confluent_kafka import KafkaException, Producer

    cluster = Producer({"test.mock.num.brokers": BROKERS, "client.id": "mock-cluster", "log_level": 0})
    try:
        brokers = cluster.list_topics(timeout=START_SECONDS).brokers.values()
    except KafkaException as error:
        raise DemoError(f"the mock cluster does not answer: {error}") from error
    return cluster, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def leader_of(cluster: Producer, topic: str) -> int:
    """The node id of the leader of a topic's partition 0; the topic is created. Raises DemoError."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            partitions = cluster.list_topics(topic, timeout=START_SECONDS).topics[topic].partitions
        except KafkaException as error:
            raise DemoError(f"the mock cluster does not answer: {error}") from error
        if 0 in partitions and partitions[0].leader > 0:
            return int(partitions[0].leader)
        time.sleep(0.05)
    raise DemoError(f"the mock cluster has no leader for {topic}")


if __name__ == "__main__":
    main()
