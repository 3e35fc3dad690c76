"""Captures of only one side of connections, judged by the exchanges of the whole capture."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.captures.ports import Ports
from kproxy.captures.spark import local
from kproxy.captures.spark.read.flows import Options
from kproxy.cli.main import main
from tests.captures import files
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported
from tests.captures.traffic import KAFKA_0_8, KAFKA_1_1, LIBRDKAFKA, packets, payload

PORTS = {LIBRDKAFKA: "19092", KAFKA_1_1: "23001,23002", KAFKA_0_8: "21001,21002"}
CLIENT, BROKER = 36, 34
"""Offset of the broker's port in frames that a side sends: destination port for the client, source for the broker."""
Line = dict[str, Any]


def from_side(capture: Path, at: int) -> list[files.Packet]:
    ports = Ports.parse(PORTS[capture])
    return [one for one in packets(capture) if int.from_bytes(one[1][at : at + 2], "big") in ports]


def written(path: Path, taken: list[files.Packet]) -> Path:
    path.write_bytes(files.pcap(taken))
    return path


def lines(path: Path, *more: str) -> list[Line]:
    result = CliRunner().invoke(main, ["export", str(path), *more], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def exchanges(read: list[Line]) -> list[Line]:
    return [line for line in read if line["schema"] == "kproxy.exchange/1"]


@cache
def whole(capture: Path) -> list[Line]:
    return exchanges(lines(capture, "--show-secrets"))


def problems(read: list[Line]) -> Counter[tuple[str, str]]:
    return Counter((line["where"], line["code"]) for line in read if line["schema"] == "kproxy.problem/1")


def answered(read: list[Line]) -> Counter[Any]:
    """Complete responses of exchanges: client, correlation id, time and size."""
    return Counter(
        (one["client"], one["correlation_id"], one["response"]["timestamp"], one["response"]["size"])
        for one in read
        if one["response"] is not None and "truncated" not in {problem["code"] for problem in one["problems"]}
    )


@pytest.mark.parametrize("capture", PORTS)
def test_every_response_of_the_brokers_side_is_there(capture: Path, tmp_path: Path) -> None:
    read = lines(written(tmp_path / "a.pcap", from_side(capture, BROKER)), "--port", PORTS[capture], "--show-secrets")
    found = exchanges(read)
    there = [one for one in whole(capture) if one["status"] != "no_response"]
    assert answered(found) == answered(there)
    assert {one["status"] for one in found} == {"orphan_response"}
    assert problems(read) == {("client", "one_sided"): len({one["connection"] for one in found})}
    assert read[-1]["not_kafka"] == 0


@pytest.mark.parametrize("capture", PORTS)
def test_guesses_are_right_where_there_is_one(capture: Path, tmp_path: Path) -> None:
    of = {
        (one["client"], one["correlation_id"], one["response"]["timestamp"]): one
        for one in whole(capture)
        if one["response"]
    }
    path = written(tmp_path / "a.pcap", from_side(capture, BROKER))
    found = exchanges(lines(path, "--port", PORTS[capture], "--show-secrets"))
    guessed = [one for one in found if "guess" in one["response"]]
    assert len(guessed) * 4 > len(found)
    for one in guessed:
        guess, right = one["response"]["guess"], of[one["client"], one["correlation_id"], one["response"]["timestamp"]]
        assert guess["api"] == right["api"]
        assert right["api_version"] in guess["api_versions"]
        assert _without(guess["body"]) == _without(right["response"]["body"])
        assert (one["api"], one["api_key"], one["response"]["body"]) == (None, None, None)


def _without(value: Any) -> Any:
    """A body without facts that need its request."""
    if isinstance(value, dict):
        return {name: _without(one) for name, one in value.items() if name not in {"skipped", "decoded", "guessed"}}
    return [_without(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("redacted", ["secrets", "payloads", "hosts"])
def test_what_is_redacted_is_not_guessed(redacted: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", from_side(LIBRDKAFKA, BROKER))
    found = exchanges(lines(path, "--port", "19092", "--redact", redacted))
    assert len(found) == 175
    assert not any("guess" in one["response"] for one in found)


@pytest.mark.parametrize("capture", PORTS)
def test_requests_without_the_brokers_side_say_so(capture: Path, tmp_path: Path) -> None:
    read = lines(written(tmp_path / "a.pcap", from_side(capture, CLIENT)), "--show-secrets")
    found = exchanges(read)
    kept = ("client", "api", "api_version", "correlation_id", "client_id", "request")
    assert sorted([one[name] for name in kept] for one in found) == sorted(
        [one[name] for name in kept] for one in whole(capture) if one["request"] is not None
    )
    assert {(one["status"], one.get("reason")) for one in found} <= {
        ("no_response", "the broker's side was not captured"), ("no_reply_expected", "acks=0")
    }  # fmt: skip
    assert problems(read) == {("broker", "one_sided"): len({one["connection"] for one in found})}


def test_a_broker_that_only_acknowledges_was_captured(tmp_path: Path) -> None:
    taken = [one for one in packets(LIBRDKAFKA) if one[1][BROKER : BROKER + 2] != b"\x4a\x94" or not payload(one[1])]
    read = lines(written(tmp_path / "a.pcap", taken))
    assert not problems(read)["broker", "one_sided"]
    assert {one["reason"] for one in exchanges(read)} == {
        "the connection ended (RST)", "the connection ended (end of capture)",
    }  # fmt: skip


def test_a_lost_packet_of_the_brokers_side_costs_what_it_held(tmp_path: Path) -> None:
    """After a gap, responses are found again without requests."""
    taken = from_side(KAFKA_1_1, BROKER)
    full = answered(exchanges(lines(written(tmp_path / "a.pcap", taken), "--port", PORTS[KAFKA_1_1])))
    data = [number for number, one in enumerate(taken) if payload(one[1]) > 30]
    for lost in data[20::120]:
        path = written(tmp_path / "b.pcap", taken[:lost] + taken[lost + 1 :])
        found = answered(exchanges(lines(path, "--port", PORTS[KAFKA_1_1])))
        assert (full - found).total() <= 8, lost
        assert (found - full).total() <= 2, lost


def test_a_connection_that_began_before_the_capture(tmp_path: Path) -> None:
    taken = from_side(KAFKA_1_1, BROKER)[300:]
    found = answered(exchanges(lines(written(tmp_path / "a.pcap", taken), "--port", PORTS[KAFKA_1_1])))
    assert found.total() > 50
    assert not found - answered(whole(KAFKA_1_1))


@pytest.mark.parametrize(
    "first", [b"\x16\x03\x03\x00\x50\x02", b"HTTP/1.1 200 OK\r\n\r\n", b"\xff\xff\xff\xff\0\0\0\1"]
)
def test_other_protocols_at_the_port_are_not_kafka(first: bytes, tmp_path: Path) -> None:
    taken = []
    for time, frame in from_side(KAFKA_0_8, BROKER):
        start = len(frame) - payload(frame)
        taken.append((time, frame[:start] + (first * 1500)[: len(frame) - start] if len(frame) > start else frame))
    read = lines(written(tmp_path / "a.pcap", taken), "--port", PORTS[KAFKA_0_8])
    assert exchanges(read) == []
    assert read[-1]["not_kafka"] > 20


@pytest.mark.parametrize("at", [BROKER, CLIENT])
@pytest.mark.parametrize("size", [1 << 14, 1 << 40])
def test_tables_of_splits_are_those_of_an_export(at: int, size: int, tmp_path: Path) -> None:
    path, ports = written(tmp_path / "a.pcap", from_side(KAFKA_1_1, at)), PORTS[KAFKA_1_1]
    found = local.tables([path], Options(tuple(TABLES), ports=Ports.parse(ports)), size=size)
    assert_same({name: counted(found[name].to_pylist()) for name in TABLES}, exported([path], "--port", ports))
