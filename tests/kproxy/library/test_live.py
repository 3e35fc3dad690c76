"""`kproxy.proxy` in front of librdkafka's mock cluster."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import kproxy
from kproxy.runs.demo import start_cluster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


def produce(live: kproxy.Live, topic: str) -> None:
    producer = Producer({"bootstrap.servers": live.bootstrap_servers, "retry.backoff.ms": 10, "log_level": 0})
    producer.produce(topic, b"one")
    assert not producer.flush(20)


def test_a_rule_acts_and_its_exchanges_are_seen(upstream: str, tmp_path: Path) -> None:
    with kproxy.proxy(upstream) as live:
        refused = live.on("Produce").first(1).error("NOT_LEADER_OR_FOLLOWER", applied=False)
        produce(live, "refused")
        first, second = live.wait_for("api == Produce", count=2)
        assert refused.hits == 1
        assert (first.errors, second.errors) == (("NOT_LEADER_OR_FOLLOWER",), ())
        assert [one.value for one in second.records()] == [b"one"]
        assert isinstance(live.findings(), list)
        kept = live.keep(tmp_path / "kept.pcapng")
        assert live.end_rules() == [refused]
        with pytest.raises(kproxy.FilterError):
            live.exchanges("apy == Produce")
        shown = str(live)
        assert live.bootstrap_servers in shown
    with kproxy.open(kept) as capture:
        assert [one.errors for one in capture.where("api == Produce")] == [first.errors, second.errors]


def test_an_exchange_does_not_change_when_its_response_comes() -> None:
    request = kproxy.encode("Heartbeat", 0, {"groupId": "g", "generationId": 1, "memberId": "m"})
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        kproxy.proxy(f"127.0.0.1:{listener.getsockname()[1]}") as live,
        socket.create_connection(("127.0.0.1", int(live.bootstrap_servers.rpartition(":")[2]))) as client,
    ):
        client.sendall(request)
        broker, _ = listener.accept()
        with broker:
            assert broker.recv(len(request)) == request
            (before,) = live.wait_for("api == Heartbeat")
            assert (before.status, before.response, before.latency_ms) == ("waiting", None, None)
            broker.sendall(kproxy.encode("Heartbeat", 0, {"errorCode": 27}, kind="response"))
            (after,) = live.wait_for("api == Heartbeat and latency > 0ms")
    assert (after.status, after.errors, after.response) == ("ok", ("REBALANCE_IN_PROGRESS",), {"errorCode": 27})
    assert (before.status, before.response, before.latency_ms) == ("waiting", None, None)


def test_nothing_is_left(upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gc.collect()
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(2):
        with kproxy.proxy(upstream) as live:
            produce(live, "left")
            live.exchanges()
    assert not list(tmp_path.iterdir())
    gc.collect()  # a reading is closed once nothing refers to it
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= descriptors


def test_a_wrong_address_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="port"):
        kproxy.proxy("kafka:none")
    assert not list(tmp_path.iterdir())
