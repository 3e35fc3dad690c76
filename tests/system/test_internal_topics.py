"""Internal topics of a real cluster, fetched through `kproxy run`: Kafka's classes read the same in each record."""

from __future__ import annotations

import json
import re
import socket
import struct
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it marks none of its names as exported
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kproxy.decoders.message import decode_response
from tests.support.brokers import Cluster, cluster
from tests.support.judge import as_formatter, judge_records
from tests.support.proxy import Proxy, kproxy
from tests.support.scripts import eyes, request
from tests.system.test_run_real_brokers import Client, command

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

FETCH = 1
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\1"
WRONG_EPOCH = {74, 75}
SALT = b"salt of the test"
MOST = 50_000_000

EXPECTED = {
    "__consumer_offsets": {
        *("OffsetCommitKey", "OffsetCommitValue", "GroupMetadataKey", "GroupMetadataValue"),
        *(
            "ConsumerGroupMetadataValue",
            "ConsumerGroupMemberMetadataValue",
            "ConsumerGroupCurrentMemberAssignmentValue",
        ),
        *("ShareGroupMetadataValue", "ShareGroupMemberMetadataValue", "ShareGroupStatePartitionMetadataValue"),
    },
    "__transaction_state": {"TransactionLogKey", "TransactionLogValue"},
    "__share_group_state": {"ShareSnapshotKey", "ShareSnapshotValue"},
    METADATA_TOPIC: {
        *("RegisterBrokerRecord", "FeatureLevelRecord", "TopicRecord", "PartitionRecord", "ConfigRecord"),
        *("ProducerIdsRecord", "UserScramCredentialRecord"),
    },
}
"""Records that the clients' calls cannot but leave behind."""


class Reader:
    """A client that does nothing but fetch."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._sent = 0

    def close(self) -> None:
        self._socket.close()

    def fetch(self, version: int, topic: dict[str, Any], **partition: Any) -> dict[str, Any]:
        """The one partition of the answer."""
        asked = {"partitionMaxBytes": MOST, **partition}
        topics = [{**topic, "partitions": [asked]}]
        self._sent += 1
        frame = request(FETCH, version, self._sent, maxWaitMs=100, minBytes=0, maxBytes=MOST, topics=topics)
        self._socket.sendall(frame)
        size = self._receive(4)
        answer = size + self._receive(struct.unpack(">i", size)[0])
        decoded = decode_response(answer, FETCH, version, eyes())
        assert decoded.body is not None, decoded.problems
        assert decoded.body["errorCode"] == 0, decoded.body
        (found,) = decoded.body["responses"][0]["partitions"]
        return dict(found)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the connection was closed"
            data += piece
        return bytes(data)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node, broker and controller, in which groups, a transaction and a share group have left their records."""
    with cluster("4.4.0", 1) as running:
        for client in ("Client", "ShareClient"):
            directory = tmp_path_factory.mktemp(client)
            Client(command(client, running, running.bootstrap, f"internal-{client.lower()}"), directory).run(150)
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        credential = UserScramCredentialUpsertion("ann", info, b"hunter2", SALT)
        for future in admin.alter_user_scram_credentials([credential]).values():
            future.result(30)
        yield running


def controller(brokers: Cluster) -> str:
    found = re.search(r"CONTROLLER://([\d.:]+)", (brokers.directory / "server-1.properties").read_text())
    assert found is not None
    return found[1]


def exported(recording: Path, directory: Path, *options: str) -> str:
    out = directory / "exchanges.jsonl"
    run = kproxy(directory, "export", recording, "-o", out, "--force", *options)
    assert run.returncode == 0, run.stderr
    return out.read_text(encoding="utf-8")


def records_in(text: str, topics: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Topic and JSON of every record that was fetched from these topics; nothing may be wrong anywhere."""
    lines = [json.loads(line) for line in text.splitlines()]
    exchanges = [line for line in lines if line["schema"] == "kproxy.exchange/1"]
    assert [line["problems"] for line in lines if line.get("problems")] == []
    assert {line["status"] for line in exchanges} == {"ok"}
    return [
        (topic, record)
        for line in exchanges
        for response in line["response"]["body"]["responses"]
        if (topic := response.get("topic", METADATA_TOPIC)) in topics
        for partition in response["partitions"]
        if partition["records"]
        for batch in partition["records"]["batches"]
        if not batch["isControl"]
        for record in batch["records"]
    ]


def judged(records: list[tuple[str, dict[str, Any]]]) -> Counter[tuple[str, str]]:
    """Have Kafka read every record; returns how many of each (topic, message) there were."""
    counts: Counter[tuple[str, str]] = Counter()
    asked = []
    for topic, record in records:
        parts = [None if record[part] is None else b64decode(record[part]["base64"]) for part in ("key", "value")]
        asked.append((topic, parts[0], parts[1]))
        counts.update((topic, record[part]["decoded"]["name"]) for part in ("key", "value") if record[part] is not None)
    for (topic, record), theirs in zip(records, judge_records(asked), strict=True):
        assert as_formatter(record) == theirs, (topic, record)
    return counts


def test_what_coordinators_write_is_read_as_kafka_does(
    brokers: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = EXPECTED.keys() - {METADATA_TOPIC}
    with Proxy(brokers.bootstrap, tmp_path / "proxy") as proxy, closing(Reader(proxy.bootstrap)) as reader:
        for topic in sorted(topics):
            for number in range(3):
                offset = 0
                while True:
                    found = reader.fetch(12, {"topic": topic}, partition=number, fetchOffset=offset)
                    assert found["errorCode"] == 0, (topic, found)
                    if not found["records"]:
                        break
                    # Everything fits into one answer.
                    offset = found["highWatermark"]
        reader.close()
        assert proxy.stop() in {0, 130}, proxy.said()
    counts = judged(records_in(exported(proxy.recording, tmp_path), topics))
    with capsys.disabled():
        print(f"\ninternal topics: {counts.total()} keys and values, {len(counts)} kinds")
    for topic in topics:
        assert EXPECTED[topic] <= {name for where, name in counts if where == topic}


def test_what_a_controller_writes_is_read_as_kafka_does(
    brokers: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = {"topicId": METADATA_TOPIC_ID}
    with Proxy(controller(brokers), tmp_path / "proxy") as proxy, closing(Reader(proxy.bootstrap)) as reader:
        position = {"partition": 0, "fetchOffset": 0, "lastFetchedEpoch": 0}
        found = reader.fetch(13, topic, currentLeaderEpoch=1, **position)
        if found["errorCode"] in WRONG_EPOCH:
            epoch = found["currentLeader"]["leaderEpoch"]
            found = reader.fetch(13, topic, currentLeaderEpoch=epoch, **position)
        assert found["errorCode"] == 0, found
        reader.close()
        assert proxy.stop() in {0, 130}, proxy.said()
    text = exported(proxy.recording, tmp_path)
    withheld = records_in(text, {METADATA_TOPIC})
    shown = records_in(exported(proxy.recording, tmp_path, "--show-secrets"), {METADATA_TOPIC})
    counts = judged(shown)
    with capsys.disabled():
        print(f"\n{METADATA_TOPIC}: {counts.total()} records, {len(counts)} kinds")
    assert EXPECTED[METADATA_TOPIC] <= {name for _, name in counts}
    (at,) = (at for at, (_, record) in enumerate(withheld) if "base64" not in record["value"])
    hidden, value = withheld[at][1]["value"], shown[at][1]["value"]
    assert hidden["decoded"]["name"] == "UserScramCredentialRecord"
    assert hidden["decoded"]["data"]["salt"] == {"redacted": True, "sizeInBytes": len(SALT)}
    assert b64decode(value["decoded"]["data"]["salt"]) == SALT
    assert value["base64"] not in text
