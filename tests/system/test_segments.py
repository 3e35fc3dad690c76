"""Brokers' own log segments, batch for batch and record for record what Kafka's DumpLogSegments reads in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.brokers import Cluster, cluster
from tests.support.java import broker_classpath
from tests.support.proxy import kproxy
from tests.support.raw import RawClient
from tests.system.test_record_judges import JAVA, LEGACY, MODERN, judge_log, librdkafka, pure

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

SAME = {
    "baseOffset": "baseOffset",
    "baseSequence": "baseSequence",
    "producerId": "producerId",
    "producerEpoch": "producerEpoch",
    "partitionLeaderEpoch": "partitionLeaderEpoch",
    "isTransactional": "isTransactional",
    "isControl": "isControl",
    "position": "position",
    "count": "recordCount",
    "size": "sizeInBytes",
    "magic": "magic",
    "compresscodec": "compression",
    "crc": "crc",
    "isvalid": "crcValid",
}
"""What DumpLogSegments calls a member of a batch."""


def batches(segments: list[Path]) -> dict[str, list[dict[str, str]]]:
    """What DumpLogSegments says of the batches of each file."""
    run = subprocess.run(
        [*JAVA, broker_classpath("3.9.2"), "kafka.tools.DumpLogSegments", "--files", ",".join(map(str, segments))],
        capture_output=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    file = ""
    for line in run.stdout.splitlines():
        if line.startswith("Dumping "):
            file = line.removeprefix("Dumping ")
        elif line.startswith(("baseOffset:", "offset:")):
            found[file].append(dict(re.findall(r"(\w+): (\S+)", line)))
    return found


def exported(directory: Path, *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    out = directory / "out.jsonl"
    run = kproxy(directory, "export", *map(str, arguments), "-o", out, "--force")
    assert run.returncode == code, run.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value).lower()


def judge_batches(segments: list[Path], directory: Path) -> list[dict[str, Any]]:
    """Hold all batches of these files to DumpLogSegments; returns ours."""
    theirs = batches(segments)
    ours = exported(directory, *segments)
    found = [line for line in ours if line["schema"] == "kproxy.batch/1"]
    by_file: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in found:
        by_file[line["file"]].append(line)
        assert line["problems"] == []
    assert {file: len(some) for file, some in by_file.items()} == {file: len(some) for file, some in theirs.items()}
    for file, some in by_file.items():
        for line, batch in zip(some, theirs[file], strict=True):
            modern = line["magic"] == 2
            for name, member in SAME.items():
                if name in batch and (modern or name in {"position", "magic", "compresscodec", "crc", "isvalid"}):
                    assert text(line[member]) == batch[name].lower(), (file, name, batch)
            if modern:
                assert line["baseOffset"] + line["lastOffsetDelta"] == int(batch["lastOffset"])
                assert len(line["records"]) == int(batch["count"])
                assert line["maxTimestamp"] == int(batch.get("CreateTime") or batch["LogAppendTime"])
    ends = {line["file"]: line for line in ours if line["schema"] == "kproxy.segment/1"}
    assert set(ends) == {str(segment) for segment in segments}
    for file, line in ends.items():
        assert line["batches"] == len(by_file[file])
        assert line["records"] == sum(len(batch["records"]) for batch in by_file[file])
        assert (line["truncatedTail"], line["problems"]) == (0, [])
        assert (line["topic"], str(line["partition"])) == tuple(Path(file).parent.name.rsplit("-", 1))
    return found


def segments_of(brokers: Cluster) -> list[Path]:
    return sorted((brokers.directory / "data-1").glob("*/*.log"))


def transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(20):
            producer.produce("transactions", f"value {number}", partition=0)
        producer.flush(60)
        end(60)


def test_magic_2(tmp_path: Path) -> None:
    with cluster("4.4.0", 1, settings=lambda _: {"log.segment.bytes": 1 << 20}) as brokers:
        with RawClient(brokers.bootstrap) as client:
            for topic in ("librdkafka", "pure", "transactions", "long"):
                client.await_leader(topic)
        for codec in MODERN:
            librdkafka(brokers.bootstrap, "librdkafka", codec)
            pure(brokers.bootstrap, "pure", codec)
        transactions(brokers.bootstrap)
        producer = Producer({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
        for number in range(300):
            producer.produce("long", f"{number} ".encode() * 2000, partition=0)
        assert producer.flush(60) == 0
        for topic in ("librdkafka", "pure"):
            found = exported(tmp_path, brokers.directory / "data-1" / f"{topic}-0", "--format", "records")
            assert {(line["topic"], line["partition"]) for line in found} == {(topic, 0)}
            judge_log(brokers, topic, found, same_batches=True)
        brokers.stop()  # what was written in advance is cut off then
        found = judge_batches(segments_of(brokers), tmp_path)
        assert {line["compression"] for line in found} == set(MODERN)
        controls = [line["records"][0]["key"]["decoded"]["name"] for line in found if line["isControl"]]
        assert {"COMMIT", "ABORT", "LEADER_CHANGE"} <= set(controls)
        names = {line["topic"] for line in found}
        assert {"__cluster_metadata", "transactions", "__transaction_state"} <= names
        whole = sorted((brokers.directory / "data-1" / "long-0").glob("*.log"))
        assert len(whole) > 2
        offsets = [line["offset"] for line in exported(tmp_path, whole[0].parent, "--format", "records")]
        assert offsets == list(range(300))
        judge_cut(next((brokers.directory / "data-1" / "pure-0").glob("*.log")), tmp_path)


def judge_cut(segment: Path, directory: Path) -> None:
    """A file that ends within a batch: the same batches before it."""
    cut = directory / "cut-0" / segment.name
    cut.parent.mkdir()
    shutil.copy(segment, cut)
    with cut.open("r+b") as file:
        file.truncate(cut.stat().st_size - 100)
    theirs = batches([cut])[str(cut)]
    ours = exported(directory, cut, code=3)
    assert [line["position"] for line in ours[:-1]] == [int(batch["position"]) for batch in theirs]
    last = theirs[-1]
    assert ours[-1]["truncatedTail"] == cut.stat().st_size - int(last["position"]) - int(last["size"])


@pytest.mark.parametrize(
    ("release", "version", "magic"), [("1.1.1", "0.9.0", 0), ("1.1.1", "0.10.0", 1), ("0.8.2.2", "", 0)]
)
def test_message_sets(release: str, version: str, magic: int, tmp_path: Path) -> None:
    settings = {"log.message.format.version": version} if version else {}
    old: dict[str, Any] = {"api.version.request": False, "broker.version.fallback": "0.9.0" if version else "0.8.2.2"}
    writers = {
        "librdkafka": partial(librdkafka, **old),
        "pure": partial(pure, release={"0.9.0": "0.9", "0.10.0": "0.10", "": "0.8.2"}[version]),
    }
    with cluster(release, 1, settings=lambda _: dict(settings)) as brokers:
        with RawClient(brokers.bootstrap) as client:
            for topic in writers:
                client.await_leader(topic)
        for topic, write in writers.items():
            for codec in LEGACY[: 4 if magic or (topic == "librdkafka" and version) else 3]:
                write(brokers.bootstrap, topic, codec)
        for topic in writers:
            found = exported(tmp_path, brokers.directory / "data-1" / f"{topic}-0", "--format", "records")
            assert {line["batch"]["magic"] for line in found} == {magic}
            judge_log(brokers, topic, found, same_batches=True)
        brokers.stop()
        used = [segment for segment in segments_of(brokers) if segment.stat().st_size]
        found = judge_batches(used, tmp_path)
        assert {"none", "gzip", "snappy"} <= {line["compression"] for line in found}
