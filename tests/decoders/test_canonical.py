"""Canonical forms keep the relations of a run, and nothing that differs from run to run."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from kproxy.captures.reader import read
from kproxy.decoders.canonical import KINDS, Canonical, blank
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.schema import definitions

CAPTURE = Path(__file__).parent.parent / "data" / "findings" / "group.rebalance_cause.pcap.xz"


def join(member: str, generation: int, others: list[str]) -> dict[str, Any]:
    return {
        "memberId": member, "generationId": generation, "leader": member, "throttleTimeMs": generation,
        "members": [{"memberId": one, "metadata": ""} for one in others],
    }  # fmt: skip


def test_two_runs_with_other_ids_are_equal() -> None:
    one, two = Canonical(), Canonical()
    first = [one.body(join("a-1", 5, ["a-1", "b-1"])), one.body({"memberId": "b-1", "generationId": 5})]
    second = [two.body(join("x-9", 8, ["x-9", "a-1"])), two.body({"memberId": "a-1", "generationId": 8})]
    assert first == second
    assert first[1] == {"memberId": "member#2", "generationId": "generation"}
    assert "throttleTimeMs" not in first[0]


def test_relations_stay() -> None:
    same, other = Canonical(), Canonical()
    assert same.body({"memberId": "a"}) == other.body({"memberId": "b"})
    assert same.body({"memberId": "a"}) != other.body({"memberId": "c"})


def test_the_order_of_a_brokers_hash_table_does_not_count_but_that_of_records_does() -> None:
    def topics(*names: str) -> dict[str, Any]:
        return {"topics": [{"name": name, "topicId": f"{name}-id"} for name in names]}

    def records(*values: str) -> dict[str, Any]:
        return {"records": [{"value": value} for value in values]}

    assert Canonical().body(topics("a", "b")) == Canonical().body(topics("b", "a"))
    assert Canonical().body(records("a", "b")) != Canonical().body(records("b", "a"))
    assert blank(topics("a", "b")) == blank(topics("b", "a"))


def test_special_values_stay() -> None:
    body = {"producerId": -1, "timestamp": -2, "sessionId": 0, "sessionEpoch": -1, "memberId": "", "clusterId": None,
            "topicId": "AAAAAAAAAAAAAAAAAAAAAA", "leader": 3}  # fmt: skip
    assert Canonical().body(body) == body


def test_every_field_of_the_table_is_one_of_kafkas() -> None:
    in_json = {"batches", "baseTimestamp", "maxTimestamp", "deleteHorizon", "crc", "sizeInBytes",
               "uncompressedSizeInBytes", "partitionLeaderEpoch", "generation", "token", "expireTimestamp",
               "offsetEpoch", "hostName", "memberIds", "topicIds"}  # fmt: skip
    known: set[str] = set()

    def enter(fields: Any) -> None:
        for field in fields:
            known.add(field.name)
            if field.struct is not None:
                enter(field.struct.fields)

    for message in definitions().messages():
        enter(message.fields)
    assert {name for kind in KINDS for name in kind.fields} - known - in_json == set()


def test_a_real_capture_shows_none_of_what_its_brokers_gave_out() -> None:
    with closing(read(CAPTURE)) as reader:
        canonical = Canonical()
        lines = [
            exchange_json(item, reader.source, reader.definitions)
            for batch in reader.batches()
            for item in batch
            if isinstance(item, Exchange)
        ]
    forms = json.dumps([canonical.exchange(line) for line in lines])
    joined = [line["response"]["body"] for line in lines if line["api"] == "JoinGroup" and line["response"]]
    assert joined
    assert not [one["memberId"] for one in joined if one["memberId"] and one["memberId"] in forms]
    assert "member#1" in forms
    assert "127.0.0.1" not in forms
