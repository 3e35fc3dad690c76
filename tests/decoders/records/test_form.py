"""The JSON of records: in a body, with marks of records that clients skip, and as separate lines."""

from __future__ import annotations

import gzip
import json
import random
import struct
from typing import Any

import pytest
import zstandard

from kproxy.decoders import problems
from kproxy.decoders.batches.opening import AT_ONCE
from kproxy.decoders.batches.shown import text_or_base64
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.problems import Code
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.view import View
from tests.decoders.batches.support import batch, message, record
from tests.decoders.embedded.support import lines
from tests.decoders.test_exchange_json import one
from tests.support.scripts import Script, request, response

TRANSACTIONAL, CONTROL = 16, 32
ABORT, COMMIT = 0, 1


def shown(data: bytes, *, aligned: bool = True) -> RecordsForm:
    form = RecordsForm(data, aligned=aligned)
    form.open(body_json)
    json.dumps(form)
    return form


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, None),
        (b"", ""),
        ("zwölf\t\r\n\u2028".encode(), "zwölf\t\r\n\u2028"),
        (b"a\0", {"base64": "YQA="}),
        (b"\x7f", {"base64": "fw=="}),
        ("\u0085".encode(), {"base64": "woU="}),
        (b"\xff", {"base64": "/w=="}),
        (b"\xed\xa0\x80", {"base64": "7aCA"}),
    ],
)
def test_text_or_base64(data: bytes | None, expected: Any) -> None:
    assert text_or_base64(data) == expected


def test_a_batch() -> None:
    records = record(0, b"key", b"\0", [(b"h", None), (b"h", b"x")], time=5) + record(1, None, None)
    form = shown(batch(zstandard.compress(records), 2, offset=7, attributes=4))
    (found,) = form["batches"]
    assert list(found)[-3:] == ["sizeInBytes", "uncompressedSizeInBytes", "records"]
    assert found["uncompressedSizeInBytes"] == 61 + len(records)
    assert found["records"] == [
        {
            "offset": 7, "timestamp": 1005, "key": "key", "value": {"base64": "AA=="},
            "headers": [{"key": "h", "value": None}, {"key": "h", "value": "x"}],
        },
        {"offset": 8, "timestamp": 1000, "key": None, "value": None, "headers": []},
    ]  # fmt: skip


def test_a_compressed_set() -> None:
    inner = message(0, 3, b"k", b"v") + message(0, 4, None, b"w")
    (found,) = shown(message(0, 4, None, gzip.compress(inner), attributes=1))["batches"]
    assert list(found) == [
        "baseOffset", "magic", "crc", "crcValid", "compression", "timestampType", "recordCount", "sizeInBytes",
        "uncompressedSizeInBytes", "records",
    ]  # fmt: skip
    assert (found["baseOffset"], found["recordCount"], found["uncompressedSizeInBytes"]) == (3, 2, len(inner))
    assert found["records"] == [{"offset": 3, "key": "k", "value": "v"}, {"offset": 4, "key": None, "value": "w"}]


def test_what_cannot_be_decompressed_has_no_records() -> None:
    form = shown(batch(b"nonsense", 1, attributes=1))
    assert (form["batches"][0]["records"], form["batches"][0]["uncompressedSizeInBytes"]) == (None, None)
    assert [(trouble.code, trouble.path) for trouble in form.troubles] == [(Code.DECOMPRESSION_FAILED, "batches[0]")]


def test_many_small_batches_come_to_no_more_than_one_may() -> None:
    # 100 batches of 1 MiB in a few kilobytes: only as many are opened as fit the limit of one batch
    packed = batch(zstandard.compress(record(0, None, bytes(1 << 20))), 1, attributes=4)
    plain = batch(record(0, None, b"plain"), 1)
    partition = {"records": packed * 50 + plain, "partitionIndex": 0}
    answer = response(1, 11, 1, responses=[{"topic": "t", "partitions": [partition] * 2}])
    script = Script().client(request(1, 11, 1)).broker(answer)
    line = one(script, view=View(batch_limit=8 << 20))
    fields = [each["records"]["batches"] for each in line["response"]["body"]["responses"][0]["partitions"]]
    assert [sum(found["records"] is not None for found in batches) for batches in fields] == [8, 1]
    assert [batches[-1]["records"][0]["value"] for batches in fields] == ["plain"] * 2
    assert {(problem["code"], problem["message"]) for problem in line["problems"]} == {
        ("decompression_limit", f"the batches of the message decompress to more than {8 << 20} bytes: not opened")
    }
    assert len(line["problems"]) == 93


def test_a_large_message_may_grow_as_much() -> None:
    noise = record(0, None, random.Random(1).randbytes(200_000))
    data = b"".join(batch(zstandard.compress(noise), 1, attributes=4) for _ in range(3))
    form = RecordsForm(data)
    form.open(body_json, View(batch_limit=250_000))
    assert form.troubles == []


def test_a_header_s_key_that_is_not_utf8() -> None:
    form = shown(batch(record(0, b"k", b"v", [(b"a", b""), (b"\xff", b"")]), 1))
    assert form["batches"][0]["records"][0]["headers"][1]["key"] == "\ufffd"
    (trouble,) = form.troubles
    assert (trouble.code, trouble.path) == (Code.BAD_UTF8, "batches[0].records[0].headers[1].key")


def marker(kind: int, value: bytes | None = b"\0\0\0\0\0\x09") -> bytes:
    return record(0, struct.pack(">hh", 0, kind), value)


def test_control_records() -> None:
    (found,) = shown(batch(marker(COMMIT), 1, attributes=CONTROL))["batches"]
    assert found["records"][0]["key"] == {
        "base64": "AAAAAQ==",
        "decoded": {"version": 0, "type": 1, "name": "COMMIT"},
    }
    assert found["records"][0]["value"] == {"base64": "AAAAAAAJ", "decoded": {"version": 0, "coordinatorEpoch": 9}}


@pytest.mark.parametrize(
    ("data", "path", "code"),
    [
        (record(0, None, b""), "key", Code.TRUNCATED),
        (record(0, b"\0", b""), "key", Code.TRUNCATED),
        (marker(ABORT, b"\0"), "value", Code.TRUNCATED),
        (marker(ABORT, b"\0\0\0"), "value", Code.TRUNCATED),
        (marker(ABORT, b"\xff\xff\0\0\0\0"), "value", Code.UNKNOWN_VERSION),
        (marker(ABORT, b"\0\0\0\0\0\0\0"), "value", Code.TRAILING_BYTES),
        (marker(2, b"\0\0\0\0\0\x01\xff\xff\xff\xff\x7f"), "value", Code.TRUNCATED),
    ],
)
def test_damaged_control_records(data: bytes, path: str, code: Code) -> None:
    form = shown(batch(data, 1, attributes=CONTROL))
    assert [(one.code, one.path) for one in form.troubles] == [(code, f"batches[0].records[0].{path}")]


def test_unknown_and_newer_control_records() -> None:
    (unknown,) = shown(batch(marker(99), 1, attributes=CONTROL))["batches"]
    assert unknown["records"][0]["key"]["decoded"]["name"] == "UNKNOWN(99)"
    assert unknown["records"][0]["value"] == {"base64": "AAAAAAAJ"}
    (newer,) = shown(batch(marker(ABORT, b"\0\x05\0\0\0\x01more"), 1, attributes=CONTROL))["batches"]
    assert newer["records"][0]["value"]["decoded"] == {"version": 5, "coordinatorEpoch": 1}


def test_a_piece_of_a_snapshot() -> None:
    first, second = batch(record(0, b"k", b"v" * 50), 1), batch(record(0, b"k", b"w"), 1, offset=1)
    for cut in range(1, len(first)):
        form = shown(first[cut:] + second, aligned=False)
        assert (form["truncatedHead"], form.troubles) == (len(first) - cut, [])
        assert form["batches"][0]["records"][0]["offset"] == 1
    assert "truncatedHead" not in shown(first + second[:-1], aligned=False)
    assert shown(first[:-1], aligned=False)["truncatedTail"] == len(first) - 1
    assert shown(bytes(100), aligned=False)["truncatedHead"] == 100


def fetched(records: bytes, aborted: list[dict[str, int]] | None, offset: int, *, partition: int = 0) -> dict[str, Any]:
    """The partition of a Fetch response, as exported."""
    asked = request(1, 11, 7, topics=[{"topic": "t", "partitions": [{"partition": partition, "fetchOffset": offset}]}])
    answer = {"partitionIndex": 0, "highWatermark": 9, "abortedTransactions": aborted, "records": records}
    answered = response(1, 11, 7, responses=[{"topic": "t", "partitions": [answer]}])
    line = one(Script().client(asked).broker(answered))
    assert line["problems"] == []
    found: dict[str, Any] = line["response"]["body"]["responses"][0]["partitions"][0]["records"]
    return found


def marks(records: dict[str, Any]) -> list[tuple[int, str | None]]:
    return [(one["offset"], one.get("skipped")) for batch in records["batches"] for one in batch["records"]]


def test_records_below_the_fetch_offset() -> None:
    inner = b"".join(message(0, offset, b"k", b"v") for offset in range(5))
    data = message(0, 4, None, gzip.compress(inner), attributes=1)
    below = "below_fetch_offset"
    assert marks(fetched(data, None, 2)) == [(0, below), (1, below), (2, None), (3, None), (4, None)]
    assert {mark for _, mark in marks(fetched(data, None, 0))} == {None}
    # in a fetch session, a request that omits the partition gives no offset
    assert {mark for _, mark in marks(fetched(data, None, 2, partition=5))} == {None}


def test_records_of_aborted_transactions() -> None:
    def data(offset: int, producer: int, attributes: int = TRANSACTIONAL) -> bytes:
        return batch(record(0, b"k", b"v"), 1, offset=offset, producer=producer, attributes=attributes)

    def end(offset: int, producer: int, kind: int) -> bytes:
        return batch(marker(kind), 1, offset=offset, producer=producer, attributes=TRANSACTIONAL | CONTROL)

    records = b"".join(
        (
            data(0, 1), data(1, 2), data(2, -1, 0), end(3, 1, ABORT), end(4, 2, COMMIT), data(5, 1), end(6, 1, COMMIT),
            data(7, 1), data(8, 1, 0), end(9, 1, ABORT),
        )
    )  # fmt: skip
    aborted = [{"producerId": 1, "firstOffset": 0}, {"producerId": 1, "firstOffset": 7}]
    found = [offset for offset, mark in marks(fetched(records, aborted, 0)) if mark == "aborted"]
    assert found == [0, 7]
    # a reader of uncommitted records gets no list of aborted transactions, and all records
    assert {mark for _, mark in marks(fetched(records, None, 0))} == {None}


def test_problems_beyond_a_number_are_counted() -> None:
    count = problems.MOST + 500
    data = batch(b"".join(record(index, None, b"", [(b"\xff", b"")]) for index in range(count)), count)
    form = shown(data + data)
    assert len(form.troubles) == problems.MOST
    assert form.left_out == problems.MOST + 1000
    assert [len(one["records"]) for one in form["batches"]] == [count, count]
    asked = request(0, 9, 1, acks=1, topicData=[{"name": "t", "partitionData": [{"index": 0, "records": data + data}]}])
    for frame in (asked, request(58, 0, 1, requestData=asked[4:], clientHostAddress=b"\x0a\0\0\1")):
        (line,) = lines((frame, b""))
        assert len(line["problems"]) == problems.MOST + 1
        assert line["problems"][0]["code"] == "bad_utf8"
        assert line["problems"][0]["path"].endswith("batches[0].records[0].headers[0].key")
        assert line["problems"][-1]["message"] == f"{problems.MOST + 1000} further problems are left out"


def test_problems_of_a_frame_beyond_a_number_are_counted() -> None:
    names = [{"name": "~~~"} for _ in range(problems.MOST + 7)]
    data = request(3, 12, 1, topics=names).replace(b"~~~", b"\xff\xff\xff")
    (line,) = lines((data, b""))
    assert len(line["problems"]) == problems.MOST + 1
    assert line["problems"][-1]["message"] == "7 further problems are left out"


def test_records_of_a_later_piece_keep_their_place() -> None:
    data = record(0, None, b"") * AT_ONCE + record(0, None, b"", [(b"a", b""), (b"\xff", b"")])
    (trouble,) = shown(batch(data, AT_ONCE + 1)).troubles
    assert trouble.path == f"batches[0].records[{AT_ONCE}].headers[1].key"
    (trouble,) = shown(batch(record(0, None, b"") * AT_ONCE + b"\2\0", AT_ONCE + 1)).troubles
    assert trouble.path.startswith(f"batches[0].records[{AT_ONCE}]")


@pytest.mark.parametrize("cut", [1, 3, 20, 66])
def test_the_offset_of_what_is_wrong_behind_a_part_of_a_batch(cut: int) -> None:
    whole = batch(record(0, b"k", b"v"), 1)
    form = RecordsForm(whole[cut:] + whole + batch(b"nothing of gzip", 1, attributes=1), aligned=False)
    form.open(body_json)
    assert form["truncatedHead"] == len(whole) - cut
    (trouble,) = form.troubles
    assert (trouble.code, trouble.offset) == (Code.DECOMPRESSION_FAILED, 2 * len(whole) - cut + 61)
    assert trouble.path == "batches[1]"
