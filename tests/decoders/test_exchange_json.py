"""The JSON line of an exchange, a stream problem and a reading's health."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kproxy.decoders.exchange import Health
from kproxy.decoders.exchange_json import exchange_json, health_json, milliseconds, problem_json, timestamp
from kproxy.decoders.problems import Code
from kproxy.decoders.view import View
from tests.support.scripts import BROKER, CLIENT, Played, Script, eyes, framed, play, request, response


def lines(played: Played, **options: Any) -> list[dict[str, Any]]:
    out = [exchange_json(item, played.tape, eyes(), **options) for item in played.exchanges]
    json.dumps(out, allow_nan=False)
    return out


def one(script: Script, **options: Any) -> dict[str, Any]:
    (found,) = lines(play(script.end()), **options)
    return found


def test_the_whole_line() -> None:
    asked, answered = request(12, 4, 7, groupId="g", generationId=1, memberId="m"), response(12, 4, 7, errorCode=27)
    found = one(Script().client(asked).broker(answered))
    assert found == {
        "schema": "kproxy.exchange/1", "exchange": 1, "connection": 1,
        "client": "10.0.0.1:51234", "broker": "10.0.0.2:9092",
        "api_key": 12, "api": "Heartbeat", "api_version": 4, "correlation_id": 7, "client_id": "shop",
        "request": {
            "timestamp": "2023-11-14T22:13:20.001000Z", "size": len(asked) - 4,
            "body": {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None},
        },
        "response": {
            "timestamp": "2023-11-14T22:13:20.002000Z", "size": len(answered) - 4,
            "body": {"throttleTimeMs": 0, "errorCode": 27},
        },
        "status": "ok", "latency_ms": 1.0, "error_codes": ["REBALANCE_IN_PROGRESS"], "problems": [], "findings": [],
    }  # fmt: skip
    assert list(found)[:5] == ["schema", "exchange", "connection", "client", "broker"]


def test_nanoseconds() -> None:
    found = one(Script().client(request(12, 4, 7)).broker(response(12, 4, 7)), precision=9)
    assert found["request"]["timestamp"] == "2023-11-14T22:13:20.001000000Z"


@pytest.mark.parametrize(
    ("time", "precision", "expected"),
    [
        (0, 6, "1970-01-01T00:00:00.000000Z"),
        (1_795_240_104_123_456_789, 6, "2026-11-21T05:48:24.123456Z"),
        (1_795_240_104_123_456_789, 9, "2026-11-21T05:48:24.123456789Z"),
        (-1, 9, "1969-12-31T23:59:59.999999999Z"),
        (1 << 90, 6, "9999-12-31T23:59:59.709824Z"),
        (-(1 << 90), 6, "0001-01-01T00:00:00.290176Z"),
    ],
)
def test_timestamps(time: int, precision: int, expected: str) -> None:
    written = timestamp(time, precision)
    assert written.partition(".")[0] == expected.partition(".")[0]
    assert len(written) == len(expected)
    if abs(time) < 1 << 62:
        assert written == expected


def test_milliseconds_have_the_captures_precision() -> None:
    assert milliseconds(1_545_000) == 1.545
    assert milliseconds(1_545_678) == 1.546
    assert milliseconds(1_545_678, 9) == 1.545678


def test_a_side_that_was_never_seen() -> None:
    found = one(Script().client(request(3, 12, 7, topics=None)))
    assert found["response"] is None
    assert found["latency_ms"] is None
    assert (found["status"], found["reason"]) == ("no_response", "the connection ended (FIN)")


def test_an_orphan() -> None:
    frame = response(3, 12, 9)
    script = Script().client(request(3, 12, 7, topics=None)).broker(frame, response(3, 12, 7)).end()
    found = next(line for line in lines(play(script)) if line["status"] == "orphan_response")
    assert found["request"] is None
    assert [found[name] for name in ("api_key", "api", "api_version", "client_id")] == [None] * 4
    assert found["correlation_id"] == 9
    assert found["response"]["body"] is None
    assert base64.b64decode(found["response"]["raw"]) == frame
    assert [problem["code"] for problem in found["problems"]] == ["unmatched_response"]


def test_acks_0() -> None:
    found = one(Script().client(request(0, 9, 1, acks=0, timeoutMs=1, topicData=[])))
    assert (found["status"], found["reason"]) == ("no_reply_expected", "acks=0")


def test_an_unknown_key_is_raw() -> None:
    asked = request(32001, 0, 1, raw=b"abc")
    found = one(Script().client(asked).broker(response(32001, 0, 1, raw=b"def")))
    assert (found["api_key"], found["api"], found["status"]) == (32001, None, "undecodable")
    assert found["request"]["body"] is None
    assert base64.b64decode(found["request"]["raw"]) == asked
    assert {problem["code"] for problem in found["problems"]} == {"unknown_api"}


def test_an_unknown_version_is_a_guess() -> None:
    body = request(3, 13, 7, topics=None)
    asked = bytearray(body)
    asked[6:8] = (99).to_bytes(2, "big")
    found = one(Script().client(bytes(asked)))
    assert found["api_version"] == 99
    assert found["request"]["guessed_version"] == 13
    assert found["request"]["body"]["topics"] is None
    assert [problem["code"] for problem in found["problems"]] == ["unknown_version"]


def test_what_does_not_decode_is_raw_and_counted() -> None:
    asked = request(3, 12, 7, raw=b"\xff\xff\xff\xff\xff\xff")
    health = Health()
    found = one(Script().client(asked).broker(response(3, 12, 7)), health=health)
    assert found["status"] == "undecodable"
    assert base64.b64decode(found["request"]["raw"]) == asked
    assert found["problems"]
    assert health.undecoded == 1


def test_a_cut_frame_is_raw_as_far_as_it_goes() -> None:
    asked = request(3, 12, 7, topics=None)
    played = play(Script().client(asked[:20]).end(reason="end of capture"))
    (found,) = lines(played)
    assert found["status"] == "cut"
    assert found["request"]["size"] == len(asked) - 4
    assert base64.b64decode(found["request"]["raw"]) == asked[:20]
    assert [problem["code"] for problem in found["problems"]] == ["truncated"]


def test_bytes_that_are_gone() -> None:
    script = Script().client(request(3, 12, 7, topics=None)).broker(response(3, 12, 7)).end()
    played = play(script)
    del played.tape.data[40:]
    (found,) = lines(played)
    assert found["status"] == "cut"
    assert found["response"]["body"] is None
    assert found["problems"][-1]["message"].endswith("bytes are no longer stored")


class TestSecrets:
    script = staticmethod(
        lambda: Script()
        .client(request(17, 0, 1, mechanism="PLAIN")).broker(response(17, 0, 1, mechanisms=["PLAIN"]))
        .client(framed(b"\x00alice\x00secret")).broker(framed(b"")).end()
    )  # fmt: skip

    def test_a_token_is_withheld(self) -> None:
        _, token = lines(play(self.script()))
        assert (token["api"], token["api_key"]) == ("SaslToken", None)
        shown = token["request"]["body"]["token"]
        assert shown.pop("decoded")["username"] == "alice"
        assert shown == {"redacted": True, "sizeInBytes": 13}

    def test_unless_asked_for(self) -> None:
        _, token = lines(play(self.script()), view=View(show_secrets=True))
        assert base64.b64decode(token["request"]["body"]["token"]["base64"]) == b"\x00alice\x00secret"
        assert token["response"]["body"] == {"token": ""}

    def test_the_raw_bytes_of_what_may_hold_one_are_withheld(self) -> None:
        asked = request(36, 2, 1, raw=b"\x7f\x00alice\x00secret")
        found = one(Script().client(asked))
        assert found["request"]["raw"] == {"redacted": True, "sizeInBytes": len(asked)}
        assert "secret" not in json.dumps(found)

    @pytest.mark.parametrize(
        ("version", "topic", "withheld"),
        [
            (13, {"topicId": bytes(15) + b"\1"}, True),
            (12, {"topic": "__cluster_metadata"}, True),
            (13, {"topicId": bytes(15) + b"\2"}, False),
            (12, {"topic": "orders"}, False),
        ],
    )
    @pytest.mark.parametrize("asked", [True, False])
    def test_so_are_those_of_a_fetch_of_the_cluster_s_metadata(
        self, version: int, topic: dict[str, Any], *, withheld: bool, asked: bool
    ) -> None:
        partition = {"partitionIndex": 0, "records": b"\0" * 20 + b"secret"}
        told = response(1, version, 9, responses=[{**topic, "partitions": [partition]}])
        told = told[:-6] + b"\x7f" * 6
        script = Script().client(request(1, version, 9) if asked else request(3, 12, 7, topics=None)).broker(told)
        raw = next(line for line in lines(play(script.end())) if line["response"])["response"]["raw"]
        assert raw == ({"redacted": True, "sizeInBytes": len(told)} if withheld else base64.b64encode(told).decode())

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_so_is_an_orphan_that_may_tell_one(self, version: int) -> None:
        told = response(36, version, 9, authBytes=b"v=secret")
        script = Script().client(request(3, 12, 7, topics=None)).broker(told, response(3, 12, 7)).end()
        orphan = next(line for line in lines(play(script)) if line["status"] == "orphan_response")
        assert orphan["response"]["raw"] == {"redacted": True, "sizeInBytes": len(told)}


def test_comments_of_a_packet() -> None:
    script = Script().client(request(3, 12, 7, topics=None))
    script.packet(BROKER, response(3, 12, 7), comment="brokers[0].host: kafka -> 127.0.0.1").end()
    (found,) = lines(play(script))
    assert found["response"]["comments"] == ["brokers[0].host: kafka -> 127.0.0.1"]
    assert "comments" not in found["request"]


def test_tls() -> None:
    found = one(Script().client(bytes.fromhex("1603010200010001fc0303") + bytes(600)))
    assert (found["status"], found["request"]["size"], found["request"]["body"]) == ("tls", 512, None)


def test_a_stream_problem() -> None:
    script = Script().client(request(3, 12, 7, topics=None)).lost(CLIENT, bytes(1448))
    script.client(request(3, 12, 8, topics=None)).end()
    gap = problem_json(play(script).problems[0])
    assert gap == {
        "schema": "kproxy.problem/1", "connection": 1, "client": "10.0.0.1:51234", "broker": "10.0.0.2:9092",
        "timestamp": "2023-11-14T22:13:20.002000Z", "where": "client", "offset": len(request(3, 12, 7, topics=None)),
        "size": 1448, "code": "gap", "message": "1448 bytes are missing",
    }  # fmt: skip


def test_health() -> None:
    assert health_json(Health(packets=3, lost=2)) == {
        "schema": "kproxy.health/1", "packets": 3, "bytes": 0, "lost": 2, "gaps": 0, "resyncs": 0, "cut": 0,
        "undecoded": 0, "not_kafka": 0, "tls": 0, "recorder_dropped": 0, "repeated": 0, "stray": 0,
        "fragments": 0, "untimed": 0, "unread": {},
    }  # fmt: skip


def test_problem_codes_are_a_closed_list() -> None:
    assert {code.value for code in Code} == {
        "truncated", "trailing_bytes", "bad_length", "bad_varint", "bad_utf8", "unknown_api", "unknown_version",
        "unmatched_response", "repeated_correlation_id", "oversize_frame", "gap", "resync", "overlap",
        "cut_by_snaplen", "not_kafka", "tls", "crc_mismatch", "decompression_limit", "decompression_failed",
        "late", "address_leaked", "one_sided", "evicted",
    }  # fmt: skip
