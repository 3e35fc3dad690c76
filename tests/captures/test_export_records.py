"""`kproxy export --format records`."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from kproxy.captures.export import Pieces
from kproxy.captures.export.records import PIECE, RecordLines
from kproxy.cli.exits import Exit
from kproxy.decoders.exchange import Health
from kproxy.decoders.view import View
from tests.captures import traffic
from tests.captures.test_export import run
from tests.decoders.batches.support import batch, record
from tests.support.scripts import Script, Tape, eyes, play, request, response


@dataclass
class Played:
    """A reading of a script."""

    source: Tape
    definitions: Any = field(default_factory=eyes)
    health: Health = field(default_factory=Health)
    precision: int = 6


def texts(*frames: tuple[bytes, bytes], view: View | None = None) -> tuple[RecordLines, list[bytes]]:
    """Pieces of record lines for (request, response) frames on one connection."""
    script = Script()
    for asked, answered in frames:
        script.client(asked).broker(answered)
    played = play(script.end())
    lines = RecordLines(Played(played.tape), view)
    return lines, list(lines.pieces(played.exchanges))


def exported(*arguments: str, capture: Any = traffic.LIBRDKAFKA) -> list[dict[str, Any]]:
    result = run(str(capture), "--format", "records", *arguments)
    assert result.exit_code == Exit.OK
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_line_a_record() -> None:
    lines = exported()
    assert {line["schema"] for line in lines} == {"kproxy.record/1"}
    assert {"exchange", "api", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "batch"} <= set(
        lines[0]
    )
    whole = [json.loads(line) for line in run(str(traffic.LIBRDKAFKA)).stdout.splitlines()]
    held = 0
    for line in traffic.exchanges(whole):
        body = (line["request"] if line["api_key"] == 0 else line["response"] or {}).get("body") or {}
        for topic in body.get("topicData", ()) if line["api_key"] == 0 else body.get("responses", ()):
            for partition in topic.get("partitionData", topic.get("partitions", ())):
                held += sum(one["recordCount"] for one in (partition.get("records") or {"batches": []})["batches"])
    assert len(lines) == held
    assert Counter(line.get("skipped") for line in lines)["aborted"] == 10


def test_what_was_produced_has_the_offset_that_it_got() -> None:
    lines = exported(capture=traffic.KAFKA_1_1)
    fetched = {
        (line["topic"], line["partition"], line["offset"]): (line["key"], line["value"])
        for line in lines
        if line["api"] == "Fetch"
    }
    produced = {
        (line["topic"], line["partition"], line["assignedOffset"]): (line["key"], line["value"])
        for line in lines
        if "assignedOffset" in line
    }
    both = fetched.keys() & produced.keys()
    assert len(both) > 300
    assert all(fetched[place] == produced[place] for place in both)


def test_a_batch_beyond_the_limit_is_told_of() -> None:
    result = run(str(traffic.KAFKA_1_1), "--format", "records", "--batch-limit", "1k")
    assert result.exit_code == Exit.OK
    assert "problems in messages with records" in result.stderr
    plain = run(str(traffic.KAFKA_1_1), "--batch-limit", "1k")
    codes = {problem["code"] for line in plain.stdout.splitlines() for problem in json.loads(line).get("problems", ())}
    assert codes == {"decompression_limit"}


@pytest.mark.parametrize("size", ["x", "-1"])
def test_a_limit_is_a_size(size: str) -> None:
    assert run(str(traffic.KAFKA_1_1), "--batch-limit", size).exit_code == Exit.USAGE


def produce(records: bytes) -> tuple[bytes, bytes]:
    asked = [{"name": "orders", "partitionData": [{"index": 3, "records": records}]}]
    told = [{"name": "orders", "partitionResponses": [{"index": 3, "baseOffset": 40}]}]
    return request(0, 9, 7, acks=1, topicData=asked), response(0, 9, 7, responses=told)


def fetch(records: bytes) -> tuple[bytes, bytes]:
    asked = [{"topic": "orders", "partitions": [{"partition": 3, "fetchOffset": 1}]}]
    told: dict[str, Any] = {"partitionIndex": 3, "records": records}
    return request(1, 11, 8, topics=asked), response(1, 11, 8, responses=[{"topic": "orders", "partitions": [told]}])


def enclosed(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    asked, answered = (frame[4:] for frame in pair)
    return (
        request(58, 0, 1, requestData=asked, clientHostAddress=b"\x0a\0\0\1"),
        response(58, 0, 1, responseData=answered),
    )


@pytest.mark.parametrize("pair", [produce, fetch])
@pytest.mark.parametrize("depth", [1, 3])
def test_records_of_messages_in_an_envelope(pair: Any, depth: int) -> None:
    data = batch(b"".join(record(index, b"k", b"v%d" % index) for index in range(3)), 3)
    damaged = bytearray(batch(record(0, b"k", b"\xff" * 9) + record(1, b"k", b""), 2, offset=3))
    damaged[-5] ^= 0x40
    plain = wrapped = pair(data + bytes(damaged))
    for _ in range(depth):
        wrapped = enclosed(wrapped)
    directly, expected = texts(plain)
    lines, found = texts(wrapped)
    assert found == expected
    assert len(b"".join(found).splitlines()) >= 4
    assert lines.problems == directly.problems > 0
    first = json.loads(found[0].splitlines()[0])
    assert (first["api"], first["topic"], first["partition"]) == (
        "Produce" if pair is produce else "Fetch",
        "orders",
        3,
    )
    assert first.get("assignedOffset") == (40 if pair is produce else None)
    assert first.get("skipped") == (None if pair is produce else "below_fetch_offset")


def test_an_envelope_without_records() -> None:
    metadata = request(3, 12, 5, topics=[{"name": "orders"}]), response(3, 12, 5)
    assert texts(enclosed(metadata))[1] == [b""]
    assert texts((enclosed(metadata)[0], b""), (request(58, 0, 1, requestData=b"\0"), b""))[1] == [b""]


def test_many_records_come_in_pieces() -> None:
    count = 30_000
    packed = gzip.compress(b"".join(record(index, None, b"x") for index in range(count)))
    lines, pieces = texts(produce(batch(packed, count, attributes=1)))
    assert isinstance(lines, Pieces)
    assert len(pieces) > 3
    assert all(len(piece) < PIECE + 1000 for piece in pieces)
    offsets = [json.loads(line)["assignedOffset"] for line in b"".join(pieces).splitlines()]
    assert offsets == list(range(40, 40 + count))


@pytest.mark.parametrize("capture", [traffic.LIBRDKAFKA, traffic.KAFKA_1_1])
def test_lines_are_those_of_the_exchanges(capture: Any) -> None:
    """Records are the same, read piece by piece or as part of their exchange."""
    whole = [json.loads(line) for line in run(str(capture)).stdout.splitlines()]
    expected = []
    for line in traffic.exchanges(whole):
        body = (line["request"] if line["api_key"] == 0 else line["response"] or {}).get("body") or {}
        for topic in body.get("topicData" if line["api_key"] == 0 else "responses", ()):
            for partition in topic.get("partitionData", topic.get("partitions", ())):
                for one in (partition.get("records") or {"batches": []})["batches"]:
                    expected += [(line["exchange"], one["baseOffset"], record) for record in one["records"] or ()]
    parts = ("offset", "timestamp", "key", "value", "headers", "skipped")
    found = [
        (one["exchange"], one["batch"]["baseOffset"], [one.get(part) for part in parts])
        for one in exported(capture=capture)
    ]
    assert found == [
        (number, base, [one.get(part, [] if part == "headers" else None) for part in parts])
        for number, base, one in expected
    ]
