"""JSON becomes the bytes that Kafka's own classes wrote; batches that are written from JSON are read as that JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kproxy.decoders.batches.batch import COMPRESSION, parse
from kproxy.decoders.batches.writing import BatchError, batch, with_producer
from kproxy.decoders.from_json import JsonError, body_values
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.schema import definitions
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.decoders.support import RELEASES, decoded

SHOWN = View(show_secrets=True)


@pytest.mark.parametrize("release", RELEASES)
def test_the_json_of_every_golden_message_is_written_to_its_bytes(release: str) -> None:
    count = 0
    for one, read in decoded(release):
        assert read.message is not None
        assert read.body is not None
        shown = json.loads(json.dumps(body_json(read.body, read.message, read.version, SHOWN)))
        if '"truncatedTail"' in json.dumps(shown):
            continue
        values = body_values(shown, read.message, read.version)
        assert write(read.message, read.version, values) == one.frame[read.body_start :], one
        count += 1
    assert count > 300


def opened(data: bytes) -> dict[str, Any]:
    form = RecordsForm(data)
    message = definitions().request(0, 9)
    assert message is not None
    body = {"topicData": [{"name": "t", "partitionData": [{"index": 0, "records": data}]}]}
    shown = body_json(body, message, 9, SHOWN)
    assert form is not None
    found: dict[str, Any] = json.loads(json.dumps(shown["topicData"][0]["partitionData"][0]["records"]))
    return found


RECORDS = [
    {"offset": 7, "timestamp": 1_700_000_000_000, "key": "k", "value": "v", "headers": [{"key": "h", "value": None}]},
    {"offset": 9, "timestamp": 1_700_000_000_005, "key": None, "value": {"base64": "AP8="}, "headers": []},
]


@pytest.mark.parametrize("codec", COMPRESSION)
def test_a_batch_that_is_written_is_read_as_it_was_given(codec: str) -> None:
    form = {
        "baseOffset": 7, "partitionLeaderEpoch": 3, "magic": 2, "compression": codec, "timestampType": "CreateTime",
        "isTransactional": True, "isControl": False, "lastOffsetDelta": 2, "baseTimestamp": 1_700_000_000_000,
        "maxTimestamp": 1_700_000_000_005, "producerId": 44, "producerEpoch": 2, "baseSequence": 5, "records": RECORDS,
    }  # fmt: skip
    (read,) = opened(batch(form))["batches"]
    assert read["crcValid"]
    assert {name: read[name] for name in form} == form
    changed = opened(with_producer(batch(form), 45, 0))["batches"][0]
    assert changed["crcValid"]
    assert (changed["producerId"], changed["producerEpoch"], changed["records"]) == (45, 0, RECORDS)


def test_records_need_only_values() -> None:
    (read,) = opened(batch({"records": [{"value": "a"}, {"value": "b"}]}))["batches"]
    assert [one["value"] for one in read["records"]] == ["a", "b"]
    assert [one["offset"] for one in read["records"]] == [0, 1]
    assert read["crcValid"]
    assert not parse(batch({"records": []})).troubles


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"magic": 1, "records": []}, "magic 2"),
        ({"records": "x"}, "a list of objects"),
        ({"records": [{"value": 5}]}, "base64"),
        ({"records": [{"value": {"base64": "?"}}]}, "base64"),
        ({"records": [], "compression": "lzma"}, "lzma"),
        ({"records": [], "producerId": 2**63}, "too large"),
        ({"records": [{"offset": "x"}]}, "str"),
        ({"records": [{"headers": [5]}]}, "int"),
    ],
)
def test_what_is_no_batch_is_refused(form: dict[str, Any], why: str) -> None:
    with pytest.raises(BatchError, match=why):
        batch(form)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ([], "object"),
        ({"nosuch": 1}, "no field nosuch"),
        ({"topicData": 5}, "is a list"),
        ({"topicData": [5]}, "has fields"),
        ({"topicData": [{"partitionData": [{"index": True}]}]}, "index"),
        ({"acks": "all"}, "'all' is not a valid int16 for acks"),
        ({"topicData": [{"partitionData": [{"records": {"redacted": True, "sizeInBytes": 4}}]}]}, "withheld"),
        ({"topicData": [{"partitionData": [{"records": {"batches": [], "truncatedTail": 3}}]}]}, "within a batch"),
        ({"topicData": [{"partitionData": [{"records": "?"}]}]}, "records"),
    ],
)
def test_what_is_no_body_is_refused(body: Any, why: str) -> None:
    message = definitions().request(0, 9)
    assert message is not None
    with pytest.raises(JsonError, match=why):
        body_values(body, message, 9)
