"""Record for record what outside judges read: Kafka's consumer, and DumpLogSegments in the brokers' logs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.brokers import Cluster, cluster
from tests.support.java import broker_classpath, oracle_classpath
from tests.support.proxy import Proxy, export, kproxy
from tests.support.raw import RawClient
from tests.system.clients.shapes import Header, shapes

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

MODERN = ("none", "gzip", "snappy", "lz4", "zstd")
LEGACY = ("none", "gzip", "snappy", "lz4")
JAVA = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-cp"]
DUMPED = re.compile(
    r"\| offset: (?P<offset>\d+) (?:(?:CreateTime|LogAppendTime|NoTimestampType): (?P<time>-?\d+) )?"
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)(?: isValid: true crc: \d+}?)?"
    r"(?: sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\])?"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?"
)


def librdkafka(bootstrap: str, topic: str, codec: str, **settings: Any) -> None:
    modern = not settings
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "client.id": f"librdkafka-{codec}",
        "log_level": 0,
        "compression.type": codec,
        "linger.ms": 100,
        "batch.num.messages": 15,
        **({"enable.idempotence": True} if modern else settings),
    })  # fmt: skip
    for one in shapes(codec, headers=modern):
        producer.produce(topic, one.value, one.key, 0, timestamp=one.time, headers=list(one.headers))
    assert producer.flush(60) == 0


def pure(bootstrap: str, topic: str, codec: str, release: str = "") -> None:
    """kafka-python, which sends what brokers of an old release take where one is named."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.system.clients.pure_records", bootstrap, topic, codec, release],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]


def java(release: str, *arguments: str) -> list[Any]:
    run = subprocess.run(
        [*JAVA, oracle_classpath(release), "kproxy.oracle.PartitionClient", *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def raw(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def payload(shown: Any) -> bytes | None:
    """The bytes of a key or value in the record lines."""
    if isinstance(shown, dict):
        return b64decode(shown["base64"])
    return None if shown is None else shown.encode()


Plain = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""Offset, timestamp (-1 for none), key, value, headers."""


def consumed(release: str, bootstrap: str, topics: list[str]) -> dict[str, list[Plain]]:
    """What Kafka's consumer reads in partition 0 of each topic."""
    found: dict[str, list[Plain]] = {topic: [] for topic in topics}
    for one in java(release, "consume", bootstrap, *topics):
        headers = tuple((name, raw(content)) for name, content in one["headers"])
        plain = (one["offset"], one["timestamp"], raw(one["key"]), raw(one["value"]), headers)
        found[one["topic"]].append(plain)
    return found


def lines(recording: Path, directory: Path) -> list[dict[str, Any]]:
    out = directory / "records.jsonl"
    run = kproxy(directory, "export", "--format", "records", recording, "-o", out, "--force")
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def plain(line: dict[str, Any]) -> Plain:
    offset = line.get("assignedOffset", line["offset"])
    time = -1 if line["timestamp"] is None else line["timestamp"]
    headers = tuple((header["key"], payload(header["value"])) for header in line["headers"])
    return offset, time, payload(line["key"]), payload(line["value"]), headers


def dumped(brokers: Cluster, topic: str) -> list[tuple[dict[str, str], re.Match[str]]]:
    """What DumpLogSegments finds in a topic's log: each record with the fields of its batch."""
    (segment,) = (brokers.directory / "data-1" / f"{topic}-0").glob("*.log")
    run = subprocess.run(
        [*JAVA, broker_classpath("3.9.2"), "kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log",
         "--files", str(segment)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    found = []
    batch: dict[str, str] = {}
    for line in run.stdout.splitlines():
        if line.startswith(("baseOffset:", "offset:")):
            batch = dict(re.findall(r"(\w+): (\S+)", line))
        elif line.startswith("| "):
            match = DUMPED.fullmatch(line)
            assert match is not None, line
            found.append((batch, match))
    return found


def judge_log(brokers: Cluster, topic: str, ours: list[dict[str, Any]], *, same_batches: bool) -> None:
    """Hold record lines to the broker's log; the batches too where the broker stores them as they came."""
    theirs = dumped(brokers, topic)
    assert len(theirs) == len(ours) > 0
    for line, (batch, record) in zip(ours, theirs, strict=True):
        offset, time, key, value, headers = plain(line)
        assert int(record["offset"]) == offset
        assert record["time"] is None or int(record["time"]) == time
        assert int(record["key_size"]) == (-1 if key is None else len(key))
        assert int(record["value_size"]) == (-1 if value is None else len(value))
        assert (record["key"] or "").encode() == (key or b"")
        assert (record["value"] or "").encode() == (value or b"")
        assert (record["headers"] or "") == ",".join(name for name, _ in headers)
        if not same_batches:
            continue
        shown = line["batch"]
        assert batch["compresscodec"].lower() == shown["compression"]
        assert int(batch["magic"]) == shown["magic"]
        if shown["magic"] == 2:
            assert int(batch["producerId"]) == shown["producerId"]
            assert int(batch["producerEpoch"]) == shown["producerEpoch"]
            assert int(batch["baseSequence"]) == shown["baseSequence"]
            assert int(batch["count"]) == shown["recordCount"]
            assert int(batch["size"]) == shown["sizeInBytes"]
            number = offset - int(batch["baseOffset"])
            assert int(record["sequence"]) == (-1 if shown["baseSequence"] < 0 else shown["baseSequence"] + number)


def both_sides(found: list[dict[str, Any]], topic: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A topic's lines of Produce and of Fetch, in order of their offsets, each record once."""
    sides = []
    for api in ("Produce", "Fetch"):
        of_topic = [line for line in found if line["api"] == api and line["topic"] == topic]
        by_offset = {line.get("assignedOffset", line["offset"]): line for line in of_topic}
        sides.append([by_offset[offset] for offset in sorted(by_offset)])
    return sides[0], sides[1]


def test_records_of_magic_2(tmp_path: Path) -> None:
    writers: dict[str, Callable[[str, str, str], None]] = {"librdkafka": librdkafka, "pure": pure}
    topics = ["java", *writers]
    with cluster("4.4.0", 1) as brokers:
        with Proxy(brokers.bootstrap, tmp_path / "proxy") as proxy:
            with RawClient(proxy.bootstrap) as client:
                for topic in topics:
                    client.await_leader(topic)
            java("4.4.0", "produce", proxy.bootstrap, "java", *MODERN)
            for topic, write in writers.items():
                for codec in MODERN:
                    write(proxy.bootstrap, topic, codec)
            theirs = consumed("4.4.0", proxy.bootstrap, topics)
            assert proxy.stop() in {0, 130}, proxy.said()
        found = lines(proxy.recording, tmp_path)
        names = topic_names(proxy.recording, tmp_path)
        for line in found:
            line["topic"] = line["topic"] or names[line["topicId"]]
        for topic in topics:
            sent, fetched = both_sides(found, topic)
            assert len(theirs[topic]) == 40 * len(MODERN)
            assert [plain(line) for line in sent] == theirs[topic]
            assert [plain(line) for line in fetched] == theirs[topic]
            codecs = Counter(line["batch"]["compression"] for line in sent)
            assert codecs == dict.fromkeys(MODERN, 40)
            judge_log(brokers, topic, sent, same_batches=True)
            judge_log(brokers, topic, fetched, same_batches=True)


def topic_names(recording: Path, directory: Path) -> dict[str, str]:
    """Names of topics by id, from the brokers' metadata."""
    return {
        topic["topicId"]: topic["name"]
        for line in export(recording, directory)
        if line.get("api") == "Metadata" and line["response"] is not None
        for topic in line["response"]["body"]["topics"]
        if "topicId" in topic
    }


def old_librdkafka(bootstrap: str, topic: str, codec: str) -> None:
    librdkafka(bootstrap, topic, codec, **{"api.version.request": False, "broker.version.fallback": "0.9.0"})


# librdkafka writes no magic 1 to a broker that takes 2; what kafka-python writes as LZ4 in magic 0 no broker takes.
LEGACY_WRITERS: dict[str, tuple[Callable[[str, str, str], None], tuple[str, ...]]] = {
    "librdkafka-0": (old_librdkafka, LEGACY),
    "pure-0": (partial(pure, release="0.9"), LEGACY[:-1]),
    "pure-1": (partial(pure, release="0.10"), LEGACY),
}


def test_message_sets(tmp_path: Path) -> None:
    topics = list(LEGACY_WRITERS)
    with cluster("1.1.1", 1) as brokers:
        with Proxy(brokers.bootstrap, tmp_path / "proxy") as proxy:
            with RawClient(proxy.bootstrap) as client:
                for topic in topics:
                    client.await_leader(topic)
            for topic, (write, codecs) in LEGACY_WRITERS.items():
                for codec in codecs:
                    write(proxy.bootstrap, topic, codec)
            with RawClient(proxy.bootstrap) as client:
                for topic in topics:
                    # What stands in the log as magic 2 comes back as it was asked for.
                    client.fetch(topic, 0, version=0 if topic.endswith("0") else 2)
            theirs = consumed("3.9.2", brokers.bootstrap, topics)
            assert proxy.stop() in {0, 130}, proxy.said()
        found = lines(proxy.recording, tmp_path)
        for topic, (_, codecs) in LEGACY_WRITERS.items():
            sent, fetched = both_sides(found, topic)
            assert len(theirs[topic]) == 40 * len(codecs)
            assert [plain(line) for line in sent] == theirs[topic]
            assert [plain(line) for line in fetched] == theirs[topic]
            magic = int(topic[-1])
            assert {line["batch"]["magic"] for line in (*sent, *fetched)} == {magic}
            assert {line["batch"]["compression"] for line in sent} == set(codecs)
            judge_log(brokers, topic, sent, same_batches=False)
