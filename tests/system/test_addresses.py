# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""Real brokers that join, leave and move, and clients that must not notice kproxy nor get past it."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kproxy.runs.launcher import ask, runs
from tests.kproxy.core.frames import decoded, plain
from tests.kproxy.support import places
from tests.support.asking import Asking
from tests.support.brokers import Cluster, cluster, free_base, free_ports
from tests.support.proxy import Proxy, environment, export, tcp_connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent.parent
SECONDS = 120.0
PAIRS = 12
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
METADATA, FETCH, ELECT_LEADERS, REASSIGN, DESCRIBE_QUORUM, DESCRIBE_CLUSTER, API_VERSIONS = 3, 1, 43, 45, 55, 60, 18


@pytest.fixture
def brokers() -> Iterator[Cluster]:
    def settings(node: int) -> dict[str, object]:
        return {"broker.rack": f"rack-{node}", "replica.selector.class": SELECTOR}

    with cluster("4.4.0", 3, settings) as running:
        yield running


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {what}"
        time.sleep(0.2)


def served(proxy: Proxy, topic: str | None = None) -> dict[int, str]:
    """Where clients are told that each broker is."""
    with Asking(proxy.bootstrap) as client:
        found = client.ask(METADATA, 12, {"topics": [] if topic is None else [{"name": topic}]})
    return {broker["nodeId"]: f"{broker['host']}:{broker['port']}" for broker in found["brokers"]}


def status(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the relay says of itself; its run is found in the places of the test's own."""
    places(monkeypatch, proxy.directory)
    (run_dir,) = [run.run_dir for run in runs() if run.state["bootstrap"] == proxy.bootstrap]
    return ask(run_dir, "status")


def lead(address: str, topic: str, leaders: dict[int, int]) -> dict[str, Any]:
    """Make each partition's leader this one; returns the topic's metadata."""
    with Asking(address) as client:
        partitions = [
            {"partitionIndex": partition, "replicas": sorted({1, 2, 3}, key=lambda node: (node != leader, node))}
            for partition, leader in leaders.items()
        ]
        client.ask(REASSIGN, 0, {"timeoutMs": 30_000, "topics": [{"name": topic, "partitions": partitions}]})
        wanted = {"topic": topic, "partitions": list(leaders)}
        found: dict[str, Any] = {}

        def led() -> bool:
            client.ask(ELECT_LEADERS, 2, {"electionType": 0, "topicPartitions": [wanted], "timeoutMs": 30_000})
            (one,) = client.ask(METADATA, 12, {"topics": [{"name": topic}]})["topics"]
            found.update(one)
            now = {part["partitionIndex"]: part["leaderId"] for part in one["partitions"]}
            return all(now.get(partition) == leader for partition, leader in leaders.items())

        until(led, f"leaders {leaders}")
    return found


def fetch(address: str, topic_id: Any, epochs: dict[int, int], version: int) -> bytes:
    """The response for partitions of which the client knows these leader epochs (-1: none)."""
    with Asking(address) as client:
        return client.frame(
            FETCH,
            version,
            {
                "replicaState": {"replicaId": -1, "replicaEpoch": -1},
                "maxWaitMs": 1000,
                "minBytes": 1,
                "maxBytes": 32 << 20,
                "sessionEpoch": -1,
                "topics": [
                    {
                        "topicId": topic_id,
                        "partitions": [
                            {"partition": one, "currentLeaderEpoch": epoch, "partitionMaxBytes": 9 << 20}
                            for one, epoch in epochs.items()
                        ],
                    }
                ],
            },
        )


def test_a_moved_leader_behind_eight_mebibytes(
    brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "moved"
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 2, 3)]).values():
        future.result(30)
    lead(brokers.bootstrap.split(",")[0], topic, {0: 1, 1: 1})
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "linger.ms": 50})
    for _ in range(20):
        producer.produce(topic, bytes(500_000), partition=0)
        producer.produce(topic, bytes(500_000), partition=1)
        producer.flush(30)
    topic_id = lead(brokers.bootstrap.split(",")[0], topic, {0: 1, 1: 2})["topicId"]

    def body(frame: bytes, version: int) -> dict[str, Any]:
        shown: dict[str, Any] = plain(decoded(frame, FETCH, version))
        return shown

    stale = {0: -1, 1: 0}
    for hold_max, how in (("1M", "walked"), ("64M", "held")):
        with Proxy(brokers.bootstrap, tmp_path / how, "--hold-max", hold_max) as proxy:
            addresses = served(proxy)
            for version in (16, 17, 18):
                direct = body(fetch(f"127.0.0.1:{brokers.ports[0]}", topic_id, stale, version), version)
                frame = fetch(addresses[1], topic_id, stale, version)
                assert len(frame) > 8 << 20
                through = body(frame, version)
                (named,) = direct["nodeEndpoints"]
                assert (named["nodeId"], named["port"]) == (2, brokers.ports[1])
                (ours,) = through["nodeEndpoints"]
                assert f"{ours['host']}:{ours['port']}" == addresses[2]
                through.pop("_unknownTaggedFields", None)
                assert through | {"nodeEndpoints": None} == direct | {"nodeEndpoints": None}
            counters = status(proxy, monkeypatch)["responses"]
            assert counters["leaked"] == counters["unread"] == 0
            assert counters["walked"] == (3 if how == "walked" else 0)
            assert proxy.stop() in {0, 130}, proxy.said()


class Steady:
    """The many clients in a process of their own."""

    def __init__(self, bootstrap: str, name: str, directory: Path) -> None:
        self._log = directory / "steady.err"
        self.remote: set[tuple[str, int]] = set()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.clients.steady", bootstrap, name, "3", "modern", str(PAIRS)],
                cwd=ROOT,
                env=environment(directory),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def line(self) -> str:
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS * 2
        while not select.select([self.process.stdout], [], [], 0.05)[0]:
            self.look()
            assert time.monotonic() < deadline, f"the clients say nothing: {self.said()}"
        return self.process.stdout.readline()

    def look(self, seconds: float = 0.0) -> None:
        """Notes where the clients are connected to."""
        deadline = time.monotonic() + seconds
        while True:
            self.remote |= {one.raddr[:2] for one in tcp_connections(self.process.pid) if one.raddr}
            if time.monotonic() >= deadline:
                return
            time.sleep(0.05)

    def end(self) -> int:
        """Asks them to end; returns how many messages there were."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        said = self.line().split()
        assert said, self.said()
        assert said[0] == "messages", self.said()
        assert self.process.wait(SECONDS) == 0, self.said()
        return int(said[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def test_brokers_join_move_and_leave_and_the_relay_starts_again(
    brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = free_base(5)
    (port,) = free_ports(1)
    options = ("--port-base", str(base))
    first = Proxy(brokers.bootstrap, tmp_path / "first", *options, listen=port)
    clients: Steady | None = None
    allowed = {("127.0.0.1", port), *(("127.0.0.1", base + node) for node in range(1, 5))}
    try:
        with first as proxy:
            clients = Steady(proxy.bootstrap, "steady", tmp_path)
            assert clients.line() == "open\n", clients.said()
            assert brokers.join() == 4
            until(lambda: served(proxy).keys() == {1, 2, 3, 4}, "the broker that joined is named")
            assert served(proxy) == {node: f"127.0.0.1:{base + node}" for node in (1, 2, 3, 4)}
            # A broker is named as soon as it is unfenced and begins to listen only afterwards.
            until(lambda: _answers(f"127.0.0.1:{base + 4}"), "broker 4 answers")
            with Asking(f"127.0.0.1:{base + 4}") as four:
                assert {one["nodeId"] for one in four.ask(METADATA, 12, {"topics": []})["brokers"]} >= {4}
            clients.look(2)
            brokers.stop_node(2)
            moved = free_ports(1)[0]
            brokers.start_node(2, moved)
            until(
                lambda: status(proxy, monkeypatch)["brokers"]["2"]["upstream"] == f"127.0.0.1:{moved}",
                "broker 2 is dialled at its new address",
            )
            until(lambda: _answers(f"127.0.0.1:{base + 2}"), "broker 2 answers")
            assert served(proxy)[2] == f"127.0.0.1:{base + 2}"
            clients.look(3)
            brokers.stop_node(3)
            until(lambda: 3 not in served(proxy), "the broker that left is named no more")
            clients.look(3)
            counters = status(proxy, monkeypatch)["responses"]
            assert counters["leaked"] == counters["unread"] == 0
            assert proxy.stop() in {0, 130}, proxy.said()
        with Proxy(brokers.bootstrap, tmp_path / "second", *options, listen=port) as again:
            until(lambda: served(again).keys() >= {1, 2, 4}, "the brokers are named again")
            assert served(again)[1] == f"127.0.0.1:{base + 1}"
            clients.look(3)
            messages = clients.end()
            assert clients.remote <= allowed, clients.remote - allowed
            assert clients.remote & {("127.0.0.1", base + node) for node in (1, 2, 3)}
            counters = status(again, monkeypatch)["responses"]
            assert counters["leaked"] == counters["unread"] == 0
            assert again.stop() in {0, 130}, again.said()
    finally:
        if clients is not None:
            clients.kill()
    shown = export(first.recording, tmp_path, timeout=SECONDS)
    assert not [line for line in shown if line["schema"] == "kproxy.exchange/1" and line["problems"]]
    with capsys.disabled():
        print(f"\n{PAIRS} producers and consumers, {messages} messages, {len(clients.remote)} addresses")


def _answers(address: str) -> bool:
    try:
        with Asking(address) as client:
            return bool(client.ask(API_VERSIONS, 0, {})["apiKeys"])
    except (AssertionError, OSError):
        return False


RACK = """
import sys
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
bootstrap, topic, rack, count = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap, "group.id": "rack", "client.id": "rack-client", "client.rack": rack,
    "topic.metadata.refresh.interval.ms": 1000,
})
consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
read = 0
while read < int(count):
    read += sum(message.error() is None for message in consumer.consume(100, 0.5))
print("read", flush=True)
sys.stdin.readline()
consumer.close()
"""


def test_a_rack_aware_consumer_reads_from_its_rack_through_the_proxy(brokers: Cluster, tmp_path: Path) -> None:
    topic = "racks"
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 3)]).values():
        future.result(30)
    lead(brokers.bootstrap.split(",")[0], topic, {0: 1})
    producer = Producer({"bootstrap.servers": brokers.bootstrap})
    for _ in range(100):
        producer.produce(topic, bytes(1000))
    assert producer.flush(30) == 0
    with Proxy(brokers.bootstrap, tmp_path / "proxy") as proxy:
        arguments = [sys.executable, "-c", RACK, proxy.bootstrap, topic, "rack-3", "100"]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            try:
                assert client.stdout is not None
                assert client.stdin is not None
                assert select.select([client.stdout], [], [], SECONDS)[0], "the consumer reads nothing"
                assert client.stdout.readline() == "read\n"
                remote = {one.raddr[:2] for one in tcp_connections(client.pid) if one.raddr}
                client.stdin.write("\n")
                client.stdin.close()
                assert client.wait(SECONDS) == 0
            finally:
                client.kill()
        assert remote <= {("127.0.0.1", port) for port in proxy.listeners()}
        assert ("127.0.0.1", int(served(proxy)[3].rpartition(":")[2])) in remote
        assert proxy.stop() in {0, 130}, proxy.said()
    lines = [line for line in export(proxy.recording, tmp_path) if line.get("client_id") == "rack-client"]
    fetched = [line for line in lines if line.get("api") == "Fetch" and line["response"] is not None]
    preferred = [
        part["preferredReadReplica"]
        for line in fetched
        if line["broker"] == f"127.0.0.1:{brokers.ports[0]}"
        for one in line["response"]["body"]["responses"]
        for part in one["partitions"]
    ]
    assert 3 in preferred
    followed = [line for line in fetched if line["broker"] == f"127.0.0.1:{brokers.ports[2]}"]
    assert any(line["response"]["size"] > 10_000 for line in followed)


def test_controllers_are_served_when_asked(brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = free_base(4)
    with Proxy(brokers.bootstrap, tmp_path / "asked", "--controllers", str(base)) as proxy:
        quorum = {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]}
        with Asking(proxy.bootstrap) as client:
            nodes = client.ask(DESCRIBE_QUORUM, 2, quorum)["nodes"]
        found = {node["nodeId"]: node["listeners"][0]["port"] for node in nodes}
        assert found == {node: base + node for node in (1, 2, 3)}
        with Asking(f"127.0.0.1:{base + 1}") as controller:
            told = controller.ask(DESCRIBE_CLUSTER, 1, {"endpointType": 2})
        assert {one["brokerId"]: one["port"] for one in told["brokers"]} == found
        assert set(served(proxy)) == {1, 2, 3}
        known = status(proxy, monkeypatch)
        assert {one["upstream"] for one in known["controllers"].values()} == {
            f"127.0.0.1:{port}" for port in brokers.controllers
        }
        assert {one["upstream"] for one in known["brokers"].values()} == {f"127.0.0.1:{port}" for port in brokers.ports}
        assert known["responses"]["leaked"] == 0
    with Proxy(f"127.0.0.1:{brokers.controllers[0]}", tmp_path / "bootstrap") as proxy:
        with Asking(proxy.bootstrap) as client:
            told = client.ask(DESCRIBE_CLUSTER, 1, {"endpointType": 2})["brokers"]
        assert {one["port"] for one in told}.isdisjoint(brokers.controllers)
        with Asking(f"{told[0]['host']}:{told[0]['port']}") as controller:
            assert controller.ask(API_VERSIONS, 0, {})["apiKeys"]
