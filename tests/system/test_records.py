"""Records as Kafka's own classes write and read them."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import subprocess
from base64 import b64decode, b64encode
from collections import Counter
from typing import Any

import pytest

from kproxy.decoders.batches.batch import parse
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.records.form import RecordsForm
from tests.decoders.batches.support import message, read
from tests.decoders.batches.test_codecs import old_lz4
from tests.decoders.batches.test_peers import fields
from tests.support.java import oracle_classpath

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

FIELDS = int(os.environ.get("KPROXY_ORACLE_RECORDS", "600"))
SHARED = (
    "magic", "sizeInBytes", "compression", "timestampType", "maxTimestamp", "baseOffset", "producerId", "producerEpoch",
    "baseSequence", "partitionLeaderEpoch", "isTransactional", "isControl", "deleteHorizon",
)  # fmt: skip


def kafka(*arguments: str, lines: str = "") -> list[Any]:
    run = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", oracle_classpath("4.4.0"), "kproxy.oracle.Records", *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def judged(data: list[bytes]) -> list[Any]:
    """What Kafka reads in each records field, or a string that says what is wrong."""
    return kafka(lines="".join(b64encode(one).decode() + "\n" for one in data))


def blob(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def ours(data: bytes) -> list[dict[str, Any]]:
    """Our reading with all that Kafka's has."""
    parsed = parse(data)
    form = RecordsForm(data)
    form.open(body_json)
    assert form.troubles == []
    found = []
    for batch, shown in zip(parsed.batches, form["batches"], strict=True):
        records = []
        opened = open_batch(data, batch)
        for (offset, timestamp, key, value, headers), one in zip(opened.records, shown["records"], strict=True):
            record: dict[str, Any] = {
                "offset": offset,
                "timestamp": -1 if timestamp is None else timestamp,
                "key": blob(key),
                "value": blob(value),
                "headers": [[name.decode(), blob(content)] for name, content in headers],
            }
            if shown.get("isControl"):
                record |= {"type": one["key"]["decoded"]["name"], "decoded": one["value"]["decoded"]}
            records.append(record)
        found.append({name: shown[name] for name in SHARED if name in shown} | {"records": records})
    return found


def theirs(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kafka's reading without what a message set does not have."""
    found = []
    for batch in batches:
        absent = (
            set()
            if batch["magic"] == 2
            else {name for name in SHARED if name.startswith(("producer", "is", "baseS", "part"))}
        )
        if batch["magic"] == 0:
            absent |= {"maxTimestamp"}
        found.append({name: batch[name] for name in (*SHARED, "records") if name in batch and name not in absent})
    return found


def test_records_that_kafka_writes() -> None:
    seed = os.environ.get("KPROXY_ORACLE_SEED") or str(secrets.randbits(48))
    print(f"KPROXY_ORACLE_SEED={seed}")
    seen: Counter[Any] = Counter()
    for line in kafka(seed, str(FIELDS)):
        mine = ours(b64decode(line["bytes"]))
        assert mine == theirs(line["batches"])
        for batch in mine:
            seen[batch["magic"], batch["compression"]] += 1
            seen.update(record["type"] for record in batch["records"] if "type" in record)
    assert len(seen) == 4 + 4 + 5 + 7, seen


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-1.1.1", "kafka-4.4.0-librdkafka"])
def test_captured_records(name: str) -> None:
    captured = list(fields(name))
    for data, answer in zip(captured, judged(captured), strict=True):
        assert ours(data) == theirs(answer)


def test_message_sets_that_kafka_no_longer_writes() -> None:
    inner = b"".join(message(0, offset, b"k", b"%d" % offset) for offset in (3, 4, 9))
    relative = b"".join(message(1, offset, b"k", b"%d" % offset, time=offset) for offset in (0, 1, 6))
    data = [
        message(0, 9, None, old_lz4(inner), attributes=3),
        message(0, 9, None, gzip.compress(inner), attributes=1),
        message(1, 50, None, gzip.compress(relative), attributes=1 | 8, time=77),
        message(1, 0, None, gzip.compress(relative), attributes=1),
        message(1, 5, b"k", None, time=-1),
    ]
    for one, answer in zip(data, judged(data), strict=True):
        assert [record[:4] for record in read(one).records] == [
            (
                record["offset"],
                record["timestamp"] if answer[0]["magic"] else None,
                None if record["key"] is None else b64decode(record["key"]),
                None if record["value"] is None else b64decode(record["value"]),
            )
            for record in answer[0]["records"]
        ]
