"""The two drafts that come with kproxy: the export of recorded conversations, which were packed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.definitions import definitions
from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.numbering import Numbering
from kproxy.decoders.dialects import text_of
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.stream import Side
from tests.captures import traffic
from tests.support import coordinator
from tests.support.coordinator import ASSIGNMENT, BROKERS, OFFSETS, Draft, Talk, Wire
from tests.support.scripts import Cut, Script, bytewise, packets, request, whole

DRAFTS = (1, 2)


def exported(path: Path, draft: Draft, given: str | None = None) -> list[dict[str, Any]]:
    return traffic.exported(path, user_definitions=(given or draft.name,))


def told(line: dict[str, Any]) -> tuple[Any, ...]:
    """Main facts of an exchange."""
    return (
        line["api"],
        line.get("asked_by", "client"),
        line["status"],
        line["response"] and line["response"]["body"],
        line["error_codes"],
        [problem["message"] for problem in line["problems"]],
    )


@pytest.fixture(params=DRAFTS)
def draft(request: pytest.FixtureRequest) -> Draft:
    return Draft(request.param)


def test_the_recordings_are_those_that_are_packed_by_hand(draft: Draft) -> None:
    assert (coordinator.DATA / f"{draft.name}.pcap").read_bytes() == coordinator.recording(draft)


def test_what_export_prints(draft: Draft) -> None:
    expected = (coordinator.DATA / f"{draft.name}.jsonl").read_text().splitlines()
    assert exported(coordinator.DATA / f"{draft.name}.pcap", draft) == [json.loads(line) for line in expected]


def test_consult_stands_among_kafkas_requests(draft: Draft) -> None:
    found = traffic.exchanges(exported(coordinator.DATA / f"{draft.name}.pcap", draft))[:5]
    assert [line["api"] for line in found] == ["Metadata", "Metadata", "Consult", "Metadata", "Consult"]
    assert [line.get("protocol") for line in found] == [None, None, draft.name, None, draft.name]
    assert {line["status"] for line in found} == {"ok"}
    assert found[2]["api_key"] == draft.types["Consult"]
    assert found[2]["request"]["body"] == ({"requiredAcks": -1, "ackTimeout": 1500} if draft.first else {})
    assert found[2]["response"]["body"] == {
        "coordinatorId": 7,
        "brokers": [{"creatorId": zk, "id": node, "host": host, "port": port} for zk, node, host, port in BROKERS],
    }
    assert found[4]["error_codes"] == ["COORDINATOR_NOT_AVAILABLE"]
    header = [(line["api_version"], line["correlation_id"], line["client_id"]) for line in (found[2], found[4])]
    assert header == ([(0, 3, "shop"), (0, 5, "shop")] if draft.first else [(None, None, None)] * 2)


def offsets(rows: Any) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in rows]


def test_after_register_the_coordinator_asks(draft: Draft) -> None:
    found = traffic.exchanges(exported(coordinator.DATA / f"{draft.name}.pcap", draft))[5:10]
    register = found[0]
    assert register["request"]["body"] == {
        "groupId": "billing", "consumerId": "c-1", "autoCommit": True, "autoOffsetRest": "smallest",
        "heartbeatIntervalMs": 3000, "maxHeartbeatRetries": 3,
    }  # fmt: skip
    assert register["request"]["names"] == {"autoOffsetRest": "from the oldest offset on"}
    assert (register["status"], register["reason"]) == (
        "no_reply_expected",
        f"one-way request of dialect {draft.name}",
    )
    assert [told(line) for line in found[1:]] == [
        ("Ping", "broker", "ok", {"partitions": offsets(OFFSETS)}, [], []),
        ("Stop", "broker", "ok", {"partitions": offsets(OFFSETS[:1])}, [], []),
        ("Start", "broker", "ok", {}, [], []),
        ("Ping", "broker", "ok", {"partitions": []}, ["OFFSET_OUT_OF_RANGE"], []),
    ]
    assert found[3]["request"]["body"]["assignment"] == [
        {"topic": topic, "partition": partition, "broker": broker, "offset": offset}
        for topic, partition, broker, offset in ASSIGNMENT
    ]
    assert [line["request"].get("supposed", False) for line in found] == [False, False, True, True, False]


def test_late_and_given_up(draft: Draft) -> None:
    """Exchanges are in order of requests. Without ids, an answer belongs to the ping that still has time left."""
    lines = exported(coordinator.DATA / f"{draft.name}.pcap", draft)
    found = sorted(traffic.exchanges(lines), key=lambda line: int(line["exchange"]))[11:18]
    late = "no answer within 1000 ms"
    given_up = "4 Ping requests in a row without an answer in time; at most 3 are allowed: the consumer is given up"
    assert [told(line)[2:] for line in found] == [
        ("ok", {}, [], []),
        ("no_response", None, [], [late]),
        ("ok", {}, [], []),
        *[("no_response", None, [], [late])] * 3,
        ("no_response", None, [], [late, given_up]),
    ]
    assert {problem["code"] for line in found for problem in line["problems"]} == {"late"}


def test_no_ping_after_register(draft: Draft) -> None:
    lines = exported(coordinator.DATA / f"{draft.name}.pcap", draft)
    (problem,) = traffic.problems(lines)
    assert (problem["code"], problem["where"]) == ("late", "broker")
    assert problem["message"] == "no Ping within 1000 ms of RegisterRequest"
    registered = traffic.exchanges(lines)[-2]
    assert registered["api"] == "Register"
    assert problem["timestamp"][:21] == "2014-05-13T16:53:30.1"  # a second after Register


def test_draft_1_as_its_tables_say_without_correlation_ids(tmp_path: Path) -> None:
    with_ids = '{"correlationIds": true}'
    text = text_of("coordinator-draft-1")
    assert text.count(with_ids) == 1
    (tmp_path / "tables.json").write_text(text.replace(with_ids, '{"correlationIds": false}'))
    draft = Draft(1, correlation_ids=False)
    (tmp_path / "a.pcap").write_bytes(coordinator.recording(draft))
    found = exported(tmp_path / "a.pcap", draft, str(tmp_path / "tables.json"))
    expected = traffic.exported(
        coordinator.DATA / "coordinator-draft-1.pcap", user_definitions=("coordinator-draft-1",)
    )
    assert sorted(map(told, traffic.exchanges(found)), key=str) == sorted(
        map(told, traffic.exchanges(expected)), key=str
    )
    dialects = [line for line in traffic.exchanges(found) if "protocol" in line]
    assert {line["correlation_id"] for line in dialects} == {None}
    assert {line["api_version"] for line in dialects} == {0}


def test_consult_may_be_the_first_request_of_a_connection(draft: Draft, tmp_path: Path) -> None:
    wire = Wire()
    talk = Talk(wire, 40001, coordinator.BROKER, 9092)
    talk.client(draft.consult(1))
    talk.broker(draft.coordinator(1, 3, BROKERS))
    talk.client(coordinator.metadata(2))
    talk.broker(coordinator.metadata_answer(2))
    talk.close()
    (tmp_path / "a.pcap").write_bytes(wire.pcap())
    found = traffic.exchanges(exported(tmp_path / "a.pcap", draft))
    assert [(line["api"], line["status"]) for line in found] == [("Consult", "ok"), ("Metadata", "ok")]


def test_an_answer_that_was_lost_does_not_take_that_of_a_later_request(tmp_path: Path) -> None:
    """Responses of draft 2 have no id: after the gap, a response is recognised by its layout."""
    draft, wire = Draft(2), Wire()
    talk = Talk(wire, 40001, coordinator.BROKER, 9092)
    talk.client(coordinator.metadata(1))
    talk.broker(coordinator.metadata_answer(1))
    talk.client(draft.consult(0), coordinator.metadata(2))
    talk.lose(1, len(draft.coordinator(0, 3, BROKERS)))
    talk.broker(coordinator.metadata_answer(2))
    talk.close()
    (tmp_path / "a.pcap").write_bytes(wire.pcap())
    found = traffic.exchanges(exported(tmp_path / "a.pcap", draft))
    assert sorted((line["api"], line["status"]) for line in found) == [
        ("Consult", "no_response"), ("Metadata", "ok"), ("Metadata", "ok"),
    ]  # fmt: skip


def among_kafka(script: Script, cut: Cut = whole) -> list[tuple[Any, ...]]:
    """The results of a Kafka conversation with messages of draft 2 in it."""
    known = definitions(None, ("coordinator-draft-2",))
    conversation = Conversation("c:1", "b:9092", script.tape, known)
    items = [item for batch in cut(script.events) for _, item in conversation.feed(batch)]
    return [
        (known.api_name(item.api_key or 0, item.protocol), item.correlation_id, item.status)
        for item in items
        if isinstance(item, Exchange)
    ]


def test_an_answer_without_an_id_that_looks_like_that_of_another() -> None:
    """Error 0 and co-ordinator 7 have the same four bytes as correlation id 7."""
    draft = Draft(2)
    script = Script().client(draft.consult(0), coordinator.metadata(7))
    script.broker(draft.coordinator(0, 7, BROKERS), coordinator.metadata_answer(7)).end()
    assert among_kafka(script) == [("Consult", None, "ok"), ("Metadata", 7, "ok")]
    silent = request(0, 3, 7, acks=0, timeoutMs=1000, topicData=[])
    script = Script().client(silent, draft.consult(0)).broker(draft.coordinator(0, 7, BROKERS)).end()
    assert sorted(among_kafka(script), key=str) == [("Consult", None, "ok"), ("Produce", 7, "no_reply_expected")]


def test_a_frame_of_six_bytes_may_come_byte_by_byte() -> None:
    draft = Draft(2)
    script = Script().client(draft.consult(0)).broker(draft.coordinator(0, 3, BROKERS)).client(draft.consult(0)).end()
    assert among_kafka(script, bytewise) == [("Consult", None, "ok"), ("Consult", None, "no_response")]


def test_a_capture_that_begins_after_register(draft: Draft, tmp_path: Path) -> None:
    """The asking side is recognised by the frames; facts that the capture lacks by the layout that fits."""
    wire = Wire()
    talk = Talk(wire, 40001, coordinator.COORDINATOR, draft.port, opened=False)
    for number in range(3):
        talk.broker(draft.ping(number))
        talk.client(draft.offsets(number, OFFSETS if number % 2 else None))
    (tmp_path / "a.pcap").write_bytes(wire.pcap())
    found = traffic.exchanges(exported(tmp_path / "a.pcap", draft))
    assert [told(line)[:4] for line in found] == [
        ("Ping", "broker", "ok", {}),
        ("Ping", "broker", "ok", {"partitions": offsets(OFFSETS)}),
        ("Ping", "broker", "ok", {}),
    ]


def test_without_the_dialect_nothing_is_dropped_silently(draft: Draft) -> None:
    lines = traffic.exported(coordinator.DATA / f"{draft.name}.pcap")
    assert any(line.get("status") not in {None, "ok"} or line.get("code") for line in lines)


def test_a_header_that_is_lost_in_a_hole_begins_its_exchange_when_that_is_known() -> None:
    """Exchange numbers must not depend on batches: a response comes between the start of the header and the gap."""
    frame = Draft(1).consult(3)
    script = (
        Script()
        .client(coordinator.metadata(1), frame[:6])
        .broker(coordinator.metadata_answer(9))
        .lost(Side.CLIENT, frame[6:])
    )
    script.client(coordinator.metadata(4)).broker(coordinator.metadata_answer(4)).end()
    known = definitions(None, ("coordinator-draft-1",))
    found = []
    for cut in (whole, packets, bytewise):
        numbering, items = Numbering(), []
        conversation = Conversation("c:1", "b:9092", script.tape, known, limits=Limits(early=0))
        for batch in cut(script.events):
            done = conversation.feed(batch)
            numbering.assign(conversation.take_started())
            items += [item for _, item in done if isinstance(item, Exchange)]
        found.append(sorted((item.number, item.api_key, item.status.value) for item in items))
    assert found[0] == found[1] == found[2]
    assert [row[1:] for row in found[0] if row[1]] == [(3, "no_response"), (20001, "cut"), (3, "ok")]
