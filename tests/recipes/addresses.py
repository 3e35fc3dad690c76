"""Faults of addresses: those that a client cannot use, and connections that something on the way drops."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator

from tests.recipes.recipe import Recipe, Stage
from tests.support.raw import RawClient

ELSEWHERE = "198.51.100.7"
"""An address for documentation, as that of a client on another host."""


@contextlib.contextmanager
def another_address() -> Iterator[str]:
    """Within the block this machine has one address more. Needs root, as the capture does."""
    subprocess.run(["ip", "address", "add", f"{ELSEWHERE}/32", "dev", "lo"], check=True, timeout=60)
    try:
        yield ELSEWHERE
    finally:
        subprocess.run(["ip", "address", "del", f"{ELSEWHERE}/32", "dev", "lo"], check=True, timeout=60)


def asks_for_metadata(client: RawClient, times: int, pause: float) -> None:
    """Ask for the metadata of topic orders, with `pause` seconds after each response."""
    for _ in range(times):
        client.ask("Metadata", 5, {"topics": [{"name": "orders"}]})
        time.sleep(pause)


def advertises_loopback(stage: Stage) -> None:
    """A client on another host, which a broker sends to 127.0.0.1."""
    stage.topic("orders")
    with another_address() as source, RawClient(stage.bootstrap, source=source) as client:
        asks_for_metadata(client, 8, 2)


def silent_for_a_while(stage: Stage) -> None:
    """Two clients that ask again after 35 s without traffic, and then have no connection any more."""
    stage.topic("orders")

    def ask_again(wait: float) -> None:
        time.sleep(wait)
        with RawClient(stage.bootstrap) as client:
            asks_for_metadata(client, 1, 35)
            with contextlib.suppress(OSError):
                client.ask("ListOffsets", 5, {"topics": [{"name": "orders", "partitions": [{"timestamp": -1}]}]})

    clients = [threading.Thread(target=ask_again, args=(number * 7.0,)) for number in range(2)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    time.sleep(1)


def loses_all_brokers(stage: Stage) -> None:
    """Metadata that names topics and no broker, for 10 s."""
    stage.topic("orders")
    with RawClient(stage.bootstrap) as client:
        asks_for_metadata(client, 6, 2)


def another_cluster(stage: Stage) -> None:
    """Metadata that names another cluster id from the fourth response on."""
    stage.topic("orders")
    with RawClient(stage.bootstrap) as client:
        asks_for_metadata(client, 8, 0.5)


def fewer_topics(stage: Stage) -> None:
    """Offsets of two topics are asked for, and one of them is missing in the response."""
    topics = ("letters", "orders")
    for name in topics:
        stage.topic(name)
    asked = [{"name": name, "partitions": [{"timestamp": -1}]} for name in topics]
    with RawClient(stage.bootstrap) as client:
        for _ in range(4):
            client.ask("ListOffsets", 5, {"topics": asked})
            time.sleep(0.5)


RECIPES = {
    "addr.leak": Recipe(advertises_loopback, "which means the client's own host"),
    "conn.idle_drop": Recipe(
        silent_for_a_while,
        "after 35",
        faults=("api == ListOffsets and client.id == raw => disconnect before rst",),
    ),
    "meta.no_brokers": Recipe(
        loses_all_brokers, "raw@127.0.0.1", faults=("api == Metadata and client.id == raw => brokers = []",)
    ),
    "cluster.switched": Recipe(
        another_cluster,
        "cluster AAECAwQFBgcICQoLDA0ODw",
        faults=(
            "api == Metadata and client.id == raw => set response.body.clusterId = AAECAwQFBgcICQoLDA0ODw, after 4",
        ),
    ),
    "response.incomplete": Recipe(
        fewer_topics,
        "ListOffsets",
        faults=("api == ListOffsets and client.id == raw => set response.body.topics = []",),
    ),
}
