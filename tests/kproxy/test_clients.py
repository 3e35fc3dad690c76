"""librdkafka's clients and mock cluster with the relay's process between them."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import definitions
from kproxy.runs.launcher import Indexer, RelayProcess, wait_until
from tests.kproxy.support import relay
from tests.support.patience import SECONDS

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_places")]

LOCKSTEP = 60
VALUE = 50_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Bootstrap servers of a mock cluster of three brokers."""
    from kproxy.runs.demo import start_cluster

    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


def config(process: RelayProcess, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": process.bootstrap, "log_level": 0, **{k.replace("_", "."): v for k, v in more.items()}}


def brokers_seen(process: RelayProcess) -> set[str]:
    listed = confluent_kafka.Producer(config(process)).list_topics(timeout=SECONDS).brokers.values()
    return {f"{broker.host}:{broker.port}" for broker in listed}


def both_ways(process: RelayProcess, topic: str, megabytes: int) -> bool:
    """Produce and consume in step (the mock keeps little); whether every byte came back."""
    producer = confluent_kafka.Producer(
        config(process, linger_ms=1, batch_size=1_000_000, queue_buffering_max_kbytes=50_000)
    )
    consumer = confluent_kafka.Consumer(
        config(process, group_id="g", fetch_wait_max_ms=10, fetch_message_max_bytes=4_000_000, check_crcs=True)
    )
    producer.produce(topic, b"first", partition=0)
    assert producer.flush(SECONDS) == 0
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 1)])
    sent, got, count, received = hashlib.sha256(), hashlib.sha256(), 0, 0
    block = os.urandom(VALUE + 1000)
    while count * VALUE < megabytes * 1_000_000:
        for _ in range(LOCKSTEP):
            value = block[count % 1000 : count % 1000 + VALUE - 8] + count.to_bytes(8, "big")
            producer.produce(topic, value, partition=0)
            sent.update(value)
            count += 1
        while received < count:
            producer.poll(0)
            messages = consumer.consume(LOCKSTEP, 1.0)
            for message in messages:
                assert message.error() is None
                got.update(message.value())
                received += 1
    consumer.close()
    return sent.digest() == got.digest()


def test_clients_see_only_the_proxy(cluster: str) -> None:
    with relay(cluster) as process:
        seen = brokers_seen(process)
        assert len(seen) == 3
        assert seen.isdisjoint(cluster.split(","))
        status = process.command("status")
        assert {f"127.0.0.1:{entry['port']}" for entry in status["brokers"].values()} == seen
        assert {entry["upstream"] for entry in status["brokers"].values()} == set(cluster.split(","))
        assert status["responses"]["leaked"] == 0


@pytest.mark.parametrize("megabytes", [20, pytest.param(200, marks=pytest.mark.system)])
def test_what_was_produced_is_consumed_and_recorded(cluster: str, tmp_path: Path, megabytes: int) -> None:
    recording = tmp_path / "r.pcapng"
    with relay(cluster, record_to=recording) as process:
        assert both_ways(process, f"both-{megabytes}", megabytes)
        status = process.command("status")
        process.stop()
    assert status["recorder"]["dropped"] == 0
    assert status["responses"]["unread"] == status["responses"]["leaked"] == 0
    known = definitions()
    reader = read(recording)
    try:
        fetched = 0
        for item in reader:
            if isinstance(item, Health):
                assert (item.gaps, item.lost, item.recorder_dropped) == (0, 0, 0)
                continue
            assert isinstance(item, Exchange), item
            assert item.problems == []
            if item.status is not Status.OK:
                continue  # what is due when clients leave is not answered any more
            assert item.request is not None
            assert item.response is not None
            assert item.api_key is not None
            assert item.api_version is not None
            request = decode_request(item.request.data(reader.source), known)
            response = decode_response(item.response.data(reader.source), item.api_key, item.api_version, known)
            assert request.problems == []
            # The mock cluster itself puts bytes behind some ApiVersions and Metadata responses.
            assert {problem.code for problem in response.problems} <= {Code.TRAILING_BYTES}
            assert response.body is not None
            fetched += item.response.size if item.api_key == 1 else 0
        assert fetched > megabytes * 1_000_000
    finally:
        reader.close()


def test_traffic_outlives_a_killed_indexer_which_comes_back(cluster: str) -> None:
    with relay(cluster) as process:
        assert process.recording is not None
        indexer = Indexer(process.recording, process.index_dir, ("--follow", "--with-parent"))
        try:
            assert both_ways(process, "before", 3)
            assert wait_until((process.index_dir / "meta.json").exists, SECONDS)
            first = indexer.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            assert both_ways(process, "after", 3)
            assert wait_until(lambda: indexer.pid not in {None, first}, SECONDS)
            assert both_ways(process, "again", 3)
            assert indexer.starts == 2
        finally:
            indexer.stop()
